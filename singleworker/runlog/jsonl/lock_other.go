//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package jsonl

import (
	"errors"
	"os"
	"runtime"
)

// lockDir refuses systems without a lock that ends with its process.
func lockDir(string) (*os.File, error) {
	return nil, errors.New("jsonl: run logs cannot be written in files on " + runtime.GOOS + ": use a database")
}

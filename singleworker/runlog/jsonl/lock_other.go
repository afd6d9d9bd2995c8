//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package jsonl

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
)

// lockDir refuses systems without a lock that ends with its process.
func lockDir(*os.Root) (*os.File, error) {
	return nil, errors.New("jsonl: run logs cannot be written in files on " + runtime.GOOS + ": use a database")
}

// ownerOf has nobody refused before lockDir does.
func ownerOf(fs.FileInfo) int { return os.Geteuid() }

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package durable

import (
	"errors"
	"fmt"
	"io"
)

// lock refuses: without it, two processes could write to one directory.
func lock(path string) (io.Closer, error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}

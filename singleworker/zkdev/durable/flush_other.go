//go:build !linux

package durable

import "os"

// flush waits until the content of a file is on disk.
func flush(f *os.File) error { return f.Sync() }

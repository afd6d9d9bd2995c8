//go:build !linux

package durable

import "os"

// sync waits until the content of a file is on disk.
func sync(f *os.File) error { return f.Sync() }

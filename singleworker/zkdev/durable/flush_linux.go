package durable

import (
	"os"
	"syscall"
)

// flush waits until the content of a file is on disk. Its times are not part of that: to write them
// would cost as much again.
func flush(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

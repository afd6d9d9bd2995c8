package chaos

import (
	"syscall"
	"time"
	"unsafe"
)

// Mono reads CLOCK_MONOTONIC. Unlike Go's monotonic readings, it can be compared between processes.
func Mono() time.Duration {
	const clockMonotonic = 1
	var now syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		panic(errno)
	}
	return time.Duration(now.Nano())
}

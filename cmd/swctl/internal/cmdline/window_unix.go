//go:build linux || darwin || freebsd

package cmdline

import (
	"os"
	"syscall"
	"unsafe"
)

// windowSize asks a terminal for its size; 0 if it does not tell.
func windowSize(stream *os.File) (columns, rows int) {
	var size struct{ rows, columns, x, y uint16 }
	if _, _, failed := syscall.Syscall(syscall.SYS_IOCTL, stream.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))); failed != 0 {
		return 0, 0
	}
	return int(size.columns), int(size.rows)
}

//go:build unix && !linux

package child

import "syscall"

// dieWithParent does nothing: only Linux supports it. A child ends when its
// standard input is closed.
func dieWithParent(*syscall.SysProcAttr) {}

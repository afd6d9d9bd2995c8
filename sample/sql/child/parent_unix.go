//go:build unix && !linux

package child

import "syscall"

// dieWithParent does nothing: only Linux can. A child ends when its standard
// input does.
func dieWithParent(*syscall.SysProcAttr) {}

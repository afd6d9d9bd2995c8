//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: only Linux can. An instance ends when its standard
// input does.
func dieWithParent(*syscall.SysProcAttr) {}

//go:build unix

package main

import "syscall"

const canSignal = true

// ownGroup keeps a Ctrl-C that is meant for the demo from its children: it
// stops them itself.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

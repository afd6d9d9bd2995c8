//go:build unix

package main

import "syscall"

const canSignal = true

// ownGroup keeps a Ctrl-C for the demo from reaching its children: the demo
// stops them itself.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

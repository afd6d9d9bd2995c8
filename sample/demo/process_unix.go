//go:build unix

package demo

import "syscall"

const canSignal = true

// ownGroup keeps a Ctrl-C that is meant for the demonstration from its children: it
// stops them itself.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

//go:build !unix

package demo

import "syscall"

const canSignal = false

func ownGroup() *syscall.SysProcAttr { return nil }

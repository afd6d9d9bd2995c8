//go:build !unix

package main

import "syscall"

const canSignal = false

func ownGroup() *syscall.SysProcAttr { return nil }

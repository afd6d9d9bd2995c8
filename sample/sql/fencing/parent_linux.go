package main

import "syscall"

// dieWithParent has the kernel kill an instance, also a stopped one, when the
// demonstration is killed and cannot do it.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

package jobs

import "syscall"

// dieWithParent makes the kernel kill the program when the application dies, so
// that it does not overlap with the run of the instance that takes over.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

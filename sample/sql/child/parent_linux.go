package child

import "syscall"

// dieWithParent makes the kernel kill a child, even a stopped one, when the
// parent is killed.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

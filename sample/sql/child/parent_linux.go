package child

import "syscall"

// dieWithParent has the kernel kill a child, also a stopped one, when the
// parent is killed and cannot do it.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

package supervise

import (
	"errors"
	"syscall"
)

// adoptOrphans makes this process the parent of all descendants whose parents
// die, as process 1 is in any case, and reports whether it is. If so it can tell
// that none is left.
func adoptOrphans() bool {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	_, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	return err == 0
}

// reap waits for the child, and for the orphans that end before it does.
func (c *Child) reap() syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if pid == c.pid() || err != nil && !errors.Is(err, syscall.EINTR) {
			return status
		}
	}
}

// reapOrphans reports whether no child is left.
func reapOrphans() (none bool) {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return true
		case pid == 0 || err != nil && !errors.Is(err, syscall.EINTR):
			return false
		}
	}
}

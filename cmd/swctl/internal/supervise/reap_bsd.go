//go:build darwin || freebsd

package supervise

import "syscall"

// adoptOrphans does nothing: process 1 adopts orphans here.
func adoptOrphans() bool { return false }

// reap waits for the child.
func (c *Child) reap() (status syscall.WaitStatus) {
	state, err := c.cmd.Process.Wait()
	if err == nil {
		status, _ = state.Sys().(syscall.WaitStatus)
	}
	return status
}

// reapOrphans has none to reap here.
func reapOrphans() (none bool) { return false }

//go:build darwin || freebsd

package main

import "syscall"

// adoptOrphans: process 1 has them here.
func adoptOrphans() bool { return false }

// reap waits for the child.
func (w *ward) reap() (status syscall.WaitStatus) {
	state, err := w.cmd.Process.Wait()
	if err == nil {
		status, _ = state.Sys().(syscall.WaitStatus)
	}
	return status
}

// reapOrphans: there are none here.
func reapOrphans() (none bool) { return false }

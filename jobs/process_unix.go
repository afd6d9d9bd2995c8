//go:build unix

package jobs

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

const hasProcessGroups = true

// runGroup runs a command in a new process group. It kills the group when the command's context
// ends, and any process left in it when the command exits.
func runGroup(cmd *exec.Cmd) error {
	// The kernel's parent death signal refers to the forking thread: keep it alive.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	cmd.Cancel = func() error { return killGroup(cmd) }
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	_ = killGroup(cmd) // usually empty
	return err
}

// killGroup kills the command's process group.
func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

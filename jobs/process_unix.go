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

// runGroup runs a command in a process group of its own, and kills what is
// left of the group when the command has ended or its context has.
func runGroup(cmd *exec.Cmd) error {
	// The kernel's "die with the parent" means the thread that forked: keep it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	cmd.Cancel = func() error { return killGroup(cmd) }
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	_ = killGroup(cmd) // mostly nobody is left
	return err
}

// killGroup kills the processes of the group that the command leads, or led.
func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

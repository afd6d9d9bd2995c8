//go:build linux || darwin || freebsd

package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
	"unsafe"
)

// Child is a started process. Call Wait, then Terminate; Close stops catching signals.
type Child struct {
	cmd      *exec.Cmd
	status   syscall.WaitStatus // once Wait has returned
	adopts   bool               // orphans of the child become children of this process
	alone    bool               // no descendant of the child is left, in whatever group
	terminal bool               // the child got the terminal
	signals  chan os.Signal
}

// PassedOn are the signals that the child gets. Job control's are not among them: they stop this
// process and the child separately.
func PassedOn() []os.Signal {
	return slices.DeleteFunc([]os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
	}, signal.Ignored) // as SIGHUP is under nohup; the child inherits that
}

// StopSignals are the signals that ask this process to end, after the child has ended.
func StopSignals() []os.Signal {
	return slices.DeleteFunc([]os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}, signal.Ignored)
}

// Start starts the command in its own process group, so that Terminate can kill the
// group. On a terminal it becomes the foreground group: Ctrl-C reaches it directly. Errors:
// *StartError, or the cause of ctx if that has ended.
func Start(ctx context.Context, command Command) (*Child, error) {
	cmd := exec.Command(command.Args[0], command.Args[1:]...) //nolint:noctx,gosec // to run it is the point, and it ends when it likes
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil // "." in PATH is deliberate
	}
	cmd.Env = append(os.Environ(), command.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = command.Stdin, command.Stdout, command.Stderr
	c := &Child{cmd: cmd, terminal: inForeground(), signals: make(chan os.Signal, 16)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: c.terminal, Ctty: terminalFd}
	c.adopts = adoptOrphans()
	signal.Notify(c.signals, PassedOn()...)
	if ctx.Err() != nil {
		c.Close()
		return nil, context.Cause(ctx) // a signal came too early to be passed on
	}
	if err := cmd.Start(); err != nil {
		c.Close()
		return nil, startError(err)
	}
	if c.terminal {
		signal.Ignore(syscall.SIGTTOU) // this process may write to a terminal that it does not own
	}
	return c, nil
}

func startError(err error) error {
	e := &StartError{code: 126, Err: err}
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		e.code = 127
	case errors.Is(err, syscall.ENOEXEC):
		e.Hint = "a script needs a first line such as #!/bin/sh"
	}
	return e
}

func (c *Child) pid() int { return c.cmd.Process.Pid }

// Wait returns when the child has exited, and until then passes signals on: to the child
// alone, which may need its own children to finish a run.
func (c *Child) Wait() {
	exited := make(chan syscall.WaitStatus, 1)
	go func() { exited <- c.reap() }()
	for {
		select {
		case s := <-c.signals:
			_ = c.cmd.Process.Signal(s) // it fails if the child has just exited
		case c.status = <-exited:
			c.takeTerminal()
			return
		}
	}
}

// killTimeout is how long killed processes may take to exit. One that waits for a disk or a
// file server takes longer.
const killTimeout = 5 * time.Second

// Terminate kills the rest of the child's process group and waits until it is gone, for at
// most 5 s. The ID of a group is not reused while there is a process in it, nor soon after.
func (c *Child) Terminate() error {
	deadline := time.After(killTimeout)
	for {
		err := syscall.Kill(-c.pid(), syscall.SIGKILL)
		none := reapOrphans()
		c.alone = c.adopts && none
		if c.alone || errors.Is(err, syscall.ESRCH) {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			return fmt.Errorf("processes of group %d still exist %v after they were killed", c.pid(), killTimeout)
		}
	}
}

// ExitCode is the exit code of the child, or 128 + the number of the signal that killed it.
func (c *Child) ExitCode() int {
	if c.status.Signaled() {
		return 128 + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

// String says how the child ended.
func (c *Child) String() string {
	if c.status.Signaled() {
		return fmt.Sprintf("process %d was killed by signal %d (%v)", c.pid(), int(c.status.Signal()), c.status.Signal())
	}
	return fmt.Sprintf("process %d exited with %d", c.pid(), c.status.ExitStatus())
}

// Close stops catching signals.
func (c *Child) Close() { signal.Stop(c.signals) }

// exists reports whether there is a process with that ID.
func exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// terminalFd is standard input.
const terminalFd = 0

// inForeground reports whether standard input is the terminal of this process, and its
// group the one in the foreground.
func inForeground() bool {
	var group int32
	return ioctlTerminal(syscall.TIOCGPGRP, &group) == nil && int(group) == syscall.Getpgrp()
}

// takeTerminal makes this process's group the one in the foreground again, for the script
// that may have started this process.
func (c *Child) takeTerminal() {
	if group := int32(syscall.Getpgrp()); c.terminal {
		_ = ioctlTerminal(syscall.TIOCSPGRP, &group) // the terminal may be gone
	}
}

func ioctlTerminal(request uintptr, group *int32) error {
	_, _, err := syscall.Syscall(syscall.SYS_IOCTL, terminalFd, request, uintptr(unsafe.Pointer(group)))
	if err != 0 {
		return err
	}
	return nil
}

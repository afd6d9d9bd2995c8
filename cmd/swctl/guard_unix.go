//go:build linux || darwin || freebsd

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
	"unsafe"
)

// ward is the child of guard: the application.
type ward struct {
	cmd      *exec.Cmd
	status   syscall.WaitStatus // once wait has returned
	adopts   bool               // orphans of what it has started are adopted
	alone    bool               // nothing that it has started is left, whatever group it is in
	terminal bool               // it was given the terminal
	signals  chan os.Signal
}

// passedOn are the signals that guard passes on. Those of job control are not
// among them: guard stops when it is told to, and the child when that is.
func passedOn() []os.Signal {
	var list []os.Signal
	for _, s := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
	} {
		if !signal.Ignored(s) { // as nohup has it: the child inherits that
			list = append(list, s)
		}
	}
	return list
}

// startWard starts the command in a process group of its own, which is what can
// be killed when it has died. On a terminal it becomes the foreground group:
// Ctrl-C reaches it without guard.
func startWard(ctx context.Context, c *call, env string) (*ward, error) {
	cmd := exec.Command(c.args[0], c.args[1:]...) //nolint:noctx,gosec // to run it is the point, and it ends when it likes
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil // who has "." in PATH means it
	}
	cmd.Env = append(os.Environ(), env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.stdout, c.stderr
	w := &ward{cmd: cmd, terminal: inForeground(), signals: make(chan os.Signal, 16)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: w.terminal, Ctty: terminalFd}
	w.adopts = adoptOrphans()
	signal.Notify(w.signals, passedOn()...)
	if ctx.Err() != nil {
		w.close()
		return nil, context.Cause(ctx) // it came too early to be passed on
	}
	if err := cmd.Start(); err != nil {
		w.close()
		return nil, startError(err)
	}
	if w.terminal {
		signal.Ignore(syscall.SIGTTOU) // what guard says may go to a terminal that is not its own
	}
	return w, nil
}

func startError(err error) error {
	code := exitNotExecutable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNoCommand
	}
	started := &notStartedError{code, fmt.Errorf("start the command: %w", err)}
	if errors.Is(err, syscall.ENOEXEC) {
		return withHint(started, "a script needs a first line such as #!/bin/sh")
	}
	return started
}

func (w *ward) pid() int { return w.cmd.Process.Pid }

// wait returns when the child has died, and passes signals on until then: to
// the child alone, which may need its own children to finish a run.
func (w *ward) wait() {
	died := make(chan syscall.WaitStatus, 1)
	go func() { died <- w.reap() }()
	for {
		select {
		case s := <-w.signals:
			_ = w.cmd.Process.Signal(s) // it has just died otherwise
		case w.status = <-died:
			w.takeTerminal()
			return
		}
	}
}

// killPatience is how long killed processes may take to be gone. One that waits
// for a disk or a file server takes longer.
const killPatience = 5 * time.Second

// killRest kills what is left of the child's process group: its death may be no
// end of what it has started. The number of a group is not given out anew while
// there is a process in it, nor so soon after.
func (w *ward) killRest() error {
	deadline := time.After(killPatience)
	for {
		err := syscall.Kill(-w.pid(), syscall.SIGKILL)
		none := reapOrphans()
		w.alone = w.adopts && none
		if w.alone || errors.Is(err, syscall.ESRCH) {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			return fmt.Errorf("processes of group %d have not ended %v after they were killed", w.pid(), killPatience)
		}
	}
}

// code is the exit code that stands for how the child has ended.
func (w *ward) code() exitCode {
	if w.status.Signaled() {
		return exitCode(128 + int(w.status.Signal()))
	}
	return exitCode(w.status.ExitStatus())
}

// String says how the child has ended.
func (w *ward) String() string {
	if w.status.Signaled() {
		return fmt.Sprintf("process %d was ended by signal %d (%v)", w.pid(), int(w.status.Signal()), w.status.Signal())
	}
	return fmt.Sprintf("process %d exited with %d", w.pid(), w.status.ExitStatus())
}

// untilSignal returns a context that the next signal to end ends. Others do
// nothing any more.
func (*ward) untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	return untilOneOf(parent, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
}

func (w *ward) close() { signal.Stop(w.signals) }

// exists reports whether there is a process of that number.
func exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// terminalFd is standard input.
const terminalFd = 0

// inForeground reports whether standard input is the terminal of this process,
// and its group the one in the foreground.
func inForeground() bool {
	var group int32
	return ioctlTerminal(syscall.TIOCGPGRP, &group) == nil && int(group) == syscall.Getpgrp()
}

// takeTerminal makes this process's group the one in the foreground again: a
// script that has started guard goes on.
func (w *ward) takeTerminal() {
	if group := int32(syscall.Getpgrp()); w.terminal {
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

package zkserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// endTimeout is how long a process may take to exit after a signal.
const endTimeout = time.Minute

// A process is a running program in a new process group. A nil process has ended.
type process struct {
	group int           // id of the process group and of its first process
	ended chan struct{} // closed when that process has been waited for
}

// startProcess starts a program that appends its output to the file logPath.
func startProcess(logPath, name string, args ...string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(name, args...) //nolint:noctx // it lives until end, longer than any context of its caller
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true,
		Pdeathsig: syscall.SIGKILL, // a test process that dies runs no cleanups
	}

	p := &process{ended: make(chan struct{})}
	started := make(chan error)
	go func() { // ends with the process; end waits for it
		defer close(p.ended)
		defer log.Close()
		// Pdeathsig is sent when the starting thread ends, possibly before its process:
		// keep the thread alive.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()

		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // a killed process is not an error
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.group = cmd.Process.Pid
	return p, nil
}

func (p *process) running() bool {
	return p != nil && !isClosed(p.ended)
}

// signal sends sig to the whole group. It does nothing if the process has ended.
func (p *process) signal(sig syscall.Signal) error {
	if !p.running() {
		return nil
	}
	err := syscall.Kill(-p.group, sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil // it has just ended
	}
	return err
}

// awaitStop waits until the process stands still after SIGSTOP.
func (p *process) awaitStop() error {
	if !p.running() {
		return nil
	}
	return AwaitStop(p.group)
}

// AwaitStop waits until no thread of a process runs. After SIGSTOP they run on until one of them
// has taken the signal, which takes a while on a busy machine.
func AwaitStop(pid int) error {
	for deadline := time.Now().Add(endTimeout); ; <-time.After(time.Millisecond) {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(stats, isRunning) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d still runs %v after SIGSTOP", pid, endTimeout)
		}
	}
}

// isRunning reports whether a thread, by its file in /proc, is neither stopped nor gone.
func isRunning(stat string) bool {
	text, err := os.ReadFile(stat)
	if err != nil {
		return false
	}
	state := text[bytes.LastIndexByte(text, ')')+2] // after the name, which may have spaces
	return strings.IndexByte("TtZX", state) < 0
}

// end sends sig, which must end the process, and waits until it has exited.
func (p *process) end(sig syscall.Signal) error {
	if p == nil {
		return nil
	}
	if err := p.signal(sig); err != nil {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(endTimeout):
		return fmt.Errorf("process %d still runs %v after %v", p.group, endTimeout, sig)
	}
}

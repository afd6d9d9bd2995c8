package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// A process is an instance, seen from the demonstration.
type process struct {
	id       string
	messages chan message // closed when the process has ended
	cmd      *exec.Cmd
	in       io.WriteCloser
	ended    chan struct{}
}

// startInstance starts this program again, as an instance. Its log is in dir. Call kill
// in the end.
func startInstance(id, zk, dir string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, id+".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, instanceCommand, id, zk, dir) //nolint:noctx // it lives until kill
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(cmd.SysProcAttr)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{
		id: id, cmd: cmd, in: in, ended: make(chan struct{}),
		// More than it can say: one message for every permission, and one before.
		messages: make(chan message, 16),
	}
	started := make(chan error)
	go func() {
		defer close(p.ended)
		defer log.Close()
		// dieWithParent speaks of the thread that starts the process: keep it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.listen(out)
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", id, err)
	}
	return p, nil
}

func (p *process) listen(out io.Reader) {
	defer close(p.messages)
	for decoder := json.NewDecoder(out); ; {
		var m message
		if err := decoder.Decode(&m); err != nil {
			return
		}
		p.messages <- m
	}
}

// next waits for the next message that says done, or that does not.
func (p *process) next(ctx context.Context, done bool) (message, error) {
	what := "comes to its next write"
	if done {
		what = "has written"
	}
	for {
		select {
		case m, ok := <-p.messages:
			if !ok {
				return m, fmt.Errorf("%s ended before it %s: see its log", p.id, what)
			}
			if m.Done == done {
				return m, nil
			}
		case <-ctx.Done():
			return message{}, fmt.Errorf("waited until %s %s: %w", p.id, what, context.Cause(ctx))
		}
	}
}

// allow lets one write of the process through, also when it is stopped: it will find the
// permission when it goes on.
func (p *process) allow() error {
	if _, err := p.in.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("allow %s to write: %w", p.id, err)
	}
	return nil
}

func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %s to %s: %w", sig, p.id, err)
	}
	return nil
}

// kill ends the process, also a stopped one, and returns when it is gone.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL) // fails when it has ended
	<-p.ended
	_ = p.in.Close()
}

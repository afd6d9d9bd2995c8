package main

import (
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
	id    string
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}
}

// startInstance starts this program again, as an instance, whose messages go to the
// channel. Its log is in dir. Call kill in the end.
func startInstance(id, zk, dir string, messages chan<- message) (*process, error) {
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
	p := &process{id: id, cmd: cmd, in: in, ended: make(chan struct{})}
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
			p.listen(out, messages)
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", id, err)
	}
	return p, nil
}

func (p *process) listen(out io.Reader, messages chan<- message) {
	for decoder := json.NewDecoder(out); ; {
		m := message{from: p.id}
		if err := decoder.Decode(&m); err != nil {
			messages <- message{from: p.id, ended: true}
			return
		}
		messages <- m
	}
}

// command sends a line, also to a process that is stopped: it will find it when it goes on.
func (p *process) command(line string) error {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return fmt.Errorf("tell %s to %s: %w", p.id, line, err)
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

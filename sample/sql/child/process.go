package child

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// A Process is a child, seen from its parent.
type Process struct {
	ID    string
	In    io.WriteCloser  // its standard input; it ends when that is closed
	Ended <-chan struct{} // closed when it has

	cmd *exec.Cmd
}

// Start starts this program again, as a child; see [Main]. Its log is in dir. What it prints
// goes to listen, which is called in a goroutine and reads until the messages end: lines of
// JSON, each an M. Call Kill in the end.
func Start[M any](id, zk, dir string, listen func(messages iter.Seq[M])) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, id+".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, command, id, zk, dir) //nolint:noctx // it lives until Kill
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
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		defer log.Close()
		// dieWithParent speaks of the thread that starts the process: keep it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			listen(decode[M](out))
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", id, err)
	}
	return &Process{ID: id, In: in, Ended: ended, cmd: cmd}, nil
}

func decode[M any](out io.Reader) iter.Seq[M] {
	return func(yield func(M) bool) {
		for decoder := json.NewDecoder(out); ; {
			var m M
			if err := decoder.Decode(&m); err != nil || !yield(m) {
				return
			}
		}
	}
}

// Tell sends a line, also to a process that is stopped: it will find it when it goes on.
func (p *Process) Tell(line string) error {
	if _, err := io.WriteString(p.In, line+"\n"); err != nil {
		return fmt.Errorf("tell %s to %s: %w", p.ID, line, err)
	}
	return nil
}

// Signal is how a process is stopped, and goes on: SIGSTOP, SIGCONT.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %s to %s: %w", sig, p.ID, err)
	}
	return nil
}

// Kill ends the process, also a stopped one, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // fails when it has ended
	<-p.Ended
	_ = p.In.Close()
}

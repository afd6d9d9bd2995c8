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

// A Process is a child process.
type Process struct {
	ID    string
	In    io.WriteCloser  // its standard input; closing it ends the process
	Ended <-chan struct{} // closed when it has ended

	cmd *exec.Cmd
}

// Start starts this program again as a child; see [Main]. Its log is in dir. listen is called on a
// separate goroutine and reads the child's output until its end: lines of JSON, each an M. The
// caller must call Kill.
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
		// The parent death signal refers to the thread that starts the process: keep it alive.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			listen(decode[M](out))
			_ = cmd.Wait() // the log shows how it ended
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

// Tell sends a line. A stopped process reads it when it continues.
func (p *Process) Tell(line string) error {
	if _, err := io.WriteString(p.In, line+"\n"); err != nil {
		return fmt.Errorf("tell %s to %s: %w", p.ID, line, err)
	}
	return nil
}

// Signal sends a signal such as SIGSTOP or SIGCONT.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %s to %s: %w", sig, p.ID, err)
	}
	return nil
}

// Kill kills the process, even a stopped one, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // fails if it has ended
	<-p.Ended
	_ = p.In.Close()
}

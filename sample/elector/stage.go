package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// stage is the processes of the demonstration and their runs.
type stage struct {
	zk, path string
	workers  map[string]*worker

	mu   sync.Mutex
	runs []run
}

// worker is a child process: this program, started again.
type worker struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
	err   error // how it ended; read after ended is closed
}

func newStage(zk, path string) *stage {
	return &stage{zk: zk, path: path, workers: make(map[string]*worker)}
}

// start starts a worker.
func (s *stage) start(ctx context.Context, id string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "-worker", id, "-zk", s.zk, "-path", s.path)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w := &worker{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	s.workers[id] = w
	go func() {
		defer close(w.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			s.note(lines.Bytes())
		}
		w.err = cmd.Wait()
	}()
	return nil
}

// note records a line of a worker's output.
func (s *stage) note(line []byte) {
	var r run
	if json.Unmarshal(line, &r) != nil {
		_, _ = os.Stdout.Write(append(line, '\n')) // the error of a worker
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, r)
}

func (s *stage) all() []run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]run(nil), s.runs...)
}

// leader waits until a worker other than the former leader runs the job, and returns its id.
func (s *stage) leader(ctx context.Context, former string) (string, error) {
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if runs := s.all(); len(runs) > 0 && runs[len(runs)-1].Worker != former {
			return runs[len(runs)-1].Worker, nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("no worker has run the job within %v", patience)
}

func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	<-w.ended
}

// stop stops a worker cleanly.
func (w *worker) stop() error {
	const patience = 10 * time.Second
	_ = w.stdin.Close()
	select {
	case <-w.ended:
		return w.err
	case <-time.After(patience):
		return errors.New("a worker did not stop")
	}
}

// end kills all processes.
func (s *stage) end() {
	for _, w := range s.workers {
		w.kill()
	}
}

package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

// patience is how long a process may take to answer.
const patience = 30 * time.Second

// A process is one that was started, and its reports. Methods are called from the test's goroutine.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.Writer
	ready   chan struct{} // closed when it waits for go
	reports chan Report
	ended   chan struct{} // closed when it has exited
	owned   atomic.Int64
	changed chan<- struct{} // owned has
	log     string          // path
	proxy   *zkserver.Proxy // on its way to the server, or nil
}

// start starts a process, which ends with the test, and does not wait for it. It sends to changed,
// which is buffered or nil, when the number of slots that it owns has changed.
func start(t *testing.T, changed chan<- struct{}, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{
		t: t, cmd: cmd, ready: make(chan struct{}), reports: make(chan Report, 1), ended: make(chan struct{}), changed: changed,
		log: filepath.Join(t.TempDir(), "log"),
	}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() { p.read(out) })
	go func() { // ends with the process, which the cleanup kills
		defer close(p.ended)
		defer log.Close()
		reader.Wait()
		_ = cmd.Wait() // a killed process is not an error
	}()
	t.Cleanup(func() {
		p.kill()
		if text, err := os.ReadFile(p.log); err == nil && t.Failed() {
			lines := strings.Split(string(text), "\n")
			t.Logf("%s: the end of its log:\n%s", cmd.Path, strings.Join(lines[max(0, len(lines)-10):], "\n"))
		}
	})
	return p
}

func (p *process) read(out io.Reader) {
	const longest = 64 << 20 // a report of all runs
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case wordReady:
			close(p.ready)
		case wordOwned:
			n, _ := strconv.ParseInt(rest, 10, 64)
			p.owned.Store(n)
			select {
			case p.changed <- struct{}{}:
			default: // the test looks at all processes each time
			}
		case wordReport:
			var r Report
			if json.Unmarshal([]byte(rest), &r) == nil {
				p.reports <- r
			}
		}
	}
}

// begin lets it begin, when it is ready.
func (p *process) begin() {
	p.t.Helper()
	p.awaitReady()
	p.say(wordGo)
}

func (p *process) awaitReady() {
	p.t.Helper()
	select {
	case <-p.ready:
	case <-p.ended:
		p.t.Fatalf("%s ended before it was ready", p.cmd.Path)
	case <-time.After(patience):
		p.t.Fatalf("%s is not ready after %v", p.cmd.Path, patience)
	}
}

// report asks it for a report.
func (p *process) report() Report {
	p.t.Helper()
	return p.ask(wordTell)
}

// weigh asks it for a report that says how large it is.
func (p *process) weigh() Report {
	p.t.Helper()
	return p.ask(wordWeigh)
}

func (p *process) ask(word string) (r Report) {
	p.t.Helper()
	p.say(word)
	select {
	case r = <-p.reports:
	case <-p.ended:
		p.t.Fatalf("%s ended before it reported", p.cmd.Path)
	case <-time.After(patience):
		p.t.Fatalf("%s did not report within %v", p.cmd.Path, patience)
	}
	return r
}

func (p *process) say(word string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, word); err != nil {
		p.t.Fatalf("%s: %v", p.cmd.Path, err)
	}
}

// kill kills it and waits until it has exited.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) } // unless it has ended

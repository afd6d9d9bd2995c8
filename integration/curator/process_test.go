package curator

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Where Debian's packages install the libraries of Contender.java. zookeeper.jar names its
// dependencies.
var jars = []string{
	"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api", "slf4j-simple",
}

// compile compiles Contender.java, and returns the class path to run it with.
func compile(t *testing.T) string {
	t.Helper()
	paths := []string{t.TempDir()}
	for _, jar := range jars {
		path := filepath.Join("/usr/share/java", jar+".jar")
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("Curator is not installed (%v): run integration/zookeeper.sh install curator, as root", err)
		}
		paths = append(paths, path)
	}
	classPath := strings.Join(paths, ":")
	output, err := exec.CommandContext(t.Context(), "javac", "-cp", classPath, "-d", paths[0],
		filepath.Join("testdata", "Contender.java")).CombinedOutput()
	if err != nil {
		t.Fatalf("javac: %v; integration/zookeeper.sh install curator, as root, installs one\n%s", err, output)
	}
	return classPath
}

// said is a line printed by a contender.
type said struct {
	who  string
	what string // gained, lost, violation, participants, woken, frozen
	more string
	at   time.Time
}

// contender is a process.
type contender struct {
	id    string
	pid   int
	stdin io.WriteCloser
	ended chan struct{}
}

// launch starts a contender, which prints events to lines.
func launch(t *testing.T, id string, cmd *exec.Cmd, lines chan<- said) *contender {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.CreateTemp(t.TempDir(), id)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that dies runs no cleanup
	c := &contender{id: id, stdin: stdin, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(c.ended)
		defer log.Close()
		runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			lines <- parse(id, scanner.Text())
		}
		_ = cmd.Wait() // most are killed
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	c.pid = cmd.Process.Pid
	t.Cleanup(func() {
		c.signal(syscall.SIGKILL)
		<-c.ended
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s wrote:\n%s", id, text)
		}
	})
	return c
}

func parse(id, line string) said {
	what, rest, _ := strings.Cut(line, " ")
	micros, more, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(micros, 10, 64)
	if err != nil {
		return said{id, "violation", "unreadable: " + line, time.Now()}
	}
	return said{id, what, strings.TrimSpace(more), time.UnixMicro(n)}
}

func (c *contender) signal(sig syscall.Signal) {
	select {
	case <-c.ended: // its id may be another's by now
	default:
		_ = syscall.Kill(c.pid, sig)
	}
}

func (c *contender) tell(command string) { _, _ = fmt.Fprintln(c.stdin, command) }

// hearing collects the contenders' lines.
type hearing struct {
	mu    sync.Mutex
	said  []said
	lines chan said
}

func newHearing(t *testing.T) *hearing {
	t.Helper()
	h := &hearing{lines: make(chan said)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for line := range h.lines {
			h.mu.Lock()
			h.said = append(h.said, line)
			h.mu.Unlock()
		}
	}()
	t.Cleanup(func() { close(h.lines); <-done }) // runs after all contenders have ended
	return h
}

// await returns the first line of a contender about an event, at or after a time.
func (h *hearing) await(t *testing.T, what, who string, since time.Time) said {
	t.Helper()
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		for _, s := range h.all() {
			if s.what == what && (who == "" || s.who == who) && !s.at.Before(since) {
				return s
			}
		}
	}
	t.Fatalf("nobody said %q of %q within %v; said so far: %v", what, who, patience, h.all())
	return said{}
}

func (h *hearing) all() []said {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]said(nil), h.said...)
}

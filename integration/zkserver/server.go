package zkserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// startTimeout is how long a server may take to answer. It takes a second
	// on a machine with nothing else to do.
	startTimeout = 30 * time.Second

	// answerTimeout is how long a starting server may take to answer one
	// question. A question asked too early is never answered: ZooKeeper 3.8 then
	// fails to close the connection, and only a later one gets through.
	answerTimeout = time.Second

	// portTries is how many ports Start tries. A second one is needed only when
	// another process takes the first between its choice and its use.
	portTries = 5

	// logTail is how many lines of the server's log a failed test prints.
	logTail = 40
)

// errPortTaken says that the server found its port in use.
var errPortTaken = errors.New("port is in use")

// A Server is one ZooKeeper server: an address and a data directory for the length of a
// test, and the process that serves them, if one runs.
type Server struct {
	tb     testing.TB
	script string // path of zookeeper.sh
	dir    string
	addr   string

	process *process // nil before the first start, else the last one started
}

// Start starts a server on a free loopback port, with an empty data directory,
// and returns when it serves requests. The server ends with the test; if the test
// has failed, the end of the server's log is printed.
func Start(tb testing.TB) *Server {
	tb.Helper()
	script, err := findScript()
	if err != nil {
		tb.Fatalf("zkserver: %v", err)
	}
	s := &Server{tb: tb, script: script, dir: tb.TempDir()}
	tb.Cleanup(s.cleanup)

	for range portTries {
		if s.addr, err = freeAddr(tb.Context()); err != nil {
			break
		}
		if err = s.start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		tb.Fatalf("zkserver: %v", err)
	}
	return s
}

// Addr is the server's host:port. It stays the same across restarts.
func (s *Server) Addr() string { return s.addr }

// Kill ends the server as a crash does, by SIGKILL. What it had acknowledged
// is kept. Killing a server that does not run does nothing.
func (s *Server) Kill() {
	s.tb.Helper()
	s.end(syscall.SIGKILL)
}

// Stop ends the server in good order, by SIGTERM. Stopping a server that does not
// run does nothing.
func (s *Server) Stop() {
	s.tb.Helper()
	s.Resume() // a suspended process does not see SIGTERM
	s.end(syscall.SIGTERM)
}

// Restart starts the server again on its port and data, after a Kill if it still
// runs, and returns when it serves requests. Sessions live on if their clients
// come back within the session timeout, which begins anew.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		s.tb.Fatalf("zkserver: restart: %v", err)
	}
}

// Suspend freezes the server by SIGSTOP: connections stay open, and new ones are
// accepted by the kernel, but nothing is answered.
func (s *Server) Suspend() {
	s.tb.Helper()
	s.signal(syscall.SIGSTOP)
}

// Resume lets a suspended server go on. Sessions whose time ran out meanwhile expire
// unless their clients are heard from at once.
func (s *Server) Resume() {
	s.tb.Helper()
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	if err := s.process.signal(sig); err != nil {
		s.tb.Fatalf("zkserver: %v: %v", sig, err)
	}
}

func (s *Server) end(sig syscall.Signal) {
	s.tb.Helper()
	if err := s.process.end(sig); err != nil {
		s.tb.Fatalf("zkserver: %v: %v", sig, err)
	}
}

// start starts a process and waits until it serves requests.
func (s *Server) start() error {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	process, err := startProcess(s.logPath(), s.script, "run", s.dir, port)
	if err != nil {
		return err
	}
	s.process = process

	ctx, cancel := context.WithTimeout(s.tb.Context(), startTimeout)
	defer cancel()
	err = retry(ctx, func() error {
		if !process.running() {
			return permanentError{s.explainExit()}
		}
		return s.ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("start server on %s: %w", s.addr, err)
	}
	return nil
}

// ready reports whether this very server serves requests. "ruok" would not do:
// it is answered before data is loaded, and by whatever server has the port.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answer, err := ask(ctx, s.addr, "conf")
	if err != nil {
		return err
	}
	if !strings.Contains(answer, "dataDir="+s.dir+"/") {
		return fmt.Errorf("not serving from %s yet: %q", s.dir, answer)
	}
	return nil
}

// explainExit turns the log of a server that ended by itself into a reason.
func (s *Server) explainExit() error {
	tail := s.tail()
	if strings.Contains(tail, "Address already in use") {
		return errPortTaken
	}
	return errors.New(tail)
}

func (s *Server) cleanup() {
	if err := s.process.end(syscall.SIGKILL); err != nil {
		s.tb.Errorf("zkserver: %v", err)
	}
	if s.tb.Failed() {
		s.tb.Logf("zkserver: end of the log of %s:\n%s", s.addr, s.tail())
	}
}

func (s *Server) logPath() string {
	return filepath.Join(s.dir, "server.log")
}

// tail is the end of the server's log.
func (s *Server) tail() string {
	text, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-logTail):], "\n")
}

// ask sends one of ZooKeeper's four-letter words and returns the answer.
func ask(ctx context.Context, addr, word string) (string, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// findScript finds integration/zookeeper.sh in the module around the working
// directory, which for a test is its package's.
func findScript() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		script := filepath.Join(dir, "integration", "zookeeper.sh")
		if _, err := os.Stat(script); err == nil {
			return script, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no integration/zookeeper.sh in or above %s", start)
		}
	}
}

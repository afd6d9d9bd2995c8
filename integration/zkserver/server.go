package zkserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// startTimeout is how long a server may take to answer. It takes a second on an idle machine.
	startTimeout = time.Minute

	// answerTimeout is how long a starting server may take to answer one query. A query that is sent
	// too early is never answered: ZooKeeper 3.8 then does not close the connection, and only a later
	// one works.
	answerTimeout = time.Second

	// portTries is how many ports Start tries. It needs a second one only if another process takes the
	// first between its choice and its use.
	portTries = 5

	// logTail is how many lines of the server's log a failed test prints.
	logTail = 40

	// dataDir is where a server's data is, in its directory, and logDir where its transaction logs and
	// snapshots are.
	dataDir = "data"
	logDir  = dataDir + "/version-2"
)

// errPortTaken is returned if the server's port is in use.
var errPortTaken = errors.New("port is in use")

// A Server is a ZooKeeper server: an address and a data directory for the duration of a test, and a
// process while it is running.
type Server struct {
	tb     testing.TB
	script string // path of zookeeper.sh
	swctl  string // program of swctl serve, which is then the server
	dir    string
	addr   string
	member []string // of an ensemble: its number and where all its servers find each other

	process *process // the latest; nil before the first start
}

// Start starts a server on a free loopback port with an empty data directory, and waits until it
// serves requests. The server is stopped when the test ends; if the test has failed, the end of its
// log is printed.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return StartTLS(tb, nil)
}

// StartTLS is Start of a server that also takes TLS, from clients with a certificate that it
// trusts: pem has its own certificate and key, which are those it trusts, too. With nil it takes
// plain text only.
func StartTLS(tb testing.TB, pem []byte) *Server {
	tb.Helper()
	script, err := findScript()
	if err != nil {
		tb.Fatalf("zkserver: %v", err)
	}
	s := &Server{tb: tb, script: script, dir: tb.TempDir()}
	tb.Cleanup(s.cleanup)
	if pem != nil {
		if err := os.WriteFile(filepath.Join(s.dir, "tls.pem"), pem, 0o600); err != nil {
			tb.Fatalf("zkserver: %v", err)
		}
	}

	s.startAnywhere()
	return s
}

// StartServe is [StartEnsemble] of one server, which is swctl serve, and which it builds.
func StartServe(tb testing.TB) *Ensemble {
	tb.Helper()
	dir := tb.TempDir()
	s := &Server{tb: tb, swctl: filepath.Join(dir, "swctl"), dir: dir}
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", s.swctl, "github.com/swjobs/singleworker/cmd/swctl") //nolint:gosec // our directory
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("zkserver: build swctl: %v\n%s", err, out)
	}
	tb.Cleanup(s.cleanup)
	s.startAnywhere()
	return &Ensemble{tb: tb, servers: []*Server{s}}
}

// startAnywhere starts the server for the first time, on a free port.
func (s *Server) startAnywhere() {
	s.tb.Helper()
	var err error
	for range portTries {
		if s.addr, err = freeAddr(s.tb.Context()); err != nil {
			break
		}
		if err = s.start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		s.tb.Fatalf("zkserver: %v", err)
	}
}

// Addr returns the server's host:port, which does not change across restarts.
func (s *Server) Addr() string { return s.addr }

// LogDir returns the directory with the server's transaction logs and snapshots.
func (s *Server) LogDir() string { return filepath.Join(s.dir, logDir) }

// Kill crashes the server with SIGKILL. Acknowledged data is kept. It does nothing if the server is
// not running.
func (s *Server) Kill() {
	s.tb.Helper()
	s.end(syscall.SIGKILL)
}

// Stop stops the server cleanly with SIGTERM. It does nothing if the server is not running.
func (s *Server) Stop() {
	s.tb.Helper()
	s.Resume() // a suspended process does not see SIGTERM
	s.end(syscall.SIGTERM)
}

// Restart starts the server again with its port and data, after a Kill if it is running, and waits
// until it serves requests. It restarts the session timeouts: sessions survive whose clients
// reconnect in time.
func (s *Server) Restart() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("zkserver: restart: %v", err)
	}
}

// Begin starts the server again like Restart, but does not wait: a member of an ensemble serves no
// requests before most of the others run.
func (s *Server) Begin() {
	s.tb.Helper()
	if err := s.begin(); err != nil {
		s.tb.Fatalf("zkserver: begin: %v", err)
	}
}

// Backup copies the server's files, as they are at one time, and returns where the copy is. The
// server may run: it is suspended for as long as that takes.
func (s *Server) Backup() (copied string) {
	s.tb.Helper()
	if s.Running() {
		s.Suspend()
		defer s.Resume()
	}
	copied, err := os.MkdirTemp(s.dir, "backup-")
	if err == nil { // cp, because swctl serve has a socket there
		err = exec.CommandContext(s.tb.Context(), "cp", "-R", filepath.Join(s.dir, dataDir), copied).Run() //nolint:gosec // our directories
	}
	if err != nil {
		s.tb.Fatalf("zkserver: backup: %v", err)
	}
	return copied
}

// Replace crashes the server and puts a copy of its files in the place of its data directory:
// backup is a result of [Server.Backup], which is used up, or empty for no data. It returns the
// former LogDir. Restart or Begin starts the server.
func (s *Server) Replace(backup string) (lost string) {
	s.tb.Helper()
	s.Kill()
	replaced, err := os.MkdirTemp(s.dir, "replaced-")
	if err == nil {
		err = os.Rename(filepath.Join(s.dir, dataDir), filepath.Join(replaced, dataDir))
	}
	if err == nil && backup != "" {
		err = os.Rename(filepath.Join(backup, dataDir), filepath.Join(s.dir, dataDir))
	}
	if err != nil {
		s.tb.Fatalf("zkserver: replace the data: %v", err)
	}
	return filepath.Join(replaced, logDir)
}

// Running reports whether the server's process runs. ZooKeeper ends it itself after some errors,
// and leaves it to a supervisor to start it again.
func (s *Server) Running() bool { return s.process.running() }

// Suspend suspends the server with SIGSTOP: connections stay open and the kernel accepts new ones,
// but nothing is answered.
func (s *Server) Suspend() {
	s.tb.Helper()
	s.signal(syscall.SIGSTOP)
	if err := s.process.awaitStop(); err != nil {
		s.tb.Fatalf("zkserver: %v", err)
	}
}

// Resume resumes a suspended server. Sessions that timed out meanwhile expire unless their clients
// are heard from at once.
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
	if err := s.begin(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.tb.Context(), startTimeout)
	defer cancel()
	return s.await(ctx)
}

// begin starts a process, after a kill of the one that runs.
func (s *Server) begin() error {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	if err := s.process.end(syscall.SIGKILL); err != nil {
		return err
	}
	name, args := s.script, append([]string{"run", s.dir, port}, s.member...)
	if s.swctl != "" {
		name, args = s.swctl, []string{"serve", "--data", filepath.Join(s.dir, dataDir), "--listen", s.addr}
	}
	s.process, err = startProcess(s.logPath(), name, args...)
	return err
}

// await waits until the process serves requests.
func (s *Server) await(ctx context.Context) error {
	err := retry(ctx, func() error {
		if !s.process.running() {
			return permanentError{s.explainExit()}
		}
		return s.ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("start server on %s: %w", s.addr, err)
	}
	return nil
}

// ready reports whether this server serves requests. "ruok" is not sufficient: it is answered
// before data is loaded, and by any server on the port.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answer, err := ask(ctx, s.addr, "conf")
	if err != nil {
		return err
	}
	own := "dataDir=" + s.dir + "/"
	if s.swctl != "" { // it does not say where its data is
		own = "clientPortAddress=" + s.addr + "\n"
	}
	if !strings.Contains(answer, own) {
		return fmt.Errorf("not serving from %s yet: %q", s.dir, answer)
	}
	return nil
}

// explainExit derives the reason why a server exited from its log.
func (s *Server) explainExit() error {
	tail := s.tail()
	if strings.Contains(tail, "ddress already in use") {
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

// tail returns the end of the server's log.
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

// findScript finds integration/zookeeper.sh in the module that contains the working directory,
// which for a test is its package's.
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

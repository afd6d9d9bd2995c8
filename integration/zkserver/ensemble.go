package zkserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An Ensemble is a number of servers that keep the same data, of which most must be up.
type Ensemble struct {
	tb      testing.TB
	servers []*Server
}

// StartEnsemble starts n servers on free loopback ports with empty data directories, and waits
// until all of them serve requests. The servers are stopped when the test ends; if the test has
// failed, the ends of their logs are printed.
func StartEnsemble(tb testing.TB, n int) *Ensemble {
	tb.Helper()
	return startEnsembleAnywhere(tb, n, false)
}

// StartReadOnlyEnsemble is [StartEnsemble] of servers that serve reads without a quorum.
func StartReadOnlyEnsemble(tb testing.TB, n int) *Ensemble {
	tb.Helper()
	return startEnsembleAnywhere(tb, n, true)
}

func startEnsembleAnywhere(tb testing.TB, n int, readOnly bool) *Ensemble {
	tb.Helper()
	var err error
	for range portTries {
		var e *Ensemble
		if e, err = startEnsemble(tb, n, readOnly); err == nil {
			return e
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	tb.Fatalf("zkserver: ensemble: %v", err)
	return nil
}

func startEnsemble(tb testing.TB, n int, readOnly bool) (*Ensemble, error) {
	tb.Helper()
	script, err := findScript()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(tb.Context(), 3*n)
	if err != nil {
		return nil, err
	}
	var where []string
	for k := range n {
		where = append(where, fmt.Sprintf("127.0.0.1:%d:%d", ports[3*k+1], ports[3*k+2]))
	}
	e := &Ensemble{tb: tb}
	dir := tb.TempDir()
	for k := range n {
		s := &Server{
			tb: tb, script: script, dir: filepath.Join(dir, strconv.Itoa(k+1)), addr: fmt.Sprintf("127.0.0.1:%d", ports[3*k]),
			member: append([]string{strconv.Itoa(k + 1)}, where...),
		}
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			return nil, err
		}
		if readOnly {
			if err := os.WriteFile(filepath.Join(s.dir, "read-only"), nil, 0o600); err != nil {
				return nil, err
			}
		}
		tb.Cleanup(s.cleanup)
		if err := s.begin(); err != nil {
			return nil, err
		}
		e.servers = append(e.servers, s)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	return e, e.await(ctx)
}

// Servers returns the servers.
func (e *Ensemble) Servers() []*Server { return e.servers }

// Addr returns the connect string of all servers.
func (e *Ensemble) Addr() string {
	var all []string
	for _, s := range e.servers {
		all = append(all, s.addr)
	}
	return strings.Join(all, ",")
}

// Await waits until every server serves requests: each must be running.
func (e *Ensemble) Await() {
	e.tb.Helper()
	ctx, cancel := context.WithTimeout(e.tb.Context(), 2*startTimeout)
	defer cancel()
	if err := e.await(ctx); err != nil {
		e.tb.Fatalf("zkserver: %v", err)
	}
}

func (e *Ensemble) await(ctx context.Context) error {
	for _, s := range e.servers {
		if err := s.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Leader returns the number of the server that leads, from 0; -1 if none says that it does. While
// there is an election, or the old leader has not noticed that it no longer leads, the answer is
// outdated.
func (e *Ensemble) Leader(ctx context.Context) int {
	for k, s := range e.servers {
		if s.mode(ctx) == "leader" {
			return k
		}
	}
	return -1
}

// mode returns the server's claimed mode: leader, follower or standalone; "" if it serves nobody or
// does not answer.
func (s *Server) mode(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answer, err := ask(ctx, s.addr, "srvr")
	if err != nil {
		return ""
	}
	_, mode, _ := strings.Cut(answer, "Mode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}

// Serving reports whether any server serves requests, which means that most of them are connected
// to each other.
func (e *Ensemble) Serving(ctx context.Context) bool {
	for _, s := range e.servers {
		if s.mode(ctx) != "" {
			return true
		}
	}
	return false
}

// Whole reports whether every server serves requests.
func (e *Ensemble) Whole(ctx context.Context) bool {
	return !slices.ContainsFunc(e.servers, func(s *Server) bool { return s.mode(ctx) == "" })
}

// freePorts returns different loopback ports that are currently free.
func freePorts(ctx context.Context, n int) (ports []int, err error) {
	var held []net.Listener
	for range n {
		l, listenErr := listen(ctx)
		if listenErr != nil {
			err = listenErr
			break
		}
		held = append(held, l)
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("address %v has no port", l.Addr())
		}
		ports = append(ports, addr.Port)
	}
	for _, l := range held {
		err = errors.Join(err, l.Close())
	}
	return ports, err
}

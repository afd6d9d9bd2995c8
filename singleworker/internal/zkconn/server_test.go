package zkconn

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// server is a ZooKeeper in the test's bubble. It grants shorter sessions than requested and records
// the requests of the connection under test.
type server struct {
	*zkdev.Server
	client *zkdev.Client // from which the connection under test dials
	absent atomic.Bool   // dialing fails
	hand   *Conn         // another client, which creates the nodes of a test

	mu  sync.Mutex
	got []zkdev.Request // of the connection under test, without pings
}

const (
	asked   = 6 * time.Second
	granted = 4 * time.Second
)

var (
	discard    = slog.New(slog.DiscardHandler)
	errRefused = errors.New("connection refused")
)

// serve starts a server. It must be called in a bubble.
func serve(t *testing.T) *server {
	t.Helper()
	s := &server{Server: zkdev.Start(t, zkdev.Config{NoListen: true, MaxSession: granted})}
	s.client = s.Client("tested")
	s.hand = s.open(t, Config{Dial: s.Dial}, nil)
	s.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
		if r.Client == "tested" && r.Op != zkdev.OpConnect && r.Op != zkdev.OpPing {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.got = append(s.got, *r)
		}
		return zkdev.Pass()
	})
	return s
}

// open connects to the server. The connection is closed when the test ends.
func (s *server) open(t *testing.T, cfg Config, onEvent func(Event)) *Conn {
	t.Helper()
	if cfg.Servers == "" {
		cfg.Servers = "zk1"
	}
	if cfg.Dial == nil {
		cfg.Dial = s.dial
	}
	cfg.SessionTimeout, cfg.Logger = cmp.Or(cfg.SessionTimeout, asked), cmp.Or(cfg.Logger, discard)
	if onEvent == nil {
		onEvent = func(Event) {}
	}
	conn, err := Open(cfg, onEvent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func (s *server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.absent.Load() {
		return nil, errRefused
	}
	return s.client.Dial(ctx, network, address)
}

// have creates a node and changes it until it has the given version.
func (s *server) have(t *testing.T, path, data string, version int32) {
	t.Helper()
	ops := []Op{CreateOp(path, []byte(data))}
	for v := range version {
		ops = append(ops, SetOp(path, []byte(data), v))
	}
	if _, err := s.hand.Multi(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
}

// hang delays the replies to the connection under test by an hour, except those to connect
// requests.
func (s *server) hang() {
	s.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
		if r.Client != "tested" || r.Op == zkdev.OpConnect {
			return zkdev.Pass()
		}
		return zkdev.Delay(time.Hour)
	})
}

// session returns the session of the connection under test, or 0.
func (s *server) session() int64 {
	for _, session := range s.Sessions() {
		if session.Client == "tested" {
			return session.ID
		}
	}
	return 0
}

// requests lists the requests of the connection under test so far.
func (s *server) requests() []zkdev.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// named formats requests as operation and path.
func named(requests []zkdev.Request) []string {
	var names []string
	for _, r := range requests {
		name := r.Op.String() + " " + r.Path
		if r.Watch {
			name += " and watch"
		}
		names = append(names, name)
	}
	return names
}

// wantRequests compares the requests that the server has received with the expected ones.
func (s *server) wantRequests(t *testing.T, want ...string) {
	t.Helper()
	if got := named(s.requests()); !slices.Equal(got, want) {
		t.Errorf("requests:\n  %q\nwant:\n  %q", got, want)
	}
}

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

// server is a ZooKeeper in the test's bubble, which grants shorter sessions than are asked
// for and keeps what the connection that is tested asks of it.
//
// None of these tests comes back to a server with watches set: go-zookeeper v1.0.4 has a race
// then (sendSetWatches, recvLoop), which internal/swtest keeps away from its clusters, where
// watches that are set again are tested.
type server struct {
	*zkdev.Server
	client *zkdev.Client // where the connection that is tested dials from
	absent atomic.Bool   // nobody listens
	hand   *Conn         // puts the nodes there that a test needs

	mu  sync.Mutex
	got []zkdev.Request // of the connection that is tested, without pings
}

const (
	asked   = 6 * time.Second
	granted = 4 * time.Second
)

var (
	discard    = slog.New(slog.DiscardHandler)
	errRefused = errors.New("connection refused")
)

// serve is called in a bubble.
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

// open connects to the server; the connection is closed when the test ends.
func (s *server) open(t *testing.T, cfg Config, onEvent func(Event)) *Conn {
	t.Helper()
	if cfg.Servers == "" {
		cfg.Servers = "zk1"
	}
	if cfg.Dial == nil {
		cfg.Dial = s.dial
	}
	cfg.SessionTimeout, cfg.Logger = cmp.Or(cfg.SessionTimeout, asked), discard
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

// have puts a node there that was changed until it had that version.
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

// hang has the tested connection wait an hour for the answers to its requests, except that
// to connect.
func (s *server) hang() {
	s.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
		if r.Client != "tested" || r.Op == zkdev.OpConnect {
			return zkdev.Pass()
		}
		return zkdev.Delay(time.Hour)
	})
}

// session is the tested connection's, as the server knows it; 0 when it has none.
func (s *server) session() int64 {
	for _, session := range s.Sessions() {
		if session.Client == "tested" {
			return session.ID
		}
	}
	return 0
}

// requests lists what the tested connection has asked for until now.
func (s *server) requests() []zkdev.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// named gives requests as an operation and a path each.
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

// wantRequests compares what the server was asked for with what it should be.
func (s *server) wantRequests(t *testing.T, want ...string) {
	t.Helper()
	if got := named(s.requests()); !slices.Equal(got, want) {
		t.Errorf("requests:\n  %q\nwant:\n  %q", got, want)
	}
}

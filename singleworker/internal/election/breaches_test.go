package election_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Each breach is a connection that lies to its contender, so that the contender violates the
// protocol.

type longLeaseConn struct{ election.Conn }

func (c longLeaseConn) SessionTimeout() time.Duration { return 4 * c.Conn.SessionTimeout() }

func longLease(*world, string) setup {
	return setup{wrap: func(conn election.Conn) election.Conn { return longLeaseConn{conn} }}
}

// blindConn does not list the nodes that others created earlier.
type blindConn struct {
	election.Conn

	mu   sync.Mutex
	mine string // prefix
}

func (c *blindConn) CreateEphemeralSequential(ctx context.Context, prefix string, data []byte) (string, error) {
	c.mu.Lock()
	c.mine = prefix[strings.LastIndexByte(prefix, '/')+1:]
	c.mu.Unlock()
	return c.Conn.CreateEphemeralSequential(ctx, prefix, data)
}

func (c *blindConn) Children(ctx context.Context, path string) ([]string, zkconn.Stat, error) {
	names, stat, err := c.Conn.Children(ctx, path)
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, c.mine) }), stat, err
}

func blind(*world, string) setup {
	return setup{wrap: func(conn election.Conn) election.Conn { return &blindConn{Conn: conn} }}
}

type backwardsConn struct{ election.Conn }

func (c backwardsConn) GetW(ctx context.Context, path string) ([]byte, zkconn.Stat, error) {
	data, stat, err := c.Conn.GetW(ctx, path)
	stat.Czxid = -stat.Czxid
	return data, stat, err
}

func backwards(*world, string) setup {
	return setup{wrap: func(conn election.Conn) election.Conn { return backwardsConn{conn} }}
}

// messy tells contenders that a node is already gone when they first delete it.
func messy(w *world, name string) setup {
	told := make(map[string]bool)
	w.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		if op := r.Ops[0]; r.Client == name && op.Op == zkdev.OpDelete && !told[op.Path] {
			told[op.Path] = true
			return zkdev.Refuse(zkdev.NoNode)
		}
		return zkdev.Pass()
	})
	return setup{}
}

type deafConn struct{ election.Conn }

func (c deafConn) GetW(ctx context.Context, path string) ([]byte, zkconn.Stat, error) {
	return c.Get(ctx, path)
}

func deaf(*world, string) setup {
	return setup{wrap: func(conn election.Conn) election.Conn { return deafConn{conn} }}
}

// stale is not a breach: real servers can lag behind. A contender does not see a node whose create
// lost its reply until a transaction makes its server catch up.
func stale(w *world, name string) setup {
	w.Client(name).Lag(sessionTimeout / 2)
	return setup{}
}

// carelessConn does not send the transaction after a create that lost its reply.
type carelessConn struct {
	election.Conn

	mu   sync.Mutex
	lost bool
}

func (c *carelessConn) CreateEphemeralSequential(ctx context.Context, prefix string, data []byte) (string, error) {
	path, err := c.Conn.CreateEphemeralSequential(ctx, prefix, data)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = zkconn.IsUnknown(err)
	return path, err
}

func (c *carelessConn) Multi(ctx context.Context, ops ...zkconn.Op) ([]zkconn.Stat, error) {
	c.mu.Lock()
	lost := c.lost
	c.lost = false
	c.mu.Unlock()
	if lost {
		return nil, nil
	}
	return c.Conn.Multi(ctx, ops...)
}

func careless(w *world, name string) setup {
	s := stale(w, name)
	s.wrap = func(conn election.Conn) election.Conn { return &carelessConn{Conn: conn} }
	return s
}

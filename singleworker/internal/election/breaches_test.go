package election_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Each breach is a connection that lies to its contender, so that the contender violates the protocol.

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

// staleConn reads from a server that lags behind: it does not see a node whose create lost its reply until
// a transaction makes it catch up with the others. If careless, it does not send that transaction.
type staleConn struct {
	election.Conn

	careless bool

	mu   sync.Mutex
	lost bool
	seen []string
}

func (c *staleConn) CreateEphemeralSequential(ctx context.Context, prefix string, data []byte) (string, error) {
	path, err := c.Conn.CreateEphemeralSequential(ctx, prefix, data)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = zkconn.IsUnknown(err)
	return path, err
}

func (c *staleConn) Multi(ctx context.Context, ops ...zkconn.Op) ([]zkconn.Stat, error) {
	c.mu.Lock()
	lost := c.lost
	c.mu.Unlock()
	if c.careless && lost {
		return nil, nil
	}
	stats, err := c.Conn.Multi(ctx, ops...)
	if err == nil || errors.Is(err, zkconn.ErrNoNode) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lost = false
	}
	return stats, err
}

func (c *staleConn) Children(ctx context.Context, path string) ([]string, zkconn.Stat, error) {
	names, stat, err := c.Conn.Children(ctx, path)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && !c.lost {
		c.seen = slices.Clone(names)
	}
	return slices.Clone(c.seen), stat, err
}

// stale is not a breach: real servers can lag behind.
func stale(*world, string) setup {
	return setup{wrap: func(conn election.Conn) election.Conn { return &staleConn{Conn: conn} }}
}

func careless(*world, string) setup {
	return setup{wrap: func(conn election.Conn) election.Conn { return &staleConn{Conn: conn, careless: true} }}
}

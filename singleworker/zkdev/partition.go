package zkdev

import (
	"context"
	"net"
	"sync"
	"time"
)

// A Client is a place on the network from which one instance dials, so that a
// test can take that instance off it, whatever sessions and connections it has. All
// methods are safe for concurrent use.
type Client struct {
	server *Server
	title  string

	mu     sync.Mutex
	healed chan struct{}  // guarded by mu, changed only by whoever has core; nil unless partitioned, then closed by Heal
	lag    func() Latency // guarded by mu; nil for none
}

// Latency is how long messages of one connection are under way: what the client sends, and
// what it is sent. Each function is called for one message at a time, and must not call
// the Server; nil is no latency. No message overtakes another in its direction.
type Latency struct {
	There, Back func() time.Duration
}

// SetLatency gives each connection that the client dials from now on the latency that connect
// returns.
func (c *Client) SetLatency(connect func() Latency) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag = connect
}

// Client returns the client of a name, always the same one.
func (s *Server) Client(name string) *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[name] == nil {
		s.clients[name] = &Client{server: s, title: name}
	}
	return s.clients[name]
}

// Dial connects as Server.Dial does. While the client is partitioned, it waits.
func (c *Client) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return c.server.dial(ctx, c)
}

// DialTimeout is Dial in the form that some clients take.
func (c *Client) DialTimeout(_, _ string, timeout time.Duration) (net.Conn, error) {
	return dialTimeout(c.server, c, timeout)
}

// Partition takes the client off the network: as when a cable is pulled, nothing
// arrives in either direction and nobody is told. What is sent meanwhile arrives
// when Heal is called, if both ends still have the connection then, and so does what
// was on its way to the server. But what the server had sent before is not called back: it
// still arrives after its [Latency], and as soon as the client reads it. A connection is
// cut when more than 10,000 requests or 64 MB of it wait, or 64 MB for it.
func (c *Client) Partition() {
	c.server.do(func(*core) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.healed == nil {
			c.healed = make(chan struct{})
		}
	})
}

// Heal ends a partition.
func (c *Client) Heal() {
	c.server.do(func(k *core) {
		c.endPartition()
		k.heal(func(conn *conn) bool { return conn.client == c })
	})
}

func (c *Client) endPartition() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.healed != nil {
		close(c.healed)
		c.healed = nil
	}
}

// Disconnect cuts the client's connections. It may dial again at once.
func (c *Client) Disconnect() {
	c.server.do(func(k *core) {
		for _, conn := range k.conns {
			if conn.client == c && !conn.detached {
				k.hangUp(conn, false)
			}
		}
	})
}

// Partition takes a session off the network, wherever its client connects from: see
// [Client.Partition]. A connection that the client makes meanwhile gets no answer.
func (s *Server) Partition(session int64) {
	s.do(func(k *core) { k.cut[session] = true })
}

// Heal ends the partition of a session.
func (s *Server) Heal(session int64) {
	s.do(func(k *core) {
		delete(k.cut, session)
		k.heal(func(c *conn) bool { return c.session == session })
	})
}

func (k *core) heal(affected func(*conn) bool) {
	for _, id := range sortedKeys(k.conns) {
		if c := k.conns[id]; c != nil && affected(c) {
			k.release(c)
		}
	}
}

func (k *core) isCut(c *conn) bool {
	return c.client.partitioned() != nil || c.session != 0 && k.cut[c.session]
}

// The methods below also work on nil: nobody in particular.

func (c *Client) name() string {
	if c == nil {
		return ""
	}
	return c.title
}

func (c *Client) label() string {
	if c == nil {
		return "client"
	}
	return c.title
}

func (c *Client) latency() Latency {
	if c == nil {
		return Latency{}
	}
	c.mu.Lock()
	connect := c.lag
	c.mu.Unlock()
	if connect == nil {
		return Latency{}
	}
	return connect()
}

// partitioned returns the channel that Heal will close, or nil.
func (c *Client) partitioned() <-chan struct{} {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.healed
}

// passable waits for the end of a partition.
func (c *Client) passable(ctx context.Context) error {
	for healed := c.partitioned(); healed != nil; healed = c.partitioned() {
		select {
		case <-healed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

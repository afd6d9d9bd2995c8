package zkdev

import (
	"context"
	"net"
	"sync"
	"time"
)

// A Client is a network location from which one instance dials, so that a test can partition that
// instance whatever sessions and connections it has. It is safe for concurrent use.
type Client struct {
	server *Server
	title  string

	mu     sync.Mutex
	healed chan struct{}  // guarded by mu, changed only while holding core; nil unless partitioned, closed by Heal
	lag    func() Latency // guarded by mu; nil for none
}

// Latency is the delay of each message of a connection, from the client (There) and to the client
// (Back). Each function is called for one message at a time and must not call the Server; nil means
// no latency. Messages in the same direction never overtake each other.
type Latency struct {
	There, Back func() time.Duration

	// Order, unless it is 0, has the requests that the client sends at one instant arrive in an order
	// that follows from this number and from their content, not from the order of the client's
	// goroutines. No two messages of the connection arrive together then, in either direction, and all
	// do at multiples of [Apart]. It is for virtual time, and takes a latency There.
	Order uint64
}

// Apart is the least time between the arrivals of two messages of a connection that has an Order.
const Apart = 16 * time.Nanosecond

// SetLatency sets the latency of the connections that the client dials from now on. connect is
// called for each of them.
func (c *Client) SetLatency(connect func() Latency) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag = connect
}

// Client returns the client of a name; the same name gives the same client.
func (s *Server) Client(name string) *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[name] == nil {
		s.clients[name] = &Client{server: s, title: name}
	}
	return s.clients[name]
}

// Dial connects like Server.Dial. While the client is partitioned, it blocks until Heal or the end
// of ctx.
func (c *Client) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return c.server.dial(ctx, c)
}

// DialTimeout is Dial with the signature that some clients expect.
func (c *Client) DialTimeout(_, _ string, timeout time.Duration) (net.Conn, error) {
	return dialTimeout(c.server, c, timeout)
}

// Partition takes the client off the network, as if its cable was pulled: nothing arrives in either
// direction, and neither side is notified. Messages sent meanwhile, and requests in flight, arrive
// after Heal if both ends still have the connection. Messages that the server has sent before still
// arrive, after their [Latency]. A connection is cut when more than 10,000 requests or 64 MB are
// held back from the server, or 64 MB from the client.
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

// Disconnect cuts the client's connections. The client can dial again at once.
func (c *Client) Disconnect() {
	c.server.do(func(k *core) {
		for _, conn := range k.conns {
			if conn.client == c && !conn.detached {
				k.hangUp(conn, false)
			}
		}
	})
}

// Partition takes a session off the network, wherever its client connects from; see
// [Client.Partition]. New connections for the session get no answer.
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

// The methods below work on a nil Client, too: a connection that was not dialed by one.

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

// passable waits until the client is not partitioned, or ctx ends.
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

package zkserver

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A Proxy is a network between a client and a server that a test can break. It listens on a
// separate address and forwards every connection to its target.
type Proxy struct {
	tb     testing.TB
	addr   string
	target string

	requests, replies *way

	mu   sync.Mutex
	line *line // guarded by mu; nil while the proxy is cut
}

// NewProxy starts a proxy in front of target, a host:port. It ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := listen(tb.Context())
	if err != nil {
		tb.Fatalf("zkserver: proxy for %s: %v", target, err)
	}
	p := &Proxy{
		tb: tb, addr: listener.Addr().String(), target: target,
		requests: &way{gate: newGate()}, replies: &way{gate: newGate()},
	}
	p.line = p.openLine(listener)
	tb.Cleanup(p.Cut)
	return p
}

// Addr returns the host:port that clients connect to.
func (p *Proxy) Addr() string { return p.addr }

// Cut drops all connections and refuses new ones until Heal. Data in flight is lost. When Cut
// returns, nothing passes.
func (p *Proxy) Cut() {
	p.mu.Lock()
	line := p.line
	p.line = nil
	p.mu.Unlock()
	if line != nil {
		line.close()
	}
}

// Stall keeps all connections and accepts new ones, but holds back their data, in both directions,
// until Heal delivers it or Cut drops it.
func (p *Proxy) Stall() {
	p.StallRequests()
	p.StallReplies()
}

// StallRequests is Stall for the clients' packets: the server hears nothing.
func (p *Proxy) StallRequests() { p.requests.gate.setOpen(false) }

// StallReplies is Stall for the server's packets: requests are carried out, and clients do not
// learn of it.
func (p *Proxy) StallReplies() { p.replies.gate.setOpen(false) }

// Delay delivers data later by d, in each direction, until Heal.
func (p *Proxy) Delay(d time.Duration) {
	p.requests.delay.Store(int64(d))
	p.replies.delay.Store(int64(d))
}

// Heal ends a Cut, a Stall or a Delay. Data that was held back is delivered.
func (p *Proxy) Heal() {
	p.tb.Helper()
	p.Delay(0)
	p.requests.gate.setOpen(true)
	p.replies.gate.setOpen(true)

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != nil {
		return
	}
	listener, err := listenOn(p.tb.Context(), p.addr)
	if err != nil {
		p.tb.Fatalf("zkserver: heal proxy for %s: %v", p.target, err)
	}
	p.line = p.openLine(listener)
}

// A way is one direction of the network. Its gate is closed while it is stalled.
type way struct {
	gate  *gate
	delay atomic.Int64 // nanoseconds
}

// pass waits until data may be delivered. It returns false if ctx ends first.
func (w *way) pass(ctx context.Context) bool {
	if d := time.Duration(w.delay.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return false
		}
	}
	return w.gate.pass(ctx)
}

// A line is a Proxy's state from one Heal to the next Cut: a listener and its connections.
type line struct {
	listener net.Listener
	proxy    *Proxy

	cancel  context.CancelFunc // ends the connections
	running sync.WaitGroup     // the accepting goroutine, and one for each connection
}

func (p *Proxy) openLine(listener net.Listener) *line {
	ctx, cancel := context.WithCancel(context.Background())
	l := &line{listener: listener, proxy: p, cancel: cancel}
	l.running.Go(func() { l.accept(ctx) })
	return l
}

// close closes the line and waits until all its goroutines have ended.
func (l *line) close() {
	l.cancel()
	shutDown(l.listener)
	_ = l.listener.Close()
	l.running.Wait()
}

// shutDown makes the kernel refuse connections at once. Close alone would not while another test
// starts a process, which holds a copy of the listener until it executes its program.
func shutDown(listener net.Listener) {
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RD) })
}

func (l *line) accept(ctx context.Context) {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // the line is closed
		}
		l.running.Go(func() { l.connect(ctx, client) })
	}
}

// connect forwards between a client and the target until either closes its connection or the line
// is closed.
func (l *line) connect(lineCtx context.Context, client net.Conn) {
	server, err := dial(lineCtx, l.proxy.target)
	if err != nil {
		_ = client.Close()
		return
	}

	ctx, cancel := context.WithCancel(lineCtx)
	var directions sync.WaitGroup
	directions.Go(func() { defer cancel(); forward(ctx, server, client, l.proxy.requests) })
	directions.Go(func() { defer cancel(); forward(ctx, client, server, l.proxy.replies) })

	<-ctx.Done()
	hangUp := net.Conn.Close // delivers what was written before
	if lineCtx.Err() != nil {
		hangUp = reset
	}
	_ = hangUp(client)
	_ = hangUp(server)
	directions.Wait()
}

// forward copies from one connection to the other until either ends.
func forward(ctx context.Context, to, from net.Conn, w *way) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !w.pass(ctx) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// reset closes a connection so that data in flight is lost and the other side gets an error instead
// of EOF.
func reset(conn net.Conn) error {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return conn.Close()
}

// A gate blocks goroutines while it is closed.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // guarded by mu; closed while the gate is open
}

// newGate returns an open gate.
func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) setOpen(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch isOpen := isClosed(g.open); {
	case open && !isOpen:
		close(g.open)
	case !open && isOpen:
		g.open = make(chan struct{})
	}
}

// pass waits until the gate is open. It returns false if ctx ends first.
func (g *gate) pass(ctx context.Context) bool {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

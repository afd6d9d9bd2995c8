package election_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const (
	sessionTimeout = 4 * time.Second
	lease          = 3 * time.Second
	electionPath   = "/app/_leader"
)

// world is a server, contenders and a judge in a bubble. The judge uses the server's log of
// transactions and asks contenders whether they lead.
type world struct {
	*zkdev.Server

	t *testing.T

	mu         sync.Mutex
	contenders []*contender // those that are running
	terms      []led
	violations []string
	history    []string
	began      time.Time
	forced     time.Time // when a node was last deleted manually
}

// led is one term, for which Serve was called.
type led struct {
	who        string
	term       election.Term
	from, to   time.Time
	cause      error
	overlapped bool
}

// contender is a process in the world.
type contender struct {
	*election.Contender

	world   *world
	name    string
	network *zkdev.Client
	stall   *swtest.Stall
	conn    *zkconn.Conn
	off     atomic.Int64 // how far its wall clock is ahead
	leave   context.CancelFunc
	ended   chan struct{}
	err     error // of Run; valid after ended

	serving int // guarded by world.mu
}

// setup modifies a contender; the zero value modifies nothing.
type setup struct {
	serve  func(ctx context.Context, term election.Term) // default: until ctx ends
	wrap   func(election.Conn) election.Conn
	events func(zkconn.Event) bool // whether to deliver it
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		t: t, began: time.Now(),
		Server: zkdev.Start(t, zkdev.Config{NoListen: true, MaxSession: sessionTimeout}),
	}
}

// start adds a contender. It is stopped when the test ends.
func (w *world) start(name string, s setup) *contender {
	c := &contender{world: w, name: name, network: w.Client(name), stall: new(swtest.Stall), ended: make(chan struct{})}
	serve := s.serve
	if serve == nil {
		serve = func(ctx context.Context, _ election.Term) { <-ctx.Done() }
	}
	c.Contender = election.New(election.Config{
		Path: electionPath, ID: name, Logger: slog.New(slog.DiscardHandler),
		Clock: leases.NewClockOf(func() time.Duration { return time.Duration(c.off.Load()) }),
		Serve: func(ctx context.Context, term election.Term) { w.serve(ctx, c, term, serve) },
	})
	conn, err := zkconn.Open(zkconn.Config{
		Servers: "zk1", SessionTimeout: 6 * time.Second, Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := c.network.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return c.stall.Conn(roomtest.Settle(conn)), nil
		},
	}, func(ev zkconn.Event) {
		if s.events == nil || s.events(ev) {
			c.OnEvent(ev)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	c.conn = conn
	var used election.Conn = conn
	if s.wrap != nil {
		used = s.wrap(conn)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.leave = cancel
	w.mu.Lock()
	w.contenders = append(w.contenders, c)
	w.mu.Unlock()
	w.notef("%s starts", name)
	go func() {
		defer close(c.ended)
		c.err = c.Run(ctx, used)
		w.judgeEnd(c)
		conn.Close()
	}()
	w.t.Cleanup(func() {
		cancel()
		c.stall.End()
		c.network.Heal()
		<-c.ended
	})
	return c
}

// serve is the Serve of every contender.
func (w *world) serve(ctx context.Context, c *contender, term election.Term, f func(context.Context, election.Term)) {
	w.mu.Lock()
	c.serving++
	index := len(w.terms)
	w.terms = append(w.terms, led{who: c.name, term: term, from: time.Now(), overlapped: c.serving > 1})
	w.mu.Unlock()
	w.notef("%s leads, token %d", c.name, term.Token)
	w.judgeGain(c, term)
	f(ctx, term)
	w.mu.Lock()
	c.serving--
	w.terms[index].to, w.terms[index].cause = time.Now(), context.Cause(ctx)
	w.mu.Unlock()
	w.notef("%s has led: %v", c.name, context.Cause(ctx))
}

// judgeEnd checks property (5) at the end of Run.
func (w *world) judgeEnd(c *contender) {
	_, held := c.Held()
	if held {
		w.violatef("(5) %s leads when Run has returned", c.name)
	}
	for _, n := range w.queue() {
		if n.who == c.name && c.err == nil {
			w.violatef("(5) %s has left, but %s is there", c.name, n.path)
		}
	}
	w.notef("%s has left: %v", c.name, c.err)
	w.forget(c)
}

func (w *world) forget(c *contender) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.contenders = slices.DeleteFunc(w.contenders, func(other *contender) bool { return other == c })
}

// kill disconnects a contender forever. From now on it is not checked.
func (c *contender) kill() {
	c.world.notef("%s is killed", c.name)
	c.world.forget(c)
	c.network.Partition()
	c.leave()
}

// stop stops a contender and waits until it has left.
func (c *contender) stop() error {
	c.leave()
	<-c.ended
	return c.err
}

func (w *world) live() []*contender {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.contenders)
}

// leaders returns the contenders that report now that they lead.
func (w *world) leaders() []string {
	var names []string
	for _, c := range w.live() {
		if _, held := c.Held(); held {
			names = append(names, c.name)
		}
	}
	return names
}

func (w *world) led() []led {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.terms)
}

// order returns the leaders so far, in order.
func (w *world) order() []string {
	var names []string
	for _, l := range w.led() {
		names = append(names, l.who)
	}
	return names
}

// node is a child of the election's path, according to the log.
type node struct {
	path  string
	who   string
	czxid int64
}

// queue returns the children of the election's path, in the order of creation.
func (w *world) queue() []node {
	var nodes []node
	owners := make(map[string]int64)
	for _, txn := range w.Log() {
		switch {
		case txn.Code != 0:
		case txn.Op == zkdev.OpCloseSession:
			nodes = slices.DeleteFunc(nodes, func(n node) bool { return owners[n.path] == txn.Session })
		case txn.Op == zkdev.OpDelete:
			nodes = slices.DeleteFunc(nodes, func(n node) bool { return n.path == txn.Path })
		case txn.Op == zkdev.OpCreate && strings.HasPrefix(txn.Path, electionPath+"/"):
			nodes = append(nodes, node{txn.Path, string(txn.Data), txn.Zxid})
			owners[txn.Path] = txn.Owner
		}
	}
	return nodes
}

func (w *world) queued() []string {
	var names []string
	for _, n := range w.queue() {
		names = append(names, n.who)
	}
	return names
}

// wantQueued expects these contenders to have a node each, in this order.
func (w *world) wantQueued(names ...string) {
	w.t.Helper()
	if got := w.queued(); !slices.Equal(got, names) {
		w.t.Errorf("after %v: queue %q, want %q", time.Since(w.began), got, names)
	}
}

// judgeGain checks the properties of TestElectionUnderFaults when a term begins.
func (w *world) judgeGain(c *contender, term election.Term) {
	w.judge()
	nodes := w.queue()
	if _, held := c.Held(); held && slices.Contains(w.live(), c) &&
		(len(nodes) == 0 || nodes[0].path != term.Node) {
		w.violatef("(3) %s leads with %s; queue: %v", c.name, term.Node, nodes)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.terms[len(w.terms)-1]
	for _, former := range w.terms[:len(w.terms)-1] {
		if former.term.Token > term.Token || former.term.Token == term.Token && former.who != c.name {
			w.violations = append(w.violations, fmt.Sprintf("(2) token %d of %s follows %d of %s", term.Token, c.name, former.term.Token, former.who))
		}
	}
	if last.overlapped {
		w.violations = append(w.violations, fmt.Sprintf("(4) a term of %s begins while it serves another", c.name))
	}
}

// judge counts the current leaders, unless a node was just deleted manually, of which a leader may
// not have been notified yet.
func (w *world) judge() {
	w.mu.Lock()
	forced := time.Now().Equal(w.forced)
	w.mu.Unlock()
	if leaders := w.leaders(); len(leaders) > 1 && !forced {
		w.violatef("(1) %v lead at once", leaders)
	}
}

func (w *world) violatef(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf("%v: ", time.Since(w.began))+fmt.Sprintf(format, args...))
}

func (w *world) notef(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, fmt.Sprintf("%12v  ", time.Since(w.began))+fmt.Sprintf(format, args...))
}

// report fails the test if there were violations.
func (w *world) report() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.violations) > 0 {
		w.t.Errorf("%s\n%s", strings.Join(w.violations, "\n"), strings.Join(w.history, "\n"))
	}
}

// wantLeader expects that only one contender leads now.
func (w *world) wantLeader(name string) {
	w.t.Helper()
	if got := w.leaders(); !slices.Equal(got, []string{name}) {
		w.t.Errorf("after %v: %q lead, want %s", time.Since(w.began), got, name)
	}
}

func wantCause(t *testing.T, l led, want error) {
	t.Helper()
	if !errors.Is(l.cause, want) {
		t.Errorf("the term of %s ended for %v, want %v", l.who, l.cause, want)
	}
}

// hand is a connection that is not a contender's.
func (w *world) hand() *zkconn.Conn {
	w.t.Helper()
	conn, err := zkconn.Open(zkconn.Config{
		Servers: "zk1", SessionTimeout: sessionTimeout, Dial: w.Dial, Logger: slog.New(slog.DiscardHandler),
	}, func(zkconn.Event) {})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(conn.Close)
	return conn
}

// delete deletes nodes manually, one after the other in an instant.
func (w *world) delete(conn *zkconn.Conn, paths ...string) {
	w.t.Helper()
	var ops []zkconn.Op
	for _, path := range paths {
		ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion))
	}
	w.mu.Lock()
	w.forced = time.Now()
	w.mu.Unlock()
	if _, err := conn.Multi(w.t.Context(), ops...); err != nil {
		w.t.Fatal(err)
	}
}

package main

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

// The points of a run at which a fault comes.
const (
	atClaim     = "claim"           // the request that claims the tick is sent, or its answer is awaited
	atBegin     = "BEGIN"           // of the transaction, before or after it
	atStatement = "statement"       // of the handler, before or after it
	atCommit    = "COMMIT sent"     // its answer is awaited
	atCommitted = "COMMIT answered" // the handler has not returned
	atResult    = "result"          // the request that records it is sent, or its answer is awaited
)

// The faults.
const (
	faultKill = "kill -9"
	faultStop = "SIGSTOP"
	faultCut  = "network cut" // silence, of ZooKeeper or of the database
)

// cutTime is longer than a session, and shorter than once.Do asks about a COMMIT.
const cutTime = 2 * time.Second

// A saboteur brings a fault upon its own process, when a run comes to a point.
type saboteur struct {
	zk, db network

	mu           sync.Mutex
	fault, point string           // the next one; empty: none
	atDB         bool             // which network is cut
	runs         map[string]int64 // the ticks, by slot, of handlers that were called
	ended        map[string]int64 // the same, of those that have returned since, without a result
}

func (s *saboteur) arm(fault, point string, atDB bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.point, s.atDB = fault, point, atDB
}

// at is called when a run comes to a point.
func (s *saboteur) at(point, slot string, tick int64) {
	s.mu.Lock()
	fault, atDB := s.fault, s.atDB
	hit := fault != "" && s.point == point
	if hit {
		s.fault = ""
	}
	s.mu.Unlock()
	if !hit {
		return
	}
	fmt.Printf("hit\t%s\t%d\n", slot, tick)
	switch fault {
	case faultKill:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case faultStop:
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case faultCut:
		cut := &s.zk
		if atDB {
			cut = &s.db
		}
		cut.cut()
		time.AfterFunc(cutTime, func() {
			cut.heal()
			fmt.Println("healed")
		})
	}
}

// handler brings the points of a handler about.
func (s *saboteur) handler(h singleworker.Handler) singleworker.Handler {
	set := func(run *singleworker.Run, to, from map[string]int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		to[run.Slot] = run.Tick.UnixMilli()
		delete(from, run.Slot)
	}
	return func(ctx context.Context, run *singleworker.Run) error {
		set(run, s.runs, s.ended)
		defer set(run, s.ended, s.runs)
		return h(context.WithValue(ctx, saboteurKey{}, run), run)
	}
}

// saboteurKey is the key of a context's run.
type saboteurKey struct{}

var tickNode = regexp.MustCompile(`(?s)/(charge-[0-9]+)/tick.*?"tick":([0-9]+)`)

// request is the point of a request to ZooKeeper, if it is a transaction with a tick record.
func (s *saboteur) request(frame []byte) (point, slot string, tick int64) {
	const multi = 14
	if len(frame) < 12 || binary.BigEndian.Uint32(frame[8:]) != multi || !bytes.Contains(frame, []byte("/tick")) {
		return "", "", 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	point = atClaim
	for _, found := range tickNode.FindAllSubmatch(frame, -1) {
		slot = string(found[1])
		tick, _ = strconv.ParseInt(string(found[2]), 10, 64)
		if s.ended[slot] == tick {
			return atResult, slot, tick
		}
	}
	if slot == "" || s.runs[slot] == tick {
		return "", "", 0
	}
	return point, slot, tick
}

// sometimes has a point come before something happens, or after it.
func sometimes(at, do func()) {
	if rand.N(2) == 0 {
		at()
		do()
		return
	}
	do()
	at()
}

// A network has the connections of a process to a server.
type network struct {
	mu     sync.Mutex
	conns  map[*cutConn]struct{}
	healed chan struct{} // closed when it is; nil: nothing is cut
}

// A cutConn hears nothing any more, and is not heard, once its network was cut.
type cutConn struct {
	net.Conn

	of     *network
	s      *saboteur
	silent atomic.Bool
}

var errCut = errors.New("the network was cut")

func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.healed = make(chan struct{})
	for c := range n.conns {
		c.silent.Store(true)
	}
}

// heal lets new connections through. Those from before are closed.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.healed)
	n.healed = nil
	for c := range n.conns {
		if c.silent.Load() {
			_ = c.Conn.Close()
			delete(n.conns, c)
		}
	}
}

// dial connects when the network is not cut.
func (n *network) dial(ctx context.Context, s *saboteur, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	healed := n.healed
	n.mu.Unlock()
	if healed != nil {
		select {
		case <-healed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	conn, err := new(net.Dialer).DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c := &cutConn{Conn: conn, of: n, s: s}
	c.silent.Store(n.healed != nil)
	if n.conns == nil {
		n.conns = make(map[*cutConn]struct{})
	}
	n.conns[c] = struct{}{}
	return c, nil
}

func (c *cutConn) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.silent.Load() && c.of.healed != nil { // the server does not hear of it before
		_ = c.SetDeadline(time.Unix(1, 0))
		return nil
	}
	delete(c.of.conns, c)
	return c.Conn.Close()
}

func (c *cutConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if !c.silent.Load() {
			return n, err
		}
		if err != nil {
			return 0, errors.Join(errCut, err)
		}
	}
}

func (c *cutConn) Write(b []byte) (n int, err error) {
	write := func() {
		if n = len(b); !c.silent.Load() {
			n, err = c.Conn.Write(b)
		}
	}
	if c.of == &c.s.zk {
		if point, slot, tick := c.s.request(b); point != "" {
			sometimes(func() { c.s.at(point, slot, tick) }, write)
			return n, err
		}
	}
	write()
	return n, err
}

// A pointed is a connector of a database with the points of its transactions.
type pointed struct {
	driver.Connector

	s *saboteur
}

type pointedConn struct {
	driver.Conn

	s *saboteur
}

type pointedTx struct {
	driver.Tx

	s   *saboteur
	run *singleworker.Run
}

// connector connects as sql.Open does, through the network that can be cut.
func (s *saboteur) connector(g target) (driver.Connector, error) {
	var inner driver.Connector
	switch g.d {
	case once.Postgres:
		cfg, err := pgx.ParseConfig(g.dsn)
		if err != nil {
			return nil, err
		}
		cfg.DialFunc = func(ctx context.Context, kind, address string) (net.Conn, error) {
			return s.db.dial(ctx, s, kind, address)
		}
		inner = stdlib.GetConnector(*cfg)
	case once.MySQL:
		cfg, err := mysql.ParseDSN(g.dsn)
		if err != nil {
			return nil, err
		}
		cfg.DialFunc = func(ctx context.Context, kind, address string) (net.Conn, error) {
			return s.db.dial(ctx, s, kind, address)
		}
		if inner, err = mysql.NewConnector(cfg); err != nil {
			return nil, err
		}
	case once.SQLite:
		inner = &wire{driver: g.raw.Driver(), dsn: g.dsn}
	}
	return &pointed{inner, s}, nil
}

func (p *pointed) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &pointedConn{c, p.s}, nil
}

func (c *pointedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query) //nolint:forcetypeassert // all three do
}

// IsValid keeps a connection that is broken out of the pool.
func (c *pointedConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

func (c *pointedConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *pointedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	begin := func() { tx, err = c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts) } //nolint:forcetypeassert // as above
	run, ok := ctx.Value(saboteurKey{}).(*singleworker.Run)
	if !ok { // a resolver's
		begin()
		return tx, err
	}
	sometimes(func() { c.s.at(atBegin, run.Slot, run.Tick.UnixMilli()) }, begin)
	if err != nil {
		return nil, err
	}
	return &pointedTx{tx, c.s, run}, nil
}

func (tx *pointedTx) Commit() error {
	tick := tx.run.Tick.UnixMilli()
	if rand.N(2) == 0 { // a little later than it is sent
		time.AfterFunc(rand.N(time.Millisecond), func() { tx.s.at(atCommit, tx.run.Slot, tick) })
	} else {
		go tx.s.at(atCommit, tx.run.Slot, tick)
	}
	err := tx.Tx.Commit()
	if err == nil {
		tx.s.at(atCommitted, tx.run.Slot, tick)
	}
	return err
}

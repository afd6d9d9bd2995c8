package diff

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

var (
	operations = flag.Int("diff.n", 10_000, "operations that are compared")
	seed       = flag.Uint64("diff.seed", 1, "seed of the operations")

	historyFile = flag.String("diff.history", "", "file for all operations up to the first difference")
)

func TestMain(m *testing.M) { os.Exit(zkserver.Main(m.Run)) }

// TestDifferential sends the same operations to zkdev and to a real ZooKeeper and
// compares, byte by byte:
//
//  1. every reply: its error, its zxid, its record;
//  2. every field of every stat, with sessions numbered alike; times must be equal wherever
//     one transaction is seen twice;
//  3. every watch event, and its place among the replies of its connection;
//  4. whether a connection is closed after a protocol error.
//
// Sessions are opened, closed, moved between connections and left to expire.
func TestDifferential(t *testing.T) {
	server := zkserver.Start(t)
	dev := zkdev.Start(t, zkdev.Config{})
	w := &world{
		t: t, g: newGenerator(*seed), seed: *seed,
		real: &side{name: "real", addr: server.Addr(), view: newView()},
		dev:  &side{name: "dev", addr: dev.Addr(), view: newView()},
	}
	begin := time.Now()
	w.run(*operations)
	t.Logf("%d operations, seed %d: no difference (%v)", *operations, *seed, time.Since(begin).Round(time.Millisecond))
}

// run makes steps up to a number of operations.
func (w *world) run(n int) {
	w.begin()
	defer func() {
		for slot := range slots {
			w.hangUp(slot)
		}
	}()
	const expireEvery = 2500
	for w.step = 1; int(w.xid) < n; w.step++ {
		slot := w.g.IntN(slots)
		if w.real.peers[slot] == nil {
			w.note(slot, "connect")
			w.connect(slot, false, longSession, !w.g.oneIn(4))
		}
		switch k := w.g.IntN(1000); {
		case k < 900:
			w.single(slot)
		case k < 950:
			w.burst(slot)
		case k < 965:
			w.reconnect(slot)
		case k < 975:
			w.closeSession(slot)
		case k < 980:
			w.offend(slot)
		case k < 983:
			w.wrongPassword(slot)
		default:
			w.pingAll()
		}
		if w.step%40 == 0 {
			w.pingAll()
		}
		if w.step%1500 == 0 || len(w.g.known) > 150 {
			w.g.moveOn()
		}
		if w.step%expireEvery == expireEvery/2 {
			w.expire()
		}
	}
	w.pingAll()
}

// begin opens the first session on both sides and determines the difference of their zxids.
func (w *world) begin() {
	for _, s := range w.sides() {
		p, _, err := dial(s.addr, 0, 0, make([]byte, 16), longSession, true)
		if err != nil {
			w.failf("connect to %s: %v", s.name, err)
		}
		var b buf
		if err := p.send(*b.i32(xidPing).i32(opPing)); err != nil {
			w.failf("ping %s: %v", s.name, err)
		}
		frames, err := p.replies(xidPing)
		if err != nil {
			w.failf("ping %s: %v", s.name, err)
		}
		s.view.zxid0 = frames[0].zxid
		s.view.addSession(p.session)
		s.peers[0] = p
	}
}

func (w *world) single(slot int) {
	o := w.g.next()
	answers, _ := w.do(slot, o)
	w.learn(o, answers)
}

// burst sends several operations at once. It excludes two kinds, for which the behavior of a real
// server depends on thread scheduling: auth may be answered before earlier requests, and writes
// after a setACL may still see the old ACL.
func (w *world) burst(slot int) {
	var ops []op
	for range 2 + w.g.IntN(6) {
		if o := w.g.next(); o.code != opAuth && o.code != opSetACL && o.code != opPing {
			ops = append(ops, o)
		}
	}
	w.do(slot, append(ops, op{code: opPing, name: "end of burst"})...)
}

func (w *world) reconnect(slot int) {
	w.note(slot, "reconnect")
	w.connect(slot, true, longSession, !w.g.oneIn(4))
	if w.g.oneIn(2) {
		w.do(slot, w.g.setWatches(int64(w.g.IntN(50))))
	}
}

func (w *world) closeSession(slot int) {
	w.do(slot, op{code: opCloseSession, name: "close session"})
	if w.g.oneIn(4) {
		w.note(slot, "come back to a session that is over")
		w.connect(slot, true, longSession, true)
	}
	w.hangUp(slot)
	w.pingAll()
}

// offend sends a protocol error, which makes the server close the connection. The session stays
// alive.
func (w *world) offend(slot int) {
	o := op{code: opUnknown, name: "unknown operation"}
	if w.g.oneIn(2) {
		o = op{code: opAuth, name: "unknown auth scheme"}
		o.record.i32(0).str("nonsense").str("x")
	}
	if _, closed := w.do(slot, o); !closed {
		w.failf("%s does not close the connection", o.name)
	}
	w.reconnect(slot)
}

// wrongPassword tries to take a session over, which costs its client the connection.
func (w *world) wrongPassword(slot int) {
	w.note(slot, "reconnect with a wrong password")
	var passwords [2][]byte
	var ids [2]int64
	for i, s := range w.sides() {
		ids[i], passwords[i] = s.peers[slot].session, s.peers[slot].password
		s.peers[slot].password = make([]byte, 16)
	}
	w.connect(slot, true, longSession, true)
	for i, s := range w.sides() {
		s.peers[slot] = &peer{session: ids[i], password: passwords[i], conn: nobody{}}
	}
	w.reconnect(slot)
}

// expire lets a session with ephemeral nodes time out.
func (w *world) expire() {
	const slot = 0
	if w.real.peers[slot] != nil {
		w.closeSession(slot)
	}
	w.pingAll()
	w.note(slot, "connect, to expire")
	w.connect(slot, false, shortSession, true)
	w.fillSession(slot)
	var before [2]int
	for i, s := range w.sides() {
		before[i] = w.sessionsLeft(s)
	}
	w.note(slot, "fall silent")
	w.hangUp(slot)
	w.awaitExpiry(before)
	w.pingAll()
}

// fillSession creates ephemeral nodes and deletes most of them again. Session 1
// watches the others.
func (w *world) fillSession(slot int) {
	n := 3 + w.g.IntN(60)
	for i := range n {
		path := fmt.Sprintf("/expire%d", i)
		o := op{code: opCreate, name: "create ephemeral " + path, zxidAt: -1}
		o.record.str(path).bytes(nil).i32(1).i32(31).str("world").str("anyone").i32(1)
		w.do(slot, o)
	}
	for i := range n {
		path := fmt.Sprintf("/expire%d", i)
		if i > 2 && !w.g.oneIn(3) {
			o := op{code: opDelete, name: "delete " + path, zxidAt: -1}
			o.record.str(path).i32(-1)
			w.do(slot, o)
			continue
		}
		o := op{code: opExists, name: "watch " + path, zxidAt: -1}
		o.record.str(path).bool(true)
		if w.real.peers[1] != nil {
			w.do(1, o)
		}
	}
}

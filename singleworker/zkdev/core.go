package zkdev

import (
	"net"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// maxReports is how many connections that the server closes it logs each minute.
const maxReports = 20

// A core is the state that one goroutine at a time owns: the state machine, its connections and the
// levers of tests. It survives a restart.
type core struct {
	timers

	config Config
	state  *tree.State
	disk   *disk        // nil without a Store
	clock  *steadyClock // likewise

	conns    map[tree.Conn]*conn // those with a reader
	attached map[int64]*conn     // by session
	controls controls
	cut      map[int64]bool // partitioned sessions
	behind   map[*Client]*follower
	readOnly bool      // see SetReadOnly
	before   *Snapshot // as it was when it became so

	log     transcript
	reports struct { // of this minute
		since time.Time
		n     int
	}
	begun          time.Time // start of this life
	received, sent int
	traffic        Traffic // of all lives
}

func newCore(config Config, now time.Time) *core {
	k := &core{
		config:   config,
		log:      transcript{limit: config.KeepLog},
		state:    tree.New(now, config.Tick),
		disk:     newDisk(config.Store),
		conns:    map[tree.Conn]*conn{},
		attached: map[int64]*conn{},
		cut:      map[int64]bool{},
		traffic:  Traffic{Requests: map[Op]int{}, Parts: map[Op]int{}},
		behind:   map[*Client]*follower{},
	}
	if config.Store != nil {
		k.clock = &steadyClock{logger: config.Logger}
	}
	return k
}

// now reads the clock. The state writes the times of nodes by the one of the server.
func (k *core) now() time.Time {
	now := time.Now()
	if k.clock != nil {
		k.state.Ahead = k.clock.at(now).Sub(now)
	}
	return now
}

// start starts a life.
func (k *core) start(now time.Time) {
	k.begun = now
	k.state.TouchAll(now)
	k.alarm = time.Time{}
	k.awaitExpiry()
}

// stop ends a life. The connections are closed already.
func (k *core) stop() {
	for _, c := range k.conns {
		k.detach(c)
	}
	clear(k.conns)
	for _, f := range k.behind {
		k.catchUp(f, k.state.Zxid())
	}
	k.delays = nil
}

// meet adds a connection whose reader is about to start.
func (k *core) meet(c *conn) { k.conns[c.id] = c }

// gone removes a connection whose reader has ended.
func (k *core) gone(c *conn) {
	k.detach(c)
	delete(k.conns, c.id)
	k.disk.finish(c.out)
}

// detach separates a connection from its session, which stays alive.
func (k *core) detach(c *conn) {
	if c.detached {
		return
	}
	c.detached = true
	c.held = backlog{}
	k.state.DropConn(c.id)
	if f := k.behind[c.client]; f != nil {
		f.state.DropConn(c.id)
	}
	if k.attached[c.session] == c {
		delete(k.attached, c.session)
	}
}

// hangUp closes a connection: with flush after everything has been sent, else at once. A
// partitioned client notices it when the partition heals.
func (k *core) hangUp(c *conn, flush bool) {
	k.detach(c)
	switch {
	case k.isCut(c):
		c.closing = true
	case flush && (c.muted > 0 || !c.unsent.isEmpty()):
		c.closing = true
	case flush:
		k.disk.finish(c.out)
	default:
		c.out.cut()
	}
}

// giveUp cuts a connection, even a partitioned one, because too much is held back for it.
func (k *core) giveUp(c *conn) {
	k.detach(c)
	c.unsent, c.closing = backlog{}, true
	c.out.cut()
}

// complain logs a protocol error of a client and closes its connection.
func (k *core) complain(c *conn, err error) {
	k.report(c.nc, c.session, err)
	k.hangUp(c, false)
}

// report logs why a client is refused. A client that tries for ever must not fill a disk.
func (k *core) report(client net.Conn, session int64, err error) {
	if now := time.Now(); now.Sub(k.reports.since) >= time.Minute {
		k.reports.since, k.reports.n = now, 0
	}
	if k.reports.n++; k.reports.n > maxReports {
		return
	}
	k.config.Logger.Warn("zkdev: connection closed", "client", client.RemoteAddr(), "session", session, "err", err)
	if k.reports.n == maxReports {
		k.config.Logger.Warn("zkdev: connections that are closed in the rest of this minute are not logged")
	}
}

// send sends a frame, or holds it back during a partition or a delay.
func (k *core) send(c *conn, frame []byte) {
	if k.isCut(c) || c.muted > 0 {
		if c.closing {
			return
		}
		if c.unsent.add(frame); c.unsent.bytes > maxHeldBytes {
			k.giveUp(c)
		}
		return
	}
	k.sent++
	k.disk.put(c.out, frame)
}

// release sends the frames that were held back, unless there is still a reason to hold them.
func (k *core) release(c *conn) {
	if k.isCut(c) || c.muted > 0 {
		return
	}
	unsent := c.unsent.frames
	c.unsent = backlog{}
	for _, frame := range unsent {
		k.sent++
		k.disk.put(c.out, frame)
	}
	if c.closing {
		k.disk.finish(c.out)
		return
	}
	k.drain(c)
}

// frame handles a frame from a connection's reader.
func (k *core) frame(c *conn, message []byte) {
	k.received++
	if c.detached {
		return
	}
	if c.ready && !k.isCut(c) {
		// The arrival of a frame keeps the session alive, however long the frame is then
		// held.
		k.state.Touch(k.now(), c.session, c.timeout)
	}
	c.held.add(message)
	if len(c.held.frames) > maxHeld || c.held.bytes > maxHeldBytes {
		k.giveUp(c)
		return
	}
	k.drain(c)
}

// drain handles the held frames until one of them must be held again.
func (k *core) drain(c *conn) {
	for !c.held.isEmpty() && !c.paused && !k.isCut(c) {
		message := c.held.take()
		if c.ready {
			k.request(c, message)
		} else if !k.connect(c, message) {
			c.held.putBack(message) // the session it asks for is partitioned
			return
		}
		if c.detached {
			return
		}
	}
}

// pause holds a connection's requests for d, then calls then.
func (k *core) pause(c *conn, d time.Duration, then func()) {
	c.paused = true
	k.after(d, func() {
		c.paused = false
		if c.detached {
			return
		}
		then()
		if !c.detached {
			k.drain(c)
		}
	})
}

// wake runs everything that is due.
func (k *core) wake(now time.Time) {
	k.ring(now)
	if k.readOnly {
		return // it takes a quorum to end a session
	}
	for _, id := range k.state.Expired(now) {
		k.endSession(now, id, true)
	}
	k.awaitExpiry()
}

// awaitExpiry sets the alarm for the next session that can expire. Activity only makes sessions
// expire later.
func (k *core) awaitExpiry() {
	if next, ok := k.state.NextExpiry(); ok && !k.readOnly {
		k.wakeAt(next)
	}
}

// deliver logs the transactions and sends the watch events. Clients whose servers are behind see
// them later.
func (k *core) deliver(out tree.Output) {
	k.log.add(out.Txns, k.state.Ahead)
	k.disk.log(out.Txns)
	for _, f := range k.behind {
		k.follow(f, out.Txns)
	}
	k.notify(out)
}

func (k *core) notify(out tree.Output) {
	for _, event := range out.Events {
		if c := k.conns[event.Conn]; c != nil && !c.detached && event.VisibleTo(c.ids) {
			k.send(c, wire.EventFrame(event.Type, event.Path))
		}
	}
}

package zkdev

import (
	"cmp"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/tree"
	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// A core is what one goroutine at a time owns: the state machine, and who is connected
// to it. It outlives a restart.
type core struct {
	config Config
	state  *tree.State

	conns    map[tree.Conn]*conn // those with a reader
	attached map[int64]*conn     // by session
	controls []*control
	cut      map[int64]bool // sessions that are partitioned

	alarm  time.Time // when wake is to be called; zero for never
	delays []delay   // sorted by time

	log            []Txn
	begun          time.Time // of this life
	received, sent int
}

// A delay is something to be done later.
type delay struct {
	at time.Time
	do func()
}

func newCore(config Config, now time.Time) *core {
	return &core{
		config:   config,
		state:    tree.New(now, config.Tick),
		conns:    map[tree.Conn]*conn{},
		attached: map[int64]*conn{},
		cut:      map[int64]bool{},
	}
}

// start begins a life.
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
	k.delays = nil
}

// meet is the first that is heard of a connection: its reader is about to begin.
func (k *core) meet(c *conn) { k.conns[c.id] = c }

// gone is the last: its reader has ended.
func (k *core) gone(c *conn) {
	k.detach(c)
	delete(k.conns, c.id)
}

// detach takes a connection out of the game. Its session lives on.
func (k *core) detach(c *conn) {
	if c.detached {
		return
	}
	c.detached = true
	c.held = backlog{}
	k.state.DropConn(c.id)
	if k.attached[c.session] == c {
		delete(k.attached, c.session)
	}
}

// hangUp ends a connection, after what was sent before or at once. The client of a
// partitioned one will hear of it when the partition is healed.
func (k *core) hangUp(c *conn, flush bool) {
	k.detach(c)
	switch {
	case k.isCut(c):
		c.closing = true
	case flush && (c.muted > 0 || !c.unsent.isEmpty()):
		c.closing = true
	case flush:
		c.out.finish()
	default:
		c.out.cut()
	}
}

// giveUp cuts a connection for which too much waits, even a partitioned one.
func (k *core) giveUp(c *conn) {
	k.detach(c)
	c.unsent, c.closing = backlog{}, true
	c.out.cut()
}

// complain logs a client that broke the protocol, and ends its connection.
func (k *core) complain(c *conn, err error) {
	k.config.Logger.Warn("zkdev: connection closed", "client", c.nc.RemoteAddr(), "session", c.session, "err", err)
	k.hangUp(c, false)
}

// send sends a frame, or keeps it while nothing gets through.
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
	c.out.put(frame)
}

// release sends what was kept, if nothing keeps it any more.
func (k *core) release(c *conn) {
	if k.isCut(c) || c.muted > 0 {
		return
	}
	unsent := c.unsent.frames
	c.unsent = backlog{}
	for _, frame := range unsent {
		k.sent++
		c.out.put(frame)
	}
	if c.closing {
		c.out.finish()
		return
	}
	k.drain(c)
}

// frame takes a frame from a connection's reader.
func (k *core) frame(c *conn, message []byte) {
	k.received++
	if c.detached {
		return
	}
	if c.ready && !k.isCut(c) {
		// A session is heard from when its client's frame arrives, however long
		// it then has to wait.
		k.state.Touch(time.Now(), c.session, c.timeout)
	}
	c.held.add(message)
	if len(c.held.frames) > maxHeld || c.held.bytes > maxHeldBytes {
		k.giveUp(c)
		return
	}
	k.drain(c)
}

// drain handles the frames that wait, until something makes them wait again.
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

// pause lets a connection's requests wait for a time, and calls then.
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

func (k *core) after(d time.Duration, do func()) {
	at := time.Now().Add(d)
	i, _ := slices.BinarySearchFunc(k.delays, at, func(a delay, t time.Time) int {
		return cmp.Or(a.at.Compare(t), -1) // after those of the same time
	})
	k.delays = slices.Insert(k.delays, i, delay{at: at, do: do})
	k.wakeAt(at)
}

func (k *core) wakeAt(t time.Time) {
	if k.alarm.IsZero() || t.Before(k.alarm) {
		k.alarm = t
	}
}

// wake does what is due. What was not meant to happen earlier is never done
// earlier, so an alarm that comes too soon does no harm.
func (k *core) wake(now time.Time) {
	k.alarm = time.Time{}
	for len(k.delays) > 0 && !k.delays[0].at.After(now) {
		do := k.delays[0].do
		k.delays = k.delays[1:]
		do()
	}
	for _, id := range k.state.Expired(now) {
		k.endSession(now, id, true)
	}
	if len(k.delays) > 0 {
		k.wakeAt(k.delays[0].at)
	}
	k.awaitExpiry()
}

// awaitExpiry sets the alarm for the next session that may end. Sessions that are
// heard from meanwhile only end later.
func (k *core) awaitExpiry() {
	if next, ok := k.state.NextExpiry(); ok {
		k.wakeAt(next)
	}
}

// deliver logs what happened and tells whoever watches.
func (k *core) deliver(out tree.Output) {
	k.record(out.Txns)
	for _, event := range out.Events {
		if c := k.conns[event.Conn]; c != nil && !c.detached && event.VisibleTo(c.ids) {
			k.send(c, wire.EventFrame(event.Type, event.Path))
		}
	}
}

func (k *core) record(txns []tree.Txn) {
	limit := k.config.KeepLog
	if limit < 0 {
		return
	}
	for i := range txns {
		k.log = append(k.log, newTxn(&txns[i]))
	}
	if len(k.log)/2 >= limit {
		k.log = slices.Clone(k.log[len(k.log)-limit:])
	}
}

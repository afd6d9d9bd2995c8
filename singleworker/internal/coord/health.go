package coord

import (
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Observer is told of events that concern the instance as a whole, on the loop.
type Observer interface {
	// SessionChanged tells that the session is in another state, with the timeout that is granted.
	SessionChanged(to session.State, timeout time.Duration)
	// Leads tells that a term as the leader has begun, in latch mode.
	Leads(token int64)
	// LeadsNoMore tells that it has ended, and why.
	LeadsNoMore(token int64, cause error)
	// TakenOver tells that this instance has taken a slot from an owner that had sent no heartbeat for
	// it for so long.
	TakenOver(silent time.Duration)
	// ClockChanged tells that this instance's wall clock is found to be wrong, or to be right again,
	// and how far it is ahead of ZooKeeper's.
	ClockChanged(wrong bool, ahead offset.Interval)
}

// Never is the time of an event that has not happened.
const Never time.Duration = -1

// unknown is the health of an instance that has yet to connect.
var unknown = Health{Session: session.Connecting, Since: Never, Synced: Never, Claimed: Never}

// Health is the state of an instance in its own view. Times are on Mono.
type Health struct {
	Now     time.Duration // when Health was called
	Turned  time.Duration // when the loop has turned last
	Session session.State // not Reconnected
	Since   time.Duration // when Session began, or Never
	Timeout time.Duration // of the session as granted last; 0 before
	Joined  bool
	Read    bool   // the jobs were read since the start
	State   string // as the instance's record has it
	Owned   int
	Leads   bool          // in latch mode
	Synced  time.Duration // when the last sync as a member was, or Never
	Claimed time.Duration // when a tick was claimed last, or Never
}

// pulse is how often the loop turns at least, so that one that hangs is noticed.
const pulse = 15 * time.Second

// health is the state behind Health. published is read by anybody, the rest belongs to the loop.
type health struct {
	published atomic.Pointer[Health]
	turned    atomic.Int64 // Mono, in nanoseconds

	latest Health
}

// Health says how the instance does, also when its loop hangs. It may be called by anybody.
func (c *Coordinator) Health() Health {
	h := unknown
	if latest := c.health.published.Load(); latest != nil {
		h = *latest
	}
	h.Turned = time.Duration(c.health.turned.Load()) // before Now
	h.Now = c.loop.Now()
	return h
}

// publishHealth is called at the end of each turn.
func (c *Coordinator) publishHealth() {
	h := &c.health.latest
	h.Joined, h.Read = c.loop.Joined(), c.catalog.Survey.Complete()
	h.State, h.Owned = c.member.State(), c.owner.Count()
	if last := c.health.published.Load(); last == nil || *last != *h {
		now := *h
		c.health.published.Store(&now)
	}
	c.health.turned.Store(int64(c.loop.Now()))
}

// observeSession follows the state of the session.
func (c *Coordinator) observeSession(ev zkconn.Event) {
	h := &c.health.latest
	var to session.State
	switch {
	case ev.Kind == zkconn.Connected && h.Session == session.Suspended:
		to = session.Reconnected
	case ev.Kind == zkconn.Connected:
		to = session.Connected
	case ev.Kind == zkconn.Disconnected:
		to = session.Suspended
	case ev.Kind == zkconn.Expired:
		to = session.Expired
	default:
		return
	}
	h.Session, h.Since = to, c.loop.Now()
	if to == session.Reconnected {
		h.Session = session.Connected
	}
	if ev.Kind == zkconn.Connected {
		h.Timeout = c.loop.Conn.SessionTimeout()
	}
	c.observer.SessionChanged(to, h.Timeout)
}

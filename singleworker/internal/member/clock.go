package member

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Ticks are judged by the wall clocks of instances, which may be wrong. Each instance compares its clock with ZooKeeper's
// in the answers to its writes (session.ServerClock), publishes the difference, and is closed while that is
// certainly larger than the limit. If the clocks of all instances differ from ZooKeeper's, and those of most in the same way,
// it is ZooKeeper's that is wrong, and these are not closed.

// ClockChanged tells that this instance's clock is found to be wrong, or to be right again, and how far it is ahead.
type ClockChanged struct {
	Wrong  bool
	Offset offset.Interval
}

// Clock is what this instance knows of its wall clock and of those of others.
type Clock struct {
	member *Member
	limit  time.Duration // how far the clocks may differ; zero or less: as far as they like

	wrong     bool                     // beyond the limit
	agreed    bool                     // but ZooKeeper's clock is, as last logged
	peers     map[string]time.Duration // by sid: the offsets that other live instances publish
	told      time.Duration            // the offset and its bound that this one publishes
	toldBound time.Duration
	toldAt    time.Duration // Mono
	comparing session.OnePerTime
}

const (
	// compareEvery is how many sync periods pass before an instance that writes nothing compares clocks nevertheless.
	compareEvery = 60
	// tellEvery is for how many sync periods, at least, a published offset stays as it is: the others read each one.
	tellEvery = 5
	// offsetStep is what published offsets are multiples of.
	offsetStep = 10 * time.Millisecond
)

// follow takes in what the others publish.
func (c *Clock) follow(self string, records map[string]instanceRead) {
	c.peers = make(map[string]time.Duration, len(records))
	for sid, i := range records {
		if sid != self && !errors.Is(i.err, errNoSession) {
			c.peers[sid] = time.Duration(i.ClockOffset)
		}
	}
}

// serverOff is by how much ZooKeeper's clock is behind those of most instances, this one among them, if it agrees with none.
// Then ZooKeeper's is the one that is wrong. A single instance cannot tell.
func (c *Clock) serverOff(is offset.Interval) (off time.Duration, agreed bool) {
	off = is.Mid()
	agree := 1
	for _, theirs := range c.peers {
		if theirs.Abs() <= c.limit {
			return 0, false
		}
		if (theirs - is.Mid()).Abs() > c.limit {
			continue
		}
		agree++
		if theirs.Abs() < off.Abs() {
			off = theirs
		}
	}
	if agree == 1 || 2*agree <= len(c.peers)+1 {
		return 0, false
	}
	return off, true
}

// TooEarly reports whether this instance's clock may be so far ahead that a tick must not be accounted for, although
// it has come by that clock: what is claimed once stays claimed.
func (c *Clock) TooEarly(tick time.Time) bool {
	is, known := c.member.loop.Server.Offset()
	if !known || c.limit <= 0 {
		return false
	}
	off, _ := c.serverOff(is)
	if !c.wrong {
		off = 0
	}
	return tick.Sub(c.member.loop.Clock.Wall().Add(off-is.High)) > c.limit
}

// Behind is how far the clock of an instance is behind ZooKeeper's, by what it publishes, up to the limit.
func (c *Clock) Behind(sid string) time.Duration {
	behind := max(0, -c.peers[sid])
	if c.limit > 0 {
		behind = min(behind, c.limit)
	}
	return behind
}

// Check closes this instance when its clock is wrong, opens it when it is right again, and publishes the offset.
func (c *Clock) Check() {
	m := c.member
	is, known := m.loop.Server.Offset()
	if !known {
		return
	}
	was := c.wrong
	switch {
	case c.limit <= 0:
	case is.Beyond(c.limit):
		c.wrong = true
	case is.Mid().Abs() < c.limit*9/10:
		c.wrong = false
	}
	changed := c.wrong != was
	c.tell(is, changed)
	if changed {
		m.loop.Tell(ClockChanged{c.wrong, is})
	}
	_, agreed := c.serverOff(is)
	agreed = agreed && c.wrong
	if !changed && agreed == c.agreed {
		return
	}
	c.agreed = agreed
	attrs := []any{"offset", is.Mid().Round(offsetStep).String(), "bound", is.Bound().Round(time.Millisecond).String(), "max", c.limit.String()}
	switch {
	case agreed:
		m.loop.Log.Error("ZooKeeper's clock is wrong: all instances' clocks differ from it, and most agree with each other: they go by theirs", attrs...)
	case c.wrong:
		m.loop.Log.Error("this instance's clock is wrong: it claims no ticks and hands over its jobs; set the clock", attrs...)
	default:
		m.loop.Log.Warn("this instance's clock is right again: taking jobs", attrs...)
	}
	if wrong := c.wrong && !agreed; wrong != m.closing.wrongClock {
		m.closing.wrongClock = wrong
		m.announce()
	}
}

// tell has the next sync publish the offset, if it has changed by as much as others care for, and certainly so.
func (c *Clock) tell(is offset.Interval, now bool) {
	m := c.member
	off := is.Mid().Round(offsetStep)
	change := (off - c.told).Abs()
	due := c.toldAt == 0 || m.loop.Now() >= c.toldAt+tellEvery*m.loop.SyncPeriod()
	if change < zkrec.OffsetShown || is.Bound() > change/2 || !now && !due {
		return
	}
	c.told, c.toldBound, c.toldAt = off, max(time.Millisecond, is.Bound().Round(time.Millisecond)), m.loop.Now()
}

// Sync compares clocks when that has not been done for long, or the clock was wrong.
func (c *Clock) Sync() {
	m := c.member
	every := m.loop.SyncPeriod()
	if !c.wrong {
		every *= compareEvery
	}
	if m.loop.Now()-m.loop.Server.Compared() >= every {
		c.Compare()
	}
}

// Compare writes something for the sake of the time in the answer: a node that nobody watches, and whose
// version means nothing.
func (c *Clock) Compare() {
	m := c.member
	if !m.loop.Joined() || !c.comparing.Begin() {
		return
	}
	m.loop.Async("compare clocks", func(ctx context.Context) func() {
		_, err := m.loop.Server.Multi(ctx, zkconn.SetOp(m.loop.Tree.Handlers(), nil, zkconn.AnyVersion))
		return func() {
			if err != nil {
				m.loop.Log.Debug("clock not compared with ZooKeeper's", "err", err)
			}
			if c.comparing.End() && err == nil {
				c.Compare()
			}
		}
	})
}

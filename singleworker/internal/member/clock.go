package member

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/agenda"
	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Ticks are judged by the wall clocks of instances, which may be wrong. Each instance compares its
// clock with ZooKeeper's in the answers to its writes (session.ServerClock), publishes the
// difference, and is closed while that is certainly larger than the limit. If the clocks of all
// instances differ from ZooKeeper's, and most of them in the same way, it is ZooKeeper's that is
// wrong, and these are not closed.
//
// The group's time is ZooKeeper's or, while that clock is found to be wrong, the time by which most
// instances go. Whatever asks whether something is due or late asks for it: Now for when to look,
// and Certain before somebody is told.

// ClockChanged tells that this instance's clock is found to be wrong, or to be right again, and how
// far it is ahead.
type ClockChanged struct {
	Wrong  bool
	Offset offset.Interval
}

// Clock has the offset of this instance's wall clock and the published offsets of others.
type Clock struct {
	member *Member
	limit  time.Duration // how far the clocks may differ; zero or less: as far as they like

	wrong     bool                   // beyond the limit
	agreed    bool                   // but ZooKeeper's clock is, as last logged
	serverOff time.Duration          // by how much ZooKeeper's clock is behind the group's time
	peers     map[string]offset.Peer // by sid: the other live instances
	changes   int                    // of who of them has a wrong clock
	doubted   int                    // of these, those after which this one has compared its own
	told      time.Duration          // the offset and its bound that this one publishes
	toldBound time.Duration
	toldAt    time.Duration // Mono
	comparing session.OnePerTime
	apart     apart
	leaps     int // of apart
}

// apart is how far the clocks by which something may be due are ahead of the monotonic one, in
// milliseconds.
type apart struct {
	wall, group, certain int64
	known                bool // certain
}

const (
	// compareEvery is how many sync periods pass before an instance that writes nothing compares
	// clocks nevertheless.
	compareEvery = 60
	// vague is the bound from which on the offset counts as hardly known: the wall clock was set.
	vague = time.Second
	// tellEvery is for how many sync periods, at least, a published offset stays as it is: the others
	// read each one.
	tellEvery = 5
	// offsetStep is the unit of published offsets.
	offsetStep = 10 * time.Millisecond
)

// follow takes in the others' published offsets.
func (c *Clock) follow(self string, records map[string]instanceRead) {
	was := c.peers
	c.peers = make(map[string]offset.Peer, len(records))
	for sid, i := range records {
		if sid != self && !errors.Is(i.err, errNoSession) {
			c.peers[sid] = offset.Peer{Off: time.Duration(i.ClockOffset), Wrong: i.State == zkrec.InstanceWrongClock}
		}
		if c.peers[sid].Wrong != was[sid].Wrong {
			c.changes++
		}
	}
}

// ahead is how far this instance's wall clock is ahead of the group's time, if that is known.
func (c *Clock) ahead() (is offset.Interval, known bool) {
	is, known = c.member.loop.Server.Offset()
	return is.Less(c.serverOff), known
}

// Now is the group's time: this instance's own, unless it is known that the two differ. A tick that
// is due by it is due in the group.
func (c *Clock) Now() time.Time {
	now := c.member.loop.Clock.Wall()
	if is, known := c.ahead(); known && is.Beyond(0) {
		return now.Add(-is.High)
	}
	return now
}

// OfServer is the group's time when it is at by ZooKeeper's clock.
func (c *Clock) OfServer(at time.Time) time.Time { return at.Add(c.serverOff) }

// Certain is a time that has come in the group, whatever it is exactly, and by the clock of each
// instance that takes jobs. Nothing is certain while this instance's clock is wrong, or was not
// compared yet.
func (c *Clock) Certain() (now time.Time, known bool) {
	is, known := c.ahead()
	if !known || c.member.closing.wrongClock {
		return time.Time{}, false
	}
	behind := max(0, -is.Low)
	for sid, of := range c.peers {
		if !of.Wrong {
			behind = max(behind, c.Behind(sid))
		}
	}
	return c.member.loop.Clock.Wall().Add(-is.High - behind), true
}

// Changes is how often the instances whose clocks are wrong have changed.
func (c *Clock) Changes() int { return c.changes }

// Leaps is how often one of the clocks by which something may be due has leapt: the wall clock, Now
// or Certain. A clock that only goes at another speed than the monotonic one leaps now and then,
// too.
func (c *Clock) Leaps() int {
	ahead := func(t time.Time) int64 { return t.UnixMilli() - c.member.loop.Now().Milliseconds() }
	certain, known := c.Certain()
	is := apart{wall: ahead(c.member.loop.Clock.Wall()), group: ahead(c.Now()), known: known}
	if known {
		is.certain = ahead(certain)
	}
	within := func(a, b int64) bool { return max(a-b, b-a) < agenda.Early.Milliseconds()/2 }
	if was := c.apart; !within(is.wall, was.wall) || !within(is.group, was.group) || !within(is.certain, was.certain) || known != was.known {
		c.apart = is
		c.leaps++
	}
	return c.leaps
}

// Ahead reports whether a time that ZooKeeper's clock has given to a node, in Unix milliseconds, is
// certainly later than both the group's time and this instance's own, by more than clocks may
// differ: ZooKeeper's was wrong then, and does not merely lag behind now. Without a limit, a minute
// counts.
func (c *Clock) Ahead(given int64) bool {
	latest, known := c.Latest()
	return known && time.UnixMilli(given).After(latest)
}

// Latest is the time after which Ahead finds times, if that is known: for who has to judge beside
// the loop.
func (c *Clock) Latest() (at time.Time, known bool) {
	limit := c.limit
	if limit <= 0 {
		limit = time.Minute
	}
	is, known := c.ahead()
	return c.member.loop.Clock.Wall().Add(max(0, -is.Low) + limit), known
}

// Watches reports whether this instance is one of the first few, by a hash, that watch a job whose
// spec has a schema: of those that read it, or of all if nobody does. Those whose clocks are wrong
// do not watch.
func (c *Clock) Watches(job string, schema, first int) bool {
	able := c.member.Able()
	right := func(yield func(string) bool) {
		for sid := range c.member.Cleanup.peers {
			if !c.peers[sid].Wrong && !yield(sid) {
				return
			}
		}
	}
	readers := func(yield func(string) bool) {
		for sid := range right {
			if able.reads(sid, schema) && !yield(sid) {
				return
			}
		}
	}
	if schema <= zkrec.SpecSchema {
		return rank(c.member.cfg.ID, readers, job) < first
	}
	for range readers {
		return false
	}
	return rank(c.member.cfg.ID, right, job) < first
}

// TooEarly reports whether this instance's clock may be so far ahead that a tick must not be
// accounted for, although it has come by that clock: a claim cannot be taken back.
func (c *Clock) TooEarly(tick time.Time) bool {
	is, known := c.ahead()
	if !known || c.limit <= 0 {
		return false
	}
	return tick.Sub(c.member.loop.Clock.Wall().Add(-is.High)) > c.limit
}

// Behind is how far the clock of another instance is behind the group's time, by its published
// offset, up to the limit.
func (c *Clock) Behind(sid string) time.Duration {
	of, lives := c.peers[sid]
	if !lives {
		return 0
	}
	return of.Behind(c.serverOff, c.limit)
}

// Check closes this instance when its clock is wrong, opens it when it is right again, and
// publishes the offset.
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
	case max(is.High, -is.Low) < c.limit*9/10: // whatever it is exactly: after a leap little is known
		c.wrong = false
	}
	changed := c.wrong != was
	c.tell(is, changed)
	if changed {
		m.loop.Tell(ClockChanged{c.wrong, is})
	}
	off, agreed := offset.OfServer(c.limit, is.Mid(), maps.Values(c.peers))
	if agreed = agreed && c.wrong; !agreed {
		off = 0
	}
	c.serverOff = off
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

// tell has the next sync publish the offset, if it has changed by as much as others care for, and
// certainly so.
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

// Sync compares clocks when that was not done yet, or not for long, or the clock was wrong, or was
// set; or when another instance's is found to be wrong, for it may be ZooKeeper's: as long as one
// instance has not noticed, the others hand over their jobs.
func (c *Clock) Sync() {
	m := c.member
	is, known := m.loop.Server.Offset()
	every := m.loop.SyncPeriod()
	if !c.wrong && is.Bound() < vague {
		every *= compareEvery
	}
	if !known || c.doubted != c.changes || m.loop.Now()-m.loop.Server.Compared() >= every {
		c.doubted = c.changes
		c.Compare()
	}
}

// Compare writes something for the sake of the time in the answer: a node that nobody watches, and
// whose version means nothing. Where an ACL forbids that, it is this instance's own node, which
// others read again then.
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
			if errors.Is(err, zkconn.ErrDenied) {
				m.again = true
				m.Publish()
			}
			if c.comparing.End() && err == nil {
				c.Compare()
			}
		}
	})
}

package sim

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// clock is the wall clock of the machine of an instance.
func (w *world) clock(id string) wall.Clock {
	off := w.clocks[id]
	if off == nil {
		off = new(atomic.Int64)
		w.clocks[id] = off
		if w.Clocks && w.rng.IntN(2) == 0 {
			off.Store(int64(w.drawOff()))
		}
		w.ledger.clockSet(id, time.Duration(off.Load()))
	}
	return func() time.Duration { return time.Duration(off.Load()) }
}

// mostOff is by how much clocks are wrong at most.
const mostOff = time.Minute

// drawOff draws how far a wall clock is off: mostly as little as where clocks are set over the
// network, at times by seconds, and seldom by so much that an operator would notice.
func (w *world) drawOff() time.Duration {
	most := draw(w, 100*time.Millisecond, 100*time.Millisecond, 3*time.Second, 3*time.Second, mostOff)
	off := w.upTo(most)
	if w.rng.IntN(2) == 0 {
		return -off
	}
	return off
}

// setClock sets the clock of an instance, or of the next operators.
func (w *world) setClock(victim *swtest.Instance) {
	if !w.Clocks {
		return
	}
	off, clock, whose := w.drawOff(), w.clocks[victim.Name], victim.Name
	if w.rng.IntN(3) == 0 {
		clock, whose = &w.operators, "operators"
	}
	if w.rng.IntN(3) == 0 {
		off = 0
	}
	w.notef("the clock of %s is %v ahead", whose, off)
	clock.Store(int64(off))
	if whose == victim.Name {
		w.ledger.clockSet(whose, off)
	}
}

// offset is how far a clock is ahead.
type offset struct {
	by    time.Duration
	since time.Time
}

// clockSet takes in that a clock is set.
func (l *ledger) clockSet(sid string, by time.Duration) {
	l.offsets[sid] = append(l.offsets[sid], offset{by, time.Now()})
}

// offset is the offset of an instance's clock now.
func (l *ledger) offset(sid string) (o offset) {
	if of := l.offsets[sid]; len(of) > 0 {
		o = of[len(of)-1]
	}
	return o
}

// isTrusted reports whether somebody who has been there for a while has had a right clock as long:
// then the group's time is the server's.
func (l *ledger) isTrusted(at time.Time) bool {
	if !l.isGroupRight(at, at) {
		return false
	}
	for sid, member := range l.model.Instances {
		if at.Sub(member.Since) > l.clockHeard && l.isRight(sid, at, at) {
			return true
		}
	}
	return l.aheadMost <= 0 || len(l.model.Instances) < 2
}

// isRight reports whether an instance's clock was right from a time on, and a while before it,
// until another.
func (l *ledger) isRight(sid string, from, to time.Time) bool {
	from = from.Add(-l.clockHeard)
	of := l.offsets[sid]
	for i, o := range of {
		over := i+1 < len(of) && !of[i+1].since.After(from)
		if l.aheadMost > 0 && o.by.Abs() > l.aheadMost/2 && !over && o.since.Before(to) {
			return false
		}
	}
	return true
}

// checkAhead verifies property 14, unless the clocks of several instances are wrong and no other's
// is right: then they may find that it is the server's.
func (l *ledger) checkAhead(slot string, txn *zkdev.Txn, rec zkrec.Tick) {
	server := max(0, l.serverMost(txn.Time)) // they may have found out that it is behind
	ahead := time.UnixMilli(rec.Watermark).Sub(txn.Time.Add(server))
	if l.aheadMost <= 0 || ahead <= l.aheadMost {
		return
	}
	right := false
	for sid := range l.model.Instances {
		right = right || l.offset(sid).by.Abs() <= l.aheadMost
	}
	if right || len(l.model.Instances) < 2 {
		l.violatef(14, slot, txn.Time, "the tick is %v ahead of the server's time, %v are allowed", ahead, l.aheadMost)
	}
}

// checkClock verifies the rest of it: no claim is made by an instance whose clock has been wrong
// for a while, by half as much again as may be, unless no clock is right: then the group decides
// which one is.
func (l *ledger) checkClock(slot string, txn *zkdev.Txn, rec zkrec.Tick) {
	server := at(l.server, txn.Time)
	if l.isGroupRight(txn.Time, txn.Time) {
		server.by = 0
	}
	long := func(sid string) bool {
		o, member := l.offset(sid), l.model.Instances[sid]
		return txn.Time.Sub(later(later(o.since, server.since), member.Since)) > l.clockHeard
	}
	off := l.offset(rec.SID).by - server.by
	if l.aheadMost <= 0 || off.Abs() <= l.aheadMost*3/2 || !long(rec.SID) {
		return
	}
	for sid := range l.model.Instances {
		if right := l.offset(sid).by - server.by; right.Abs() < l.aheadMost/2 && long(sid) {
			l.violatef(14, slot, txn.Time, "%s claims %s, and its clock has been off by %v since %s; that of %s is right", rec.SID, clockMs(rec.Tick),
				off, clock(later(l.offset(rec.SID).since, server.since)), sid)
			return
		}
	}
}

// An instance whose clock is ahead claims ticks by that clock; when the clock is set right, nothing
// runs until that time has come, and no tick is run twice.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var off atomic.Int64
		off.Store(int64(ahead))
		s := &scene{Cluster: swtest.New(t, swtest.Config{SessionTimeout: session}), t: t, schedule: "*/5 * * * * ?", brief: true}
		s.clock = func() time.Duration { return time.Duration(off.Load()) }
		s.limit = singleworker.NoClockLimit
		s.begin(&breach{}, &breach{})
		now := time.Now()
		time.Sleep(now.Truncate(5 * time.Second).Add(7 * time.Second).Sub(now)) // to between two ticks
		early := s.Runs()
		for _, run := range early {
			if late := run.Started.Add(ahead).Sub(run.Tick); late < 0 || late > time.Second {
				t.Errorf("the tick of %s is run at %s", clock(run.Tick), clock(run.Started))
			}
		}
		off.Store(0)
		time.Sleep(ahead / 2)
		if now := s.Runs(); len(early) == 0 || len(now) != len(early) {
			t.Errorf("%d runs, then %d", len(early), len(now))
		}
		time.Sleep(ahead)
		if now := s.Runs(); len(now) < len(early)+5 {
			t.Errorf("%d runs, then %d", len(early), len(now))
		}
		e := s.end()
		e.clocksOff = true
		if found, _ := check(e); len(found) > 0 {
			t.Errorf("found %v", found)
		}
	})
}

// leapingClock has the clock of a leap by less than a lease lasts: a must not claim the ticks in
// between.
func leapingClock(s *scene, b *breach) {
	var off atomic.Int64
	s.clock = func() time.Duration { return time.Duration(off.Load()) }
	s.limit, s.brief, s.clockOfA = 2*time.Second, true, true
	s.begin(b, &breach{})
	off.Store(int64(5 * time.Second))
	time.Sleep(session / 4)
	off.Store(0)
	time.Sleep(2 * session)
}

// leapInMidRun has the clock of a leap by more than a lease lasts: its run continues.
func leapInMidRun(s *scene, b *breach) {
	var off atomic.Int64
	s.clock, s.clockOfA = func() time.Duration { return time.Duration(off.Load()) }, true
	s.begin(b, &breach{})
	time.Sleep(time.Until(s.Begun().Add(time.Minute + session)))
	off.Store(int64(2 * session))
	time.Sleep(session / 2)
}

package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// ZooKeeper's own clock is the leading server's. The judge measures the time between two
// transactions by the true time.

// drawServerClock draws whether the server's clock leaps, and how far clocks may differ then.
func (p *profile) drawServerClock(r *rand.Rand) {
	if p.ServerClock = r.IntN(4) == 0; p.ServerClock && !p.Clocks {
		p.ClockLimit = drawClockLimit(r)
	}
}

// drawClockLimit draws MaxClockOffset: most clocks are off by less, or by up to twice as much.
func drawClockLimit(r *rand.Rand) time.Duration {
	return []time.Duration{singleworker.DefaultMaxClockOffset, 1500 * time.Millisecond, singleworker.NoClockLimit}[r.IntN(3)]
}

// allClocks has all clocks be wrong at times.
func allClocks(p *profile) {
	p.Clocks, p.ServerClock = true, true
	if p.ClockLimit == 0 {
		p.ClockLimit = []time.Duration{singleworker.DefaultMaxClockOffset, 1500 * time.Millisecond, singleworker.NoClockLimit}[p.Slots%3]
	}
}

// setServerClock has the server's clock leap, for a while: it is set, or another server leads, to
// which all connect again.
func (w *world) setServerClock() {
	if !w.ServerClock || time.Now().Before(w.serverTill) {
		return
	}
	off := w.upTo(draw(w, 3*time.Second, mostOff, 5*mostOff))
	if w.rng.IntN(2) == 0 {
		off = -off
	}
	lasts, elected := w.upTo(20*w.Session), w.rng.IntN(2) == 0
	w.serverTill = time.Now().Add(lasts)
	set := func(ahead time.Duration) {
		w.notef("the clock of the server is %v ahead; another one leads: %v", ahead, elected)
		w.cluster.Server.SetClock(ahead)
		for _, i := range w.cluster.Live() {
			if elected {
				i.Client.Disconnect()
			}
		}
	}
	set(off)
	w.after(lasts, func() { set(0) })
}

// serverClock takes in the offset of the server's clock that a transaction shows.
func (l *ledger) serverClock(txn *zkdev.Txn) {
	if by := txn.Written.Sub(txn.Time); by != at(l.server, txn.Time).by {
		l.server = append(l.server, offset{by, txn.Time})
		l.leaps++
	}
}

// at is the last offset that was set before a time.
func at(of []offset, t time.Time) (last offset) {
	for _, o := range of {
		if !o.since.After(t) {
			last = o
		}
	}
	return last
}

// serverMost is how far the server's clock was ahead at most, since the time from which on
// instances may go by it still.
func (l *ledger) serverMost(now time.Time) time.Duration {
	most := at(l.server, now.Add(-l.clockHeard)).by
	for _, o := range l.server {
		if o.since.After(now.Add(-l.clockHeard)) && !o.since.After(now) {
			most = max(most, o.by)
		}
	}
	return most
}

// isGroupRight reports whether the time of the group was certainly the true one from a time on, and
// a while before, until another: the server's clock was right, or the group had found that it was
// wrong.
func (l *ledger) isGroupRight(from, to time.Time) bool {
	if len(l.server) == 0 {
		return true
	}
	from = from.Add(-l.clockHeard)
	for k, o := range l.server {
		before := time.Duration(0)
		if k > 0 {
			before = l.server[k-1].by
		}
		if o.since.After(from) && o.since.Before(to) && max(before.Abs(), o.by.Abs()) > max(0, l.aheadMost/2) {
			return false // they are about to find out
		}
	}
	moments := []time.Time{from}
	add := func(t time.Time) {
		if t.After(from) && t.Before(to) {
			moments = append(moments, t)
		}
	}
	for of := range maps.Values(l.offsets) {
		for _, o := range of {
			add(o.since)
		}
	}
	for _, m := range l.members {
		add(m.from)
		add(m.to)
	}
	return !slices.ContainsFunc(moments, func(t time.Time) bool { return !l.isGroupRightAt(t) })
}

// isGroupRightAt reports whether instances that have known all clocks for a while go by the true
// time: the server's clock is right, or it differs from all by more than may be, and more than half
// of them are right.
func (l *ledger) isGroupRightAt(t time.Time) bool {
	off := at(l.server, t).by.Abs()
	if off <= max(0, l.aheadMost/2) || l.aheadMost <= 0 {
		return off <= max(0, l.aheadMost/2)
	}
	right, all := 0, 0
	for _, m := range l.members {
		if m.from.After(t) || !m.to.IsZero() && !m.to.After(t) {
			continue
		}
		all++
		switch by := at(l.offsets[l.joined[m.session]], t).by; {
		case by.Abs() <= l.aheadMost/8:
			right++
		case (by - at(l.server, t).by).Abs() <= l.aheadMost*5/4:
			return false // it may agree with the server's
		}
	}
	return off > l.aheadMost*5/4 && right > 1 && 2*right > all
}

// checkReliefs verifies the rest of property 1 for owners that were relieved and live: a run was
// due by the true time, unless some instance's clock is wrong and the group may go by ZooKeeper's.
func (l *ledger) checkReliefs() {
	for _, v := range l.hasty {
		if !l.clocksMayBeOff || l.isGroupRight(v.Txn.True, v.Txn.True) {
			l.violatef(1, v.Slot, v.Txn.True, "%v", v)
		}
	}
}

// begins takes in that a slot's ticks begin sooner: a clock that was ahead had said when.
func (a *account) begins(was, rec zkrec.Tick) {
	if rec.Watermark >= was.Watermark || rec.Run != (zkrec.Run{}) {
		return
	}
	a.first, a.marks = rec.Watermark, nil
	for k := range a.terms {
		if t := &a.terms[k]; t.since <= was.Watermark {
			t.since = rec.Watermark
		}
	}
}

// redated takes in that a job's schedule began sooner than its spec said.
func (l *ledger) redated(job string, was, spec zkrec.Spec) {
	if spec.Since >= was.Since {
		return
	}
	for slot, acc := range l.accounts {
		if zkrec.JobOfSlot(slot) != job {
			continue
		}
		for k := range acc.terms {
			t := &acc.terms[k]
			since := spec.Since
			if acc.first <= was.Since { // the slot was made while the clock was ahead: it has no ticks from before
				since = max(since, acc.first)
			}
			if t.since == was.Since {
				t.since = since
			}
			if t.until > since && t.replaced {
				t.until = since
			}
		}
		acc.terms = slices.DeleteFunc(acc.terms, func(t term) bool { return t.replaced && t.since >= t.until }) // before it began
	}
}

package deputy

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// look is one reading of a slot's tick record.
type look struct {
	w       *watched
	job     *catalog.Job
	version ticks.Version // of the job when the reading began
	owner   string

	record zkrec.Tick
	stat   zkconn.Stat
	gate   *ticks.Gate // of a slot that waits for others
	err    error
}

// ticks is the job as its slot has it.
func (l *look) ticks() ticks.Job { return l.job.Ticks.Of(l.w.slot, l.gate) }

// read reads the records of slots that are due together.
func (d *Deputy) read(looks []*look) {
	asked := d.loop.Now()
	reads := make([]zkconn.Read, 0, len(looks))
	for _, l := range looks {
		reads = append(reads, zkconn.Read{Path: d.loop.Tree.Tick(l.w.slot)})
	}
	gates := make(map[*catalog.Job]func([]zkconn.ReadResult) *ticks.Gate)
	for _, l := range looks {
		if _, twice := gates[l.job]; twice {
			continue
		}
		if more, parse := l.job.ReadGate(d.loop.Tree, l.w.slot); len(more) > 0 {
			at := len(reads)
			gates[l.job] = func(results []zkconn.ReadResult) *ticks.Gate { return parse(results[at:]) }
			reads = append(reads, more...)
		}
	}
	rest, manual := len(reads), make([][]ticks.Request, len(looks))
	for i, l := range looks {
		manual[i] = l.w.manual
		reads = append(reads, l.readsOfManual(d)...)
	}
	d.loop.Read(reads, func(results []zkconn.ReadResult) {
		for i, l := range looks {
			if l.stat, l.err = results[i].Stat, results[i].Err; l.err == nil {
				l.record, l.err = zkrec.ParseTick(results[i].Data, l.stat.Mtime)
			}
			if gate := gates[l.job]; gate != nil { // the first shard makes no use of it
				l.gate = gate(results)
			}
			l.takeManual(manual[i], results[rest:])
			rest += len(manual[i])
		}
		now := d.loop.Now()
		d.pace.saw(now, now-asked)
		d.learn(now, looks)
		var overdue []*watched
		for _, l := range looks {
			if d.judge(l) {
				overdue = append(overdue, l.w)
			}
		}
		d.relieve(overdue)
	})
}

// maxInstances is how many instances' claims are remembered.
const maxInstances = 1000

// learn notes which instances have claimed something, and how late.
func (d *Deputy) learn(now time.Duration, looks []*look) {
	if len(d.claims) > maxInstances {
		clear(d.claims)
	}
	var late []time.Duration
	for _, l := range looks {
		if l.err != nil || l.record.RunID == "" {
			continue
		}
		if l.stat.Mzxid > d.claims[l.record.SID].Mzxid {
			d.claims[l.record.SID] = l.stat
		}
		// A claim may be late because the owner before has died. If its token was seen before the run was
		// due, it is not.
		if r := l.record; r.Prompt() && r.Tick == l.w.due.UnixMilli() && r.Token == l.w.token {
			late = append(late, time.Duration(r.Started-r.Tick)*time.Millisecond)
		}
		l.w.token = l.record.Token
	}
	if len(late) > 0 { // a single run may be late for its own reasons
		slices.Sort(late)
		d.pace.saw(now, late[len(late)/2])
	}
}

// openLook is after how long, at least, a run in progress is looked at again, which may fail and be
// retried. After that, it is looked at whenever it has lasted twice as long.
const openLook = time.Second

// judge decides when to look at a slot again, and whether its owner is to be relieved.
func (d *Deputy) judge(l *look) (overdue bool) {
	w := l.w
	if w.reading = false; d.slots[w.slot] != w {
		return false
	}
	now := d.now()
	job := d.jobOf(w.slot)
	if job == nil || d.owner.Owned(w.slot) != nil {
		d.drop(w)
		return false
	}
	if job != l.job || job.Version != l.version || l.err != nil {
		d.put(w, now.Add(d.pace.least)) // the run may be due still
		return false
	}
	unclaimed := func(t time.Time) time.Time { return ticks.Unclaimed(l.ticks(), l.record, w.manual, t) }
	since := unclaimed(now)
	if since.IsZero() { // as nearly always: this is asked after each tick
		d.warnOfForeign(l)
		d.putDue(w, nextDue(l, now))
		return false
	}
	grace, claim := d.grace(l.owner), d.claims[l.owner]
	switch late := unclaimed(now.Add(-grace)); { // since may be that of a later tick
	case late.IsZero():
		if w.due.Add(grace).After(now) && !unclaimed(w.due).IsZero() {
			since = w.due // still: the grace may grow as fast as ticks come
		}
		w.due = since
		d.put(w, since.Add(grace)) // which has grown
	case claim.Mzxid > w.excuse && !claim.Mtime.Before(late):
		w.excuse = claim.Mzxid // it lives, and is late
		d.put(w, now.Add(grace))
	default:
		d.put(w, now.Add(grace)) // in case that it is refused
		return true
	}
	return false
}

// warnOfForeign says, once for each owner, that it runs other ticks than this instance would.
func (d *Deputy) warnOfForeign(l *look) {
	if l.w.foreign != l.record.Token && ticks.Foreign(l.ticks(), l.record) {
		l.w.foreign = l.record.Token
		d.loop.Log.Warn("the job has other ticks here than for its owner: programs, or time zone databases, differ",
			"job", l.w.slot, "owner", l.record.SID, "tick", time.UnixMilli(l.record.Tick).UTC())
	}
}

// relieve takes slots from their owners, unless this instance is as late as they are.
func (d *Deputy) relieve(overdue []*watched) {
	if len(overdue) == 0 || d.loop.Waited(session.Claims) > d.pace.least || d.journal.Late(d.pace.grace(d.loop.Now())) {
		return
	}
	for _, w := range overdue {
		d.owner.Step(lease.Overdue{Slot: lease.Slot(w.slot)})
	}
}

// nextDue is when the slot is to be looked at again, but for the grace: when a run may be due, the
// one in progress may have failed, or the first shard may have let it begin.
func nextDue(l *look, now time.Time) time.Time {
	next := ticks.NextDue(l.ticks(), l.record, now)
	begun := time.UnixMilli(l.record.Started)
	if waiting := ticks.Waiting(l.ticks(), l.record, now); !waiting.IsZero() {
		begun = waiting // when the first shard lets it begin is not known
	} else if !l.record.Open() || l.job.Ticks.Policy.Retries == 0 {
		return next
	}
	again := now.Add(max(openLook, now.Sub(begun)))
	if next.IsZero() || again.Before(next) {
		return again
	}
	return next
}

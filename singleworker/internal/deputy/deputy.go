package deputy

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// maxLooks is how many slots are looked at in one turn of the loop: thousands may be due in the
// same second.
const maxLooks = 256

// So many deputies of a slot look. Those after the first do so once per seldom if its owner is seen
// to claim others.
const (
	maxDeputies = 3
	seldom      = 15 * time.Second
)

// Deputy watches the slots that this instance could take from their owners.
type Deputy struct {
	loop    *session.Loop
	member  *member.Member
	catalog *catalog.Catalog
	owner   *owner.Owner
	journal *journal.Journal

	slots  map[string]*watched
	queue  queue // those of them that are not being read, by time
	pace   pace
	claims map[string]zkconn.Stat // by instance: of the tick record that it was last seen to have changed

	latest time.Time // that now has been
	asked  requests
}

// watched is a slot that is looked at when its next run is overdue.
type watched struct {
	slot    string
	due     time.Time // the run that may be overdue
	at      time.Time // when to look, see now
	index   int       // in the queue
	reading bool
	looked  time.Duration // Mono: when this instance last looked although it is not the first deputy
	token   int64         // of the last run that was seen
	excuse  int64         // the claim for which the owner was last given more time
	foreign int64         // the token whose owner was last said to have other ticks
	manual  []ticks.Request
}

// New returns a deputy that watches nothing. It gives owners at least grace to claim a run; if that
// is negative, it relieves none.
func New(
	loop *session.Loop, m *member.Member, c *catalog.Catalog, o *owner.Owner, j *journal.Journal, grace time.Duration,
) *Deputy {
	return &Deputy{
		loop: loop, member: m, catalog: c, owner: o, journal: j, pace: pace{least: grace},
		slots: make(map[string]*watched), claims: make(map[string]zkconn.Stat), asked: requests{read: make(map[string]bool)},
	}
}

// Changed follows a job that was read again. If spec is set, its spec is another one, or it is
// gone.
func (d *Deputy) Changed(job *catalog.Job, spec bool) {
	for _, slot := range job.Slots {
		if spec || d.slots[slot] == nil {
			d.Watch(slot)
		}
	}
}

// Joined continues after a time in which this instance could not look. It forgets which claims it
// has seen: after a restore, later transactions have lower numbers.
func (d *Deputy) Joined() {
	clear(d.claims)
	now := d.now()
	for _, slot := range slices.Sorted(maps.Keys(d.slots)) {
		w := d.slots[slot]
		if w.excuse = 0; !w.reading && w.at.Before(now) {
			d.putDue(w, now)
		}
	}
}

// Watch has a slot looked at from its next tick on, or not any more if this instance owns it, or
// does not have to take it. Other slots that need not be watched are dropped when it is their turn.
func (d *Deputy) Watch(slot string) {
	if d.pace.least < 0 {
		return
	}
	job := d.jobOf(slot)
	if job == nil {
		delete(d.asked.read, slot)
	}
	if job == nil || d.owner.Owned(slot) != nil {
		if w := d.slots[slot]; w != nil {
			d.drop(w)
		}
		return
	}
	if w := d.watched(slot); !w.reading {
		d.putDue(w, ticks.NextDue(job.Ticks.Of(slot, nil), zkrec.Tick{}, d.now()))
	}
}

// now is the time by which an owner is relieved: it has come by the group's clock, and by this
// instance's own. When another server leads whose clock is ahead, the others cannot have said yet
// that they are behind it.
func (d *Deputy) now() time.Time {
	now := d.member.Clock.Now()
	if own := d.loop.Clock.Wall(); own.Before(now) {
		now = own
	}
	d.latest = ticks.Later(d.latest, now)
	return now
}

// lookSooner forgets when to look if that was found out by a clock that was ahead.
func (d *Deputy) lookSooner() {
	now := d.now()
	if !now.Before(d.latest.Add(-time.Second)) {
		return
	}
	d.latest = now
	for _, w := range slices.Collect(maps.Values(d.slots)) {
		if job := d.jobOf(w.slot); job != nil && !w.reading {
			d.putDue(w, ticks.NextDue(job.Ticks.Of(w.slot, nil), zkrec.Tick{}, now.Add(-d.pace.least)))
		}
	}
}

// grace is how long the owner of a slot has to claim a run that is due by the group's time: longer,
// if it has published that its clock is behind.
func (d *Deputy) grace(owner string) time.Duration {
	return d.pace.grace(d.loop.Now()) + d.member.Clock.Behind(owner)
}

func (d *Deputy) watched(slot string) *watched {
	w := d.slots[slot]
	if w == nil {
		w = &watched{slot: slot, index: -1, looked: -seldom}
		d.slots[slot] = w
	}
	return w
}

// jobOf is the job of a slot that this instance may have to take.
func (d *Deputy) jobOf(slot string) *catalog.Job {
	job := d.catalog.JobOf(slot)
	if job == nil || !job.Eligible || !job.Valid() || job.Done() || !job.Has(slot) {
		return nil
	}
	return job
}

// putDue has w looked at when a run is overdue that is due then, or not any more if that is never.
func (d *Deputy) putDue(w *watched, due time.Time) {
	if w.due = due; due.IsZero() {
		d.drop(w)
		return
	}
	d.put(w, due.Add(d.pace.least)) // turn waits for longer, if the group is late by then
}

// put has w looked at.
func (d *Deputy) put(w *watched, at time.Time) {
	if w.at = at; w.index < 0 {
		heap.Push(&d.queue, w)
	} else {
		heap.Fix(&d.queue, w.index)
	}
}

func (d *Deputy) drop(w *watched) {
	if w.index >= 0 {
		heap.Remove(&d.queue, w.index)
	}
	if delete(d.slots, w.slot); len(d.slots) == 0 {
		d.slots, d.queue = make(map[string]*watched), nil // which may have held all slots, and would stay as large
	}
}

// Next is when Look is due, on Mono, or the given time if that is earlier.
func (d *Deputy) Next(other time.Duration) time.Duration {
	if len(d.queue) == 0 {
		return other
	}
	return min(other, d.loop.Now()+max(0, d.queue[0].at.Sub(d.now())))
}

// Claimed notes how late this instance has claimed a run. The others are likely to be as late.
func (d *Deputy) Claimed(late time.Duration) {
	if late < maxGrace { // otherwise it was missed, and is run by the job's policy
		d.pace.saw(d.loop.Now(), late)
	}
}

// Look reads the tick records of the slots of which a run may be overdue.
func (d *Deputy) Look() {
	now := d.now()
	var looks []*look
	for n := 0; n < maxLooks && len(d.queue) > 0 && !d.queue[0].at.After(now); n++ {
		w := heap.Pop(&d.queue).(*watched) //nolint:forcetypeassert // it has no others
		if l := d.turn(w, now); l != nil {
			looks = append(looks, l)
		}
	}
	if len(looks) > 0 {
		d.read(looks)
	}
}

// turn decides about a slot of which a run may be overdue: it may not be up to this instance to
// look.
func (d *Deputy) turn(w *watched, now time.Time) *look {
	job := d.jobOf(w.slot)
	if job == nil || d.owner.Owned(w.slot) != nil {
		delete(d.slots, w.slot) // until it is lost
		return nil
	}
	mono := d.loop.Now()
	d.pace.saw(mono, now.Sub(w.at))
	owner, rank, is := d.owner.Deputy(w.slot)
	// rank is how many deputies have their time first.
	at := w.due.Add(d.grace(owner) + d.pace.grace(mono)*time.Duration(rank))
	switch {
	case !is, rank >= maxDeputies, rank > 0 && d.isSeen(owner, w.due) && mono-w.looked < seldom*time.Duration(rank):
		d.putDue(w, ticks.NextDue(job.Ticks.Of(w.slot, nil), zkrec.Tick{}, ticks.Later(w.due, now.Add(-d.pace.least))))
		return nil
	case at.After(now):
		d.put(w, at)
		return nil
	case rank > 0:
		w.looked = mono
	}
	w.reading = true
	return &look{w: w, job: job, version: job.Version, owner: owner}
}

// isSeen reports whether an instance is known to have claimed something since. So it lives, and the
// runs that it has not claimed are up to the first deputy.
func (d *Deputy) isSeen(sid string, since time.Time) bool { return !d.claims[sid].Mtime.Before(since) }

// queue is a heap of slots by time.
type queue []*watched

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is heap.Interface's.
func (q *queue) Push(x any) {
	w := x.(*watched) //nolint:forcetypeassert // it has no others
	w.index = len(*q)
	*q = append(*q, w)
}

// Pop is heap.Interface's.
func (q *queue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = nil // for the garbage collector
	*q = (*q)[:last]
	w.index = -1
	return w
}

var _ heap.Interface = (*queue)(nil)

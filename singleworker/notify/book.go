package notify

import (
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

const (
	// parts is into how many nodes the book is divided: 10,000 failing jobs are some 160 in each. The
	// number is part of the layout in ZooKeeper.
	parts = 64
	// perPart is how many episodes a part holds, which take 1.2 KB each at most. Of more, those that
	// are over are dropped; then none begins.
	perPart = 500
	// lastsPerPart is of how many slots without an episode a part remembers the last failure.
	lastsPerPart = 1000
	// perKind is how many episodes of a slot and a kind wait for a target that does not answer.
	perKind = 4
	// forgetAfter is how many entries after it a slot's last failure is forgotten. No history reaches
	// back so far.
	forgetAfter = 500
)

// book holds the episodes of a group. It is a state machine: events come in, and messages owed to
// the targets come out. Of each slot that has failed it remembers how far its history was taken in,
// because a Watch that is resumed may report it again.
type book struct {
	serverType string
	targets    []string
	rules      []Rule
	jobs       map[string]jobRules // of those that name targets, or did
	canceled   map[string]bool     // jobs that are gone, of which somebody may still be told
	reruled    map[string]bool     // jobs that name others than when owed was last called
	unknown    map[string]string   // targets that do not exist, with a job that names each
	cursor     int64
	parts      [parts]part
	resuming   bool // until the Watch has reported what had happened since the cursor

	dropped int // episodes that were not begun, or not told, for lack of room, since the last call of settle
}

// part is the content of one node.
type part struct {
	slots    map[string]*record
	divided  map[string]map[string]bool // the slots of each job that has others than its name
	episodes int
	full     bool // of episodes that last
	dirty    bool
	unknown  zkrec.Unknown
}

func newPart() part {
	return part{slots: make(map[string]*record), divided: make(map[string]map[string]bool)}
}

func (p *part) add(slot string, r *record) {
	p.slots[slot] = r
	if name := zkrec.JobOfSlot(slot); name != slot {
		if p.divided[name] == nil {
			p.divided[name] = make(map[string]bool)
		}
		p.divided[name][slot] = true
	}
}

func (p *part) remove(slot string) {
	delete(p.slots, slot)
	name := zkrec.JobOfSlot(slot)
	if delete(p.divided[name], slot); len(p.divided[name]) == 0 {
		delete(p.divided, name)
	}
}

func newBook(serverType string, targets []string, rules []Rule) *book {
	b := &book{
		serverType: serverType, targets: targets, rules: rules,
		jobs: make(map[string]jobRules), canceled: make(map[string]bool), reruled: make(map[string]bool),
		unknown: make(map[string]string),
	}
	for i := range b.parts {
		b.parts[i] = newPart()
	}
	return b
}

// partOf is the number of the part that a slot belongs to.
func partOf(slot string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(slot))
	return int(h.Sum32() % parts)
}

// of returns the part and the record of a slot, which is new if there was no such record.
func (b *book) of(slot string) (*part, *record) {
	p := &b.parts[partOf(slot)]
	r := p.slots[slot]
	if r == nil {
		r = &record{}
		p.add(slot, r)
	}
	return p, r
}

// take takes in an event of Watch.
func (b *book) take(ev admin.Event) {
	b.cursor = max(b.cursor, ev.Cursor)
	switch ev.Kind {
	case admin.EventWatching:
		b.resuming = false
	case admin.EventJobSubmitted, admin.EventJobChanged:
		b.ruled(ev.Job, ev.Notify)
	case admin.EventJobCanceled:
		b.removed(ev.Job, zkrec.Milli(ev.At))
		b.canceled[ev.Job] = true
	case admin.EventJobTrouble:
		for _, slot := range ev.Gone {
			b.left(slot, zkrec.Milli(ev.At))
		}
		b.stands(*ev.Status, ev.At)
	case admin.EventRunBegun, admin.EventRunEnded, admin.EventTicksMissed:
		if !b.knows(ev) {
			b.happened(ev)
		}
	default: // owners, instances, skipped ticks
	}
}

// knows reports whether an event of a resumed Watch was taken in before. The records of a slot that
// was created again say nothing of that, and what they say of the former one is over.
func (b *book) knows(ev admin.Event) bool {
	r := b.parts[partOf(ev.Job)].slots[ev.Job]
	if r == nil || r.Number == 0 {
		return false
	}
	if r.Created == 0 {
		r.Created = ev.Created
	}
	if r.Created != ev.Created {
		b.removed(ev.Job, zkrec.Milli(ev.At))
		return false
	}
	e := ev.Entry
	return b.resuming && e.Number > 0 && e.Number <= r.Number && e.Rev <= r.Rev
}

// happened takes in something that is new.
func (b *book) happened(ev admin.Event) {
	e := ev.Entry
	switch {
	case ev.Kind == admin.EventRunBegun:
		b.begun(ev.Job, zkrec.Milli(e.Tick), e.Attempt)
	case ev.Kind == admin.EventTicksMissed:
		if e.Reason != history.ReasonScheduleChanged {
			b.failed(ev, failure{
				Kind: Missed, ID: strconv.FormatInt(zkrec.Milli(e.Tick), 10), Tick: zkrec.Milli(e.Tick), At: zkrec.Milli(ev.At),
				Count: max(e.Count, 1), Text: "nobody claimed them: " + firstLine(string(e.Reason)),
			})
		}
	case e.State == history.StateOK:
		b.succeeded(ev)
	case e.State == history.StateFailed, e.State == history.StateTimedOut, e.State == history.StateLost:
		f := failure{
			Kind: Failed, ID: firstLine(e.RunID), Tick: zkrec.Milli(e.Tick), At: zkrec.Milli(ev.At), Count: 1, Text: firstLine(e.Error),
			SID: firstLine(e.InstanceID),
		}
		if f.Text == "" {
			f.Text = string(e.State)
		}
		b.failed(ev, f)
	}
}

// failed takes in a failure, unless it is to be retried: then it counts when another tick is run
// first. The late failure of a run that was followed by another one says nothing of how the job is
// now.
func (b *book) failed(ev admin.Event, f failure) {
	if ev.Amended && ev.Superseded {
		return
	}
	p, r := b.of(ev.Job)
	e := ev.Entry
	if r.Number == e.Number {
		if f.Kind == Failed {
			return // it was lost, and has failed
		}
		if !ev.Continued {
			f.Count = 1 // at least: most of the row was taken in before
		}
	}
	if ev.Amended {
		r.Number, r.Rev = max(r.Number, e.Number), max(r.Rev, e.Rev)
	} else {
		r.Number, r.Rev = e.Number, e.Rev
	}
	r.Created, p.dirty = ev.Created, true
	if e.NextAttempt == history.NextRetry {
		r.Retry = (*retry)(&f)
		return
	}
	b.count(ev.Job, f)
}

// count has a failure begin an episode, or continue one.
func (b *book) count(slot string, f failure) {
	p, r := b.of(slot)
	p.dirty = true
	if ep := r.open(f.Kind); ep != nil {
		ep.Count += f.Count
		ep.Last, ep.Ended, ep.Gone, ep.Text, ep.SID, ep.idle = f.Tick, 0, false, f.Text, f.SID, false
		return
	}
	if !b.wanted(slot, f.Kind) || !b.makeRoom(p, r, f.Kind) {
		b.tidy(p, slot)
		return
	}
	r.To = b.jobs[zkrec.JobOfSlot(slot)]
	r.Episodes = append(r.Episodes, &episode{failure: f, Last: f.Tick})
	p.episodes++
}

// open is the episode that a failure continues, or nil. One that is over and of whose end nobody
// was told continues, too.
func (r *record) open(kind Kind) *episode {
	for _, ep := range slices.Backward(r.Episodes) {
		if ep.Kind == kind {
			if ep.Ended != 0 && ep.sealed {
				return nil
			}
			return ep
		}
	}
	return nil
}

// makeRoom drops a silent target's oldest message, and reports whether there is room for one more.
func (b *book) makeRoom(p *part, r *record, kind Kind) bool {
	same := 0
	for _, ep := range r.Episodes {
		if ep.Kind == kind {
			same++
		}
	}
	if same >= perKind {
		i := slices.IndexFunc(r.Episodes, func(ep *episode) bool { return ep.Kind == kind })
		r.Episodes = slices.Delete(r.Episodes, i, i+1)
		p.episodes--
		b.dropped++
	}
	if p.episodes < perPart {
		return true
	}
	if p.full {
		b.dropped++
		return false
	}
	for slot, other := range p.slots {
		before := len(other.Episodes)
		other.Episodes = slices.DeleteFunc(other.Episodes, func(ep *episode) bool { return ep.Ended != 0 })
		p.episodes -= before - len(other.Episodes)
		b.dropped += before - len(other.Episodes)
		if other != r {
			b.tidy(p, slot)
		}
	}
	if p.full = p.episodes >= perPart; p.full {
		b.dropped++
	}
	return !p.full
}

// begun: an attempt that failed before is not a failure if the tick is tried again.
func (b *book) begun(slot string, tick int64, attempt int) {
	p := &b.parts[partOf(slot)]
	r := p.slots[slot]
	if r == nil {
		return
	}
	if f := r.Retry; f != nil {
		r.Retry, p.dirty = nil, true
		if f.Tick != tick {
			b.count(slot, failure(*f))
		}
		return
	}
	ep := r.open(Failed)
	if attempt < 2 || ep == nil || ep.Last != tick || ep.Ended != 0 || ep.Count > 1 || len(ep.Sent) > 0 || ep.sealed {
		return
	}
	r.Episodes = slices.DeleteFunc(r.Episodes, func(other *episode) bool { return other == ep })
	p.episodes--
	p.dirty = true
	b.tidy(p, slot)
}

// succeeded ends the episodes that a success ends.
func (b *book) succeeded(ev admin.Event) {
	p := &b.parts[partOf(ev.Job)]
	r := p.slots[ev.Job]
	if r == nil {
		return
	}
	if ev.Amended && ev.Entry.Number < r.Number {
		return // others have failed since
	}
	if r.Retry != nil {
		r.Retry, p.dirty = nil, true
	}
	if ev.Entry.Number > r.Number+forgetAfter {
		r.Number, p.dirty = 0, true
	}
	for _, kind := range []Kind{Failed, Missed} {
		b.end(p, r, kind, zkrec.Milli(ev.At), false)
	}
	b.tidy(p, ev.Job)
}

// end ends an episode that lasts.
func (b *book) end(p *part, r *record, kind Kind, at int64, gone bool) {
	for _, ep := range r.Episodes {
		if ep.Kind == kind && ep.Ended == 0 {
			ep.Ended, ep.Gone, ep.idle, p.dirty, p.full = max(at, ep.At, 1), gone, false, true, false
		}
	}
}

// removed ends all episodes of a job, or of a slot.
func (b *book) removed(name string, at int64) {
	b.left(name, at)
	for i := range b.parts {
		for slot := range b.parts[i].divided[name] {
			b.left(slot, at)
		}
	}
}

// left ends all episodes of a slot.
func (b *book) left(slot string, at int64) {
	p := &b.parts[partOf(slot)]
	r := p.slots[slot]
	if r == nil {
		return
	}
	r.Retry, r.Created, r.Number, r.Rev, p.dirty = nil, 0, 0, 0, true
	for _, kind := range kinds {
		b.end(p, r, kind, at, true)
	}
	b.tidy(p, slot)
}

// tidy forgets a slot of which there is nothing to remember.
func (b *book) tidy(p *part, slot string) {
	r := p.slots[slot]
	if len(r.Episodes) == 0 {
		r.To = nil
	}
	if len(r.Episodes) > 0 || r.Retry != nil {
		return
	}
	if r.Number == 0 || len(p.slots)-p.episodes > lastsPerPart {
		p.remove(slot)
		p.dirty = true
	}
}

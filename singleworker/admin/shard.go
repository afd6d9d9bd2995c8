package admin

import (
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// isEverywhere reports whether the job has a slot for each of the instances that are on record.
func (of parsed) isEverywhere() bool { return of.spec.Job.Everywhere && !of.spec.Canceled }

// slots lists the slots of a name: the current shards of a job, or what it has at the given
// instances, or the job itself if it is not divided, or the one slot.
func (of parsed) slots(name string, sids []string) ([]string, error) {
	whole, _, one := zkrec.SplitInstance(name)
	switch {
	case of.isEverywhere():
		return partsOf(name, sids)
	case one:
		return nil, fmt.Errorf("%w: %s does not run on every instance", ErrNoShard, whole)
	}
	return of.shards(name)
}

// shards is slots of a job that does not run on every instance.
func (of parsed) shards(name string) ([]string, error) {
	whole, shard, sharded := zkrec.SplitSlot(name)
	layout := of.spec.ActiveLayout()
	if of.spec.Canceled || layout.Check() != nil {
		layout = zkrec.Layout{}
	}
	var until string
	if of.spec.Resizing() {
		until = ", until the change of its shards takes effect"
	}
	switch {
	case !sharded:
		return layout.Slots(whole), nil
	case of.spec.Canceled:
		return nil, ErrNotFound
	case of.isUnreadable():
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, of.err)
	case layout.Shards == 0:
		return nil, fmt.Errorf("%w: %s is not divided%s", ErrNoShard, whole, until)
	case shard >= layout.Shards:
		return nil, fmt.Errorf("%w: %s has shards 0 to %d%s", ErrNoShard, whole, layout.Shards-1, until)
	}
	return []string{name}, nil
}

// status derives the status of a job, or of one shard, from the records.
func (r reading) status(live map[string]Instance, at moment) JobStatus {
	s := r.summary(live, at)
	s.SetConditions(at.now)
	return s
}

// summary is status without its Conditions.
func (r reading) summary(live map[string]Instance, at moment) JobStatus {
	statuses := make([]JobStatus, len(r.slots))
	for i, slot := range r.slots {
		statuses[i] = slot.status(r.of, live, at)
	}
	s := statuses[0]
	if s.Name == r.name && (s.Shard != nil || s.InstanceID != "") { // one shard, or part, was asked for
		return s
	}
	s.Resizing = r.resizing()
	if s.Name == r.name {
		return s
	}
	if s.InstanceID != "" {
		s = r.job.status(r.of, live, at)
	}
	s.Name, s.Shard, s.Slots, s.Complete = r.name, nil, statuses, zkrec.Time(r.complete.Tick)
	s.NextRun = time.Time{}
	s.Owner, s.LastRun, s.HeldRun, s.Failing, s.Alarm, s.Hung, s.Overdue, s.Overrun = nil, nil, nil, nil, nil, nil, time.Time{}, time.Time{}
	for i := range statuses {
		if next := statuses[i].NextRun; !next.IsZero() && (s.NextRun.IsZero() || next.Before(s.NextRun)) {
			s.NextRun = next
		}
		if late := statuses[i].Overdue; !late.IsZero() && (s.Overdue.IsZero() || late.Before(s.Overdue)) {
			s.Overdue = late
		}
		if tick := statuses[i].Waiting; !tick.IsZero() && (s.Waiting.IsZero() || tick.Before(s.Waiting)) {
			s.Waiting, s.WaitsFor = tick, statuses[i].WaitsFor
		}
		if w := statuses[i].Limited; len(w) > 0 && (len(s.Limited) == 0 || w[0].Since.Before(s.Limited[0].Since)) {
			s.Limited = w
		}
		if tick := statuses[i].Overrun; !tick.IsZero() && (s.Overrun.IsZero() || tick.Before(s.Overrun)) {
			s.Overrun = tick
		}
		if hung := statuses[i].Hung; hung != nil && (s.Hung == nil || hung.Since.Before(s.Hung.Since)) {
			s.Hung = hung
		}
		if mark := statuses[i].Watermark; mark.Before(s.Watermark) || s.Watermark.IsZero() && !statuses[i].isAbsent() {
			s.Watermark = mark
		}
	}
	if present := present(statuses); len(present) > 0 {
		s.State, s.Reason = whole(present)
	}
	if r.completeErr != nil && s.State != StateCanceled && s.State != StateInvalid {
		s.judge(r.completeErr, "", false, live)
	}
	return s
}

// whole derives the state of a job, and its reason, from its shards.
func whole(shards []JobStatus) (State, reason.Reason) {
	var first *JobStatus
	reasons, lacking := map[string]bool{}, 0
	for i := range shards {
		if shards[i].State == StateOwned {
			continue
		}
		if first == nil {
			first = &shards[i]
		}
		reasons[shards[i].Reason.String()] = true
		lacking++
	}
	switch {
	case first == nil:
		return StateOwned, reason.Reason{}
	case first.State != StateUnowned, lacking == len(shards) && len(reasons) == 1:
		return first.State, first.Reason // it is that of the job
	}
	return StateUnowned, reason.Reason{
		Code: reason.SomeShards, Shards: lacking, Of: len(shards), First: first.Name, Why: &first.Reason,
	}
}

// resizing returns the pending change of the shards, or nil.
func (r reading) resizing() *Resizing {
	if !r.of.spec.Resizing() || r.of.spec.Canceled {
		return nil
	}
	layout := r.of.spec.ActiveLayout()
	change := &Resizing{From: layout.Shards, To: r.of.spec.Job.Shards, Until: zkrec.Time(layout.Until)}
	last := layout.Until
	if last == 0 {
		for _, slot := range r.slots {
			last = max(last, slot.tick.Watermark)
		}
	}
	for _, slot := range r.slots {
		if slot.tickErr != nil || !slot.tick.Finished() || slot.tick.Watermark < last {
			change.WaitsFor = append(change.WaitsFor, slot.slot)
		}
	}
	return change
}

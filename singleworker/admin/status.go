package admin

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// status derives the status of a slot from its records; of is its spec.
func (r records) status(of parsed, live map[string]Instance, at moment) JobStatus {
	name, index, sharded := zkrec.SplitSlot(r.slot)
	s := JobStatus{
		Name: r.slot, Job: job.Job{Name: name}, Version: r.stat.Version, SpecBytes: len(r.spec), State: StateUnowned, Registered: r.registered,
		Declared: of.declared, DeclaredBy: of.spec.DeclaredBy, DeclaredAt: zkrec.Time(of.spec.DeclaredAt), declaredLate: of.spec.DeclaredLate,
		ID: r.stat.Czxid, Set: of.spec.Set, Edited: of.spec.Edited(), Watermark: zkrec.Time(r.tick.Watermark),
	}
	s.Owner = r.onRecord(live)
	if r.alarm != nil {
		s.Alarm = &Alarm{Tick: zkrec.Time(r.alarm.Tick), InstanceID: r.alarm.SID, At: zkrec.UTC(r.alarm.At)}
	}
	lives := r.ownerLives(live)
	s.LastRun, s.HeldRun, s.Failing = r.lastRun(lives), r.heldRun(), failing(r.history)
	if !of.isUnreadable() {
		s.Job, s.Number = of.spec.Job.WithDefaults(), of.spec.Number()
	}
	if sharded {
		layout := of.spec.ActiveLayout()
		s.Shard = &Shard{Index: index, Total: layout.Shards, Parameter: layout.ShardParams[index]}
	}
	if of.spec.Canceled {
		s.State, s.Reason = StateCanceled, reason.Reason{Code: reason.Canceling}
		return s
	}
	if p := of.spec.Switch.Paused; p.Covers(at.now) {
		s.Paused = pauseOf(*p)
	}
	if n := len(of.frozen); n > 0 && of.frozen[n-1].Lasts(at.now) {
		s.Frozen = pauseOf(of.frozen[n-1])
	}
	if of.err == nil {
		s.fromTicks(of, r, lives, at)
	}
	s.judge(cmp.Or(of.err, of.turnedErr, r.tickErr), r.owner.Offer, lives, live)
	if _, sid, part := zkrec.SplitInstance(r.slot); part {
		s.InstanceID = sid
		if why := absent(sid, r.registered, live, of.spec.Job); !why.IsZero() && s.State == StateUnowned {
			s.Reason, s.Overdue, s.NextRun = why, time.Time{}, time.Time{}
		}
	}
	if done := of.spec.Done; done != nil && s.State != StateInvalid {
		s.State, s.DoneAt, s.Reason = StateDone, zkrec.Time(done.At), reason.Reason{Code: reason.Done}
	}
	return s
}

// onRecord is the owner on record, or nil.
func (r records) onRecord(live map[string]Instance) *Owner {
	if r.owner.SID == "" {
		return nil
	}
	return &Owner{
		InstanceID: r.owner.SID, Token: r.ownerStat.Mzxid, Since: zkrec.UTC(r.ownerStat.Mtime),
		WrongClock: live[r.owner.SID].State == InstanceWrongClock, Resolver: live[r.owner.SID].Resolver,
	}
}

// ownerLives reports whether the instance named by the owner record is live, in
// the same incarnation if both records name one.
func (r records) ownerLives(live map[string]Instance) bool {
	instance, ok := live[r.owner.SID]
	return ok && (r.owner.Incarnation == "" || instance.Incarnation == "" || r.owner.Incarnation == instance.Incarnation)
}

// lastRun is the run of the tick record. The result of an open run that does not
// belong to the owner, or whose owner is dead, is unknown.
func (r records) lastRun(ownerLives bool) *history.Run {
	switch {
	case r.tickErr != nil:
		return &history.Run{State: history.StateUnreadable, Error: r.tickErr.Error()}
	case r.tick.Tick == 0:
		return nil
	}
	run := r.tick.Public()
	run.NextAttempt, run.NextAttemptAt = r.tick.NextAttempt, zkrec.Time(r.tick.NextAttemptAt)
	if r.tick.Open() && (!ownerLives || r.tick.Token != r.ownerStat.Mzxid) {
		run.State = history.StateUnknown
	}
	return &run
}

// heldRun is the run that a pause keeps from being repeated, beside manual ones.
func (r records) heldRun() *history.Run {
	held := r.tick.Held
	if held.NextAttempt == "" {
		return nil
	}
	run := held.Public()
	run.NextAttempt, run.NextAttemptAt = held.NextAttempt, zkrec.Time(held.NextAttemptAt)
	return &run
}

// failing counts the runs since the last success.
func failing(last zkrec.History) *Failing {
	var row Failing
	for _, e := range slices.Backward(last.Entries) {
		if e.State == history.StateOK {
			row.OK = zkrec.Time(e.Tick)
			break
		}
		failed := e.State == history.StateFailed || e.State == history.StateTimedOut || e.State == history.StateLost
		if tick := zkrec.Time(e.Tick); failed && !tick.Equal(row.Since) {
			row.Runs, row.Since = row.Runs+1, tick
		}
	}
	if row.Runs == 0 {
		return nil
	}
	row.More = row.OK.IsZero() && last.Dropped > 0
	return &row
}

// able lists the registered instances that are live, take jobs, and may run the job.
func able(registered []string, live map[string]Instance, j job.Job) []string {
	var able []string
	for _, sid := range registered {
		if instance, ok := live[sid]; ok && !instance.closed() && instance.obstacle(j) == "" {
			able = append(able, sid)
		}
	}
	return able
}

// fromTicks sets all that follows from the ticks of a slot, whose spec is valid.
func (s *JobStatus) fromTicks(of parsed, r records, lives bool, at moment) {
	slot, since := of.ticks(r), zkrec.Time(of.spec.Since)
	s.Runs, s.group = ticks.Runs(r.tick, since), of.group
	s.NextRun = slot.NextRun(ticks.Later(s.Watermark, since), at.now)
	if of.schedule.Always() && !r.tick.Open() && s.Paused == nil && s.Frozen == nil {
		s.NextRun = ticks.Later(zkrec.Time(r.tick.RestartAt), since)
	}
	if of.turnedErr != nil || r.tickErr != nil {
		return
	}
	running := lives && r.tick.Open() && r.tick.Token == r.ownerStat.Mzxid
	s.Overdue = overdue(slot, r.tick, running, at.certain)
	if s.Paused == nil && s.Frozen == nil {
		s.Waiting = zkrec.UTC(ticks.Waiting(slot, r.tick, at.certain))
		s.WaitsFor = waitsFor(s.Waiting, r.after)
		s.Limited = r.limited(slot, at.certain)
	}
	if running {
		if tick := ticks.Overrun(slot, r.tick.Run); !slot.Due(tick).After(at.certain) {
			s.Overrun = zkrec.UTC(tick)
		}
		s.Hung = hung(slot, r.tick.Run, r.history, at.certain)
	}
}

// Due is when a tick of the job is due, by its Jitter; of a job with shards, in the first of them.
func (s *JobStatus) Due(tick time.Time) (due time.Time) {
	if s.Job.Jitter == 0 {
		return tick
	}
	for i := range s.Slots {
		if at := s.Slots[i].Due(tick); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	schedule, err := s.Job.ParseSchedule()
	if err != nil || len(s.Slots) > 0 {
		return due
	}
	return ticks.Job{Schedule: schedule, Policy: &s.Job, Group: s.group, Gated: s.Job.BeforeTick != ""}.Of(s.Name, nil).Due(tick)
}

func pauseOf(p zkrec.Pause) *Pause {
	pause := &Pause{Since: zkrec.Time(p.Since), Until: zkrec.Time(p.Until), By: p.By, Reason: p.Reason, Missed: p.Missed}
	if pause.Missed == "" {
		pause.Missed = job.MisfireSkip
	}
	return pause
}

// judge sets the state of the job, its reason, and whether it has a next run. err is why its record
// cannot be used.
func (s *JobStatus) judge(err error, offer string, ownerLives bool, live map[string]Instance) {
	field := new(invalid.FieldError)
	switch isField := errors.As(err, &field); {
	case isField && field.Field == "Calendars":
		s.State, s.Reason = StateInvalid, reason.Reason{Code: reason.BadCalendar, Error: err.Error()}
	case isField && field.Field == "Limits":
		s.State, s.Reason = StateInvalid, reason.Reason{Code: reason.BadLimit, Error: err.Error()}
	case isField && field.Field == "After":
		s.State, s.Reason = StateInvalid, reason.Reason{Code: reason.BadParent, Error: err.Error()}
	case errors.As(err, new(*zkrec.SchemaError)):
		s.State, s.Reason = StateInvalid, reason.Reason{Code: reason.NewerVersion, Error: err.Error()}
	case errors.As(err, new(*zkrec.UnreadableError)):
		s.State, s.Reason = StateInvalid, reason.Reason{Code: reason.Unreadable, Error: err.Error()}
	case err != nil:
		s.State, s.Reason = StateInvalid, reason.Reason{Code: reason.BadSpec, Error: err.Error()}
	case ownerLives:
		s.State = StateOwned
	default:
		s.Reason = s.unowned(offer, live)
	}
	if m, _ := reason.Means(s.Reason.Code); m.Idle {
		s.NextRun = time.Time{}
	}
}

// unowned says why the job has no owner. offer names the instance that it was offered to.
func (s *JobStatus) unowned(offer string, live map[string]Instance) reason.Reason {
	r := reason.Reason{Handler: s.Job.Handler, Before: s.Job.BeforeTick}
	var dead, closed, barred, full, able []reason.Instance
	for _, sid := range s.Registered {
		i, lives := live[sid]
		known := reason.Instance{ID: sid, State: i.State, Owned: i.Owned, MaxSlots: i.MaxSlots}
		if lives {
			known.Why = i.obstacle(s.Job)
		}
		switch {
		case !lives:
			dead = append(dead, known)
		case known.Why != "":
			barred = append(barred, known)
		case i.closed():
			closed = append(closed, known)
		case known.Full():
			full = append(full, known)
		default:
			able = append(able, known)
		}
	}
	if s.Owner != nil {
		r.Owner = s.Owner.InstanceID
	}
	switch {
	case len(able) == 0 && len(full) > 0:
		r.Code, r.Instances = reason.AllFull, slices.Concat(full, closed, barred)
	case len(able) == 0 && len(barred) > 0:
		if r.Code, r.Instances = reason.Nowhere, slices.Concat(barred, closed); len(s.Job.Require) == 0 {
			r.Code = reason.Unlisted
		}
	case len(able) == 0 && len(closed) > 0:
		r.Code, r.Instances = reason.AllClosed, closed
	case s.Owner != nil:
		r.Code, r.Instances = reason.OwnerGone, able
	case len(able) == 0 && len(dead) == 0:
		r.Code = reason.NoHandler
	case len(able) == 0:
		r.Code, r.Instances = reason.HandlerGone, dead
	case offer != "" && !slices.ContainsFunc(full, func(i reason.Instance) bool { return i.ID == offer }):
		r.Code, r.Instances = reason.Offered, []reason.Instance{{ID: offer, State: live[offer].State}}
	default:
		r.Code, r.Instances = reason.Waiting, able
	}
	return r
}

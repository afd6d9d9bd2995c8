package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// pastTick completes the request for a further attempt at the slot's tick of a time, or refuses it.
// The inbox was read before the records were: an attempt that they do not have waits in it, or was
// asked for since, and then the request is not written.
func (p past) pastTick(request zkrec.Request, at time.Time, again bool, waiting map[string]zkrec.Request) (*zkrec.Request, error) {
	refused := func(format string, args ...any) error {
		return &invalid.FieldError{Field: "Tick", Value: at.Format(time.RFC3339), Err: fmt.Errorf(format, args...)}
	}
	if p.tickErr != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, p.tickErr)
	}
	if p.historyErr != nil {
		return nil, fmt.Errorf("%w: the history: %w", ErrUnreadable, p.historyErr)
	}
	local := func(t time.Time) string { return t.In(p.job.Job.Zone()).Format(time.RFC3339) }
	tick, nearest := p.tickOf(at)
	spec := p.of.spec
	switch {
	case tick.IsZero():
		return nil, refused("is no tick of the schedule that was in effect then: %s", nearest)
	case !tick.After(zkrec.Time(spec.ActiveLayout().Since)):
		return nil, refused("is of the time before the job had these shards, at %s", local(zkrec.Time(spec.ActiveLayout().Since)))
	case tick.After(zkrec.Time(p.tick.Watermark)):
		return nil, refused("is not past: the schedule is to run it yet")
	}
	request.Tick, request.Past, request.Attempt = tick.UnixMilli(), history.PastForgotten, 1
	entries := p.attempts(tick)
	if len(entries) > 0 {
		last := entries[0]
		if request.Past = pastOf(last); request.Past == "" || last.NextAttempt != "" {
			return nil, fmt.Errorf("%w: its attempt %d is %s", ErrTickOpen, last.Attempt, strings.TrimSpace(string(last.State)+" "+last.NextAttempt))
		}
		if last.RunID != "" {
			request.Attempt, request.Failures = last.Attempt+1, last.Failures
			if last.State != history.StateInterrupted && last.State != history.StateLost {
				request.Failures++
			}
		}
	}
	if request.Past.Again() {
		request.Failures = request.Attempt - 1 // no resolver is asked about effects to be made again
	}
	for id, other := range waiting {
		if other.Tick == request.Tick {
			return nil, fmt.Errorf("%w: request %s asks for it", ErrTickOpen, id)
		}
	}
	switch {
	case spec.ActiveLayout().BeforeTick != "" && !slices.ContainsFunc(entries, func(e history.Entry) bool { return !e.Begun.IsZero() }):
		return nil, refused("is of a job that has BeforeTick, which is not known to have returned nil for it")
	case request.Past == history.PastForgotten && !again:
		return nil, fmt.Errorf("%w: the history of the job has forgotten it", ErrTickDone)
	case request.Past.Again() && !again:
		return nil, fmt.Errorf("%w: its attempt %d is ok", ErrTickDone, request.Attempt-1)
	}
	return &request, nil
}

// pastOf is why the tick of its last entry may be run by name; "" if it is in progress.
func pastOf(e history.Entry) history.Past {
	switch {
	case e.State == history.StateOK:
		return history.PastAgain
	case e.State == history.StateMissed:
		return history.PastMissed
	case e.State == history.StateSkipped:
		return history.PastSkipped
	case e.State.Unsuccessful():
		return history.PastFailed
	}
	return ""
}

// attempts are the entries of a tick of the schedule, the last one first.
func (p past) attempts(tick time.Time) (of []history.Entry) {
	for _, e := range p.newestFirst() {
		if covers(e, tick) && e.OfTick() {
			of = append(of, e)
		}
	}
	return of
}

// tickOf is the tick in the second of a time, by the schedule that was in effect then, or by the
// runs on record. If there is none it is zero, and the nearest ones are named.
func (p past) tickOf(at time.Time) (tick time.Time, nearest string) {
	second := at.Truncate(time.Second)
	before := p.lastTick(second.Add(time.Second-time.Millisecond), zkrec.Time(p.of.spec.Since))
	if before.Unix() == at.Unix() {
		return zkrec.UTC(before), ""
	}
	for _, e := range p.newestFirst() {
		if e.RunID != "" && e.OfTick() && e.Tick.Unix() == at.Unix() {
			return e.Tick, "" // of a schedule that the spec has forgotten
		}
	}
	local := func(t time.Time) string {
		if t.IsZero() {
			return "none"
		}
		return t.In(p.job.Job.Zone()).Format(time.RFC3339)
	}
	return time.Time{}, fmt.Sprintf("the last one before is %s, the next one %s", local(before), local(p.firstTick(second)))
}

// firstTick is the first tick after a time, by the schedules that were in effect.
func (p past) firstTick(after time.Time) time.Time {
	until := zkrec.Time(p.of.spec.Since)
	tick := p.of.ticks(p.records).Schedule.Next(ticks.Later(after, until))
	for former := p.of.spec.Former; former != nil && after.Before(until); former = former.Former {
		began := time.UnixMilli(former.Since)
		if old, err := former.Job(p.of.spec.Job).ParseSchedule(); err == nil {
			if next := old.Next(ticks.Later(after, began)); !next.IsZero() && !next.After(until) {
				tick = next
			}
		}
		until = began
	}
	return tick
}

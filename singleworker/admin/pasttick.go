package admin

import (
	"errors"
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
	tick, nearest := p.tickOf(at)
	if tick.IsZero() {
		return nil, refused("is no tick of the schedule that was in effect then: %s", nearest)
	}
	if err := p.isPast(tick); err != nil {
		return nil, refused("%w", err)
	}
	next, err := p.nextAttempt(request, tick, p.newestFirst(), waiting)
	switch {
	case errors.Is(err, errNotBegun):
		return nil, refused("%w", err)
	case err != nil:
		return nil, err
	case next.Past == history.PastForgotten && !again:
		return nil, fmt.Errorf("%w: the history of the job has forgotten it", ErrTickDone)
	case next.Past.Again() && !again:
		return nil, fmt.Errorf("%w: its attempt %d is ok", ErrTickDone, next.Attempt-1)
	}
	return &next, nil
}

// isPast refuses a tick that the slot's schedule runs, or another slot had.
func (p past) isPast(tick time.Time) error {
	began := zkrec.Time(p.of.spec.ActiveLayout().Since)
	switch {
	case !tick.After(began):
		return fmt.Errorf("is of the time before the job had these shards, at %s", began.In(p.job.Job.Zone()).Format(time.RFC3339))
	case tick.After(zkrec.Time(p.tick.Watermark)):
		return errors.New("is not past: the schedule is to run it yet")
	}
	return nil
}

// errNotBegun is why a past tick of a job with BeforeTick is not run.
var errNotBegun = errors.New("is of a job that has BeforeTick, which is not known to have returned nil for it")

// nextAttempt completes the request for a further attempt at a past tick of the slot, whose history
// has these entries, the latest first. Errors: ErrTickOpen, errNotBegun.
func (p past) nextAttempt(request zkrec.Request, tick time.Time, newestFirst []history.Entry, waiting map[string]zkrec.Request) (zkrec.Request, error) {
	var entries []history.Entry // of the tick
	for _, e := range newestFirst {
		if covers(e, tick) && e.OfTick() {
			entries = append(entries, e)
		}
	}
	request.Kind, request.Tick, request.Past, request.Attempt = zkrec.RequestPast, tick.UnixMilli(), history.PastForgotten, 1
	if len(entries) > 0 {
		last := entries[0]
		if request.Past = pastOf(last); request.Past == "" || last.NextAttempt != "" {
			return request, fmt.Errorf("%w: its attempt %d is %s", ErrTickOpen, last.Attempt, strings.TrimSpace(string(last.State)+" "+last.NextAttempt))
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
		if other.Names(request.Tick) {
			return request, fmt.Errorf("%w: request %s asks for it", ErrTickOpen, id)
		}
	}
	if p.of.spec.ActiveLayout().BeforeTick != "" && !slices.ContainsFunc(entries, func(e history.Entry) bool { return !e.Begun.IsZero() }) {
		return request, errNotBegun
	}
	return request, nil
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

package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// What may become of a tick besides the states of a run.
const (
	FateComing    = "coming"    // it has yet to come
	FateDue       = "due"       // it came, and is not accounted for yet
	FateLate      = "late"      // as due, for longer than Job.AlarmAfter
	FatePaused    = "paused"    // as due, and a pause keeps it from running
	FateForgotten = "forgotten" // it was accounted for, and the history has it no more
	FateNone      = "none"      // there is no tick to explain
)

// Explanation says what became of one tick of a job, or of one shard, and why.
type Explanation struct {
	Job   JobStatus
	Asked time.Time // the time that was asked for
	// Tick is the tick that is explained; zero when there is none.
	Tick time.Time
	// Fate is the state of the tick's last run, or else one of FateComing ...; of
	// several shards, the one that needs most to be looked at.
	Fate string
	// Reason is why it was not run: ReasonOverlap ...; empty if it was.
	Reason string
	// Entries are what the records have of the tick, the newest first: each
	// attempt of a run, or the row of ticks that it was skipped or missed in; of
	// several shards, by index.
	Entries []Entry
	// Sentences say all that in words, with times in the job's time zone, and
	// who owns the job since when.
	Sentences []string
}

// Why explains the tick of a job at a time, or else the last tick before; the
// zero time stands for now. A time within the second of a manual run means
// that run. All is read from the records: no instance is asked. Of a
// job with shards it says briefly how each did; one shard, "report[3]", is
// explained as a job is. Errors: *InvalidError for the name, ErrNotFound,
// ErrNoShard, ErrUnreadable for a shard, ErrDenied, ErrUnavailable.
func (c *Client) Why(ctx context.Context, name string, at time.Time) (Explanation, error) {
	job, pasts, err := c.readPasts(ctx, "why", name)
	if err != nil {
		return Explanation{}, err
	}
	if len(job.Slots) > 0 && pasts[0].of.err == nil {
		return explainShards(job, pasts, at, time.Now()), nil
	}
	return pasts[0].explain(at, time.Now()), nil
}

// explain is Why without the reading. Its job was judged at now.
func (p past) explain(asked, now time.Time) Explanation {
	spec, schedule, err := p.of.spec, p.of.schedule, p.of.err
	x := explainer{
		Explanation: Explanation{Job: p.job, Asked: asked, Fate: FateNone},
		past:        p, spec: spec, since: spec.SinceOr(p.stat.Mtime), now: now, zone: time.UTC,
		all: p.newestFirst(),
	}
	if asked.IsZero() {
		x.Asked = now
	}
	if err != nil {
		x.sayf("The job cannot run: %s.", p.job.Reason)
		x.owner()
		return x.Explanation
	}
	x.zone = schedule.Location()
	x.find(schedule)
	if x.Tick.IsZero() {
		x.sayf("The schedule %q has no tick at %s or before, since the job has it (%s).", spec.Schedule, x.at(x.Asked), x.at(milli(x.since)))
	} else {
		x.judge()
	}
	x.owner()
	if ahead := milli(x.tick.Watermark); ahead.Sub(now) > farAhead {
		x.sayf("Every tick up to %s is accounted for already, by a clock that was wrong or by hand: nothing runs before. "+
			"Cancel the job and submit it again to have it run.", x.at(ahead))
		return x.Explanation
	}
	if next := p.job.NextRun; !next.IsZero() && !next.Equal(x.Tick) {
		x.sayf("The next tick to run is that of %s.", x.at(next))
	}
	return x.Explanation
}

// farAhead is how far in the future a tick may be claimed because the clocks of
// two machines differ as clocks do.
const farAhead = time.Minute

// explainer makes an Explanation.
type explainer struct {
	Explanation
	past

	spec  zkrec.Spec
	since int64 // when the schedule took effect
	now   time.Time
	zone  *time.Location
	all   []Entry // newest first
}

func (x *explainer) sayf(format string, args ...any) {
	x.Sentences = append(x.Sentences, fmt.Sprintf(format, args...))
}

func (x *explainer) at(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.In(x.zone).Format("2006-01-02 15:04:05 MST")
}

// find looks for the tick that is meant, and what the records have of it.
func (x *explainer) find(schedule *cronexpr.Schedule) {
	x.Tick = x.lastTick(schedule)
	if x.Tick.IsZero() && x.Asked.Equal(x.now) {
		x.Tick = schedule.Next(x.now) // the first of a new job
	}
	for _, e := range x.all {
		sameSecond := e.Tick.Unix() == x.Asked.Unix()
		if e.Manual != "" && sameSecond && !x.Tick.Equal(x.Asked) {
			x.Tick = e.Tick
		}
		if older := !e.Tick.IsZero() && !e.Tick.After(x.Asked); x.Tick.IsZero() && older {
			x.Tick = e.Tick // of a schedule that is long forgotten
		}
	}
	for _, e := range x.all {
		if covers(e, x.Tick) {
			x.Entries = append(x.Entries, e)
		}
	}
	switch {
	case x.Tick.IsZero(), x.Tick.Unix() == x.Asked.Unix(), x.Asked.Equal(x.now):
	default:
		x.sayf("There is no tick at %s; the last before is that of %s.", x.at(x.Asked), x.at(x.Tick))
	}
}

// lastTick is the last tick up to the time asked for, of the schedule that
// held then.
func (x *explainer) lastTick(schedule *cronexpr.Schedule) time.Time {
	before, from := x.Asked.Add(time.Millisecond), milli(x.since)
	if tick := schedule.Prev(before); tick.After(from) {
		return tick
	}
	former := x.spec.Former
	if former == nil {
		return time.Time{}
	}
	old, err := parseSchedule(Job{Schedule: former.Schedule, TimeZone: former.TimeZone})
	if err != nil {
		return time.Time{}
	}
	if before.After(from) {
		before = from.Add(time.Millisecond)
	}
	if tick := old.Prev(before); tick.After(time.UnixMilli(former.Since)) {
		return tick
	}
	return time.Time{}
}

// covers reports whether an entry speaks of a tick.
func covers(e Entry, tick time.Time) bool {
	if e.RunID != "" {
		return e.Tick.Equal(tick)
	}
	return !tick.IsZero() && !e.Tick.IsZero() && !tick.Before(e.Tick) && !tick.After(e.To)
}

// judge says what became of the tick.
func (x *explainer) judge() {
	name := "The tick of " + x.at(x.Tick)
	switch {
	case len(x.Entries) > 0:
		x.Fate, x.Reason = x.Entries[0].State, x.Entries[0].Reason
		if x.Entries[0].Manual != "" {
			name = "The manual run of " + x.at(x.Tick)
		}
		x.tell(name)
	case x.Tick.After(x.now):
		x.coming(name)
	case x.tickErr != nil:
		x.Fate = RunUnreadable
		x.sayf("Nobody can tell what became of %s: %v.", lower(name), x.tickErr)
	case !x.Tick.After(milli(x.tick.Watermark)):
		x.forgotten(name)
	default:
		x.pending(name)
	}
}

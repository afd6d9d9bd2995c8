package admin

import (
	"context"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ticks is the job as the rules of ticks have it, of one slot.
func (of parsed) ticks(r records) ticks.Job {
	return ticksOf(of.spec, of.schedule, of.spec.Since).Of(r.slot, r.gate)
}

// ticksOf is that of all slots; the schedule's ticks begin after since.
func ticksOf(spec zkrec.Spec, schedule *cronexpr.Schedule, since int64) ticks.Job {
	return ticks.Job{
		Schedule: schedule, Since: time.UnixMilli(since), Policy: &spec.Job, Paused: spec.Paused,
		Gated: spec.ActiveLayout().BeforeTick != "",
	}
}

// overdue returns the first tick that is not accounted for and late by the job's
// AlarmAfter, by the same rules as the instances; zero if no tick is overdue.
// record says which ticks are accounted for.
func overdue(job ticks.Job, record zkrec.Tick, running bool, now time.Time) time.Time {
	tick, _ := ticks.Overdue(job, record, running, now)
	return tick
}

// readGate completes the records of shards that wait for the first one: its record tells up to which tick they do.
func (c *Client) readGate(ctx context.Context, r *reading) error {
	first, waits := r.of.spec.ActiveLayout().WaitsFor(r.slots[len(r.slots)-1].slot)
	if !waits {
		return nil
	}
	of := r.slots[0]
	if of.slot != first { // a single shard was asked for
		of = records{slot: first}
		if err := c.readRun(ctx, &of); err != nil {
			return err
		}
	}
	if of.tickErr == nil {
		gate := ticks.GateOf(of.tick, zkrec.History{}, time.Time{})
		for i := range r.slots {
			r.slots[i].gate = gate // the first shard makes no use of it
		}
	}
	return nil
}

package admin

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// gateOf is the gate of the parents of a job, by their records.
func gateOf(parents []records) *ticks.Gate {
	gates := make([]*ticks.Gate, len(parents))
	for i, parent := range parents {
		if parent.tickErr == nil {
			gates[i] = ticks.ParentGate(parent.slot, parent.tick, zkrec.History{}, time.Time{})
		}
	}
	return ticks.AllOf(gates)
}

// waitsFor lists the parents for which a tick waits.
func waitsFor(tick time.Time, parents []records) (list []Parent) {
	for _, parent := range parents {
		r := parent.tick
		switch again := r.Again(); {
		case tick.IsZero() || r.Tick == tick.UnixMilli() && r.Manual == "" && r.Finished():
		case r.Tick == tick.UnixMilli() && r.Manual == "" && r.Open():
			run := r.Public()
			list = append(list, Parent{parent.slot, &run})
		case again.NextAttempt != "" && again.Tick == tick.UnixMilli():
			run := again.Public()
			run.NextAttempt, run.NextAttemptAt = again.NextAttempt, zkrec.Time(again.NextAttemptAt)
			list = append(list, Parent{parent.slot, &run})
		case r.Watermark < tick.UnixMilli():
			list = append(list, Parent{Name: parent.slot})
		}
	}
	return list
}

// conclude sets where the ticks of a new shard begin, up to which tick shards wait for the first
// one, and for which places slots may wait. All of it follows from several records.
func (r *reading) conclude() {
	for i := range r.slots {
		r.slots[i].basis = r.job.basis
		if slot := &r.slots[i]; slot.tick.Watermark == 0 && slot.tickErr == nil {
			slot.tick.Watermark = r.of.spec.ActiveLayout().Since
		}
	}
	if len(r.after) > 0 {
		gate := gateOf(r.after)
		for i := range r.slots {
			r.slots[i].gate, r.slots[i].after = gate, r.after
		}
	}
	if r.first == nil || r.first.tickErr != nil {
		return
	}
	gate := ticks.GateOf(r.first.tick, zkrec.History{}, time.Time{})
	for i := range r.slots {
		r.slots[i].gate = gate // the first shard makes no use of it
	}
}

package ticks_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// BenchmarkNext measures an owner's decision about a job that fires every second.
func BenchmarkNext(b *testing.B) {
	now := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	steady := ticks.View{
		Job: ticks.Job{Schedule: schedule(b, "* * * * * ?"), Since: now.AddDate(-1, 0, 0), Policy: &ticks.Policy{}},
		Record: ticks.Record{Watermark: now.UnixMilli() - 1000, Run: zkrec.Run{
			Tick: now.UnixMilli() - 1000, RunID: "r1", SID: me, Token: 1, Attempt: 1,
			State: history.StateOK, Started: now.UnixMilli() - 999, Ended: now.UnixMilli() - 998,
		}},
		Now: now, SID: me, Token: 1, OwnedSince: now.Add(-time.Hour), RunID: "r2",
	}
	for _, bb := range []struct {
		name   string
		change func(v *ticks.View)
	}{
		{"a tick is due", func(*ticks.View) {}},
		{"nothing is due", func(v *ticks.View) { v.Record.Watermark += 1000 }},
		{"a tick during a run", func(v *ticks.View) { v.Record.State, v.Active = history.StateRunning, "r1" }},
		{"a year without an owner", func(v *ticks.View) { v.Record.Watermark, v.OwnedSince = v.Since.UnixMilli(), now }},
		{"a year without an owner, misfire all", func(v *ticks.View) {
			v.Record.Watermark, v.OwnedSince, v.Policy.Misfire = v.Since.UnixMilli(), now, job.MisfireAll
		}},
		{"a year without an owner, half of it paused", func(v *ticks.View) {
			v.Record.Watermark, v.OwnedSince = v.Since.UnixMilli(), now
			v.Paused = &zkrec.Pause{Since: now.AddDate(0, -9, 0).UnixMilli(), Until: now.AddDate(0, -3, 0).UnixMilli()}
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			v := steady
			bb.change(&v)
			b.ReportAllocs()
			for b.Loop() {
				ticks.Next(v)
			}
		})
	}
}

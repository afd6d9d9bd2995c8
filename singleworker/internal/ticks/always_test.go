package ticks_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// What a job that always runs has left unclaimed: its next run, when the pause after the last one is over.
func TestUnclaimedAlways(t *testing.T) {
	t.Parallel()
	after := func(ended, restart string) ticks.Record {
		last := run(t, zkrec.RunFailed, "10:00", me, "10:00", ended)
		return ticks.Record{Watermark: ms(t, "10:00"), Run: last, RestartAt: ms(t, restart)}
	}
	for _, tt := range []struct {
		name             string
		record           ticks.Record
		now, since, next string
	}{
		{"it has never run", ticks.Record{}, "09:00:01", "09:00:00.001", "09:00:16"},
		{"a run is open", ticks.Record{Watermark: ms(t, "10:00"), Run: run(t, zkrec.RunRunning, "10:00", me, "10:00", "")}, "10:00:30", "", "10:00:45"},
		{"in the pause", after("10:00:05", "10:01:05"), "10:01:04.999", "", "10:01:05"},
		{"after the pause", after("10:00:05", "10:01:05"), "10:01:05.200", "10:01:05", "10:01:20.200"},
		{"after a run that ended ahead of time", after("10:00:05", "10:01:05"), "10:00:04", "", "10:01:05"},
		{"after one that was moved, ahead of time", after("10:00:05", "10:00:05"), "10:00:04", "", "10:00:05"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{schedule: "@always", now: tt.now}.view(t)
			wantUnclaimed(t, v.Job, tt.record, v.Now, tt.since, tt.next)
		})
	}
	v := situation{schedule: "* * * * * ?", now: "10:00:30"}.view(t)
	if got := ticks.Unclaimed(v.Job, after("10:00:05", "10:05"), nil, v.Now); got.IsZero() || got.After(v.Now.Add(-time.Second)) {
		t.Errorf("it always ran until lately, and ticks since 10:00 are unclaimed: %v", got)
	}
}

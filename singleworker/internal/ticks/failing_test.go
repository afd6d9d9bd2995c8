package ticks_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// TestFailures: ticks that fail for good are counted from when the job was resumed last, and as
// many as PauseAfterFailures hold back the next one.
func TestFailures(t *testing.T) {
	t.Parallel()
	resumed := &zkrec.Pause{Since: 1, Until: 2}
	for _, tt := range []struct {
		name   string
		state  history.State
		policy ticks.Policy
		paused *zkrec.Pause
		run    zkrec.Run
		before ticks.Record
		want   int
		since  int64
		holds  bool
	}{
		{"a failure", history.StateFailed, ticks.Policy{PauseAfterFailures: 2}, nil, zkrec.Run{}, ticks.Record{}, 1, 0, false},
		{"of a job without a limit", history.StateFailed, ticks.Policy{}, nil, zkrec.Run{}, ticks.Record{}, 0, 0, false},
		{"the last one", history.StateTimedOut, ticks.Policy{PauseAfterFailures: 2}, nil, zkrec.Run{}, ticks.Record{Failed: 1}, 2, 0, true},
		{"after one that was ok", history.StateOK, ticks.Policy{PauseAfterFailures: 2}, nil, zkrec.Run{}, ticks.Record{Failed: 1}, 0, 0, false},
		{"an interrupted one", history.StateInterrupted, ticks.Policy{PauseAfterFailures: 2}, nil, zkrec.Run{}, ticks.Record{Failed: 1}, 1, 0, false},
		{"to be retried", history.StateFailed, ticks.Policy{PauseAfterFailures: 2, Retries: 1}, nil, zkrec.Run{}, ticks.Record{Failed: 1}, 1, 0, false},
		{"of the last retry", history.StateFailed, ticks.Policy{PauseAfterFailures: 2, Retries: 1}, nil, zkrec.Run{Attempt: 2, Failures: 1}, ticks.Record{Failed: 1}, 2, 0, true},
		{"a manual one", history.StateFailed, ticks.Policy{PauseAfterFailures: 2}, nil, zkrec.Run{Manual: "q"}, ticks.Record{Failed: 1}, 1, 0, false},
		{"a manual one that is ok", history.StateOK, ticks.Policy{PauseAfterFailures: 2}, nil, zkrec.Run{Manual: "q"}, ticks.Record{Failed: 1}, 0, 0, false},
		{"the first since it was resumed", history.StateFailed, ticks.Policy{PauseAfterFailures: 2}, resumed, zkrec.Run{}, ticks.Record{Failed: 2}, 1, 2, false},
		{"the last since it was resumed", history.StateFailed, ticks.Policy{PauseAfterFailures: 2}, resumed, zkrec.Run{}, ticks.Record{Failed: 1, FailedSince: 2}, 2, 2, true},
		{"when it is paused", history.StateFailed, ticks.Policy{PauseAfterFailures: 1}, &zkrec.Pause{Since: 1}, zkrec.Run{}, ticks.Record{}, 1, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{policy: tt.policy, through: "10:00", now: "10:01"}.view(t)
			v.Paused = tt.paused
			tt.before.Run, tt.before.Watermark = tt.run, v.Record.Watermark
			tt.before.Tick, tt.before.RunID, tt.before.State = v.Record.Watermark, "r", history.StateRunning
			got := ticks.End(v.Job, tt.before, ticks.Outcome{State: tt.state, Ended: v.Now.Add(-30 * time.Second)}).Record
			if got.Failed != tt.want || got.FailedSince != tt.since || v.Failing(got) != tt.holds {
				t.Errorf("%d since %d, holds %v; want %d since %d, %v", got.Failed, got.FailedSince, v.Failing(got), tt.want, tt.since, tt.holds)
			}
			if v.Record = got; tt.holds {
				wantPlan(t, v, "")
			}
		})
	}
}

package zkrec_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A tick that Jitter has made due late is not too old before its grace has passed since then.
func TestWhetherAnAttemptAsks(t *testing.T) {
	t.Parallel()
	const minute = 60_000
	for what, test := range map[string]struct {
		run    zkrec.Run
		policy job.Job
		want   [3]bool // asks, calls the handler without effects, and if nobody knows
	}{
		"the first attempt":     {zkrec.Run{Attempt: 1}, job.Job{Interrupted: job.InterruptedAsk}, [3]bool{false, true, true}},
		"another policy":        {zkrec.Run{Attempt: 2}, job.Job{Interrupted: job.InterruptedRerun}, [3]bool{false, true, true}},
		"ask":                   {zkrec.Run{Attempt: 2}, job.Job{Interrupted: job.InterruptedAsk}, [3]bool{true, true, true}},
		"ask or skip":           {zkrec.Run{Attempt: 2}, job.Job{Interrupted: job.InterruptedAskOrSkip}, [3]bool{true, true, false}},
		"a retry":               {zkrec.Run{Attempt: 2, Failures: 1}, job.Job{Interrupted: job.InterruptedAsk}, [3]bool{false, true, true}},
		"as often as it may":    {zkrec.Run{Attempt: 3}, job.Job{Interrupted: job.InterruptedAsk, MaxAttempts: 2}, [3]bool{true, false, false}},
		"too old":               {zkrec.Run{Attempt: 2, Started: 3 * minute}, job.Job{Interrupted: job.InterruptedAsk, MisfireGrace: time.Minute}, [3]bool{true, false, false}},
		"old, but due late":     {zkrec.Run{Attempt: 2, Started: 3 * minute}, job.Job{Interrupted: job.InterruptedAsk, MisfireGrace: time.Minute, Jitter: 2 * time.Minute}, [3]bool{true, true, true}},
		"old, however due late": {zkrec.Run{Attempt: 2, Started: 4 * minute}, job.Job{Interrupted: job.InterruptedAsk, MisfireGrace: time.Minute, Jitter: 2 * time.Minute}, [3]bool{true, false, false}},
	} {
		asks, absent, unknown := test.run.Asks(test.policy)
		if got := [3]bool{asks, absent, unknown}; got != test.want {
			t.Errorf("%s: %v, want %v", what, got, test.want)
		}
	}
}

package admin

import (
	"strconv"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A run hangs when it takes ten times as long as 95% of those before it, or longer than any while
// two ticks came; and a minute.
func TestHung(t *testing.T) {
	t.Parallel()
	second := time.Second
	for _, c := range []struct {
		name, schedule string
		state          history.State
		before         []time.Duration
		after          time.Duration // when it hangs; 0 is never
		usual          int64
		hungAfter      time.Duration
	}{
		{"ten times the usual", "0 0 * * * ?", history.StateOK, []time.Duration{30 * second, 20 * second}, 5 * time.Minute, 30_000, 0},
		{"one long run in twenty is not usual", "0 0 * * * ?", history.StateFailed, append(manyTimes(10*second, 19), 10*time.Minute), 100 * second, 10_000, 0},
		{"a minute at least", "0 0 * * * ?", history.StateTimedOut, manyTimes(second, 5), time.Minute, 1_000, 0},
		{"two ticks, and no history", "0 */5 * * * ?", "", nil, 10 * time.Minute, 0, 0},
		{"two ticks, and longer than twice the longest", "0 */5 * * * ?", history.StateOK, []time.Duration{6 * time.Minute}, 12*time.Minute + time.Millisecond, 360_000, 0},
		{"interrupted runs do not tell how long one takes", "0 */5 * * * ?", history.StateInterrupted, manyTimes(second, 5), 10 * time.Minute, 0, 0},
		{"no history, and no ticks", "@manually", "", nil, 0, 0, 0},
		{"as the job says, in less than a minute", "0 */5 * * * ?", history.StateOK, manyTimes(second, 5), 20 * second, 1_000, 20 * second},
		{"as the job says, however long after the usual", "0 */5 * * * ?", history.StateOK, manyTimes(second, 5), 2 * time.Hour, 1_000, 2 * time.Hour},
		{"as the job says, without a history", "@manually", "", nil, time.Hour, 0, time.Hour},
		{"never, as the job says", "0 */5 * * * ?", history.StateOK, manyTimes(second, 5), 0, 0, job.NoHung},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				token := w.owned(job.Job{Name: "job", Schedule: c.schedule, HungAfter: c.hungAfter})
				for i, took := range c.before {
					began := time.Now()
					time.Sleep(took)
					w.end(zkrec.Entry{Run: zkrec.Run{Tick: began.UnixMilli(), Started: began.UnixMilli(), RunID: strconv.Itoa(i), State: c.state, Attempt: 1}})
				}
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
				began := time.Now()
				w.claim(zkrec.Run{Tick: began.UnixMilli(), Started: began.UnixMilli(), RunID: "open", Token: token, Attempt: 1})
				if c.after == 0 {
					time.Sleep(12 * time.Hour)
				} else {
					time.Sleep(c.after - time.Millisecond)
				}
				if got := w.get("job").Hung; got != nil {
					t.Errorf("after %v: %+v, want nil", time.Since(began), got)
				}
				if c.after == 0 {
					return
				}
				time.Sleep(time.Millisecond)
				if got := w.get("job").Hung; got == nil || *got != (Hung{"open", zkrec.UTC(began), c.usual}) {
					t.Errorf("after %v: %+v, want it to hang; usual are %d ms", time.Since(began), got, c.usual)
				}
				w.kill()
				if got := w.get("job").Hung; got != nil {
					t.Errorf("its instance is dead, and %+v", got)
				}
			})
		})
	}
}

func manyTimes(d time.Duration, n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = d
	}
	return all
}

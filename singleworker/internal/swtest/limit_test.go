package swtest_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// A hundred jobs are due in the same second, and each of two instances runs five at once. All run,
// and waiting jobs are shown as waiting. A job that waits may be taken by the other one, if that
// has room.
func TestMaxRunning(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		const jobs, limit = 100, 5
		setup := sharing(t, c, jobs, "0 * * * * ?", working(100*time.Millisecond))
		record := make(chan singleworker.Recorded, 2*jobs)
		setup.Configure = func(cfg *singleworker.Config) {
			cfg.MaxRunning = limit
			cfg.Hooks.OnRecorded = func(e singleworker.Recorded) { record <- e }
		}
		c.Start("i0", setup)
		c.Start("i1", setup)
		time.Sleep(time.Until(c.Begun().Truncate(time.Minute).Add(100 * time.Second)))
		most, ran := 0, make(map[string]int)
		for _, r := range c.Runs() {
			ran[r.Job]++
			running := 0
			for _, other := range c.Runs() {
				if other.Instance == r.Instance && !other.Started.After(r.Started) && other.Ended.After(r.Started) {
					running++
				}
			}
			most = max(most, running)
		}
		if len(ran) != jobs || most != limit {
			t.Errorf("%d jobs ran, at most %d at once; want %d and %d", len(ran), most, jobs, limit)
		}
		delayed, entries := 0, len(record)
		for range entries {
			e := <-record
			if e.State != history.StateOK {
				t.Errorf("%+v, want a run that succeeded", e)
			}
			waited := time.Duration(e.DelayedMillis) * time.Millisecond
			if waited > 0 {
				delayed++
			}
			if late := e.Started.Sub(e.Tick); late > 1500*time.Millisecond || waited > late {
				t.Errorf("%s started %v late, and waited for %v; want it to start when its turn comes", e.Job, late, waited)
			}
		}
		if entries != jobs || delayed < jobs-2*2*limit {
			t.Errorf("%d runs, of which %d are recorded to have waited; want %d, and all but the first ones", entries, delayed, jobs)
		}
		wantNoTickTwice(t, c)
		pass(t, c)
	})
}

package swtest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A child costs, beside a job with as many runs, a watch for each parent, of its owner alone, and
// for each run of a parent the reads of the parent's record and history.
func TestAfterCosts(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		const jobs, minutes = 20, 10
		starting(t, c, map[string]singleworker.Handler{"work": working(time.Second)})
		var mu sync.Mutex
		watches, reads := make(map[string]bool), 0
		c.Server.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
			mu.Lock()
			defer mu.Unlock()
			for _, of := range append(r.Ops, *r) {
				if of.Op == zkdev.OpGetData || of.Op == zkdev.OpGetChildren2 || of.Op == zkdev.OpExists {
					reads++
				}
				if of.Watch || r.Op == zkdev.OpSetWatches {
					watches[r.Client+" "+of.Path] = true
				}
			}
			return zkdev.Pass()
		})
		// of is the cost of so many minutes with further jobs.
		of := func(prefix string, like func(k int) job.Job) (requests, nodes, watched int) {
			for k := range jobs {
				j := like(k)
				j.Name, j.Handler = fmt.Sprint(prefix, k), "work"
				submit(t, c, j)
			}
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(5*time.Minute + 50*time.Second))) // in between ticks
			mu.Lock()
			reads = 0
			mu.Unlock()
			before, ran := c.Server.Traffic(), len(c.Runs())
			time.Sleep(minutes * time.Minute)
			after := c.Server.Traffic()
			if n := len(c.Runs()) - ran; n%(jobs*minutes) != 0 || n == 0 {
				t.Errorf("%d runs in %d minutes with the jobs %s", n, minutes, prefix)
			}
			mu.Lock()
			defer mu.Unlock()
			for op, n := range after.Requests {
				requests += n - before.Requests[op]
			}
			return requests, reads, len(watches)
		}
		requests0, reads0, watches0 := of("parent", func(k int) job.Job { return job.Job{Schedule: fmt.Sprintf("%d * * * * ?", 2*k)} })
		requests1, reads1, watches1 := of("job", func(k int) job.Job { return job.Job{Schedule: fmt.Sprintf("%d * * * * ?", 2*k+1)} })
		requests2, reads2, watches2 := of("child", func(k int) job.Job { return job.Job{Schedule: "@after", After: []string{fmt.Sprint("parent", k)}} })
		const runs = jobs * minutes
		perRun := func(after, between, before int) float64 { return float64(after-2*between+before) / runs }
		if more := perRun(requests2, requests1, requests0); more > 4 {
			t.Errorf("a run of a child takes %.2f requests more than one of another job, want 3 and what deputies ask", more)
		}
		if more := perRun(reads2, reads1, reads0); more > 16 {
			t.Errorf("a run of a child reads %.2f nodes more than one of another job, want 2 records, 6 pages of the history, and what deputies read", more)
		}
		if more := watches2 - 2*watches1 + watches0; more != jobs {
			t.Errorf("%d children have %d watches more than other jobs, want one each", jobs, more)
		}
		pass(t, c)
	})
}

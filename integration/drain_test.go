package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The others own the idle jobs of a drained instance at once.
func TestDrainOfIdleJobs(t *testing.T) { //nolint:paralleltest // it measures
	const jobs = 40
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	for n := range jobs {
		c.submitJob(job.Job{Name: fmt.Sprintf("idle%02d", n), Schedule: "@yearly", Handler: work}, admin.SubmitOptions{})
	}
	drained, other := c.spawn(options{}), c.spawn(options{})
	c.awaitEven(jobs, 2)
	var slowest []time.Duration
	for range 5 {
		at := time.Now()
		ctl.run(exitOK, "instances", "drain", drained.id)
		var last time.Time
		c.eventually("all jobs to be owned by the other", func() error { // which says so after ZooKeeper has it
			n := 0
			for _, e := range c.entries() {
				if e.Event == owned && e.SID == other.id && e.At.After(at) {
					last = e.At
					n++
				}
			}
			if n != jobs/2 {
				return fmt.Errorf("%d jobs were adopted, want %d", n, jobs/2)
			}
			return nil
		})
		if left := c.ownedBy(drained.id); len(left) > 0 {
			t.Errorf("%s still owns %v", drained.id, left)
		}
		slowest = append(slowest, last.Sub(at).Round(time.Millisecond))
		ctl.run(exitOK, "instances", "enable", drained.id)
		c.awaitEven(jobs, 2)
	}
	t.Logf("FIGURE drain of %d idle jobs, from the start of swctl to all owned elsewhere: %v", jobs/2, slowest)
}

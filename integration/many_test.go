package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

func TestTwoHundredJobsOnSixInstances(t *testing.T) {
	t.Parallel()
	const jobs, instances = 200, 6
	c := newCluster(t, sharedServer.get(t))
	for range instances {
		c.start(options{Proxied: true})
	}
	var names []string
	for k := range jobs {
		name := fmt.Sprintf("job-%03d", k)
		c.submitJob(job.Job{Name: name, Schedule: "@every 2s", Handler: work}, admin.SubmitOptions{})
		names = append(names, name)
	}
	submitted := time.Now()
	c.awaitEven(jobs, instances)
	t.Logf("even after the last submit: %v; %d adoptions", time.Since(submitted).Round(time.Millisecond), c.moves(time.Time{}))
	awaitAll(c, names, submitted)

	at := time.Now()
	lost := c.ownedBy(c.instances[0].id)
	c.instances[0].proxy.Cut()
	c.awaitEven(jobs, instances-1)
	moves := c.moves(at)
	awaitAll(c, names, at.Add(session))
	var slowest time.Duration
	for _, job := range lost {
		first := c.awaitRun(job, at, notOn(c.instances[0].id))
		slowest = max(slowest, first.At.Sub(at))
	}
	t.Logf("FIGURE cut off to all %d jobs run elsewhere: %v; %d moves", len(lost), slowest.Round(time.Millisecond), moves)
	// Ideally as many moves as slots were lost. But each slot is taken by its deputy first, and
	// balanced then; on a busy machine a deputy relieves owners that are well, too. internal/lease
	// tests the exact count.
	if moves > jobs {
		t.Errorf("%d moves after one instance was cut off, %d are enough", moves, len(lost))
	}

	at = time.Now()
	c.instances[0].proxy.Heal()
	c.awaitEven(jobs, instances)
	t.Logf("healed to even: %v; %d moves", time.Since(at).Round(time.Millisecond), c.moves(at))
	awaitAll(c, names, time.Now())
}

// awaitAll waits until every job has run since a time.
func awaitAll(c *cluster, names []string, since time.Time) {
	c.t.Helper()
	c.eventually("a run of every job", func() error {
		ran := make(map[string]bool)
		for _, r := range c.runs("") {
			if r.At.After(since) {
				ran[r.Job] = true
			}
		}
		if len(ran) < len(names) {
			return fmt.Errorf("%d of %d jobs have run", len(ran), len(names))
		}
		return nil
	})
}

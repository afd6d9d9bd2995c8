package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// awaitLeader waits until one instance owns all jobs.
func (c *cluster) awaitLeader(sid string, jobs int) {
	c.t.Helper()
	c.eventually(sid+" to lead", func() error {
		owner, counts, err := c.owners()
		if err == nil && (len(owner) != jobs || counts[sid] != jobs) {
			err = fmt.Errorf("%d jobs are owned, by %v", len(owner), counts)
		}
		return err
	})
}

// In latch mode one instance runs everything. When it is killed or stopped, the next in the queue
// takes over. c.check checks that no tick runs twice.
func TestLatchMode(t *testing.T) { //nolint:paralleltest // it measures
	const jobs = 9
	c := newCluster(t, sharedServer.get(t))
	names := c.submitAll(jobs, "job")
	latch := func() options { return options{Mode: singleworker.LatchMode, Sync: 3 * time.Second} }
	first := c.spawn(latch())
	c.awaitLeader(first.id, jobs)
	second := c.start(latch())
	c.awaitQueue(2)
	third := c.start(latch())
	c.awaitQueue(3)
	if err := c.wait(c.start(options{})); !errors.Is(err, singleworker.ErrMode) {
		t.Errorf("an instance of the other mode: Run = %v, want ErrMode", err)
	}

	at := first.kill()
	c.awaitLeader(second.id, jobs)
	c.logTakeover("kill -9 of the leader", names, second.id, at)
	at = time.Now()
	c.must(c.stop(second))
	c.awaitLeader(third.id, jobs)
	c.logTakeover("clean stop of the leader", names, third.id, at)
}

// awaitQueue waits until n instances take part in the election.
func (c *cluster) awaitQueue(n int) {
	c.t.Helper()
	raw := c.raw("")
	c.eventually(fmt.Sprintf("%d to queue", n), func() error {
		queue, _, err := raw.Children(c.node("_leader"))
		if err == nil && len(queue) != n {
			err = fmt.Errorf("the queue is %q", queue)
		}
		return err
	})
}

// logTakeover logs how long it took until another instance owned the jobs and ran them.
func (c *cluster) logTakeover(what string, jobs []string, heir string, at time.Time) {
	c.t.Helper()
	var own, ran []time.Duration
	for _, job := range jobs {
		ran = append(ran, c.awaitRun(job, at, func(r run) bool { return r.SID == heir }).At.Sub(at).Round(time.Millisecond))
		for _, e := range c.entries() {
			if e.Event == owned && e.Job == job && e.SID == heir {
				own = append(own, e.At.Sub(at).Round(time.Millisecond))
			}
		}
	}
	c.t.Logf("FIGURE %s: all owned by the next one after %v, all run after %v", what, slices.Max(own), slices.Max(ran))
}

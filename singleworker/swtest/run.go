package swtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/swtest/audit"
)

// Instance is a started instance.
type Instance struct{ i *swtest.Instance }

// Name returns the instance's id.
func (i *Instance) Name() string { return i.i.Name }

// Stop stops the instance gracefully, like canceling the context of Manager.Run, and returns Run's
// error.
func (i *Instance) Stop() error { return i.i.Stop() }

// Kill ends the instance like SIGKILL; see the package comment.
func (i *Instance) Kill() { i.i.Kill() }

// Partition takes the instance off the network, in both directions, until Heal.
func (i *Instance) Partition() { i.i.Partition() }

// Heal ends a partition.
func (i *Instance) Heal() { i.i.Heal() }

// Run is one call of a handler.
type Run struct {
	Instance string
	ID       string
	Job      string
	Shard    singleworker.Shard
	Tick     time.Time
	Attempt  int   // of this tick, from 1
	Token    int64 // increases with every change of the job's owner
	Started  time.Time
	Ended    time.Time // zero while running
	Err      error     // returned by the handler
	Killed   bool      // its instance was killed during the run
}

// String is the run in a line, such as "report[3] 03:00:00 #2 on app-1, token 7, at 03:00:09: ok
// after 1.2s".
func (r Run) String() string {
	end := "in progress"
	switch took := r.Ended.Sub(r.Started); {
	case r.Killed:
		end = fmt.Sprintf("killed after %v", took)
	case r.Err != nil:
		end = fmt.Sprintf("%v after %v", r.Err, took)
	case !r.Ended.IsZero():
		end = fmt.Sprintf("ok after %v", took)
	}
	name := r.Job
	if r.Shard.Total > 1 {
		name = job.ShardName(name, r.Shard.Index)
	}
	at := func(t time.Time) string { return t.UTC().Format(time.TimeOnly) }
	return fmt.Sprintf("%s %s #%d on %s, token %d, at %s: %s", name, at(r.Tick), r.Attempt, r.Instance, r.Token, at(r.Started), end)
}

// listed is the last runs, one per line, for the report of a failure.
func listed(runs []Run) string {
	const most = 20
	var b strings.Builder
	for _, r := range runs[max(0, len(runs)-most):] {
		fmt.Fprintf(&b, "\n\t%v", r)
	}
	return b.String()
}

// Runs lists the runs of a job so far, in the order in which they started.
func (c *Cluster) Runs(job string) []Run {
	var runs []Run
	for _, r := range c.group.Runs() {
		if r.Job == job {
			runs = append(runs, Run{
				Instance: r.Instance.Name, ID: r.ID, Job: r.Job, Shard: r.Shard, Tick: r.Tick, Attempt: r.Attempt, Token: r.Token,
				Started: r.Started, Ended: r.Ended, Err: r.Err, Killed: r.Killed,
			})
		}
	}
	return runs
}

// AwaitRuns waits until n runs of the job have ended since the cluster was created, and returns all
// its runs.
func (c *Cluster) AwaitRuns(job string, n int) []Run {
	c.tb.Helper()
	var runs []Run
	ended := func() bool {
		runs = c.Runs(job)
		left := n
		for _, r := range runs {
			if !r.Ended.IsZero() {
				left--
			}
		}
		return left <= 0
	}
	if !c.group.Await(c.cfg.Timeout, ended) {
		c.tb.Fatalf("swtest: after %v %s has %d runs, want %d that have ended%s%s", c.cfg.Timeout, job, len(runs), n, listed(runs), c.reasons(job))
	}
	return runs
}

// AssertOnce fails the test unless the job has run, no tick has run twice, and no two runs held the
// lease at the same time. In a job with shards, that applies to each shard. Retries of a failed or
// interrupted run are allowed.
func (c *Cluster) AssertOnce(job string) {
	c.tb.Helper()
	runs := slices.DeleteFunc(c.group.Evidence(), func(r audit.Run) bool { return r.Job != job && !strings.HasPrefix(r.Job, job+"[") })
	for _, found := range audit.Runs(runs) {
		if found.Rule == audit.Twice || found.Rule == audit.Overlap {
			c.tb.Errorf("swtest: %v%s", found, listed(c.Runs(job)))
		}
	}
	if len(runs) == 0 {
		c.tb.Errorf("swtest: %s never ran%s", job, c.reasons(job))
	}
}

package integration

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The process that calls BeforeTick dies in the call: another one calls it again for that tick, and
// no shard has begun before.
func TestBeforeTickWhoseProcessDies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	const shards = 4
	c.submitJob(job.Job{Name: "load", Schedule: everySecond, Handler: work, Shards: shards, BeforeTick: prepares}, admin.SubmitOptions{})
	children := []*child{c.spawn(options{}), c.spawn(options{})}
	c.awaitShards("load", shards, 2)
	c.awaitComplete(time.Time{}, 2)

	_, err := c.admin.Edit(t.Context(), "load", func(j *job.Job) error {
		j.Args = map[string]string{"once": filepath.Join(c.dir, "died")}
		return nil
	}, admin.EditOptions{})
	c.must(err)
	select {
	case <-children[0].ended:
		children[0].kill()
	case <-children[1].ended:
		children[1].kill()
	case <-time.After(patience):
		t.Fatal("no process has died in BeforeTick")
	}
	c.awaitComplete(time.Now(), 2)
	c.awaitShards("load", shards, 1)

	prepared := make(map[time.Time]bool) // the ticks for which BeforeTick has returned
	begun := make(map[time.Time]entry)
	again := false
	for _, e := range c.entries() {
		tick := e.Tick.UTC()
		switch e.Event {
		case beforeStart:
			if run, is := begun[tick]; is {
				t.Errorf("BeforeTick was called for %v by %s at %v, and %s had begun at %v", tick, e.SID, e.At, run.Job, run.At)
			}
			again = again || e.Attempt > 1
		case beforeEnd:
			prepared[tick] = true
		case runStart:
			if !prepared[tick] {
				t.Errorf("%s began tick %v on %s at %v, before BeforeTick had returned", e.Job, tick, e.SID, e.At)
			}
			begun[tick] = e
		}
	}
	if !again {
		t.Error("BeforeTick was not called again for the tick in which its process died")
	}
}

// awaitComplete waits until so many ticks are complete in all shards after a time.
func (c *cluster) awaitComplete(since time.Time, n int) {
	c.t.Helper()
	c.eventually("complete ticks", func() error {
		found := 0
		for _, e := range c.entries() {
			if e.Event == tickComplete && e.At.After(since) {
				found++
			}
		}
		if found < n {
			return fmt.Errorf("%d of %d", found, n)
		}
		return nil
	})
}

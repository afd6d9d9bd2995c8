package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// awaitLast waits until the job's last run is in the given state, and returns it.
func awaitLast(c *cluster, job string, state history.State) (last history.Run) {
	c.t.Helper()
	c.eventually("last run of "+job+" to be "+string(state), func() error {
		status := c.get(job)
		if status.LastRun == nil || status.LastRun.State != state {
			return fmt.Errorf("it is %+v", status.LastRun)
		}
		last = *status.LastRun
		return nil
	})
	return last
}

func TestFailuresAreRecorded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.start(options{})
	for handler, text := range map[string]string{fails: errPaper.Error(), panics: "out of ink"} {
		c.submit(handler, handler)
		first := c.awaitRun(handler, time.Time{}, ended)
		last := awaitLast(c, handler, "failed")
		if !strings.Contains(last.Error, text) || last.InstanceID != first.SID || last.Token != first.Token ||
			last.Attempt != 1 || last.RunID == "" || last.Ended.Before(last.Started) {
			t.Errorf("last run of %s: %+v, want the error %q", handler, last, text)
		}
		c.awaitRun(handler, first.End, ended) // the job's next tick runs
	}
}

// The results of one second's runs do not fit into one request to ZooKeeper.
func TestManyLongErrorsAreRecorded(t *testing.T) {
	t.Parallel()
	const jobs = 300
	c := newCluster(t, sharedServer.get(t))
	text := strings.Repeat("größer als erwartet, ", 1000)
	c.start(options{Handle: map[string]singleworker.Handler{
		"verbose": func(context.Context, *singleworker.Run) error { return errors.New(text) },
	}})
	names := make([]string, jobs)
	for k := range names {
		names[k] = fmt.Sprintf("job-%03d", k)
		c.submitJob(job.Job{Name: names[k], Schedule: "@every 3s", Handler: "verbose"}, admin.SubmitOptions{})
	}
	awaitAll(c, names, time.Now())
	for _, name := range names {
		if last := awaitLast(c, name, "failed"); !strings.HasPrefix(text, last.Error[:1000]) || len(last.Error) > 4<<10+2 {
			t.Fatalf("%s: recorded %d bytes: %q...", name, len(last.Error), last.Error[:1000])
		}
	}
	c.awaitRun(names[0], time.Now())
	if n := c.moves(time.Time{}); n != jobs {
		t.Errorf("%d adoptions of %d jobs: the connection did not last", n, jobs)
	}
}

func TestOverlappingTickIsSkipped(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.start(options{})
	c.submitJob(job.Job{Name: "slow", Schedule: everySecond, Handler: work, Args: map[string]string{"for": "1500ms"}},
		admin.SubmitOptions{})
	first := c.awaitRun("slow", time.Time{}, ended)
	second := c.awaitRun("slow", first.End)
	if second.Tick.Before(first.End.Add(-time.Millisecond)) {
		t.Errorf("a tick that came during a run was run later: %v, then %v", first, second)
	}
}

func TestStopLetsRunFinish(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	stopping := c.start(options{Grace: patience})
	c.submitJob(job.Job{Name: "slow", Schedule: everySecond, Handler: work, Args: map[string]string{"for": "3s"}},
		admin.SubmitOptions{})
	running := c.awaitRun("slow", time.Time{})
	c.start(options{})

	c.must(c.stop(stopping))
	finished := c.awaitRun("slow", time.Time{}, is(running), ended)
	if finished.Cause != "" {
		t.Errorf("context of the run ended: %q, want it to continue within the grace period", finished.Cause)
	}
	c.awaitRun("slow", finished.End, notOn(stopping.id))
	for _, e := range c.entries() {
		if e.Event == owned && e.SID != stopping.id && e.At.Before(finished.End) {
			t.Errorf("the job was handed over before its run had ended: %v, %+v", finished, e)
		}
	}
}

func TestStopRecordsFinishedRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	i := c.start(options{Grace: patience})
	c.submitJob(job.Job{Name: "slow", Schedule: everySecond, Handler: work, Args: map[string]string{"for": "2s"}},
		admin.SubmitOptions{})
	c.awaitRun("slow", time.Time{})
	c.must(c.stop(i))
	runs := c.runs("slow")
	status := c.get("slow")
	if last := status.LastRun; last == nil || last.State != "ok" || last.RunID != runs[len(runs)-1].ID {
		t.Errorf("last run: %+v, want %v, ok", last, runs[len(runs)-1])
	}
	if status.Owner != nil || len(status.Registered) != 0 {
		t.Errorf("owner %+v, registered %q after the last instance has left", status.Owner, status.Registered)
	}
}

func TestRunIsCanceledAfterStopGrace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	const grace = 500 * time.Millisecond
	i := c.start(options{Grace: grace})
	c.submit("held", hold)
	c.awaitRun("held", time.Time{})
	at := time.Now()
	c.must(c.stop(i))
	end := c.awaitRun("held", time.Time{}, endedBy(singleworker.ErrStopping))
	took := end.End.Sub(at)
	t.Logf("stopped to end of the run's context: %v, grace %v", took.Round(time.Millisecond), grace)
	if took < grace || took > patience {
		t.Errorf("the run's context ended after %v, grace is %v", took, grace)
	}
	last := c.get("held").LastRun
	if last == nil || last.State != "interrupted" || !strings.Contains(last.Error, singleworker.ErrStopping.Error()) {
		t.Errorf("last run: %+v, want it interrupted by the stop", last)
	}
}

func TestHandlerIgnoresContext(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	release := make(chan struct{})
	t.Cleanup(func() { close(release) }) // the goroutine is still there
	i := c.start(options{Grace: 200 * time.Millisecond, Handle: map[string]singleworker.Handler{
		"deaf": func(context.Context, *singleworker.Run) error { <-release; return nil },
	}})
	c.submit("stuck", "deaf")
	c.submit("fine", work)
	c.awaitRun("stuck", time.Time{})
	c.awaitRun("fine", time.Time{})
	at := time.Now()
	err := c.stop(i)
	t.Logf("Run returned after %v: %v", time.Since(at).Round(time.Millisecond), err)
	var stuck *singleworker.StuckError
	if !errors.As(err, &stuck) || len(stuck.Jobs) != 1 || stuck.Jobs[0] != "stuck" {
		t.Errorf("Run: %v, want a StuckError that names the job", err)
	}
	if live, err := c.admin.Instances(t.Context()); err != nil || len(live) != 0 {
		t.Errorf("instances: %v, %v; want none", live, err)
	}
}

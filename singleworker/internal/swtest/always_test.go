package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// serving is a handler that ends only when its context does.
func serving(ctx context.Context, _ *singleworker.Run) error {
	<-ctx.Done()
	return nil
}

// always submits so many jobs that always run, and returns the settings of their instances.
func always(t *testing.T, c *swtest.Cluster, jobs int, h singleworker.Handler) swtest.Setup {
	t.Helper()
	return sharing(t, c, jobs, "@always", h)
}

// wantOneAtATime expects that no two runs of a job were in progress at the same time.
func wantOneAtATime(t *testing.T, c *swtest.Cluster) {
	t.Helper()
	last := make(map[string]swtest.Run)
	for _, r := range c.Runs() {
		slot := r.Job
		if r.Shard.Total > 0 {
			slot = job.ShardName(r.Job, r.Shard.Index)
		}
		if before, ran := last[slot]; ran && (before.End().IsZero() || before.End().After(r.Started)) && before.Instance.State() != swtest.Killed {
			t.Errorf("%s: the run on %s at %v began before that on %s had ended, at %v", r.Job, r.Instance.Name, r.Started, before.Instance.Name, before.End())
		}
		last[slot] = r
	}
}

// entriesOf lists the entries of a job, the newest first.
func entriesOf(t *testing.T, c *swtest.Cluster, name string) (entries []history.Entry) {
	t.Helper()
	operate(t, c, func(client *admin.Client) error {
		h, err := client.History(t.Context(), name)
		entries = h.Entries
		return err
	})
	return entries
}

// A job that always runs is started again when it ends, after a pause that doubles while its runs
// do not last.
func TestAlwaysRestarts(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		var failing atomic.Bool
		failing.Store(true)
		setup := always(t, c, 1, func(ctx context.Context, run *singleworker.Run) error {
			if failing.Load() {
				return errors.New("no route")
			}
			return working(time.Hour)(ctx, run)
		})
		c.Start("i0", setup)
		time.Sleep(45 * time.Minute)
		var pauses []string
		runs := c.Runs()
		for k := range runs[1:] { // runs[k] is before runs[k+1]
			pauses = append(pauses, runs[k+1].Started.Sub(runs[k].End()).Round(100*time.Millisecond).String())
		}
		if got, want := fmt.Sprint(pauses[:12]), "[1s 2s 4s 8s 16s 32s 1m4s 2m8s 4m16s 5m0s 5m0s 5m0s]"; got != want {
			t.Errorf("pauses %s\nwant   %s", got, want)
		}
		if rows := entriesOf(t, c, "job0"); len(rows) < 12 || rows[0].State != history.StateFailed || rows[0].Restarts == 0 {
			t.Errorf("history: %+v", rows)
		}
		if s := status(t, c, "job0"); s.Failing == nil || s.NextRun.IsZero() || s.State != admin.StateOwned || !s.Overdue.IsZero() {
			t.Errorf("while it pauses: %+v", s)
		}
		failing.Store(false)
		time.Sleep(90 * time.Minute) // it runs for an hour, which ends the series, and again
		runs = c.Runs()
		last := runs[len(runs)-1]
		before := runs[len(runs)-2]
		if pause := last.Started.Sub(before.End()); pause.Round(100*time.Millisecond) != time.Second {
			t.Errorf("the pause after a run of %v is %v", before.End().Sub(before.Started), pause)
		}
		if s := status(t, c, "job0"); s.LastRun == nil || s.LastRun.State != history.StateRunning || s.LastRun.Restarts != 0 || !s.NextRun.IsZero() || !s.LastRun.Started.Equal(last.Started.Truncate(time.Millisecond)) {
			t.Errorf("while it runs: %+v", s.LastRun)
		}
		wantOneAtATime(t, c)
	})
}

// A job that always runs moves when an instance joins, is drained, or stops: its run ends with a
// cause first, and the next one begins elsewhere at once. It does not move more often than that.
func TestAlwaysMoves(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		var causes atomic.Int64
		setup := always(t, c, 6, func(ctx context.Context, run *singleworker.Run) error {
			err := serving(ctx, run)
			if errors.Is(context.Cause(ctx), singleworker.ErrMoved) {
				causes.Add(1)
			}
			time.Sleep(100 * time.Millisecond) // it takes a while to end
			return err
		})
		first := c.Start("i0", setup)
		time.Sleep(settled)
		if n := len(c.Runs()); n != 6 {
			t.Fatalf("%d runs", n)
		}
		c.Start("i1", setup)
		time.Sleep(time.Minute)
		c.Start("i2", setup)
		time.Sleep(time.Minute)
		if got, want := c.Shares(), map[string]int{"i0": 2, "i1": 2, "i2": 2}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		if n := len(c.Runs()); n != 6+3+2 || causes.Load() != 5 {
			t.Errorf("%d runs, %d of them ended to move; want 3 jobs to have moved to the second instance, and 2 to the third", n, causes.Load())
		}
		for _, r := range c.Runs()[6:] {
			before := slices.IndexFunc(c.Runs(), func(b swtest.Run) bool { return b.Job == r.Job })
			if gap := r.Started.Sub(c.Runs()[before].End()); gap > 2*time.Second && gap < 50*time.Second {
				t.Errorf("%s: the next run began %v after the one that moved", r.Job, gap)
			}
		}
		time.Sleep(time.Hour)
		if n := len(c.Runs()); n != 11 {
			t.Errorf("%d runs an hour later", n)
		}
		if rows := entriesOf(t, c, c.Runs()[6].Job); len(rows) < 2 || rows[1].State != history.StateInterrupted || rows[0].Restarts != 0 {
			t.Errorf("history of a job that moved: %+v", rows)
		}
		begin := time.Now()
		first.Leave()
		time.Sleep(4 * time.Second)
		if first.State() != swtest.Stopped {
			t.Errorf("the stop takes longer than %v: it is %v", time.Since(begin), first.State())
		}
		time.Sleep(time.Minute)
		if got, want := c.Shares(), map[string]int{"i1": 3, "i2": 3}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Disable(t.Context(), "i1", admin.OrderOptions{})
			return err
		})
		time.Sleep(time.Minute)
		if got, want := c.Shares(), map[string]int{"i1": 0, "i2": 6}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		running := 0
		for _, r := range c.Runs() {
			if r.End().IsZero() {
				running++
			}
		}
		if running != 6 || len(c.Runs()) != 11+2+3 {
			t.Errorf("%d of %d runs are in progress, want 6 of 16", running, len(c.Runs()))
		}
		wantOneAtATime(t, c)
	})
}

// A job that always runs continues elsewhere when its owner has died, during its run or between two
// runs; who continues a pause counts from the same end.
func TestAlwaysAfterACrash(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		var failing atomic.Bool
		setup := always(t, c, 1, func(ctx context.Context, run *singleworker.Run) error {
			if failing.Load() {
				return errors.New("no route")
			}
			return serving(ctx, run)
		})
		for _, name := range []string{"i0", "i1", "i2"} {
			c.Start(name, setup)
		}
		time.Sleep(settled)
		crash := func() {
			owner := c.Owners()["job0"]
			for _, i := range c.Live() {
				if i.Name == owner {
					i.Kill()
				}
			}
		}
		crash()
		time.Sleep(30 * time.Second)
		if n := len(c.Runs()); n != 2 {
			t.Fatalf("%d runs", n)
		}
		if rows := entriesOf(t, c, "job0"); len(rows) != 2 || rows[1].State != history.StateInterrupted {
			t.Errorf("history: %+v", rows)
		}
		failing.Store(true)
		operate(t, c, func(client *admin.Client) error {
			_, err := client.StopRun(t.Context(), "job0", admin.StopOptions{})
			return err
		})
		time.Sleep(2 * time.Minute) // the pauses get longer
		s := status(t, c, "job0")
		if time.Until(s.NextRun) < 5*time.Second {
			t.Fatalf("the next run is due %v", s.NextRun)
		}
		crash()
		time.Sleep(time.Until(s.NextRun) + 2*time.Second)
		runs := c.Runs()
		if late := runs[len(runs)-1].Started.Sub(s.NextRun); late < 0 || late > time.Second {
			t.Errorf("the next run began %v late", late)
		}
		wantOneAtATime(t, c)
	})
}

// A pause begins no run and ends none. An edited spec takes effect when the run in progress has
// ended, which it does at once.
func TestAlwaysIsPausedAndEdited(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		setup := always(t, c, 1, serving)
		c.Start("i0", setup)
		time.Sleep(settled)
		edit := func(change func(j *job.Job)) {
			operate(t, c, func(client *admin.Client) error {
				_, err := client.Edit(t.Context(), "job0", func(j *job.Job) error { change(j); return nil }, admin.EditOptions{})
				return err
			})
			time.Sleep(settled)
		}
		edit(func(j *job.Job) { j.Args = map[string]string{"a": "1"} })
		if n := len(c.Runs()); n != 2 {
			t.Errorf("after an edit: %d runs", n)
		}
		edit(func(j *job.Job) { j.Shards = 2 })
		time.Sleep(settled)
		if n := len(c.Runs()); n != 4 || status(t, c, "job0").Resizing != nil {
			t.Errorf("after a division: %d runs", n)
		}
		operate(t, c, func(client *admin.Client) error {
			if _, err := client.Pause(t.Context(), "job0", admin.PauseOptions{}); err != nil {
				return err
			}
			_, err := client.StopRun(t.Context(), "job0", admin.StopOptions{})
			return err
		})
		time.Sleep(time.Hour)
		if n := len(c.Runs()); n != 4 {
			t.Errorf("paused and stopped: %d runs", n)
		}
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Resume(t.Context(), "job0", admin.ResumeOptions{})
			return err
		})
		time.Sleep(settled)
		if n := len(c.Runs()); n != 6 {
			t.Errorf("resumed: %d runs", n)
		}
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Trigger(t.Context(), "job0", admin.TriggerOptions{})
			if !errors.As(err, new(*invalid.FieldError)) {
				t.Errorf("a manual run: %v", err)
			}
			return nil
		})
		edit(func(j *job.Job) { j.Schedule = "* * * * *" })
		time.Sleep(10 * time.Minute)
		for _, r := range c.Runs()[6:] {
			if r.Tick.Second() != 0 {
				t.Errorf("with another schedule: a run of %v", r.Tick)
			}
		}
		wantOneAtATime(t, c)
	})
}

// Jobs that always run take no place of the runs that an instance may have in progress.
func TestAlwaysBesideALimitOfRuns(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		setup := always(t, c, 3, serving)
		setup.Handlers["tick"] = working(time.Second)
		setup.Configure = func(cfg *singleworker.Config) { cfg.MaxRunning = 1 }
		if err := c.Submit(t.Context(), job.Job{Name: "tick", Schedule: "@every 10s"}); err != nil {
			t.Fatal(err)
		}
		c.Start("i0", setup)
		time.Sleep(time.Minute + settled)
		runs := make(map[string]int)
		for _, r := range c.Runs() {
			runs[r.Job]++
		}
		if runs["job0"] != 1 || runs["job1"] != 1 || runs["job2"] != 1 || runs["tick"] < 5 {
			t.Errorf("runs %v", runs)
		}
	})
}

// The switch reports a job that always runs and that nobody runs.
func TestAlwaysIsReportedMissing(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		setup := always(t, c, 1, serving)
		var missed atomic.Int64
		watcher := swtest.Setup{
			Handlers: map[string]singleworker.Handler{"other": serving},
			Configure: func(cfg *singleworker.Config) {
				cfg.Hooks.OnTickMissed = func(singleworker.Missed) { missed.Add(1) }
			},
		}
		c.Start("watcher", watcher)
		owner := c.Start("i0", setup)
		time.Sleep(time.Hour)
		if n := missed.Load(); n != 0 {
			t.Errorf("%d reports while it runs", n)
		}
		owner.Kill()
		time.Sleep(time.Hour)
		if n := missed.Load(); n != 1 {
			t.Errorf("%d reports after its owner's end, want 1", n)
		}
		if s := status(t, c, "job0"); s.Alarm == nil {
			t.Errorf("no alarm on record: %+v", s)
		}
	})
}

// A job that always runs leaves an instance that may not run it any more: because of an order for
// the job, or of the job's requirements.
func TestAlwaysLeavesWhereItMayNotRun(t *testing.T) {
	t.Parallel()
	for what, bar := range map[string]func(t *testing.T, a *admin.Client, owner string) error{
		"an order for the job": func(t *testing.T, a *admin.Client, owner string) error {
			t.Helper()
			_, err := a.DisableAt(t.Context(), admin.Target{InstanceID: owner, Job: "job0"}, admin.OrderOptions{By: "test"})
			return err
		},
		"requirements": func(t *testing.T, a *admin.Client, owner string) error {
			t.Helper()
			_, err := a.Edit(t.Context(), "job0", func(j *singleworker.Job) error {
				j.Instances = []string{map[string]string{"i0": "i1", "i1": "i0"}[owner]}
				return nil
			}, admin.EditOptions{})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				setup := always(t, c, 1, serving)
				c.Start("i0", setup)
				c.Start("i1", setup)
				time.Sleep(settled)
				owner := c.Owners()["job0"]
				operate(t, c, func(a *admin.Client) error { return bar(t, a, owner) })
				time.Sleep(settled)
				if next := c.Owners()["job0"]; next == owner || next == "" {
					t.Errorf("%q owns the job, want the other one than %s", next, owner)
				}
				runs := c.Runs()
				if last := runs[len(runs)-1]; last.Instance.Name == owner || !last.End().IsZero() {
					t.Errorf("the last run is on %s, ended at %v; want one in progress elsewhere than on %s", last.Instance.Name, last.End(), owner)
				}
				wantNoTickTwice(t, c)
				pass(t, c)
			})
		})
	}
}

// TestAlwaysBecomesTimedWhileItsOwnerIsDead gives a job that always runs a daily schedule when the
// owner of its run has just died, or cannot be reached: that run is over, and its handler, which
// would stay for ever, is not called again.
func TestAlwaysBecomesTimedWhileItsOwnerIsDead(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(*swtest.Instance){
		"it is dead": (*swtest.Instance).Kill, "it is cut off": (*swtest.Instance).Partition, "it is stalled": (*swtest.Instance).Stall,
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				setup := always(t, c, 1, serving)
				byName := make(map[string]*swtest.Instance)
				for _, n := range []string{"i0", "i1"} {
					byName[n] = c.Start(n, setup)
				}
				time.Sleep(settled)
				owner := byName[c.Owners()["job0"]]
				lose(owner)
				time.Sleep(time.Second)
				operate(t, c, func(a *admin.Client) error {
					_, err := a.Edit(t.Context(), "job0", func(j *singleworker.Job) error { j.Schedule = "0 0 3 * * ?"; return nil }, admin.EditOptions{})
					return err
				})
				time.Sleep(20 * time.Second)
				owner.Resume()
				time.Sleep(time.Minute)
				runs := entriesOf(t, c, "job0")
				if len(runs) != 1 || runs[0].State != history.StateInterrupted {
					t.Errorf("the runs: %+v", runs)
				}
			})
		})
	}
}

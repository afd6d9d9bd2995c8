package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// status is a job's status; its State is "" if there is no such job.
func status(t *testing.T, c *swtest.Cluster, name string) (s admin.JobStatus) {
	t.Helper()
	operate(t, c, func(client *admin.Client) (err error) {
		if s, err = client.Get(t.Context(), name); errors.Is(err, admin.ErrNotFound) {
			return nil
		}
		return err
	})
	return s
}

// at is the schedule of one tick.
func at(t time.Time) string { return "@at " + t.UTC().Truncate(time.Second).Format(time.RFC3339) }

// three starts three instances with handlers for two jobs.
func three(c *swtest.Cluster, handler singleworker.Handler) {
	setup := swtest.Setup{Handlers: map[string]singleworker.Handler{"once": handler, "busy": working(10 * time.Millisecond)}}
	for _, name := range []string{"i0", "i1", "i2"} {
		c.Start(name, setup)
	}
}

// wantUnheld expects that nothing of a job that nobody owns has an owner or a heartbeat.
func wantUnheld(t *testing.T, c *swtest.Cluster, slots ...string) {
	t.Helper()
	c.View(func(m *swtest.Model) {
		for _, slot := range slots {
			if j := m.Jobs[slot]; j == nil || j.Owner.SID != "" || len(j.Beats) != 0 {
				t.Errorf("%s: %+v, want it there, without an owner and a heartbeat", slot, j)
			}
		}
	})
}

// A one-shot that has run is done: it has no owner, no heartbeat and no share, its result can be
// seen, and it is removed.
func TestOneShotIsDoneAndRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(2*time.Second))
		time.Sleep(settled)
		tick := time.Now().Add(time.Minute)
		if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: at(tick), KeepDone: time.Hour}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if s := status(t, c, "once"); s.State != admin.StateOwned || !s.DoneAt.IsZero() {
			t.Errorf("before its tick it is %s (%s)", s.State, s.Reason)
		}
		time.Sleep(time.Minute)
		s := status(t, c, "once")
		if s.State != admin.StateDone || s.LastRun == nil || s.LastRun.State != history.StateOK || s.Owner != nil {
			t.Errorf("after its run it is %s (%s), run %+v, owner %+v", s.State, s.Reason, s.LastRun, s.Owner)
		}
		if since := s.DoneAt.Sub(tick); since < 2*time.Second || since > settled {
			t.Errorf("done %v after the tick", since)
		}
		wantUnheld(t, c, "once")
		if got, want := c.Shares(), map[string]int{"i0": 0, "i1": 0, "i2": 0}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		time.Sleep(time.Hour - 2*time.Minute)
		if s := status(t, c, "once"); s.State != admin.StateDone {
			t.Errorf("two minutes before the end of an hour it is %q", s.State)
		}
		time.Sleep(4 * time.Minute)
		if s := status(t, c, "once"); s.State != "" {
			t.Errorf("after an hour it is %s", s.State)
		}
		if n := len(c.Runs()); n != 1 {
			t.Errorf("%d runs", n)
		}
		deletions := 0
		for _, txn := range c.Server.Log() {
			if txn.Op == zkdev.OpDelete && txn.Code == zkdev.OK && strings.HasSuffix(txn.Path, "/once") && !strings.Contains(txn.Path, "_") {
				deletions++
			}
		}
		if deletions != 1 {
			t.Errorf("deleted %d times", deletions)
		}
		pass(t, c)
	})
}

// A trigger opens a job that is done; it is done once more when that run has ended. So does another
// schedule.
func TestDoneJobIsOpenedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(time.Second))
		if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: at(time.Now().Add(20 * time.Second)), KeepDone: 10 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		before := status(t, c, "once")
		if before.State != admin.StateDone {
			t.Fatalf("it is %s", before.State)
		}
		operate(t, c, func(client *admin.Client) error {
			result, err := client.Trigger(t.Context(), "once", admin.TriggerOptions{})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			runs, err := client.AwaitRun(ctx, "once", result.ID)
			if err != nil || len(runs) != 1 || !runs[0].OK() {
				t.Errorf("the manual run: %+v, %v", runs, err)
			}
			return nil
		})
		time.Sleep(time.Minute)
		after := status(t, c, "once")
		if after.State != admin.StateDone || !after.DoneAt.After(before.DoneAt) {
			t.Errorf("after the manual run it is %s since %v, before that since %v", after.State, after.DoneAt, before.DoneAt)
		}
		wantUnheld(t, c, "once")
		time.Sleep(6 * time.Minute) // ten minutes after it was done for the first time
		if s := status(t, c, "once"); s.State != admin.StateDone {
			t.Errorf("it is kept from when it was done last, and is %q", s.State)
		}
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Edit(t.Context(), "once", func(j *job.Job) error { j.Schedule = "* * * * *"; return nil }, admin.EditOptions{})
			return err
		})
		time.Sleep(30 * time.Minute)
		if s, n := status(t, c, "once"), len(c.Runs()); s.State != admin.StateOwned || n < 30 {
			t.Errorf("with another schedule it is %s, and has run %d times", s.State, n)
		}
		pass(t, c)
	})
}

// All shards of a one-shot are done together.
func TestShardedOneShotIsDone(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, func(ctx context.Context, run *singleworker.Run) error {
			return working(time.Duration(1+30*run.Shard.Index)*time.Second)(ctx, run)
		})
		tick := time.Now().Add(20 * time.Second)
		if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: at(tick), Shards: 3, KeepDone: time.Hour}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(70 * time.Second) // the last shard runs
		if s := status(t, c, "once"); s.State != admin.StateOwned {
			t.Errorf("while a shard runs it is %s (%s)", s.State, s.Reason)
		}
		time.Sleep(time.Minute)
		s := status(t, c, "once")
		if s.State != admin.StateDone || s.DoneAt.Sub(tick) < 61*time.Second || s.Complete.IsZero() {
			t.Errorf("after the last run it is %s (%s), done at %v, complete through %v", s.State, s.Reason, s.DoneAt, s.Complete)
		}
		wantUnheld(t, c, "once[0]", "once[1]", "once[2]")
		time.Sleep(time.Hour)
		if s := status(t, c, "once"); s.State != "" || len(c.Runs()) != 3 {
			t.Errorf("an hour later it is %s, after %d runs", s.State, len(c.Runs()))
		}
		pass(t, c)
	})
}

// A one-shot that is resharded while its run is in progress is not done before the nodes of its
// former slots are deleted: nobody would look after them.
func TestReshardedOneShotIsDone(t *testing.T) {
	t.Parallel()
	for _, change := range []struct{ from, to int }{{0, 4}, {4, 2}} {
		t.Run(fmt.Sprint(change), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				three(c, working(2*time.Second))
				tick := time.Now().Add(20 * time.Second)
				if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: at(tick), Shards: change.from}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(tick.Add(time.Second)))
				reshard(t, c, "once", change.to)
				time.Sleep(time.Minute)
				if s := status(t, c, "once"); s.State != admin.StateDone {
					t.Errorf("it is %s (%s)", s.State, s.Reason)
				}
				c.View(func(m *swtest.Model) {
					slots := 0
					for name, j := range m.Jobs {
						if j.Owner.SID != "" || len(j.Beats) != 0 {
							t.Errorf("%s has owner %q and %d heartbeats, want none", name, j.Owner.SID, len(j.Beats))
						}
						if j.Known.Tick {
							slots++
						}
					}
					if slots != change.to {
						t.Errorf("%d slots have a record of their ticks, want %d", slots, change.to)
					}
				})
				pass(t, c)
			})
		})
	}
}

// A declared one-shot runs once, however often instances start: within KeepDone it is there and
// done, after that it is created again and is done at once.
func TestDeclaredOneShotRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		setup := swtest.Setup{
			Handlers: map[string]singleworker.Handler{"once": working(time.Second)},
			Jobs:     []singleworker.Job{{Name: "once", Schedule: at(time.Now().Add(30 * time.Second)), KeepDone: 10 * time.Minute}},
		}
		c.Start("i0", setup)
		time.Sleep(2 * time.Minute)
		first := status(t, c, "once")
		c.Start("i1", setup)
		time.Sleep(time.Minute)
		if s := status(t, c, "once"); s.State != admin.StateDone || s.Version != first.Version {
			t.Errorf("after a start it is %s, version %d; before that %s, version %d", s.State, s.Version, first.State, first.Version)
		}
		time.Sleep(10 * time.Minute)
		if s := status(t, c, "once"); s.State != "" {
			t.Errorf("after KeepDone it is %s", s.State)
		}
		c.Start("i2", setup)
		time.Sleep(time.Minute)
		if s := status(t, c, "once"); s.State != admin.StateDone || s.LastRun != nil || !s.Declared {
			t.Errorf("declared again it is %s, run %+v", s.State, s.LastRun)
		}
		time.Sleep(time.Hour)
		if s := status(t, c, "once"); s.State != "" || len(c.Runs()) != 1 {
			t.Errorf("an hour later it is %q, after %d runs", s.State, len(c.Runs()))
		}
		pass(t, c)
	})
}

// A one-shot is not done while its tick waits for the end of a pause, or its run for a retry.
func TestOneShotThatIsNotDone(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, func(_ context.Context, run *singleworker.Run) error {
			if run.Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		})
		tick := time.Now().Add(20 * time.Second)
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Submit(t.Context(), job.Job{Name: "once", Schedule: at(tick), Retries: 1, Backoff: time.Minute},
				admin.SubmitOptions{Pause: &admin.PauseOptions{Until: tick.Add(time.Minute), Missed: job.MisfireOnce}})
			return err
		})
		time.Sleep(time.Minute)
		if s := status(t, c, "once"); s.State != admin.StateOwned || s.Paused == nil || s.LastRun != nil {
			t.Errorf("paused, it is %s, run %+v", s.State, s.LastRun)
		}
		time.Sleep(time.Minute)
		if s := status(t, c, "once"); s.State != admin.StateOwned || s.LastRun == nil || s.LastRun.NextAttempt == "" {
			t.Errorf("before its retry it is %s, run %+v", s.State, s.LastRun)
		}
		time.Sleep(time.Minute)
		if s := status(t, c, "once"); s.State != admin.StateDone || s.LastRun.State != history.StateOK || s.LastRun.Attempt != 2 {
			t.Errorf("after its retry it is %s, run %+v", s.State, s.LastRun)
		}
	})
}

// A job without a schedule is owned, moves like any other, runs when it is triggered, and never
// otherwise.
func TestManualJob(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(time.Second))
		for _, name := range []string{"once", "busy"} {
			if err := c.Submit(t.Context(), job.Job{Name: name, Schedule: "@manually"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		s := status(t, c, "once")
		if s.State != admin.StateOwned || !s.NextRun.IsZero() || !s.Overdue.IsZero() || s.Alarm != nil || len(c.Runs()) != 0 {
			t.Fatalf("after two hours: %+v, %d runs", s, len(c.Runs()))
		}
		for _, i := range c.Live() {
			if i.Name == s.Owner.InstanceID {
				i.Kill() // the one that watches the requests relieves it
			}
		}
		begin := time.Now()
		operate(t, c, func(client *admin.Client) error {
			result, err := client.Trigger(t.Context(), "once", admin.TriggerOptions{})
			if err != nil {
				return err
			}
			runs, err := client.AwaitRun(t.Context(), "once", result.ID)
			if err != nil || len(runs) != 1 || !runs[0].OK() || runs[0].Started.Sub(begin) > 500*time.Millisecond {
				t.Errorf("the manual run, requested at %v: %+v, %v", begin, runs, err)
			}
			return nil
		})
		time.Sleep(time.Hour)
		if s := status(t, c, "once"); s.State != admin.StateOwned || len(c.Runs()) != 1 {
			t.Errorf("an hour later it is %s, after %d runs", s.State, len(c.Runs()))
		}
		pass(t, c)
	})
}

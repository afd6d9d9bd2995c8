package swtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
)

func freeze(t *testing.T, c *swtest.Cluster, opts admin.FreezeOptions) (done admin.FreezeResult) {
	t.Helper()
	operate(t, c, func(client *admin.Client) (err error) {
		done, err = client.Freeze(t.Context(), opts)
		return err
	})
	return done
}

func unfreeze(t *testing.T, c *swtest.Cluster, missed job.MisfirePolicy) {
	t.Helper()
	operate(t, c, func(client *admin.Client) error {
		_, err := client.Unfreeze(t.Context(), admin.ResumeOptions{Missed: missed})
		return err
	})
}

// ranBetween counts the runs of a job that began after from, up to until.
func ranBetween(c *swtest.Cluster, name string, from, until time.Time) (n int) {
	for _, r := range c.Runs() {
		if r.Job == name && r.Started.After(from) && !r.Started.After(until) {
			n++
		}
	}
	return n
}

// While the group is frozen only what is excepted, or asked for, begins: also when the owner dies,
// another instance joins, and jobs are submitted.
func TestFreeze(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(100*time.Millisecond))
		time.Sleep(settled)
		submit := func(j job.Job) {
			t.Helper()
			if err := c.Submit(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		submit(job.Job{Name: "once", Schedule: "* * * * * ?"})
		submit(job.Job{Name: "busy", Schedule: "* * * * * ?"})
		time.Sleep(time.Minute)
		done := freeze(t, c, admin.FreezeOptions{PauseOptions: admin.PauseOptions{By: "ops", Reason: "upgrade"}, Except: []string{"busy"}})
		from := time.Now()
		if f := done.Freeze; done.Outcome != admin.OutcomeFrozen || f == nil || f.By != "ops" || !slices.Equal(f.Except, []string{"busy"}) || !f.Until.IsZero() {
			t.Errorf("%+v", done)
		}
		submit(job.Job{Name: "late", Schedule: "* * * * * ?", Handler: "once"})
		time.Sleep(10 * time.Second)
		s := status(t, c, "once")
		if c, is := s.Condition(reason.Frozen); s.Frozen == nil || !is || c.Remedy != "swctl unfreeze" || !s.NextRun.IsZero() || s.Paused != nil || !s.Overdue.IsZero() {
			t.Errorf("frozen: %+v", s)
		}
		if s := status(t, c, "busy"); s.Frozen != nil || s.NextRun.IsZero() {
			t.Errorf("excepted: %+v", s)
		}
		for _, i := range c.Instances() {
			if i.Name == s.Owner.InstanceID {
				i.Kill()
			}
		}
		c.Start("i9", swtest.Setup{Handlers: map[string]singleworker.Handler{"once": working(time.Millisecond), "busy": working(time.Millisecond)}})
		time.Sleep(5 * time.Minute)
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Trigger(t.Context(), "once", admin.TriggerOptions{})
			return err
		})
		time.Sleep(10 * time.Second)
		until := time.Now()
		if once, late := ranBetween(c, "once", from, until), ranBetween(c, "late", from, until); once != 1 || late != 0 {
			t.Errorf("%d runs of once, %d of late began; want the one that was asked for", once, late)
		}
		if n := ranBetween(c, "busy", from, until); n < 250 {
			t.Errorf("%d runs of what is excepted", n)
		}
		unfreeze(t, c, job.MisfireSkip)
		time.Sleep(10 * time.Second)
		if n := ranBetween(c, "once", until, time.Now()); n < 9 || n > 11 {
			t.Errorf("%d runs in the 10 seconds after the freeze", n)
		}
		operate(t, c, func(client *admin.Client) error {
			past, err := client.History(t.Context(), "late")
			if !slices.ContainsFunc(past.Entries, func(e history.Entry) bool { return e.Reason == history.ReasonFrozen && e.Count > 250 }) {
				t.Errorf("the history of %d entries does not tell of the freeze", len(past.Entries))
			}
			x, whyErr := client.Why(t.Context(), "once", from.Add(time.Minute))
			if x.Reason != history.ReasonFrozen || x.Freeze == nil || x.Freeze.By != "ops" {
				t.Errorf("why: %s %s, %+v, %v", x.Fate, x.Reason, x.Freeze, whyErr)
			}
			return err
		})
		pass(t, c)
	})
}

// A freeze needs no instance, holds for those that start in it, and ends by itself. What was due is
// judged as in a pause, and another list of exceptions counts from then on.
func TestFreezeWithoutInstances(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(100*time.Millisecond))
		time.Sleep(settled)
		for _, name := range []string{"once", "busy"} {
			if err := c.Submit(t.Context(), job.Job{Name: name, Schedule: "0/10 * * * * ?"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		for _, i := range c.Instances() {
			if err := i.Stop(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 5*time.Second))) // between two ticks
		freeze(t, c, admin.FreezeOptions{PauseOptions: admin.PauseOptions{For: 10 * time.Minute, Missed: job.MisfireOnce}})
		from := time.Now()
		time.Sleep(2 * time.Minute)
		setup := swtest.Setup{Handlers: map[string]singleworker.Handler{"once": working(time.Second), "busy": working(time.Millisecond)}}
		c.Start("j0", setup)
		c.Start("j1", setup)
		time.Sleep(2 * time.Minute)
		changed := time.Now() // the last tick until then runs at once: it is the end of a pause
		again := freeze(t, c, admin.FreezeOptions{PauseOptions: admin.PauseOptions{Until: from.Add(10 * time.Minute), Missed: job.MisfireOnce}, Except: []string{"busy"}})
		if !again.Freeze.Since.After(from.Add(3 * time.Minute)) {
			t.Errorf("other exceptions since %v", again.Freeze.Since)
		}
		time.Sleep(time.Until(from.Add(10*time.Minute - time.Second)))
		if n := ranBetween(c, "once", from, time.Now()) + ranBetween(c, "busy", from, changed.Add(-time.Millisecond)); n != 0 {
			t.Errorf("%d runs began", n)
		}
		if n := ranBetween(c, "busy", changed, time.Now()); n < 30 {
			t.Errorf("%d runs of what is excepted by now", n)
		}
		time.Sleep(4 * time.Second)
		if n := ranBetween(c, "once", from, time.Now()); n != 1 {
			t.Errorf("%d runs of once when the freeze is over, want the one of the last tick", n)
		}
		pass(t, c)
	})
}

package swtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A job claims as many ticks as MaxRuns says, whoever dies meanwhile, also in the middle of a run.
// It is done then, and kept; a manual run does not count, and another MaxRuns begins to count.
func TestMaxRunsOverTakeovers(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(2*time.Second))
		time.Sleep(settled)
		if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: "@every 20s", MaxRuns: 7, KeepDone: time.Second}); err != nil {
			t.Fatal(err)
		}
		byOwner := func() *swtest.Instance {
			all := c.Instances()
			return all[slices.IndexFunc(all, func(i *swtest.Instance) bool { return i.Name == c.Owners()["once"] })]
		}
		scheduled := func() (ticks map[time.Time]int) {
			ticks = make(map[time.Time]int)
			for _, run := range c.Runs() {
				if !run.Manual {
					ticks[run.Tick]++
				}
			}
			return ticks
		}
		for len(scheduled()) < 3 {
			time.Sleep(100 * time.Millisecond)
		}
		byOwner().Kill() // in the middle of the third run
		for len(scheduled()) < 6 {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		byOwner().Kill() // between two runs
		time.Sleep(10 * time.Minute)
		s := status(t, c, "once")
		if n := len(scheduled()); n != 7 || s.State != admin.StateDone || s.Runs != 7 || !s.NextRun.IsZero() {
			t.Errorf("%d ticks have run, and it is %s (%s), %d runs, next %v", n, s.State, s.Reason, s.Runs, s.NextRun)
		}
		wantUnheld(t, c, "once")
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Trigger(t.Context(), "once", admin.TriggerOptions{})
			return err
		})
		time.Sleep(time.Minute)
		if s := status(t, c, "once"); s.State != admin.StateDone || s.Runs != 7 || len(scheduled()) != 7 {
			t.Errorf("after a manual run it is %s, %d runs", s.State, s.Runs)
		}
		operate(t, c, func(client *admin.Client) error {
			_, err := client.Edit(t.Context(), "once", func(j *job.Job) error { j.MaxRuns = 2; return nil }, admin.EditOptions{})
			return err
		})
		time.Sleep(10 * time.Minute)
		if s := status(t, c, "once"); s.State != admin.StateDone || s.Runs != 2 || len(scheduled()) != 9 {
			t.Errorf("with another MaxRuns it is %s, %d runs of %d", s.State, s.Runs, len(scheduled()))
		}
		pass(t, c)
	})
}

// A job is not run before NotBefore and after NotAfter, is done then, and is kept.
func TestWindow(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(time.Second))
		time.Sleep(settled)
		from := time.Now().Truncate(time.Minute).Add(5 * time.Minute)
		to := from.Add(3 * time.Minute)
		if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: "* * * * *", NotBefore: from, NotAfter: to, Shards: 2, KeepDone: time.Second}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := status(t, c, "once"); s.State != admin.StateOwned || !s.NextRun.Equal(from) {
			t.Errorf("before its beginning it is %s (%s), next %v", s.State, s.Reason, s.NextRun)
		}
		time.Sleep(time.Hour)
		if s := status(t, c, "once"); s.State != admin.StateDone || !s.NextRun.IsZero() || s.DoneAt.Sub(to) > settled {
			t.Errorf("after its end it is %s (%s) since %v, next %v", s.State, s.Reason, s.DoneAt, s.NextRun)
		}
		runs := c.Runs()
		for _, run := range runs {
			if run.Tick.Before(from) || run.Tick.After(to) {
				t.Errorf("a run of %v", run.Tick)
			}
		}
		if len(runs) != 8 { // four ticks, both ends among them, of two shards
			t.Errorf("%d runs", len(runs))
		}
		wantUnheld(t, c, "once[0]", "once[1]")
		pass(t, c)
	})
}

// A run begins when the next run was announced, by the job's jitter, also after its owner was
// killed: the next one computes the same.
func TestJitterIsAsAnnounced(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		three(c, working(10*time.Millisecond))
		time.Sleep(settled)
		if err := c.Submit(t.Context(), job.Job{Name: "once", Schedule: "* * * * *", Jitter: 50 * time.Second}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute - time.Millisecond)))
		for round := range 6 {
			s := status(t, c, "once")
			tick := time.Now().Truncate(time.Minute).Add(time.Minute)
			due, within := s.NextRun, 20*time.Millisecond
			if round == 3 {
				all := c.Instances()
				all[slices.IndexFunc(all, func(i *swtest.Instance) bool { return i.Name == c.Owners()["once"] })].Kill()
				within = time.Second // another one waits for the dead one's claim
			}
			if !due.Equal(s.Due(tick)) || due.Before(tick) || due.Sub(tick) >= 50*time.Second {
				t.Errorf("the tick of %v is due at %v", tick, due)
			}
			time.Sleep(time.Until(tick.Add(time.Minute - time.Millisecond)))
			runs := c.Runs()
			last := runs[len(runs)-1]
			if late := last.Started.Sub(due); !last.Tick.Equal(tick) || late < 0 || late > within {
				t.Errorf("the run of %v began %v after %v", last.Tick, late, due)
			}
		}
		pass(t, c)
	})
}

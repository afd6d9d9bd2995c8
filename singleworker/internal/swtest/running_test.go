package swtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A handler that is registered while the instance runs gets the jobs that wait for it, with all
// that their handlers need.
func TestHandleWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		var jobs []string
		for _, name := range []string{"a", "b", "c", "d"} {
			jobs = append(jobs, name)
			j := singleworker.Job{Name: name, Schedule: "@every 1m", Handler: "late", Args: map[string]string{"of": name}}
			if name == "d" {
				j.Shards = 2
			}
			if err := c.Submit(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		i0, i1 := c.Start("i0", swtest.Setup{}), c.Start("i1", swtest.Setup{})
		time.Sleep(settled)
		if len(c.Owners()) != 0 {
			t.Fatalf("owned without a handler: %v", c.Owners())
		}
		args := make(chan string, 1000)
		handle := func(i *swtest.Instance) {
			err := i.Manager().Handle("late", func(_ context.Context, run *singleworker.Run) error {
				args <- run.InstanceID + " runs " + run.Job + " of " + run.Args["of"]
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		handle(i0)
		if !c.Await(time.Second, func() bool { return c.Shares()["i0"] == len(jobs)+1 }) {
			t.Errorf("a second after the handler came to i0: %v", c.Owners())
		}
		handle(i1)
		if !c.Await(settled, func() bool { return c.Shares()["i1"] >= 2 }) {
			t.Errorf("after the handler came to i1, too: %v", c.Owners())
		}
		time.Sleep(time.Minute)
		seen := make(map[string]bool)
		for len(args) > 0 {
			text := <-args
			seen[text[len("i0 runs "):]] = true
		}
		for _, name := range jobs {
			if !seen[name+" of "+name] {
				t.Errorf("%s did not run with its arguments: %v", name, seen)
			}
		}
	})
}

// Jobs are declared, triggered, listed and canceled by the instance that runs, in its own session,
// and also by a handler.
func TestJobsOfARunningManager(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		var m *singleworker.Manager
		known := make(chan struct{}) // m is
		ran := make(chan *singleworker.Run, 10)
		setup := swtest.Setup{
			Handlers: map[string]singleworker.Handler{
				"work": func(_ context.Context, run *singleworker.Run) error {
					ran <- run
					return nil
				},
				"plan": func(ctx context.Context, _ *singleworker.Run) error {
					<-known
					return m.ScheduleContext(ctx, singleworker.Job{Name: "planned", Schedule: "@every 1s", Handler: "work"})
				},
			},
			Jobs: []singleworker.Job{{Name: "plan", Schedule: "@every 10s"}},
		}
		i := c.Start("i0", setup)
		m = i.Manager()
		close(known)
		if run := <-ran; run.Job != "planned" || run.Manual {
			t.Errorf("ran %+v, want what the handler has scheduled", run)
		}
		operator := admin.On(m)
		if _, err := operator.Cancel(t.Context(), "plan"); err != nil {
			t.Error(err)
		}
		was, err := operator.Cancel(t.Context(), "planned")
		if err != nil || was.Owner == nil || was.Owner.InstanceID != "i0" || !was.Declared {
			t.Errorf("Cancel = %+v, %v; want the declared job as it was", was, err)
		}
		if _, err := operator.Cancel(t.Context(), "planned"); !errors.Is(err, admin.ErrNotFound) {
			t.Errorf("a second Cancel: %v, want admin.ErrNotFound", err)
		}
		if err := m.Schedule(singleworker.Job{Name: "yearly", Schedule: "@yearly", Handler: "work"}); err != nil {
			t.Error(err)
		}
		jobs, err := operator.List(t.Context())
		if err != nil || len(jobs) != 1 || jobs[0].Name != "yearly" || !jobs[0].Declared {
			t.Errorf("List = %+v, %v; want the one that was just declared", jobs, err)
		}
		time.Sleep(settled) // drains nothing: runs of the canceled job are over
		for len(ran) > 0 {
			<-ran
		}
		result, err := operator.Trigger(t.Context(), "yearly", admin.TriggerOptions{By: "its own program"})
		if err != nil {
			t.Fatal(err)
		}
		if run := <-ran; run.Job != "yearly" || !run.Manual || result.ID == "" {
			t.Errorf("ran %+v by request %q, want the manual run", run, result.ID)
		}
	})
}

// A declaration while the instance runs counts like an earlier one: an operator's change stays
// until the declaration changes.
func TestDeclarationWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		m := c.Start("i0", swtest.Setup{}).Manager()
		synctest.Wait() // Run has begun
		declare := func(schedule string) {
			t.Helper()
			if err := m.Schedule(singleworker.Job{Name: "report", Schedule: schedule}); err != nil {
				t.Error(err)
			}
		}
		want := func(when, schedule string, declared bool) {
			t.Helper()
			jobs, err := c.List(t.Context()) // another client: done means that ZooKeeper has it
			if err != nil || len(jobs) != 1 || jobs[0].Job.Schedule != schedule || jobs[0].Declared != declared {
				t.Errorf("%s: %+v, %v; want %s, declared %v", when, jobs, err, schedule, declared)
			}
		}
		declare("@hourly")
		want("declared", "@hourly", true)
		operate(t, c, func(a *admin.Client) error {
			_, err := a.Edit(t.Context(), "report", func(j *job.Job) error { j.Schedule = "@weekly"; return nil }, admin.EditOptions{})
			return err
		})
		declare("@hourly")
		want("declared again as before", "@weekly", false)
		declare("@daily")
		want("declared otherwise", "@daily", true)
	})
}

// A request of the program while its session is over takes effect when it is back.
func TestAddedWhileTheSessionIsLost(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{
		"a short cut": time.Second, "the session ends": time.Minute, "the session ends meanwhile": 10 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := swtest.New(t, swtest.Config{})
				if err := c.Submit(t.Context(), singleworker.Job{Name: "waits", Schedule: "@daily", Handler: "late"}); err != nil {
					t.Fatal(err)
				}
				i := c.Start("i0", swtest.Setup{})
				time.Sleep(settled)
				i.Partition()
				time.Sleep(away)
				idle := func(context.Context, *singleworker.Run) error { return nil }
				if err := i.Manager().Handle("late", idle); err != nil {
					t.Error(err)
				}
				scheduled := make(chan error, 1)
				go func() {
					scheduled <- i.Manager().Schedule(singleworker.Job{Name: "also", Schedule: "@daily", Handler: "late"})
				}()
				synctest.Wait()
				i.Heal()
				if err := <-scheduled; err != nil {
					t.Errorf("Schedule: %v", err)
				}
				if !c.Await(settled, func() bool { return c.Shares()["i0"] == 2 }) {
					t.Errorf("after the connection is back: %v", c.Owners())
				}
			})
		})
	}
}

// Handlers that come while the instance joins are published, whichever list it joined with.
func TestHandleWhileJoining(t *testing.T) {
	t.Parallel()
	for after := range 12 { // virtual milliseconds, each a step of joining
		synctest.Test(t, func(t *testing.T) {
			c := swtest.New(t, swtest.Config{Latency: func(string) func() zkdev.Latency {
				way := func() time.Duration { return time.Millisecond }
				return func() zkdev.Latency { return zkdev.Latency{There: way, Back: way} }
			}})
			if err := c.Submit(t.Context(), singleworker.Job{Name: "late", Schedule: "@daily"}); err != nil {
				t.Fatal(err)
			}
			i := c.Start("i0", swtest.Setup{})
			time.Sleep(time.Duration(after) * 2 * time.Millisecond)
			if err := i.Manager().Handle("late", func(context.Context, *singleworker.Run) error { return nil }); err != nil {
				t.Error(err)
			}
			if !c.Await(settled, func() bool { return c.Owners()["late"] == "i0" }) {
				t.Errorf("registered after %d ms: %v", 2*after, c.Owners())
			}
		})
	}
}

// A Manager that does not run says so, and one that waits for ZooKeeper says that.
func TestCallsWhenNotRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		job := singleworker.Job{Name: "report", Schedule: "@daily"}
		i := c.Start("i0", swtest.Setup{})
		m := i.Manager()
		time.Sleep(settled)
		i.Partition()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := m.ScheduleContext(ctx, job); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without ZooKeeper: %v, want DeadlineExceeded", err)
		}
		waiting := make(chan error, 1)
		go func() { waiting <- m.Schedule(job) }()
		synctest.Wait()
		if err := i.Stop(); !errors.Is(err, singleworker.ErrNotHandedBack) {
			t.Error(err)
		}
		handle := m.Handle("report", func(context.Context, *singleworker.Run) error { return nil })
		for what, err := range map[string]error{
			"Schedule when Run ends": <-waiting, "Schedule after Run": m.Schedule(job), "Handle after Run": handle,
		} {
			if !errors.Is(err, singleworker.ErrNotRunning) {
				t.Errorf("%s: %v, want ErrNotRunning", what, err)
			}
		}
	})
}

// An instance that is turned away has declared nothing.
func TestRefusedInstanceDeclaresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		c.Start("i0", swtest.Setup{})
		time.Sleep(settled)
		second := c.Start("i0", swtest.Setup{})
		synctest.Wait() // Run has begun
		err := second.Manager().Schedule(singleworker.Job{Name: "report", Schedule: "@daily"})
		if !errors.Is(err, singleworker.ErrNotRunning) {
			t.Errorf("Schedule: %v, want ErrNotRunning when Run has failed", err)
		}
		if err := second.Stop(); !errors.Is(err, singleworker.ErrDuplicateInstance) {
			t.Errorf("Run: %v", err)
		}
		if jobs, err := c.List(t.Context()); err != nil || len(jobs) != 0 {
			t.Errorf("the group has %+v, %v; want no job", jobs, err)
		}
	})
}

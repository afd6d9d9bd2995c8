package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
)

// request is a call of a method of admin.Client.
type request func(ctx context.Context, c *admin.Client) error

// requests are the methods of admin.Client, but for Close and Clock, which ask nobody.
var requests = map[string]request{
	"Cancel": func(ctx context.Context, c *admin.Client) error { _, err := c.Cancel(ctx, "job"); return err },
	"CancelSeen": func(ctx context.Context, c *admin.Client) error {
		_, err := c.CancelSeen(ctx, "job", admin.Seen{})
		return err
	},
	"Children": func(ctx context.Context, c *admin.Client) error { _, err := c.Children(ctx, "job"); return err },
	"Clear": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Clear(ctx, admin.ClearOptions{Jobs: 1, DespiteInstances: true})
		return err
	},
	"DisableAt": func(ctx context.Context, c *admin.Client) error {
		_, err := c.DisableAt(ctx, admin.Target{Job: "job", Host: "host"}, admin.OrderOptions{})
		return err
	},
	"EnableAt": func(ctx context.Context, c *admin.Client) error {
		_, err := c.EnableAt(ctx, admin.Target{Job: "job", Host: "host"})
		return err
	},
	"Drain": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Drain(ctx, "i0", admin.OrderOptions{})
		return err
	},
	"Disable": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Disable(ctx, "i0", admin.OrderOptions{})
		return err
	},
	"Enable":       func(ctx context.Context, c *admin.Client) error { _, err := c.Enable(ctx, "i0"); return err },
	"AwaitDrained": func(ctx context.Context, c *admin.Client) error { _, _, err := c.AwaitDrained(ctx, "i0"); return err },
	"Edit": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Edit(ctx, "job", func(j *job.Job) error { j.Schedule = "@weekly"; return nil }, admin.EditOptions{})
		return err
	},
	"Rollback": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Rollback(ctx, "job", 1, admin.EditOptions{})
		return err
	},
	"Undelete": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Undelete(ctx, "job", admin.UndeleteOptions{})
		return err
	},
	"Version":  func(ctx context.Context, c *admin.Client) error { _, err := c.Version(ctx, "job", 1); return err },
	"Versions": func(ctx context.Context, c *admin.Client) error { _, err := c.Versions(ctx, "job"); return err },
	"Foreign": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Foreign(ctx, "/group", "alive")
		return err
	},
	"Histories": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Histories(ctx, []admin.JobStatus{{Name: "job"}})
		return err
	},
	"History":     func(ctx context.Context, c *admin.Client) error { _, err := c.History(ctx, "job"); return err },
	"Instance":    func(ctx context.Context, c *admin.Client) error { _, err := c.Instance(ctx, "i0"); return err },
	"Instances":   func(ctx context.Context, c *admin.Client) error { _, err := c.Instances(ctx); return err },
	"Orders":      func(ctx context.Context, c *admin.Client) error { _, err := c.Orders(ctx); return err },
	"Log":         func(ctx context.Context, c *admin.Client) error { _, err := c.Log(ctx, admin.LogOptions{}); return err },
	"Names":       func(ctx context.Context, c *admin.Client) error { _, err := c.Names(ctx); return err },
	"ServerTypes": func(ctx context.Context, c *admin.Client) error { _, err := c.ServerTypes(ctx); return err },
	"Pause": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Pause(ctx, "job", admin.PauseOptions{})
		return err
	},
	"Resume": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Resume(ctx, "job", admin.ResumeOptions{})
		return err
	},
	"Freeze": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Freeze(ctx, admin.FreezeOptions{})
		return err
	},
	"Unfreeze": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Unfreeze(ctx, admin.ResumeOptions{})
		return err
	},
	"Frozen":     func(ctx context.Context, c *admin.Client) error { _, err := c.Frozen(ctx); return err },
	"Get":        func(ctx context.Context, c *admin.Client) error { _, err := c.Get(ctx, "job"); return err },
	"List":       func(ctx context.Context, c *admin.Client) error { _, err := c.List(ctx); return err },
	"Group":      func(ctx context.Context, c *admin.Client) error { _, err := c.Group(ctx); return err },
	"AwaitOwner": func(ctx context.Context, c *admin.Client) error { _, err := c.AwaitOwner(ctx, "job"); return err },
	"Unreadable": func(ctx context.Context, c *admin.Client) error { _, err := c.Unreadable(ctx, "job"); return err },
	"Repair": func(ctx context.Context, c *admin.Client) error {
		nodes, err := c.Unreadable(ctx, "job")
		if err == nil && len(nodes) > 0 {
			err = c.Repair(ctx, "job", nodes)
		}
		return err
	},
	"Requests": func(ctx context.Context, c *admin.Client) error { _, err := c.Requests(ctx, "job"); return err },
	"CancelRequests": func(ctx context.Context, c *admin.Client) error {
		_, err := c.CancelRequests(ctx, "job", "")
		return err
	},
	"StopRun": func(ctx context.Context, c *admin.Client) error {
		_, err := c.StopRun(ctx, "job", admin.StopOptions{})
		return err
	},
	"Submit": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Submit(ctx, job.Job{Name: "job", Schedule: "@daily"}, admin.SubmitOptions{})
		return err
	},
	"Trigger": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Trigger(ctx, "job", admin.TriggerOptions{})
		return err
	},
	"Backfill": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Backfill(ctx, "job", admin.BackfillOptions{From: time.Now()})
		return err
	},
	"AwaitRun": func(ctx context.Context, c *admin.Client) error { _, err := c.AwaitRun(ctx, "job", "none"); return err },
	"Watch": func(ctx context.Context, c *admin.Client) error {
		return last(c.Watch(ctx, admin.WatchOptions{Pause: time.Hour}))
	},
	"WatchHistories": func(ctx context.Context, c *admin.Client) error {
		return last(c.WatchHistories(ctx, admin.WatchHistoriesOptions{}))
	},
	"Why": func(ctx context.Context, c *admin.Client) error { _, err := c.Why(ctx, "job", time.Time{}); return err },
	"Job": func(ctx context.Context, c *admin.Client) error { _, err := c.Job(ctx, "job"); return err },
	"SubmitAll": func(ctx context.Context, c *admin.Client) error {
		_, err := c.SubmitAll(ctx, []admin.Submission{{Job: job.Job{Name: "job", Schedule: "@daily"}}})
		return err
	},
	"Calendars": func(ctx context.Context, c *admin.Client) error { _, err := c.Calendars(ctx); return err },
	"Limits":    func(ctx context.Context, c *admin.Client) error { _, err := c.Limits(ctx); return err },
	"LimitsOf": func(ctx context.Context, c *admin.Client) error {
		_, err := c.LimitsOf(ctx, []admin.JobStatus{{Job: job.Job{Name: "job", Limits: map[string]int{"api": 1}}}})
		return err
	},
	"SetLimit": func(ctx context.Context, c *admin.Client) error {
		_, err := c.SetLimit(ctx, "api", 1, admin.NamedOptions{})
		return err
	},
	"DeleteLimit": func(ctx context.Context, c *admin.Client) error {
		_, err := c.DeleteLimit(ctx, "api", admin.NamedOptions{})
		return err
	},
	"FreePlaces": func(ctx context.Context, c *admin.Client) error {
		_, err := c.FreePlaces(ctx, "api", admin.NamedOptions{})
		return err
	},
	"SetCalendar": func(ctx context.Context, c *admin.Client) error {
		_, err := c.SetCalendar(ctx, "calendar", job.Calendar{Weekdays: []string{"sun"}}, admin.NamedOptions{})
		return err
	},
	"DeleteCalendar": func(ctx context.Context, c *admin.Client) error {
		_, err := c.DeleteCalendar(ctx, "calendar", admin.NamedOptions{})
		return err
	},
	"Gone":    func(ctx context.Context, c *admin.Client) error { _, err := c.Gone(ctx); return err },
	"Outages": func(ctx context.Context, c *admin.Client) error { _, err := c.Outages(ctx); return err },
	"Examine": func(ctx context.Context, c *admin.Client) error {
		_, err := c.Examine(ctx, admin.Group{})
		return err
	},
	"InstanceIDs": func(ctx context.Context, c *admin.Client) error { _, err := c.InstanceIDs(ctx); return err },
	"Handlers":    func(ctx context.Context, c *admin.Client) error { _, err := c.Handlers(ctx); return err },
	"Roles":       func(ctx context.Context, c *admin.Client) error { _, err := c.Roles(ctx); return err },
	"CheckRoles":  func(ctx context.Context, c *admin.Client) error { _, err := c.CheckRoles(ctx); return err },
}

// last is the error that ended a watch.
func last[T any](watch iter.Seq2[T, error]) (err error) {
	for _, err = range watch {
		continue
	}
	return err
}

// Servers needs no session, SetRoles looks at the credentials first, Stale and Zxid send nothing.
func TestRequestsAreAllMethods(t *testing.T) {
	t.Parallel()
	client := reflect.TypeFor[*admin.Client]()
	for i := range client.NumMethod() {
		name := client.Method(i).Name
		if asks := !slices.Contains([]string{"Close", "Clock", "Servers", "SetRoles", "Stale", "Zxid"}, name); asks != (requests[name] != nil) {
			t.Errorf("%s is tested: %v, want %v", name, !asks, asks)
		}
	}
}

// A Client on a Manager that does not run says so, whatever it is asked, and a call that waits says
// so as soon as Run ends.
func TestOperatorOnAManagerThatDoesNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		i := c.Start("i0", swtest.Setup{Jobs: []singleworker.Job{{Name: "job", Schedule: "@daily", Handler: "nobody"}}})
		before, err := singleworker.New(singleworker.Config{Servers: "nowhere", ServerType: "group"})
		if err != nil {
			t.Fatal(err)
		}
		notRunning := func(when string, on *singleworker.Manager) {
			t.Helper()
			for name, ask := range requests {
				if err := ask(t.Context(), admin.On(on)); !errors.Is(err, singleworker.ErrNotRunning) {
					t.Errorf("%s %s: %v, want ErrNotRunning", name, when, err)
				}
			}
		}
		notRunning("before Run", before)
		operator := admin.On(i.Manager())
		time.Sleep(settled)
		i.Partition()
		var mu sync.Mutex
		waiting := make(map[string]bool)
		for name, ask := range requests {
			waiting[name] = true
			go func() {
				err := ask(context.WithoutCancel(t.Context()), operator)
				mu.Lock()
				defer mu.Unlock()
				if delete(waiting, name); !errors.Is(err, singleworker.ErrNotRunning) {
					t.Errorf("%s when Run ends: %v, want ErrNotRunning", name, err)
				}
			}()
		}
		time.Sleep(settled)
		if len(waiting) != len(requests) {
			t.Errorf("without ZooKeeper, only %v wait", waiting)
		}
		if err := i.Stop(); !errors.Is(err, singleworker.ErrNotHandedBack) {
			t.Error(err)
		}
		synctest.Wait()
		if len(waiting) > 0 {
			t.Errorf("Run has ended, and these wait: %v", waiting)
		}
		notRunning("after Run", i.Manager())
	})
}

// A call that waits although ZooKeeper is there ends with Run, too.
func TestWaitingOperatorEndsWithRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		i := c.Start("i0", swtest.Setup{Jobs: []singleworker.Job{{Name: "job", Schedule: "@daily", Handler: "nobody"}}})
		operator := admin.On(i.Manager())
		time.Sleep(settled)
		result, err := operator.Trigger(t.Context(), "job", admin.TriggerOptions{WaitForHandler: true})
		if err != nil {
			t.Fatal(err)
		}
		asked := map[string]request{
			"AwaitRun": func(ctx context.Context, c *admin.Client) error {
				_, err := c.AwaitRun(ctx, "job", result.ID)
				return err
			},
			"AwaitOwner": requests["AwaitOwner"], "Watch": requests["Watch"], "WatchHistories": requests["WatchHistories"],
		}
		ended := make(chan error, len(asked))
		for name, ask := range asked {
			go func() {
				if err := ask(context.WithoutCancel(t.Context()), operator); !errors.Is(err, singleworker.ErrNotRunning) {
					ended <- fmt.Errorf("%s: %w, want ErrNotRunning", name, err)
					return
				}
				ended <- nil
			}()
		}
		time.Sleep(settled)
		if len(ended) > 0 {
			t.Errorf("one does not wait: %v", <-ended)
		}
		if err := i.Stop(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for range asked {
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Fatal("Run has ended, and one waits")
			}
		}
	})
}

// Each kind of change works on the Manager's session, and the log says from where it came. Close
// leaves the session alone.
func TestOperatorOnARunningManager(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		begun := make(chan struct{}, 10)
		work := func(ctx context.Context, _ *singleworker.Run) error {
			begun <- struct{}{}
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute): // a run that was asked for may begin before the request is canceled, and a drain waits for it
			}
			return ctx.Err()
		}
		m := c.Start("i0", swtest.Setup{
			Handlers:  map[string]singleworker.Handler{"job": work},
			Configure: func(cfg *singleworker.Config) { cfg.Version = "v1.4.0" },
		}).Manager()
		time.Sleep(settled)
		var operator *admin.Client
		do := func(what string, f func() error) {
			t.Helper()
			operator = admin.On(m)
			defer operator.Close()
			if err := f(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		ask := func(names ...string) {
			t.Helper()
			for _, name := range names {
				do(name, func() error { return requests[name](t.Context(), operator) })
			}
		}
		ask("Submit", "AwaitOwner", "Pause", "Resume", "Edit")
		do("run", func() error {
			result, err := operator.Trigger(t.Context(), "job", admin.TriggerOptions{})
			if err != nil {
				return err
			}
			<-begun
			if _, err := operator.StopRun(t.Context(), "job", admin.StopOptions{}); err != nil {
				return err
			}
			entries, err := operator.AwaitRun(t.Context(), "job", result.ID)
			if len(entries) != 1 || entries[0].State != history.StateInterrupted {
				t.Errorf("the run ended as %+v, want it interrupted", entries)
			}
			return err
		})
		ask("Trigger", "Backfill", "CancelRequests", "Drain", "AwaitDrained", "Enable", "AwaitOwner", "Disable", "AwaitDrained", "Enable",
			"DisableAt", "Orders", "EnableAt", "List", "Group", "Get", "History", "Histories", "Instance", "Instances", "Names", "ServerTypes",
			"Foreign", "Unreadable", "Repair", "Requests", "Why", "Job", "Cancel", "Submit", "Clear")
		entries, err := admin.On(m).Log(t.Context(), admin.LogOptions{})
		var kinds []string
		for _, e := range slices.Backward(entries) { // the newest is the first
			if kinds = append(kinds, e.Kind); e.From != "i0 (v1.4.0)" {
				t.Errorf("%s came from %q, want the instance and its version", e.Kind, e.From)
			}
		}
		if err != nil || len(kinds) < 12 || kinds[0] != "submit" || kinds[len(kinds)-1] != "clear" {
			t.Errorf("the log has %q, %v; want each change", kinds, err)
		}
	})
}

// A Watch on a Manager's session outlives it: each run is told once.
func TestWatchOnAManagerWhoseSessionExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		idle := func(context.Context, *singleworker.Run) error { return nil }
		setup := swtest.Setup{Handlers: map[string]singleworker.Handler{"job": idle}, Jobs: []singleworker.Job{{Name: "job", Schedule: "@every 1s"}}}
		i := c.Start("i0", setup)
		time.Sleep(settled)
		ctx, stop := context.WithCancel(t.Context())
		told := make(map[string]int) // by run
		ended := make(chan error, 1)
		go func() {
			for ev, err := range admin.On(i.Manager()).Watch(ctx, admin.WatchOptions{}) {
				if err != nil {
					ended <- err
					return
				}
				if ev.Kind == admin.EventRunEnded && !ev.Amended {
					told[ev.Entry.RunID]++
				}
				if ev.Kind == admin.EventGap && ev.Gap.What != admin.GapInstances {
					t.Errorf("there is a gap: %+v", *ev.Gap)
				}
			}
		}()
		time.Sleep(3 * time.Second)
		since := time.Now()
		i.Partition()
		time.Sleep(time.Minute)
		c.Start("i1", setup)
		time.Sleep(5 * time.Second)
		i.Heal()
		time.Sleep(settled)
		until := time.Now().Add(-2 * time.Second) // what was begun before is told
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended with %v", err)
		}
		n := 0
		for _, r := range c.Runs() {
			if r.Started.After(since) && r.Started.Before(until) {
				if n++; told[r.ID] != 1 {
					t.Errorf("run %s of %v was told %d times", r.ID, r.Tick, told[r.ID])
				}
			}
		}
		if n < 10 {
			t.Errorf("only %d runs", n)
		}
	})
}

// A handler that cancels its own job has its context end.
func TestHandlerCancelsItsOwnJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		var m *singleworker.Manager
		known := make(chan struct{}) // m is
		cause := make(chan error, 1)
		m = c.Start("i0", swtest.Setup{
			Handlers: map[string]singleworker.Handler{"job": func(ctx context.Context, run *singleworker.Run) error {
				<-known
				if _, err := admin.On(m).Cancel(ctx, run.Job); err != nil && ctx.Err() == nil {
					return err
				}
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return nil
			}},
			Jobs: []singleworker.Job{{Name: "job", Schedule: "@every 1s"}},
		}).Manager()
		close(known)
		if err := <-cause; !errors.Is(err, singleworker.ErrJobCanceled) {
			t.Errorf("the context ended with %v, want ErrJobCanceled", err)
		}
		if jobs, err := c.List(t.Context()); err != nil || len(jobs) != 0 {
			t.Errorf("there are %+v, %v; want no job", jobs, err)
		}
	})
}

// Many use one Client at the same time, while the instance that it is on runs and its session is
// lost.
func TestOperatorsAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		idle := func(context.Context, *singleworker.Run) error { return nil }
		i := c.Start("i0", swtest.Setup{Handlers: map[string]singleworker.Handler{"job": idle}})
		time.Sleep(settled)
		operator := admin.On(i.Manager())
		var working sync.WaitGroup
		for n := range 8 {
			working.Go(func() {
				name := fmt.Sprint("job", n)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- last(operator.Watch(ctx, admin.WatchOptions{Jobs: []string{name}})) }()
				for range 3 {
					_, err := operator.Submit(ctx, job.Job{Name: name, Schedule: "@every 2s", Handler: "job"}, admin.SubmitOptions{})
					if err == nil {
						_, err = operator.AwaitOwner(ctx, name)
					}
					if err == nil {
						_, err = operator.List(ctx)
					}
					var result admin.TriggerResult
					if err == nil {
						result, err = operator.Trigger(ctx, name, admin.TriggerOptions{})
					}
					if err == nil {
						_, err = operator.AwaitRun(ctx, name, result.ID)
					}
					if err == nil {
						_, err = operator.Cancel(ctx, name)
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("watch %s: %v", name, err)
				}
			})
		}
		time.Sleep(time.Second)
		i.Partition()
		time.Sleep(time.Minute)
		i.Heal()
		working.Wait()
		if jobs, err := operator.List(t.Context()); err != nil || len(jobs) != 0 {
			t.Errorf("there are %+v, %v; want no job", jobs, err)
		}
	})
}

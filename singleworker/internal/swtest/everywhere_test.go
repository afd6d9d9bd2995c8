package swtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// everywhere starts n instances with a job that runs on each of them every five seconds.
func everywhere(t *testing.T, c *swtest.Cluster, n int, h singleworker.Handler) []*swtest.Instance {
	t.Helper()
	setup := swtest.Setup{
		Handlers: map[string]singleworker.Handler{"each": h},
		Jobs:     []singleworker.Job{{Name: "each", Schedule: "*/5 * * * * ?", Everywhere: true}},
	}
	var instances []*swtest.Instance
	for k := range n {
		instances = append(instances, c.Start(fmt.Sprintf("i%d", k), setup))
	}
	time.Sleep(settled)
	return instances
}

// ticksOf counts the runs of each tick at each instance, of the ticks after from up to until.
func ticksOf(c *swtest.Cluster, from, until time.Time) map[string]int {
	ran := map[string]int{}
	for _, r := range c.Runs() {
		if r.Tick.After(from) && !r.Tick.After(until) && !r.Manual {
			ran[fmt.Sprintf("%s at %s", r.Tick.UTC().Format(time.TimeOnly), r.Instance.Name)]++
		}
	}
	return ran
}

// wantTicks expects one run of each tick after from, up to until, at these instances, and at no
// others.
func wantTicks(t *testing.T, c *swtest.Cluster, from, until time.Time, at ...string) {
	t.Helper()
	until = until.Add(-time.Millisecond) // a tick of this moment may have run, or not
	ran := ticksOf(c, from, until)
	n := 0
	for tick := from.Truncate(5 * time.Second).Add(5 * time.Second); !tick.After(until); tick = tick.Add(5 * time.Second) {
		for _, name := range at {
			n++
			if key := fmt.Sprintf("%s at %s", tick.UTC().Format(time.TimeOnly), name); ran[key] != 1 {
				t.Errorf("tick %s: %d runs", key, ran[key])
			}
		}
	}
	if len(ran) != n {
		t.Errorf("%d ticks ran, want %d: %v", len(ran), n, ran)
	}
}

// Each tick runs once on every instance that lives when it comes, through kills, stops, drains and
// returns. A tick that came while an instance was away is not its own.
func TestEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		instances := everywhere(t, c, 3, working(time.Second))
		from := time.Now()
		time.Sleep(time.Minute + 2*time.Second)
		wantTicks(t, c, from, time.Now(), "i0", "i1", "i2")
		if shares := c.Owners(); shares["each/i0"] != "i0" || shares["each/i1"] != "i1" || shares["each/i2"] != "i2" || len(shares) != 3 {
			t.Errorf("owners %v", shares)
		}

		killed := time.Now()
		instances[1].Kill()
		time.Sleep(time.Minute)
		wantTicks(t, c, killed, time.Now(), "i0", "i2")
		back := time.Now()
		c.Start("i1", instances[1].Setup())
		time.Sleep(settled)
		from = time.Now()
		time.Sleep(time.Minute)
		wantTicks(t, c, from, time.Now(), "i0", "i1", "i2")
		for key := range ticksOf(c, killed, back.Add(-time.Second)) {
			if key[len(key)-2:] == "i1" {
				t.Errorf("%s: a tick of its absence", key)
			}
		}
		if err := c.Operate(t.Context(), func(client *admin.Client) error {
			past, err := client.History(t.Context(), "each/i1")
			skipped := 0
			for _, e := range past.Entries {
				if e.Reason == history.ReasonAbsent && e.State == history.StateSkipped {
					skipped += e.Count
				} else if e.RunID == "" {
					t.Errorf("entry %+v", e)
				}
			}
			if skipped < 11 || skipped > 13 {
				t.Errorf("%d ticks skipped, want 12 or so", skipped)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}

		if err := instances[0].Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		from = time.Now()
		time.Sleep(time.Minute)
		wantTicks(t, c, from, time.Now(), "i1", "i2")
		if err := instances[2].Stop(); err != nil {
			t.Fatal(err)
		}
		from = time.Now()
		time.Sleep(time.Minute)
		wantTicks(t, c, from, time.Now(), "i1")
		pass(t, c)
	})
}

// It counts neither in the instances' shares, nor in MaxSlots.
func TestEverywhereCountsInNoShare(t *testing.T) {
	t.Parallel()
	for _, most := range []int{0, 2} {
		t.Run(fmt.Sprint("MaxSlots ", most), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				setup := sharing(t, c, 4, "*/5 * * * * ?", working(time.Second))
				for _, name := range []string{"each", "every", "all"} {
					setup.Handlers[name] = working(time.Second)
					setup.Jobs = append(setup.Jobs, singleworker.Job{Name: name, Schedule: "*/5 * * * * ?", Everywhere: true, Instances: []string{"i0"}})
				}
				setup.Configure = func(cfg *singleworker.Config) { cfg.MaxSlots = most }
				for k := range 2 {
					c.Start(fmt.Sprintf("i%d", k), setup)
				}
				time.Sleep(settled)
				if shares := c.Shares(); shares["i0"] != 5 || shares["i1"] != 2 {
					t.Errorf("shares %v", shares)
				}
				pass(t, c)
			})
		})
	}
}

// An instance that is there for the first time has missed no tick from before, whatever the
// schedule was then.
func TestEverywhereBegins(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		first := everywhere(t, c, 1, working(0))[0]
		if err := c.Operate(t.Context(), func(client *admin.Client) error {
			_, err := client.Edit(t.Context(), "each", func(j *job.Job) error {
				j.Schedule = "*/10 * * * * ?"
				return nil
			}, admin.EditOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		setup := first.Setup()
		setup.Jobs = nil // it would set the schedule back
		c.Start("i1", setup)
		time.Sleep(settled + time.Minute)
		if err := c.Operate(t.Context(), func(client *admin.Client) error {
			past, err := client.History(t.Context(), "each/i1")
			for _, e := range past.Entries {
				if e.State != history.StateOK {
					t.Errorf("entry %+v", e)
				}
			}
			if len(past.Entries) < 5 {
				t.Errorf("%d entries", len(past.Entries))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		pass(t, c)
	})
}

// A trigger runs it on every live instance, or on the one that is named.
func TestEverywhereTriggered(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		instances := everywhere(t, c, 3, working(time.Second))
		trigger := func(name string) []history.Entry {
			t.Helper()
			var runs []history.Entry
			if err := c.Operate(t.Context(), func(client *admin.Client) error {
				result, err := client.Trigger(t.Context(), name, admin.TriggerOptions{})
				if err != nil {
					return err
				}
				runs, err = client.AwaitRun(t.Context(), name, result.ID)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return runs
		}
		want := func(runs []history.Entry, at ...string) {
			t.Helper()
			if len(runs) != len(at) {
				t.Errorf("%d runs, want %d: %+v", len(runs), len(at), runs)
				return
			}
			for i, r := range runs {
				if r.State != history.StateOK || r.InstanceID != at[i] {
					t.Errorf("run %+v, want one at %s", r, at[i])
				}
			}
		}
		time.Sleep(2 * time.Second)
		want(trigger("each"), "i0", "i1", "i2")
		want(trigger("each/i1"), "i1")
		instances[0].Kill()
		time.Sleep(2 * settled)
		want(trigger("each"), "i1", "i2")
		var status admin.JobStatus
		if err := c.Operate(t.Context(), func(client *admin.Client) (err error) {
			status, err = client.Get(t.Context(), "each")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if status.State != admin.StateOwned || len(status.Slots) != 3 || status.Slots[0].State != admin.StateUnowned ||
			status.Slots[0].Reason.String() != "i0 is not running" || !status.Overdue.IsZero() {
			t.Errorf("status %+v", status)
		}
		pass(t, c)
	})
}

// Whether a job runs on one instance or on all is fixed: between the two, no tick could be told
// from another.
func TestEverywhereIsFixed(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		everywhere(t, c, 1, working(time.Second))
		if err := c.Operate(t.Context(), func(client *admin.Client) error {
			_, err := client.Edit(t.Context(), "each", func(j *job.Job) error { j.Everywhere = false; return nil }, admin.EditOptions{})
			if want := `job "each": job.Everywhere "false": cannot be changed: cancel the job and submit it again`; err == nil || err.Error() != want {
				t.Errorf("edit: %v", err)
			}
			_, err = client.Submit(t.Context(), job.Job{Name: "each", Schedule: "@daily"}, admin.SubmitOptions{Replace: true})
			if want := `submit each: job.Everywhere "false": cannot be changed: cancel the job and submit it again`; err == nil || err.Error() != want {
				t.Errorf("submit: %v", err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// The records of instances that are gone are kept for a day, and then removed. The records of live
// instances stay, however long they do not run.
func TestEverywhereLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{SessionTimeout: 10 * time.Minute, SyncPeriod: 2 * time.Minute}) // there are days to simulate
		setup := swtest.Setup{
			Handlers: map[string]singleworker.Handler{"each": working(0)},
			Jobs:     []singleworker.Job{{Name: "each", Schedule: "@daily", Everywhere: true}},
		}
		var gone []*swtest.Instance
		for k := range 6 {
			i := c.Start(fmt.Sprintf("i%d", k), setup)
			if k > 1 {
				gone = append(gone, i)
			}
		}
		time.Sleep(time.Hour)
		if err := c.Instances()[0].Drain(t.Context()); err != nil { // it lives, and sends no heartbeat
			t.Fatal(err)
		}
		for k, i := range gone {
			if k%2 == 0 {
				i.Kill()
			} else if err := i.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		parts := func() (sids []string) {
			c.View(func(m *swtest.Model) {
				for _, part := range m.Shards("each") {
					sids = append(sids, part.Name)
				}
			})
			return sids
		}
		born := func() (zxid int64) {
			c.View(func(m *swtest.Model) { zxid = m.Jobs["each/i0"].Born })
			return zxid
		}
		first := born()
		time.Sleep(23 * time.Hour)
		if got := parts(); len(got) != 6 {
			t.Errorf("after 23 hours: %v", got)
		}
		c.Start("i3", setup)
		time.Sleep(5 * time.Hour)
		if got := parts(); !slices.Equal(got, []string{"each/i0", "each/i1", "each/i3"}) {
			t.Errorf("after 28 hours, when one is back: %v", got)
		}
		if born() != first {
			t.Error("what an instance had that lives was removed, and made again")
		}
		pass(t, c)
	})
}

// A tick that a live instance does not account for is reported, with the instance, and none of one
// that is gone or new.
func TestEverywhereMissed(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		var mu sync.Mutex
		var missed []singleworker.Missed
		setup := swtest.Setup{
			Handlers: map[string]singleworker.Handler{"each": working(0)},
			Jobs:     []singleworker.Job{{Name: "each", Schedule: "*/10 * * * * ?", Everywhere: true}},
			Configure: func(cfg *singleworker.Config) {
				cfg.Hooks.OnTickMissed = func(m singleworker.Missed) {
					mu.Lock()
					defer mu.Unlock()
					missed = append(missed, m)
				}
			},
		}
		for k := range 3 {
			c.Start(fmt.Sprintf("i%d", k), setup)
		}
		time.Sleep(settled)
		c.Instances()[2].Kill()
		time.Sleep(10 * time.Minute)
		late := time.Now().Add(job.DefaultAlarmAfter / 2) // to account for its absence
		c.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			ofI2 := func(op zkdev.Request) bool {
				return op.Op != zkdev.OpCheck && strings.HasSuffix(op.Path, "/everywhere/i2/tick")
			}
			if time.Now().Before(late) && slices.ContainsFunc(r.Ops, ofI2) {
				return zkdev.Refuse(zkdev.BadVersion)
			}
			return zkdev.Pass()
		})
		c.Start("i2", setup)
		c.Start("i3", setup)
		if err := c.Instances()[0].Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		mu.Lock()
		if len(missed) > 0 {
			t.Errorf("said to be missing: %+v", missed)
		}
		mu.Unlock()
		refused := time.Now()
		c.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			ofI1 := func(op zkdev.Request) bool {
				return op.Op != zkdev.OpCheck && strings.HasSuffix(op.Path, "/everywhere/i1/tick")
			}
			if slices.ContainsFunc(r.Ops, ofI1) {
				return zkdev.Refuse(zkdev.BadVersion)
			}
			return zkdev.Pass()
		})
		time.Sleep(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(missed) != 1 || missed[0].Job != "each" || missed[0].InstanceID != "i1" || missed[0].Tick.Sub(refused) > 10*time.Second {
			t.Errorf("said to be missing: %+v", missed)
		}
	})
}

// A watch tells the runs and ticks of each instance by its part, also of one that comes later.
func TestEverywhereWatched(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		instances := everywhere(t, c, 2, working(time.Second))
		ran := map[string]int{}
		if err := c.Operate(t.Context(), func(client *admin.Client) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			time.AfterFunc(20*time.Second, func() { c.Start("i7", instances[0].Setup()) })
			for ev, err := range client.Watch(ctx, admin.WatchOptions{}) {
				if err != nil {
					break // the time is over
				}
				if ev.Kind == admin.EventRunEnded || ev.Kind == admin.EventGap {
					ran[fmt.Sprint(ev.Kind, " ", ev.Job)]++
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if ran["run_ended each/i0"] < 11 || ran["run_ended each/i1"] < 11 || ran["run_ended each/i7"] < 7 || len(ran) != 3 {
			t.Errorf("events %v", ran)
		}
	})
}

// In latch mode only the leader takes jobs, and so such a job runs on the leader alone.
func TestEverywhereInLatchMode(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		setup := swtest.Setup{
			Handlers:  map[string]singleworker.Handler{"each": working(time.Second)},
			Jobs:      []singleworker.Job{{Name: "each", Schedule: "*/5 * * * * ?", Everywhere: true}},
			Configure: func(cfg *singleworker.Config) { cfg.Mode = singleworker.LatchMode },
		}
		first := c.Start("i0", setup)
		time.Sleep(settled)
		c.Start("i1", setup)
		time.Sleep(settled)
		from := time.Now()
		time.Sleep(time.Minute)
		wantTicks(t, c, from, time.Now(), "i0")
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(settled)
		from = time.Now()
		time.Sleep(time.Minute)
		wantTicks(t, c, from, time.Now(), "i1")
		pass(t, c)
	})
}

// An instance's slots are listed with it. Its share does not count its parts of jobs that run on
// every instance.
func TestEverywhereAtAnInstance(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		everywhere(t, c, 2, working(time.Second))
		if err := c.Operate(t.Context(), func(client *admin.Client) error {
			d, err := client.Instance(t.Context(), "i1")
			if len(d.Slots) != 1 || d.Slots[0].Name != "each/i1" || d.Instance.Owned != 0 {
				t.Errorf("%+v", d)
			}
			if err != nil {
				return err
			}
			list, err := client.List(t.Context())
			if len(list) != 1 || list[0].State != admin.StateOwned || len(list[0].Slots) != 2 || list[0].Slots[1].Owner.InstanceID != "i1" {
				t.Errorf("list: %+v", list)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

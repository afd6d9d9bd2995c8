package swtest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zxids"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Instances that run on while ZooKeeper gets a backup put back, or all its data removed, notice
// within a session timeout, end their leases, and join again. Jobs that were submitted after the
// backup are gone; declared jobs come back. Only after a restore by swctl serve restore is
// each token higher than all before.
func TestInstancesThatZooKeeperHasForgotten(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"restored", "emptied", "renewed"} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				snapshot := c.Server.Snapshot()
				handlers := map[string]singleworker.Handler{"work": working(10 * time.Millisecond)}
				declared := singleworker.Job{Name: "declared", Schedule: "* * * * * *", Handler: "work"}
				var instances []*swtest.Instance
				for k := range 3 {
					instances = append(instances, c.Start(fmt.Sprintf("i%d", k), swtest.Setup{Handlers: handlers, Jobs: []singleworker.Job{declared}}))
				}
				jobs := []string{"declared"}
				for k := range 9 {
					name := fmt.Sprintf("job%d", k)
					if err := c.Submit(t.Context(), job.Job{Name: name, Schedule: "* * * * * *", Handler: "work"}); err != nil {
						t.Fatal(err)
					}
					if what != "emptied" {
						jobs = append(jobs, name)
					}
				}
				time.Sleep(settled)
				if what != "emptied" {
					snapshot = c.Server.Snapshot()
				}
				time.Sleep(time.Minute + 500*time.Millisecond) // between two ticks
				replace := c.Reset
				if what == "renewed" {
					replace = c.Renew
				}
				replaced := time.Now()
				if err := replace(snapshot); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2*session + settled)
				since := time.Now()
				time.Sleep(10 * time.Second)
				ran := make(map[string]int)
				ends := make(map[string]time.Time)
				var highest, lowest int64    // tokens before that and since
				for _, r := range c.Runs() { // in the order of their starts
					if r.Started.Before(replaced) {
						highest = max(highest, r.Token)
					} else if lowest == 0 || r.Token < lowest {
						lowest = r.Token
					}
					if r.Started.Before(ends[r.Job]) {
						t.Errorf("two runs of %s at a time, the second of %s for %v", r.Job, r.Instance.Name, r.Tick)
					}
					ends[r.Job] = r.Ended
					if r.Started.After(since) {
						ran[r.Job]++
					}
				}
				for _, name := range jobs {
					if ran[name] < 9 {
						t.Errorf("%s ran %d times in 10 s", name, ran[name])
					}
				}
				if len(ran) != len(jobs) {
					t.Errorf("ran %v, want %q", ran, jobs)
				}
				if zxids.Restored(highest, lowest) != (what == "renewed") {
					t.Errorf("the highest token before is %#x, and the lowest since %#x", highest, lowest)
				}
				for _, i := range instances {
					if s := i.State(); s != swtest.Running {
						t.Errorf("%s is %v", i.Name, s)
					}
				}
			})
		})
	}
}

// A job that was submitted before all data was lost, and is submitted again with another schedule,
// in the same order and so by transactions of the same numbers, runs by its new schedule, and so do
// jobs after it.
func TestJobsThatAreSubmittedAgainAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		nothing := c.Server.Snapshot()
		children := strings.Split("abcdefgh", "") // some are read before their parent
		submit := func(schedule string) (zxid int64) {
			jobs := []job.Job{{Name: "job", Schedule: schedule}}
			for _, child := range children {
				jobs = append(jobs, job.Job{Name: child, Schedule: "@after", After: []string{"job"}})
			}
			for _, of := range jobs {
				if of.Handler = "work"; c.Submit(t.Context(), of) != nil {
					t.Fatalf("%s is not submitted", of.Name)
				}
			}
			for _, txn := range c.Server.Log() {
				if txn.Path == c.Tree().Job("job") {
					zxid = txn.Zxid
				}
			}
			return zxid
		}
		first := submit("0 * * * * *")
		for k := range 2 {
			c.Start(fmt.Sprintf("i%d", k), swtest.Setup{Handlers: map[string]singleworker.Handler{"work": working(10 * time.Millisecond)}})
		}
		time.Sleep(settled)
		if err := c.Reset(nothing); err != nil {
			t.Fatal(err)
		}
		if again := submit("* * * * * *"); again != first {
			t.Fatalf("not what this is about: zxids %d and %d", first, again)
		}
		time.Sleep(2*session + settled)
		before := len(c.Runs())
		time.Sleep(10 * time.Second)
		runs := make(map[string]int)
		for _, r := range c.Runs()[before:] {
			runs[r.Job]++
		}
		for _, name := range append(children, "job") {
			if runs[name] < 9 {
				t.Errorf("%s ran %d times in 10 s", name, runs[name])
			}
		}
	})
}

// A job is submitted again after a backup, and comes to the same owner. The backup's records say
// that this instance owns the job that was there before: it must not claim by the ownership that
// was lost with the data, although the versions of the nodes are the same.
func TestOwnershipThatZooKeeperHasForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		submit := func() {
			if err := c.Submit(t.Context(), job.Job{Name: "job", Schedule: "* * * * * *", Handler: "work"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(settled)
		}
		c.Start("i0", swtest.Setup{Handlers: map[string]singleworker.Handler{"work": working(10 * time.Millisecond)}})
		time.Sleep(settled)
		submit()
		backup := c.Server.Snapshot()
		if err := c.Cancel(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(settled)
		submit()
		time.Sleep(500 * time.Millisecond) // between two ticks
		runs := c.Runs()
		forgotten := runs[len(runs)-1].Token
		if err := c.Reset(backup); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*session + settled)
		for _, r := range c.Runs()[len(runs):] {
			if r.Token == forgotten {
				t.Errorf("the tick of %v is run with token %d, which is of another job", r.Tick, r.Token)
			}
		}
		if n := len(c.Runs()) - len(runs); n < 9 {
			t.Errorf("the job ran %d times", n)
		}
	})
}

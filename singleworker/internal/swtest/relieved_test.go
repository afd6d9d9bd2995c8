package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// change is one of a job's owner.
type change struct{ job, from, to string }

// changesSince lists, in order, when another instance than before became the owner of a job.
func changesSince(t *testing.T, c *swtest.Cluster, since time.Time) (changes []change) {
	t.Helper()
	owners := make(map[string]string)
	for _, txn := range c.Server.Log() {
		job, alive := strings.CutSuffix(txn.Path, "/alive")
		if !alive || txn.Op != zkdev.OpSetData || txn.Code != zkdev.OK {
			continue
		}
		record, err := zkrec.ParseOwner(txn.Data)
		if err != nil {
			t.Error(err)
		}
		if record.SID == "" {
			continue
		}
		if job = strings.TrimPrefix(job, c.Tree().Root()+"/"); owners[job] != record.SID && txn.Time.After(since) {
			changes = append(changes, change{job, owners[job], record.SID})
		}
		owners[job] = record.SID
	}
	return changes
}

// changesOfOwner counts changesSince by job.
func changesOfOwner(t *testing.T, c *swtest.Cluster, since time.Time) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for _, ch := range changesSince(t, c, since) {
		counts[ch.job]++
	}
	return counts
}

// wantNoTickTwice expects that no attempt at a tick was run twice.
func wantNoTickTwice(t *testing.T, c *swtest.Cluster) {
	t.Helper()
	ran := make(map[string]bool)
	for _, r := range c.Runs() {
		what := fmt.Sprintf("%s at %v, attempt %d", r.Job, r.Tick, r.Attempt)
		if ran[what] {
			t.Errorf("%s ran twice", what)
		}
		ran[what] = true
	}
}

// A process that was stopped for a few seconds, less than its session, finds its jobs taken: its
// claims are refused. It gets as many back, once. If one deputy takes both jobs, one of its jobs
// moves to the other deputy meanwhile.
func TestStoppedOwnerThatIsBack(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		hung := group(t, c, 3, 6, "* * * * * ?", working(10*time.Millisecond))[0]
		time.Sleep(500 * time.Millisecond)
		at, before := time.Now(), c.Owners()
		hung.Stall()
		time.Sleep(5 * time.Second)
		if n := c.Shares()["i0"]; n != 0 {
			t.Errorf("i0 still has %d jobs", n)
		}
		hung.Resume()
		time.Sleep(5 * time.Minute)
		taken, by := make(map[string]int), make(map[string]int) // by job, and by deputy
		back, between := 0, 0
		changes := changesSince(t, c, at)
		for _, ch := range changes {
			switch "i0" {
			case ch.from:
				taken[ch.job]++
				by[ch.to]++
			case ch.to:
				back++
			default:
				between++
			}
		}
		for job, owner := range before {
			if want := map[string]int{"i0": 1}[owner]; taken[job] != want {
				t.Errorf("%s of %s was taken from i0 %d times, want %d", job, owner, taken[job], want)
			}
		}
		if want := max(by["i1"], by["i2"]) - 1; back != 2 || between != want {
			t.Errorf("changes %v: want 2 back to i0, and %d between the others", changes, want)
		}
		if got, want := c.Shares(), map[string]int{"i0": 2, "i1": 2, "i2": 2}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		wantNoTickTwice(t, c)
		pass(t, c)
	})
}

// A leader in latch mode loses nothing while it lives, and a job whose instances never take over
// from a live owner waits for the session.
func TestLiveOwnersThatAreNotRelieved(t *testing.T) {
	t.Parallel()
	for what, configure := range map[string]func(cfg *singleworker.Config){
		"latch mode":   func(cfg *singleworker.Config) { cfg.Mode = singleworker.LatchMode },
		"no takeovers": func(cfg *singleworker.Config) { cfg.ClaimGrace = singleworker.NoTakeovers },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				setup := sharing(t, c, 4, "* * * * * ?", working(10*time.Millisecond))
				setup.Configure = configure
				instances := make(map[string]*swtest.Instance)
				for _, name := range []string{"i0", "i1"} {
					instances[name] = c.Start(name, setup)
					time.Sleep(settled)
				}
				before := c.Owners()
				at := time.Now()
				instances["i0"].Stall()
				time.Sleep(session / 2)
				if after := c.Owners(); !maps.Equal(before, after) || c.Shares()["i0"] == 0 {
					t.Errorf("owners %v, half a session before %v", after, before)
				}
				time.Sleep(session + settled)
				if n := c.Shares()["i1"]; n != 4 {
					t.Errorf("i1 owns %d jobs %v after the other's stop, want 4", n, time.Since(at))
				}
				instances["i0"].Resume()
				time.Sleep(settled)
				wantNoTickTwice(t, c)
			})
		})
	}
}

// The lease protects a run in progress: its job waits for the session of its dead owner.
func TestJobInMidRunWaitsForTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		victim := group(t, c, 2, 2, "* * * * * ?", working(time.Hour))[0]
		before := c.Owners()
		victim.Kill()
		time.Sleep(session * 3 / 4)
		if after := c.Owners(); !maps.Equal(before, after) {
			t.Errorf("owners %v within the lease, before %v", after, before)
		}
		time.Sleep(settled)
		if n := c.Shares()["i1"]; n != 2 {
			t.Errorf("i1 owns %d jobs, want 2", n)
		}
		pass(t, c)
	})
}

// A retry that is due after its owner's death runs elsewhere, and the history says from whom the
// job was taken.
func TestRetryAfterTheOwnersDeath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		var mu sync.Mutex
		var recorded []singleworker.Recorded
		setup := swtest.Setup{
			Handlers: map[string]singleworker.Handler{"job": func(_ context.Context, run *singleworker.Run) error {
				if run.Attempt == 1 {
					return errors.New("not yet")
				}
				return nil
			}},
			Configure: func(cfg *singleworker.Config) {
				cfg.Hooks.OnRecorded = func(e singleworker.Recorded) {
					mu.Lock()
					defer mu.Unlock()
					recorded = append(recorded, e)
				}
			},
		}
		job := singleworker.Job{Name: "job", Schedule: "0 * * * * ?", Retries: 3, Backoff: 5 * time.Second}
		if err := c.Submit(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		instances := map[string]*swtest.Instance{"i0": c.Start("i0", setup), "i1": c.Start("i1", setup)}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(2*time.Minute + 2*time.Second)))
		tick := time.Now().Truncate(time.Minute)
		dead := c.Owners()["job"]
		instances[dead].Kill()
		time.Sleep(20 * time.Second)
		var late time.Duration = -1
		for _, r := range c.Runs() {
			if r.Tick.Equal(tick) && r.Attempt == 2 && r.Instance.Name != dead {
				late = r.Started.Sub(tick.Add(5 * time.Second))
			}
		}
		if late < 0 || late > 1100*time.Millisecond {
			t.Errorf("the retry ran %v late (negative: not at all), want a second at most", late)
		}
		mu.Lock()
		defer mu.Unlock()
		found := false
		for _, e := range recorded {
			if from := e.TakenFrom; e.Tick.Equal(tick) && e.Attempt == 2 {
				found = true
				if from != dead || e.InstanceID == dead {
					t.Errorf("recorded by %s as taken from %q, want %q", e.InstanceID, from, dead)
				}
			} else if from != "" {
				t.Errorf("%+v, want nothing but the retry to be of a job that was taken", e)
			}
		}
		if !found {
			t.Error("the retry is not recorded")
		}
		pass(t, c)
	})
}

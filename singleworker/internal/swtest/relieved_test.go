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

// changesOfOwner counts, by job, how often another instance than before became the owner since.
func changesOfOwner(t *testing.T, c *swtest.Cluster, since time.Time) map[string]int {
	t.Helper()
	owners, changes := make(map[string]string), make(map[string]int)
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
			changes[job]++
		}
		owners[job] = record.SID
	}
	return changes
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

// A process that was stopped for a few seconds, less than its session, finds its jobs taken: what it claims is
// refused. They come back once.
func TestStoppedOwnerThatIsBack(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		hung := group(t, c, 3, 6, "* * * * * ?", working(10*time.Millisecond))[0]
		time.Sleep(500 * time.Millisecond)
		owned := c.Shares()["i0"]
		at := time.Now()
		hung.Stall()
		time.Sleep(5 * time.Second)
		if n := c.Shares()["i0"]; n != 0 || owned != 2 {
			t.Errorf("i0 owned %d jobs, and still has %d", owned, n)
		}
		hung.Resume()
		time.Sleep(5 * time.Minute)
		total := 0
		for job, n := range changesOfOwner(t, c, at) {
			if total += n; n > 2 {
				t.Errorf("%s changed its owner %d times", job, n)
			}
		}
		if total > 2*owned {
			t.Errorf("%d changes of owner, want each of %d jobs to be taken, and as many to move back", total, owned)
		}
		if got, want := c.Shares(), map[string]int{"i0": 2, "i1": 2, "i2": 2}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		wantNoTickTwice(t, c)
		pass(t, c)
	})
}

// A leader in latch mode loses nothing while it lives, and a job whose instances never take over from a live owner
// waits for the session.
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

// A retry that is due after its owner's death runs elsewhere, and the history says from whom the job was taken.
func TestRetryAfterTheOwnersDeath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		var mu sync.Mutex
		var recorded []singleworker.Entry
		setup := swtest.Setup{
			Handlers: map[string]singleworker.Handler{"job": func(_ context.Context, run *singleworker.Run) error {
				if run.Attempt == 1 {
					return errors.New("not yet")
				}
				return nil
			}},
			Configure: func(cfg *singleworker.Config) {
				cfg.Hooks.OnRecorded = func(e singleworker.Entry) {
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

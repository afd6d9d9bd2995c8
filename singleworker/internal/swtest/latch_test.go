package swtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const brief = 2 * time.Second // a session

// exact is a cluster on a server that ends sessions when they are over, and not at the next of its
// ticks of two seconds.
func exact(t *testing.T, test func(t *testing.T, c *swtest.Cluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(t, swtest.New(t, swtest.Config{
			SessionTimeout: brief, SyncPeriod: brief, Server: zkdev.Config{Tick: 100 * time.Millisecond},
		}))
	})
}

// latched starts n instances in latch mode, one after the other.
func latched(t *testing.T, c *swtest.Cluster, n, jobs int, schedule string, h singleworker.Handler) []*swtest.Instance {
	t.Helper()
	setup := sharing(t, c, jobs, schedule, h)
	setup.Configure = func(cfg *singleworker.Config) { cfg.Mode = singleworker.LatchMode }
	var instances []*swtest.Instance
	for k := range n {
		instances = append(instances, c.Start(fmt.Sprintf("i%d", k), setup))
		time.Sleep(settled)
	}
	return instances
}

// wantLeader expects that one instance owns every job, and how soon.
func wantLeader(t *testing.T, c *swtest.Cluster, leader string, jobs int, within time.Duration) {
	t.Helper()
	begun := time.Now()
	if !c.Await(within, func() bool { return c.Shares()[leader] == jobs }) {
		t.Errorf("after %v the shares are %v, want all with %s", within, c.Shares(), leader)
	}
	t.Logf("%s owns all after %v", leader, time.Since(begun))
}

func operate(t *testing.T, c *swtest.Cluster, f func(a *admin.Client) error) {
	t.Helper()
	if err := c.Operate(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// onceEach expects that no attempt at a tick was made twice, and that no two runs of a job had the
// right to run at a time.
func onceEach(t *testing.T, c *swtest.Cluster) {
	t.Helper()
	ran := make(map[string]bool)
	before := make(map[string]swtest.Run)
	for _, r := range c.Runs() {
		key := fmt.Sprint(r.Job, r.Tick, r.Attempt)
		if last, ok := before[r.Job]; ran[key] || ok && (last.End().IsZero() || r.Started.Before(last.End())) {
			t.Errorf("%s at %v, attempt %d, on %s: again %v, after %+v", r.Job, r.Tick, r.Attempt, r.Instance.Name, ran[key], last)
		}
		ran[key], before[r.Job] = true, r
	}
	if len(ran) == 0 {
		t.Error("nothing was run")
	}
}

func TestLatchMode(t *testing.T) {
	exact(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		const jobs = 20
		instances := latched(t, c, 4, jobs, "* * * * * ?", working(0))
		wantLeader(t, c, "i0", jobs, 0)
		operate(t, c, func(a *admin.Client) error {
			list, err := a.Instances(t.Context())
			if err == nil && (len(list) != 4 || !list[0].Leader || list[3].Leader || list[3].State != admin.InstanceStandby) {
				t.Errorf("instances are %+v", list)
			}
			return err
		})
		instances[0].Kill()
		wantLeader(t, c, "i1", jobs, brief+500*time.Millisecond)
		time.Sleep(settled)
		go func() { _ = instances[1].Stop() }()
		wantLeader(t, c, "i2", jobs, 50*time.Millisecond)
		time.Sleep(settled)
		operate(t, c, func(a *admin.Client) error {
			_, err := a.Disable(t.Context(), "i2", admin.OrderOptions{})
			return err
		})
		wantLeader(t, c, "i3", jobs, 50*time.Millisecond)
		operate(t, c, func(a *admin.Client) error {
			_, err := a.Enable(t.Context(), "i2")
			return err
		})
		time.Sleep(settled)
		wantLeader(t, c, "i3", jobs, 0) // first come, first led: it has queued again
		onceEach(t, c)
	})
}

func TestLatchSurvivesABriefLossOfTheConnection(t *testing.T) {
	exact(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		instances := latched(t, c, 2, 5, "* * * * * ?", working(0))
		tokens := make(map[string]int64)
		c.View(func(m *swtest.Model) {
			for name, j := range m.Jobs {
				tokens[name] = j.Token
			}
		})
		instances[0].Client.Disconnect()
		time.Sleep(settled)
		wantLeader(t, c, "i0", 5, 0)
		c.View(func(m *swtest.Model) {
			for name, j := range m.Jobs {
				if j.Token != tokens[name] {
					t.Errorf("%s has another owner", name)
				}
			}
		})
		instances[0].Partition()
		wantLeader(t, c, "i1", 5, brief+500*time.Millisecond)
		instances[0].Heal()
		time.Sleep(settled)
		wantLeader(t, c, "i1", 5, 0)
		onceEach(t, c)
	})
}

// A leader that was stopped for longer than its session finds another one that leads. It stands by
// from the moment in which it joins again: its record never says that it leads, and it is offered
// nothing.
func TestLeaderThatWakesUpStandsBy(t *testing.T) {
	exact(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		instances := latched(t, c, 2, 5, "* * * * * ?", working(0))
		at := time.Now()
		for _, s := range c.Server.Sessions() {
			if s.Client == instances[0].Place() {
				if err := c.Server.ExpireSession(s.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantLeader(t, c, "i1", 5, 500*time.Millisecond)
		time.Sleep(settled)
		wantLeader(t, c, "i1", 5, 0)
		joined := 0
		for _, txn := range c.Server.Log() {
			switch {
			case !txn.Time.After(at) || txn.Code != zkdev.OK || len(txn.Data) == 0:
			case txn.Path == c.Tree().Instance("i0"):
				record, err := zkrec.ParseInstance(txn.Data)
				if joined++; err != nil || !record.Standby {
					t.Errorf("%v after its session i0 says %s, %v", txn.Time.Sub(at), txn.Data, err)
				}
			case strings.HasSuffix(txn.Path, "/alive"):
				if record, err := zkrec.ParseOwner(txn.Data); err != nil || record.Offer == "i0" || record.SID == "i0" {
					t.Errorf("%v after the session of i0: %s is %s, %v", txn.Time.Sub(at), txn.Path, txn.Data, err)
				}
			}
		}
		if joined == 0 {
			t.Error("i0 has not joined again")
		}
		onceEach(t, c)
	})
}

// An instance whose place in the queue was deleted manually does not lead, even if it believes so:
// its claims are refused, and it hands its slots over.
func TestLeaderWhosePlaceIsDeleted(t *testing.T) {
	exact(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		instances := latched(t, c, 2, 5, "* * * * * ?", working(0))
		var mu sync.Mutex
		var checked []string // by claims
		c.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			mu.Lock()
			defer mu.Unlock()
			for _, op := range r.Ops {
				if op.Op == zkdev.OpCheck && strings.HasPrefix(op.Path, c.Tree().Leader()) && r.Client == instances[0].Place() {
					checked = append(checked, op.Path)
				}
			}
			return zkdev.Pass()
		})
		time.Sleep(3500 * time.Millisecond)
		mu.Lock()
		places := slices.Clone(checked)
		mu.Unlock()
		if len(places) < 3 {
			t.Fatalf("%d transactions of claims check that the leader's place is there, want one for each second", len(places))
		}
		place := places[0]
		if err := c.Delete(t.Context(), place); err != nil {
			t.Fatal(err)
		}
		wantLeader(t, c, "i1", 5, 50*time.Millisecond)
		time.Sleep(settled)
		wantLeader(t, c, "i1", 5, 0)
		onceEach(t, c)
	})
}

// A place in the queue that was given up, and is there again because the servers have lost that, is
// given up again: its session lives, and everybody else would wait behind it.
func TestPlaceThatComesBack(t *testing.T) {
	t.Parallel()
	for what, enabled := range map[string]bool{"of an instance that stays disabled": false, "of one that contends again": true} {
		t.Run(what, func(t *testing.T) {
			exact(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
				const jobs = 3
				latched(t, c, 2, jobs, "* * * * * ?", working(0))
				backup := c.Server.Snapshot()
				operate(t, c, func(a *admin.Client) error {
					_, err := a.Disable(t.Context(), "i0", admin.OrderOptions{})
					if !enabled {
						backup = c.Server.Snapshot()
					}
					return err
				})
				wantLeader(t, c, "i1", jobs, time.Second)
				if err := c.Restore(backup); err != nil {
					t.Fatal(err)
				}
				lost := time.Now()
				time.Sleep(2*brief + settled)
				wantLeader(t, c, "i1", jobs, 0)
				places := 0
				for _, txn := range c.Server.Log() {
					if txn.Time.After(lost) && txn.Code == zkdev.OK && txn.Op == zkdev.OpCreate && strings.HasPrefix(txn.Path, c.Tree().Leader()+"/") {
						places++
					}
				}
				if places > 0 && !enabled || places > 1 {
					t.Errorf("%d places were taken after the loss: i1 has kept none", places)
				}
				before := len(c.Runs())
				time.Sleep(3 * time.Second)
				if n := len(c.Runs()) - before; n < 2*jobs {
					t.Errorf("%d runs in three seconds after the loss, want %d", n, 3*jobs)
				}
			})
		})
	}
}

func TestModesDoNotMix(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		latched(t, c, 1, 3, "* * * * * ?", working(0))
		other := c.Start("other", swtest.Setup{})
		<-other.Done()
		if err := other.Stop(); !errors.Is(err, singleworker.ErrMode) {
			t.Errorf("Run = %v, want ErrMode", err)
		}
		wantLeader(t, c, "i0", 3, 0)
	})
}

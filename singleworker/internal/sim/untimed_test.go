package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	rules "github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// TestUntimedJobsAtRandom runs random groups, with faults, whose jobs are of the other kinds: always, manually, once. No two runs
// of a job are in progress at a time, a one-shot runs its tick once, what is done is held by nobody and removed in time, and in the end everything that is to run
// always does. The transactions are judged by package ledger.
func TestUntimedJobsAtRandom(t *testing.T) {
	t.Parallel()
	eachSeed(t, 100, func(t *testing.T, seed uint64) {
		t.Helper()
		for _, what := range untimed(t, seed, nil) {
			t.Error(what)
		}
	})
}

// TestUntimedBreaches shows that the same test finds what is broken on purpose, within a few seeds: two runs of an @always job at a time, or of a
// one-shot's tick. A breach of the takeover is for TestSimulation and the scenes: here, hundreds of seeds do not meet it.
func TestUntimedBreaches(t *testing.T) {
	t.Parallel()
	const within = 60
	var first atomic.Pointer[string]
	seed, caught := simkit.Search(within, func(seed uint64) bool {
		found := untimed(t, seed, breaches["claims"])
		if len(found) > 0 {
			first.Store(&found[0])
		}
		return len(found) > 0
	})
	if !caught {
		t.Fatalf("not found within %d seeds", within)
	}
	t.Logf("seed %d: %s", seed, *first.Load())
}

// untimed runs a seed, and returns what is wrong.
func untimed(t *testing.T, seed uint64, b *breach) (found []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		u := &untimedWorld{rng: rand.New(rand.NewPCG(seed, 17)), cluster: swtest.New(t, swtest.Config{SessionTimeout: 4 * time.Second, SyncPeriod: 2 * time.Second})}
		u.setup = swtest.Setup{Handlers: map[string]singleworker.Handler{}}
		if b != nil {
			u.setup.Dial = b.dial
		}
		u.run(t)
		found = u.found
	})
	return found
}

type untimedWorld struct {
	rng     *rand.Rand
	cluster *swtest.Cluster
	setup   swtest.Setup
	found   []string
}

const keepDone = 2 * time.Minute

func (u *untimedWorld) failf(format string, args ...any) {
	u.found = append(u.found, fmt.Sprintf(format, args...))
}

func (u *untimedWorld) upTo(d time.Duration) time.Duration {
	return time.Duration(u.rng.Int64N(int64(d)))
}

// operate is what an operator does; commands may meet what others have done.
func (u *untimedWorld) operate(f func(ctx context.Context, c *admin.Client) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	_ = u.cluster.Operate(ctx, func(c *admin.Client) error { return f(ctx, c) })
}

// lasting is a handler that ends by itself after up to so long, or with its context.
func lasting(d time.Duration) singleworker.Handler {
	return func(ctx context.Context, _ *singleworker.Run) error {
		timer := time.NewTimer(time.Duration(time.Now().UnixNano() % int64(d)))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (u *untimedWorld) run(t *testing.T) {
	t.Helper()
	var names []string
	for k := range 3 {
		for kind, schedule := range map[string]string{"always": "@always", "manual": "@manually", "once": ""} {
			name := fmt.Sprintf("%s%d", kind, k)
			u.setup.Handlers[name] = lasting(20 * time.Second)
			if kind == "once" {
				continue
			}
			names = append(names, name)
			u.operate(func(ctx context.Context, c *admin.Client) error {
				_, err := c.Submit(ctx, jobs.Job{Name: name, Schedule: schedule, Shards: k}, admin.SubmitOptions{})
				return err
			})
		}
	}
	for k := range 3 {
		u.cluster.Start(fmt.Sprintf("i%d", k), u.setup)
	}
	for k := range 60 {
		time.Sleep(u.upTo(4 * time.Second))
		u.happen(k, names)
	}
	for _, i := range u.cluster.Live() {
		i.Heal()
		i.Resume()
	}
	for _, i := range u.cluster.Live() {
		u.operate(func(ctx context.Context, c *admin.Client) error { _, err := c.Enable(ctx, i.Name); return err })
	}
	time.Sleep(keepDone + 2*time.Minute)
	u.judge()
}

// happen makes one random thing happen.
func (u *untimedWorld) happen(k int, names []string) {
	live := u.cluster.Live()
	victim := live[u.rng.IntN(len(live))]
	switch u.rng.IntN(8) {
	case 0:
		victim.Kill()
		u.cluster.Start(fmt.Sprintf("j%d", k), u.setup)
	case 1:
		victim.Leave()
		u.cluster.Start(fmt.Sprintf("j%d", k), u.setup)
	case 2:
		victim.Partition()
		time.Sleep(u.upTo(8 * time.Second))
		victim.Heal()
	case 3:
		victim.Stall()
		time.Sleep(u.upTo(8 * time.Second))
		victim.Resume()
	case 4:
		u.operate(func(ctx context.Context, c *admin.Client) error {
			_, err := c.Drain(ctx, victim.Name, admin.OrderOptions{})
			return err
		})
		time.Sleep(u.upTo(4 * time.Second))
		u.operate(func(ctx context.Context, c *admin.Client) error { _, err := c.Enable(ctx, victim.Name); return err })
	case 5:
		name, tick := fmt.Sprintf("once%d", u.rng.IntN(3)), time.Now().Add(time.Second+u.upTo(20*time.Second)).UTC().Format(time.RFC3339)
		shards := u.rng.IntN(3)
		u.operate(func(ctx context.Context, c *admin.Client) error {
			_, err := c.Submit(ctx, jobs.Job{Name: name, Schedule: "@at " + tick, KeepDone: keepDone, Shards: shards}, admin.SubmitOptions{})
			return err
		})
	default:
		name := append([]string{"once0", "once1", "once2"}, names...)[u.rng.IntN(3+len(names))]
		u.operate(func(ctx context.Context, c *admin.Client) error {
			_, err := c.Trigger(ctx, name, admin.TriggerOptions{})
			return err
		})
	}
}

// judge verifies what is left, the runs, and the log.
func (u *untimedWorld) judge() {
	judge := rules.New(u.cluster.Tree(), true, rules.Observer{}, func(v rules.Violation) { u.failf("%s: %s", v.Slot, v.Text) })
	for _, txn := range swtest.Transactions(u.cluster.Server.Log()) {
		judge.Apply(txn)
	}
	last, open, ticks := make(map[string]swtest.Run), make(map[string]int), make(map[string]string)
	for _, r := range u.cluster.Runs() {
		slot := r.Job
		if r.Shard.Total > 0 {
			slot = jobs.ShardName(r.Job, r.Shard.Index)
		}
		if before, ran := last[slot]; ran && !before.Killed && (before.End().IsZero() || before.End().After(r.Started)) {
			u.failf("%s: the run on %s at %s began beside that on %s, which ended at %s", slot, r.Instance.Name, clock(r.Started), before.Instance.Name, clock(before.End()))
		}
		last[slot] = r
		if r.End().IsZero() {
			open[slot]++
		}
		if tick := fmt.Sprintf("%s at %d, attempt %d", slot, r.Tick.UnixMilli(), r.Attempt); !r.Manual {
			if other := ticks[tick]; other != "" {
				u.failf("%s ran as %s and as %s", tick, other, r.ID)
			}
			ticks[tick] = r.ID
		}
	}
	u.cluster.View(func(m *swtest.Model) {
		for slot, j := range m.Jobs {
			switch schedule := j.Spec.Job.Schedule; {
			case j.Spec.Done != nil && (j.Owner.SID != "" || len(j.Beats) > 0):
				u.failf("%s is done, and held by %q with %d heartbeats", slot, j.Owner.SID, len(j.Beats))
			case schedule == "@always" && len(m.Shards(slot)) == 0 && !j.Tick.Open() && j.Tick.RestartAt < time.Now().UnixMilli()-5000:
				u.failf("%s is to run always, and does not since %s: %+v", slot, clockMs(j.Tick.Ended), j.Tick)
			}
		}
		for k := range 3 {
			if m.Jobs[fmt.Sprintf("once%d", k)] != nil {
				u.failf("once%d has not been removed", k)
			}
		}
	})
}

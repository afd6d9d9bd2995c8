package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	rules "github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A group with jobs that run on every instance, and a few that do not, while instances die, come back under the same ID or another
// one, stop, are cut off, and are kept from jobs. The test keeps its own account of when an instance was there for a job.
type broadcast struct {
	t       *testing.T
	rng     *rand.Rand
	cluster *swtest.Cluster
	setup   swtest.Setup
	names   []string             // of the jobs that run everywhere
	away    map[string][]inForce // by instance: when it may not have run what came
	gone    map[string][]inForce // by instance: when it did not live
	barred  map[admin.Target]bool
	mute    string // the instance whose claims are refused; a breach
	forgets bool   // what is on record of instances that live is deleted; a breach
	missed  []singleworker.Missed
}

// there is how long before a tick an instance must have been there to have to run it: since it lives, an order was taken back,
// or the network is well.
const there = 3 * placesSession

func newBroadcast(t *testing.T, seed uint64) *broadcast {
	t.Helper()
	b := &broadcast{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), away: make(map[string][]inForce), gone: make(map[string][]inForce), barred: make(map[admin.Target]bool),
		setup: swtest.Setup{Handlers: make(map[string]singleworker.Handler)},
	}
	b.cluster = swtest.New(t, swtest.Config{SessionTimeout: placesSession, SyncPeriod: placesSync})
	for k := range 5 {
		name := jobName(k)
		takes := 200 * time.Millisecond * time.Duration(1+k)
		b.setup.Handlers[name] = func(ctx context.Context, _ *singleworker.Run) error {
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			return nil
		}
		of := jobs.Job{Name: name, Schedule: fmt.Sprintf("*/%d * * * * ?", 2+k), Everywhere: k < 3}
		if of.Everywhere {
			of.Misfire = []jobs.MisfirePolicy{jobs.MisfireOnce, jobs.MisfireSkip, jobs.MisfireAll}[b.rng.IntN(3)]
			of.Interrupted = []jobs.InterruptedPolicy{jobs.InterruptedRerun, jobs.InterruptedSkip}[b.rng.IntN(2)]
			b.names = append(b.names, name)
		}
		if err := b.cluster.Submit(t.Context(), of); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *broadcast) start(sid string) {
	setup := b.setup
	setup.Configure = func(cfg *singleworker.Config) {
		cfg.MaxSlots = 2
		cfg.Hooks.OnTickMissed = func(m singleworker.Missed) { b.missed = append(b.missed, m) }
	}
	if times := b.gone[sid]; len(times) > 0 {
		times[len(times)-1].to = time.Now()
	}
	b.cluster.Start(sid, setup)
	b.leave(sid, time.Time{}) // what it was before
	b.back(sid)
	b.cluster.Note("start " + sid)
}

// leave notes that an instance may not be there from then on.
func (b *broadcast) leave(sid string, from time.Time) {
	times := b.away[sid]
	if n := len(times); n == 0 || !times[n-1].to.IsZero() {
		b.away[sid] = append(times, inForce{from: from})
	}
}

// back notes that it is there from now on.
func (b *broadcast) back(sid string) {
	times := b.away[sid]
	times[len(times)-1].to = time.Now()
}

func (b *broadcast) operate(what string, f func(c *admin.Client) error) {
	if err := b.cluster.Operate(b.t.Context(), f); err != nil {
		b.t.Errorf("%s: %v", what, err)
	}
	b.cluster.Note(what)
}

// accountOf is where it is noted that an instance is kept from a job, beside whether it is there at all.
func accountOf(target admin.Target) string { return target.InstanceID + " " + target.Job }

func (b *broadcast) enable(target admin.Target) {
	b.operate("enable "+target.String(), func(c *admin.Client) error { _, err := c.EnableAt(b.t.Context(), target); return err })
	b.back(accountOf(target))
	b.barred[target] = false
}

func (b *broadcast) disable(target admin.Target) {
	b.leave(accountOf(target), time.Now())
	b.operate("disable "+target.String(), func(c *admin.Client) error {
		_, err := c.DisableAt(b.t.Context(), target, admin.OrderOptions{By: "sim"})
		return err
	})
	b.barred[target] = true
}

func (b *broadcast) step() {
	live := b.cluster.Live()
	sid := fmt.Sprintf("i%d", b.rng.IntN(4))
	lives := slices.ContainsFunc(live, func(i *swtest.Instance) bool { return i.Name == sid })
	switch b.rng.IntN(8) {
	case 0, 1:
		if len(live) > 1 {
			victim := live[b.rng.IntN(len(live))]
			b.leave(victim.Name, time.Now())
			if b.rng.IntN(2) == 0 {
				victim.Kill()
				b.cluster.Note("kill " + victim.Name)
			} else {
				b.cluster.Note("stop " + victim.Name)
				if err := victim.Stop(); err != nil {
					b.cluster.Note(err.Error()) // it was cut off until a moment ago
				}
			}
			b.gone[victim.Name] = append(b.gone[victim.Name], inForce{from: time.Now()})
		}
	case 2, 3, 4:
		if !lives {
			b.start(sid)
		}
	case 5:
		if len(live) > 0 {
			victim := live[b.rng.IntN(len(live))]
			b.leave(victim.Name, time.Now())
			b.cluster.Note("cut off " + victim.Name)
			victim.Partition()
			time.Sleep(time.Duration(b.rng.Int64N(int64(2 * placesSession))))
			victim.Heal()
			b.back(victim.Name)
		}
	default:
		target := admin.Target{InstanceID: sid, Job: b.names[b.rng.IntN(len(b.names))]}
		if b.barred[target] {
			b.enable(target)
		} else {
			b.disable(target)
		}
	}
	time.Sleep(time.Duration(b.rng.Int64N(int64(3 * placesSession))))
}

// present reports whether an instance was there for a job at a tick, from long before until the second after it.
func (b *broadcast) present(name, sid string, tick time.Time) bool {
	if b.away[sid] == nil {
		return false
	}
	for _, s := range append(slices.Clone(b.away[sid]), b.away[sid+" "+name]...) {
		if (s.to.IsZero() || tick.Before(s.to.Add(there))) && tick.Add(time.Second).After(s.from) {
			return false
		}
	}
	return true
}

// dead reports whether an instance did not live at a tick, nor in the second after it.
func (b *broadcast) dead(sid string, tick time.Time) bool {
	return slices.ContainsFunc(b.gone[sid], func(s inForce) bool {
		return tick.After(s.from) && (s.to.IsZero() || tick.Add(2*time.Second).Before(s.to))
	})
}

// run returns what was wrong.
func (b *broadcast) run() (wrong []string) {
	if b.mute != "" {
		b.cluster.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			claims := slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return strings.HasSuffix(op.Path, b.mute+"/tick") })
			if claims && strings.HasPrefix(r.Client, b.mute+"#") {
				return zkdev.Refuse(zkdev.BadVersion)
			}
			return zkdev.Pass()
		})
	}
	for k := range 3 {
		b.start(fmt.Sprintf("i%d", k))
	}
	time.Sleep(3 * placesSession)
	begun := time.Now()
	for n := range 25 {
		b.step()
		if b.forgets && n == 12 {
			b.forget()
		}
	}
	for s := range 4 {
		sid := fmt.Sprintf("i%d", s)
		if !slices.ContainsFunc(b.cluster.Live(), func(i *swtest.Instance) bool { return i.Name == sid }) {
			b.start(sid)
		}
		for _, name := range b.names {
			if target := (admin.Target{InstanceID: sid, Job: name}); b.barred[target] {
				b.enable(target)
			}
		}
	}
	time.Sleep(3 * there)
	end := time.Now().Add(-2 * time.Second)

	judge := rules.New(b.cluster.Tree(), true, rules.Observer{}, func(v rules.Violation) { wrong = append(wrong, v.String()) })
	for _, txn := range swtest.Transactions(b.cluster.Server.Log()) {
		judge.Apply(txn)
	}
	ran := make(map[string]int)
	for _, r := range b.cluster.Runs() {
		if r.Attempt == 1 {
			ran[fmt.Sprint(r.Job, r.Instance.Name, r.Tick.UnixMilli())]++
		}
		if r.Everywhere && b.dead(r.Instance.Name, r.Tick) {
			wrong = append(wrong, fmt.Sprintf("%s of %s ran at %s, which was not there", r.Job, clock(r.Tick), r.Instance.Name))
		}
	}
	judged := 0
	for k, name := range b.names {
		period := time.Duration(2+k) * time.Second
		for tick := begun.Truncate(time.Minute).Add(time.Minute); tick.Before(end); tick = tick.Add(period) {
			for s := range 4 {
				sid := fmt.Sprintf("i%d", s)
				n := ran[fmt.Sprint(name, sid, tick.UnixMilli())]
				there := b.present(name, sid, tick)
				if there {
					judged++
				}
				if n > 1 || there && n == 0 && tick.Before(end) {
					wrong = append(wrong, fmt.Sprintf("%s of %s ran %d times at %s", name, clock(tick), n, sid))
				}
			}
		}
	}
	if judged < 50 {
		wrong = append(wrong, fmt.Sprintf("only %d ticks were judged", judged))
	}
	for _, m := range b.missed {
		wrong = append(wrong, fmt.Sprintf("%s of %s is said to be missing at %s", m.Job, clock(m.Tick), m.InstanceID))
	}
	return wrong
}

// forget deletes what is on record of an instance that lives.
func (b *broadcast) forget() {
	for _, i := range b.cluster.Live() {
		part := b.cluster.Tree().Slot(zkrec.InstanceSlot(b.names[0], i.Name))
		for _, node := range []string{"/tick", "/history"} {
			if err := b.cluster.Delete(b.t.Context(), part+node); err != nil {
				b.cluster.Note(err.Error()) // it was never made
			}
		}
	}
}

// Each tick runs once on every instance that was there, and on none that was not; nothing is said to be missing.
func TestEverywhereUnderFaults(t *testing.T) {
	t.Parallel()
	eachSeed(t, 60, func(t *testing.T, seed uint64) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := newBroadcast(t, seed)
			report(t, b.cluster, b.run())
		})
	})
}

// The check finds an instance that claims nothing, and the loss of what an instance that lives has claimed.
func TestBreachesOfEverywhereAreFound(t *testing.T) {
	t.Parallel()
	for what, breach := range map[string]struct {
		plant func(*broadcast)
		finds string
	}{
		"an instance whose claims are refused":       {func(b *broadcast) { b.mute = "i1" }, " ran 0 times at i1"},
		"records of an instance that lives are lost": {func(b *broadcast) { b.forgets = true }, ", which lives"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			seed, found := simkit.Search(20, func(seed uint64) (found bool) {
				synctest.Test(t, func(t *testing.T) {
					b := newBroadcast(t, seed)
					breach.plant(b)
					found = slices.ContainsFunc(b.run(), func(text string) bool { return strings.Contains(text, breach.finds) })
				})
				return found
			})
			if !found {
				t.Error("not found")
			}
			t.Logf("seed %d", seed)
		})
	}
}

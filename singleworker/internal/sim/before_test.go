package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	rules "github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/txnlog"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/swtest/audit"
)

// A group with jobs whose shards wait for BeforeTick, which passes, takes its time, refuses and
// fails, while instances die, stop, come back, are cut off, and the jobs' shards are changed. The
// test keeps its own account of the calls.
type gated struct {
	t       *testing.T
	rng     *rand.Rand
	cluster *swtest.Cluster
	setup   swtest.Setup
	breach  *breach       // of instance i1
	behind  time.Duration // the clock of instance i2
	jobs    []jobs.Job    // as submitted

	free     map[string]bool // by run: it was claimed when the job had no BeforeTick
	canceled map[string]bool // by job: the runs of the former one may last a moment beside the next one's
	missed   []singleworker.Missed
}

const (
	gatedSession = 4 * time.Second
	gatedSync    = time.Second
	gatedJobs    = 3
	gatedPeriod  = 6 * time.Second
	gatedSettles = 6 * gatedSession // after the last fault
)

// The deeds of BeforeTick at a tick, which are the same at all instances of a job.
const (
	beforePasses = iota
	beforeIsSlow
	beforeFailsOnce
	beforeRefuses
	beforeFails
	beforePanics
	beforeKinds
)

// beforeOf is the deed of BeforeTick for a job at a tick.
func beforeOf(name string, tick time.Time) int {
	return int(tick.Unix()/int64(gatedPeriod.Seconds())+int64(name[len(name)-1])) % beforeKinds
}

func newGated(t *testing.T, seed uint64) *gated {
	t.Helper()
	g := &gated{t: t, rng: rand.New(rand.NewPCG(seed, 1)), canceled: make(map[string]bool), free: make(map[string]bool)}
	g.cluster = swtest.New(t, swtest.Config{SessionTimeout: gatedSession, SyncPeriod: gatedSync})
	g.setup = swtest.Setup{
		Handlers: make(map[string]singleworker.Handler), Before: make(map[string]singleworker.Handler),
		Configure: func(cfg *singleworker.Config) {
			cfg.Hooks.OnTickMissed = func(m singleworker.Missed) { g.missed = append(g.missed, m) }
		},
	}
	g.behind = time.Duration(g.rng.Int64N(int64(1500 * time.Millisecond)))
	for k := range gatedJobs {
		name := jobName(k)
		g.setup.Handlers[name] = lasts(200 * time.Millisecond * time.Duration(1+k))
		g.setup.Before["before "+name] = func(ctx context.Context, run *singleworker.Run) error {
			switch kind := beforeOf(name, run.Tick); {
			case kind == beforeIsSlow:
				return lasts(2*time.Second)(ctx, run)
			case kind == beforeRefuses:
				return singleworker.ErrRefuseTick
			case kind == beforePanics:
				panic("not at all")
			case kind == beforeFails, kind == beforeFailsOnce && run.Attempt == 1:
				return errors.New("not now")
			}
			return nil
		}
		of := jobs.Job{
			Name: name, Schedule: fmt.Sprintf("@every %s", gatedPeriod), Shards: 2 + g.rng.IntN(3), BeforeTick: "before " + name,
			Retries: 1, Interrupted: []jobs.InterruptedPolicy{jobs.InterruptedRerun, jobs.InterruptedSkip}[g.rng.IntN(2)],
			Overlap: []jobs.OverlapPolicy{jobs.OverlapSkip, jobs.OverlapQueue}[g.rng.IntN(2)],
			Misfire: []jobs.MisfirePolicy{jobs.MisfireOnce, jobs.MisfireSkip, jobs.MisfireAll}[g.rng.IntN(3)],
		}
		g.jobs = append(g.jobs, of)
		if err := g.cluster.Submit(t.Context(), of); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// lasts is a handler that takes so long, or until its context ends.
func lasts(d time.Duration) singleworker.Handler {
	return func(ctx context.Context, _ *singleworker.Run) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (g *gated) start(sid string) {
	setup := g.setup
	if sid == "i1" && g.breach != nil {
		setup.Dial = g.breach.dial
	}
	if sid == "i2" {
		setup.Wall = func() time.Duration { return -g.behind }
	}
	g.cluster.Start(sid, setup)
	g.cluster.Note("start " + sid)
}

func (g *gated) step() {
	live := g.cluster.Live()
	sid := fmt.Sprintf("i%d", g.rng.IntN(4))
	lives := slices.ContainsFunc(live, func(i *swtest.Instance) bool { return i.Name == sid })
	switch g.rng.IntN(12) {
	case 0, 1:
		if len(live) > 1 {
			victim := live[g.rng.IntN(len(live))]
			g.cluster.Note("end " + victim.Name)
			if g.rng.IntN(3) > 0 {
				victim.Kill()
			} else if err := victim.Stop(); err != nil {
				g.cluster.Note(err.Error()) // it was cut off until a moment ago
			}
		}
	case 2, 3, 4:
		if !lives {
			g.start(sid)
		}
	case 5, 6:
		if len(live) > 0 {
			victim := live[g.rng.IntN(len(live))]
			g.cluster.Note("cut off " + victim.Name)
			victim.Partition()
			time.Sleep(time.Duration(g.rng.Int64N(int64(2 * gatedSession))))
			victim.Heal()
		}
	case 7:
		of := g.jobs[g.rng.IntN(gatedJobs)]
		g.canceled[of.Name] = true
		g.operate("cancel and submit "+of.Name, func(c *admin.Client) error {
			if _, err := c.Cancel(g.t.Context(), of.Name); err != nil {
				return err
			}
			_, err := c.Submit(g.t.Context(), of, admin.SubmitOptions{})
			return err
		})
	case 8:
		name := jobName(g.rng.IntN(gatedJobs))
		g.operate("trigger "+name, func(c *admin.Client) error {
			_, err := c.Trigger(g.t.Context(), name, admin.TriggerOptions{})
			return unless(err, admin.ErrBusy, admin.ErrNoHandler)
		})
	case 9:
		name := jobName(g.rng.IntN(gatedJobs))
		missed := []jobs.MisfirePolicy{jobs.MisfireOnce, jobs.MisfireSkip, jobs.MisfireAll}[g.rng.IntN(3)]
		g.operate("pause "+name, func(c *admin.Client) error {
			_, err := c.Pause(g.t.Context(), name, admin.PauseOptions{For: time.Second + time.Duration(g.rng.Int64N(int64(2*gatedPeriod))), Missed: missed})
			return unless(err, admin.ErrConflict)
		})
	case 10:
		g.edit(jobName(g.rng.IntN(gatedJobs)), func(j *jobs.Job) { j.Shards = 2 + g.rng.IntN(4) })
	default:
		g.edit(jobName(g.rng.IntN(gatedJobs)), func(j *jobs.Job) {
			if j.BeforeTick == "" {
				j.BeforeTick = "before " + j.Name
			} else {
				j.BeforeTick = ""
			}
		})
	}
	time.Sleep(time.Duration(g.rng.Int64N(int64(2 * gatedSession))))
}

func (g *gated) operate(what string, f func(c *admin.Client) error) {
	if err := g.cluster.Operate(g.t.Context(), f); err != nil {
		g.t.Errorf("%s: %v", what, err)
	}
	g.cluster.Note(what)
}

func (g *gated) edit(name string, change func(j *jobs.Job)) {
	g.operate("edit "+name, func(c *admin.Client) error {
		_, err := c.Edit(g.t.Context(), name, func(j *jobs.Job) error {
			change(j)
			g.cluster.Note(fmt.Sprintf("%s: %d shards, before %q", name, j.Shards, j.BeforeTick))
			return nil
		}, admin.EditOptions{})
		return unless(err, admin.ErrConflict)
	})
}

// run returns the faults that it finds.
func (g *gated) run() (wrong []string) {
	for k := range 3 {
		g.start(fmt.Sprintf("i%d", k))
	}
	time.Sleep(3 * gatedSession)
	for range 25 {
		g.step()
	}
	for s := range 4 {
		sid := fmt.Sprintf("i%d", s)
		if !slices.ContainsFunc(g.cluster.Live(), func(i *swtest.Instance) bool { return i.Name == sid }) {
			g.start(sid)
		}
	}
	for k := range gatedJobs {
		g.edit(jobName(k), func(j *jobs.Job) { j.Shards, j.BeforeTick = 3, "before "+j.Name })
	}
	time.Sleep(gatedSettles)
	begun := time.Now()
	time.Sleep((beforeKinds + 2) * gatedPeriod)
	ended := time.Now().Add(-gatedPeriod)

	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	g.judgeLedger(say)
	g.judgeCalls(say)
	g.judgeQuiet(begun, ended, say)
	for _, m := range g.missed {
		say("%s of %s is said to be missing, shard %d", m.Job, clock(m.Tick), m.Shard.Index)
	}
	return wrong
}

// judgeLedger judges the transactions, and the runs as any.
func (g *gated) judgeLedger(say func(format string, args ...any)) {
	claimed := func(_ *txnlog.Txn, _ string, rec zkrec.Tick, layout zkrec.Layout) {
		g.free[rec.RunID] = layout.BeforeTick == ""
	}
	judge := rules.New(g.cluster.Tree(), true, rules.Observer{Claimed: claimed}, func(v rules.Violation) { say("%s", v) })
	for _, txn := range swtest.Transactions(g.cluster.Server.Log()) {
		judge.Apply(txn)
	}
	evidence := g.cluster.Evidence()
	for i, r := range g.cluster.Runs() {
		if r.Manual {
			evidence[i].Tick = time.Time{}
		}
	}
	for _, found := range audit.Runs(evidence) {
		if found.Rule != audit.Skipped && !g.canceled[zkrec.JobOfSlot(found.Run.Job)] {
			say("%s", found)
		}
	}
}

// judgeCalls judges that no shard runs a tick before BeforeTick has returned nil for it, unless it
// had none then, and that there is one call at a time.
func (g *gated) judgeCalls(say func(format string, args ...any)) {
	passed, last := make(map[string]time.Time), make(map[string]time.Time)
	for _, b := range g.cluster.Befores() {
		key := fmt.Sprint(b.Job, b.Tick.UnixMilli())
		if _, known := passed[key]; !known && b.Err == nil && !b.Ended.IsZero() {
			passed[key] = b.Ended
		}
		if b.Started.Before(last[b.Job]) && !g.canceled[b.Job] {
			say("BeforeTick of %s was called at %s for %s, when another call was in progress", b.Job, clock(b.Started), clock(b.Tick))
		}
		last[b.Job] = b.End()
	}
	for _, r := range g.cluster.Runs() {
		at, ok := passed[fmt.Sprint(r.Job, r.Tick.UnixMilli())]
		if !r.Manual && !g.free[r.ID] && (!ok || r.Started.Before(at)) {
			say("shard %d of %s ran %s at %s: BeforeTick had returned nil at %s", r.Shard.Index, r.Job, clock(r.Tick), clock(r.Started), clock(at))
		}
	}
}

// judgeQuiet judges that without faults each tick is run by all shards, or by none, as BeforeTick
// says.
func (g *gated) judgeQuiet(begun, ended time.Time, say func(format string, args ...any)) {
	ran := make(map[string]int)
	for _, r := range g.cluster.Runs() {
		if r.Err == nil && !r.Ended.IsZero() && !r.Manual {
			ran[fmt.Sprint(r.Job, r.Tick.UnixMilli())]++
		}
	}
	for k := range gatedJobs {
		name := jobName(k)
		for tick := begun.Truncate(gatedPeriod).Add(gatedPeriod); tick.Before(ended); tick = tick.Add(gatedPeriod) {
			want := 3
			if beforeOf(name, tick) >= beforeRefuses {
				want = 0
			}
			if n := ran[fmt.Sprint(name, tick.UnixMilli())]; n != want {
				say("%s of %s was run by %d shards, want %d: BeforeTick does %d", name, clock(tick), n, want, beforeOf(name, tick))
			}
		}
	}
}

// No shard begins a tick before BeforeTick has returned nil for it; one that it refuses is run by
// none.
func TestBeforeTickUnderFaults(t *testing.T) {
	t.Parallel()
	for k := range uint64(simkit.Seeds(20)) {
		seed := simkit.Base() + k
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGated(t, seed)
				for _, text := range g.run() {
					t.Error(text)
				}
				for _, n := range g.cluster.Notes() {
					if t.Failed() {
						t.Logf("%s %s", clock(n.Time), n.Text)
					}
				}
			})
		})
	}
}

// The check finds an instance that does not wait for BeforeTick.
func TestBreachOfBeforeTickIsFound(t *testing.T) {
	t.Parallel()
	seed, found := simkit.Search(10, func(seed uint64) (found bool) {
		synctest.Test(t, func(t *testing.T) {
			g := newGated(t, seed)
			g.breach = &breach{heedless: true}
			wrong := g.run()
			ran := slices.ContainsFunc(wrong, func(text string) bool { return strings.Contains(text, "BeforeTick had returned nil at") })
			claimed := slices.ContainsFunc(wrong, func(text string) bool { return strings.Contains(text, "of which BeforeTick has not returned nil") })
			found = ran && claimed
		})
		return found
	})
	if !found {
		t.Error("not found")
	}
	t.Logf("seed %d", seed)
}

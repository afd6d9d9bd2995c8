package swtest_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// missed is a call of OnTickMissed, and how long after the ticks it came.
type missed struct {
	mu   sync.Mutex
	told []string
	late []time.Duration
}

func (m *missed) hook(x singleworker.Missed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	late := time.Since(x.Tick)
	m.told = append(m.told, fmt.Sprintf("%s %s after %v", x.Job, x.Tick.UTC().Format(time.TimeOnly), late))
	m.late = append(m.late, late)
}

func (m *missed) texts() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.told)
}

func (m *missed) delays() []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.late)
}

// Whatever the clock of an instance says, no tick is reported as missed that is run on time, and
// one that is not run is reported once, not before its time.
func TestWrongClockRaisesNoAlarms(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, 8 * time.Second, 25 * time.Second, -8 * time.Second, -25 * time.Second, 10 * time.Minute, time.Hour, -time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				var told missed
				m := machines(t, c, 12, "0 * * * * ?", func(cfg *singleworker.Config) { cfg.Hooks.OnTickMissed = told.hook }, 0, 0, 0)
				for _, name := range []string{"job0", "job3", "job7"} {
					operate(t, c, func(a *admin.Client) error {
						_, err := a.Edit(t.Context(), name, func(j *singleworker.Job) error { j.AlarmAfter = 5 * time.Second; return nil }, admin.EditOptions{})
						return err
					})
				}
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(90 * time.Second)))
				m[2].set(off)
				time.Sleep(8 * time.Minute)
				if early := told.texts(); len(early) > 0 {
					t.Errorf("%d alarms: %v", len(early), early)
				}
				const after = 20 * time.Second
				for k := range 4 {
					lost := singleworker.Job{Name: fmt.Sprintf("lost%d", k), Schedule: "0 */5 * * * ?", AlarmAfter: after}
					if err := c.Submit(t.Context(), lost); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(6 * time.Minute)
				if text, late := told.texts(), told.delays(); len(late) != 4 || slices.Min(late) < after || slices.Max(late) > after+40*time.Second {
					t.Errorf("of four jobs that nobody can run: %v", text)
				}
			})
		})
	}
}

// The server that leads is another one, and its clock is wrong. The instances, whose clocks are
// right, find that out, and then nothing changes: no job changes its owner, each tick is run, and
// none is reported as missed. An owner that dies is relieved as ever.
func TestNewLeadersClockIsWrong(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{20 * time.Second, 40 * time.Second, time.Hour, -20 * time.Second, -40 * time.Second, -time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				var told missed
				machines(t, c, 6, "0 * * * * ?", func(cfg *singleworker.Config) { cfg.Hooks.OnTickMissed = told.hook }, 0, 0, 0)
				time.Sleep(2 * time.Minute)
				c.Server.SetClock(off)
				time.Sleep(time.Minute) // in which they find it out, and may hand over what they own
				at, before := time.Now(), len(c.Runs())
				time.Sleep(10 * time.Minute)
				if n := changesOfOwner(t, c, at); len(n) > 0 {
					t.Errorf("changes of owner in ten minutes without a fault: %v", n)
				}
				if n, text := len(c.Runs())-before, told.texts(); n < 6*10 || len(text) > 0 {
					t.Errorf("%d runs in ten minutes; reported as missed: %v", n, text)
				}
				next := time.Now().Truncate(time.Minute).Add(time.Minute)
				time.Sleep(time.Until(next.Add(-time.Second)))
				c.Instances()[0].Kill()
				time.Sleep(4 * time.Second)
				ran := 0
				for _, r := range c.Runs() {
					if r.Tick.Equal(next) {
						ran++
					}
				}
				if limit := singleworker.DefaultMaxClockOffset; ran < 6 && off.Abs() > limit {
					t.Errorf("%d of 6 ticks ran while the session of a dead owner lasted", ran)
				}
				c.Server.SetClock(0)
				time.Sleep(2 * time.Minute)
				if text := told.texts(); len(text) > 0 {
					t.Errorf("when the clock is right again, reported as missed: %v", text)
				}
				wantNoTickTwice(t, c)
				wantAudit(t, c)
			})
		})
	}
}

// A job that is submitted, or changed, while ZooKeeper's clock is a day ahead runs as soon as the
// instances know better.
func TestChangeWhileZooKeepersClockIsAhead(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		machines(t, c, 4, "*/10 * * * * ?", nil, 0, 0, 0)
		pause := func(job string) {
			operate(t, c, func(a *admin.Client) error {
				_, err := a.Pause(t.Context(), job, admin.PauseOptions{For: 5 * time.Minute})
				return err
			})
		}
		pause("job3")
		time.Sleep(time.Minute)
		c.Server.SetClock(24 * time.Hour)
		time.Sleep(20 * time.Second)
		jobs := map[string]singleworker.Job{
			"new": {}, "sharded": {Shards: 3}, "parts": {Everywhere: true}, "behind": {Instances: []string{"i1"}},
		}
		for name, j := range jobs {
			j.Name, j.Schedule, j.Handler = name, "*/10 * * * * ?", "job0"
			if err := c.Submit(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		operate(t, c, func(a *admin.Client) error {
			_, err := a.Edit(t.Context(), "job1", func(j *singleworker.Job) error { j.Schedule = "*/15 * * * * ?"; return nil }, admin.EditOptions{})
			return err
		})
		pause("job2")
		operate(t, c, func(a *admin.Client) error {
			_, err := a.Resume(t.Context(), "job3", admin.ResumeOptions{})
			return err
		})
		time.Sleep(30 * time.Second)
		c.Server.SetClock(0)
		time.Sleep(30 * time.Second)
		at := time.Now()
		time.Sleep(10 * time.Minute)
		ran := make(map[string]int)
		for _, r := range c.Runs() {
			if r.Started.After(at) {
				ran[r.Job]++
			}
		}
		for name, want := range map[string]int{"new": 60, "sharded": 180, "parts": 180, "behind": 60, "job0": 60, "job1": 40, "job2": 34, "job3": 60} {
			if n := ran[name]; n < want-6 || n > want+6 {
				t.Errorf("%s: %d runs in ten minutes, want %d", name, n, want)
			}
		}
		pass(t, c)
	})
}

// A correction of the times of a job that was slow on its way does not reach the next job of the
// name.
func TestLateCorrectionLeavesTheNextJobAlone(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		machines(t, c, 2, "*/10 * * * * ?", nil, 0, 0, 0)
		time.Sleep(time.Minute)
		late := make(chan struct{})
		c.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Op == zkdev.OpSetData && op.Path == c.Tree().Job("new") }) {
				close(late)
				return zkdev.Delay(2 * time.Second)
			}
			return zkdev.Pass()
		})
		c.Server.SetClock(24 * time.Hour)
		if err := c.Submit(t.Context(), singleworker.Job{Name: "new", Schedule: "@hourly"}); err != nil {
			t.Fatal(err)
		}
		<-late
		c.Server.SetClock(0)
		if err := c.Cancel(t.Context(), "new"); err != nil {
			t.Fatal(err)
		}
		if err := c.Submit(t.Context(), singleworker.Job{Name: "new", Schedule: "@daily"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		operate(t, c, func(a *admin.Client) error {
			job, err := a.Get(t.Context(), "new")
			if job.Job.Schedule != "@daily" {
				t.Errorf("the next job has the schedule %s", job.Job.Schedule)
			}
			return err
		})
	})
}

// wantAudit expects that an audit of the server's log finds nothing.
func wantAudit(t *testing.T, c *swtest.Cluster) {
	t.Helper()
	l := ledger.New(c.Tree(), true, ledger.Observer{}, func(v ledger.Violation) { t.Errorf("audit: %v", v) })
	for _, txn := range swtest.Transactions(c.Server.Log()) {
		l.Apply(txn)
	}
}

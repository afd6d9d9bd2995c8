package swtest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Hundreds of jobs are due at the same time, and a claim takes a round trip of 10 ms. Nothing is
// claimed before the tick, and all runs begin when that is over.
func TestCrowdBeginsOnTheTick(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		const jobs, ticks = 300, 3
		group(t, c, 3, jobs, "0 * * * * ?", working(time.Second))
		time.Sleep(time.Until(c.Begun().Truncate(time.Minute).Add(ticks*time.Minute + 30*time.Second)))
		runs := c.Runs()
		for _, r := range runs {
			if late := r.Started.Sub(r.Tick); late != 10*time.Millisecond {
				t.Errorf("%s at %v began %v late", r.Job, r.Tick, late)
			}
		}
		if len(runs) != jobs*ticks {
			t.Errorf("%d runs, want %d", len(runs), jobs*ticks)
		}
		wantNoTickTwice(t, c)
		pass(t, c)
	})
}

// An instance that is told to stop or to drain around the tick of a crowd begins nothing from then
// on: neither runs that it has yet to claim, nor runs that it has claimed and ZooKeeper has not
// answered. The others run all of that.
func TestCrowdOfAnInstanceThatLeaves(t *testing.T) {
	t.Parallel()
	for what, do := range map[string]func(t *testing.T, i *swtest.Instance){
		"stop":  func(_ *testing.T, i *swtest.Instance) { i.Leave() },
		"drain": func(t *testing.T, i *swtest.Instance) { t.Helper(); go func() { _ = i.Drain(t.Context()) }() },
	} {
		for _, ms := range []int{-20, -1, 1, 3, 7, 9} {
			after := time.Duration(ms) * time.Millisecond
			t.Run(fmt.Sprint(what, after), func(t *testing.T) {
				slow(t, func(t *testing.T, c *swtest.Cluster) {
					t.Helper()
					const jobs = 200
					setup := sharing(t, c, jobs/2, "0 * * * * ?", working(10*time.Millisecond))
					for k := range jobs / 2 { // that are not to be repeated when they were interrupted
						name := fmt.Sprintf("once%d", k)
						setup.Handlers[name] = working(10 * time.Millisecond)
						once := singleworker.Job{Name: name, Schedule: "0 * * * * ?", Interrupted: job.InterruptedSkip, MaxAttempts: 1}
						if err := c.Submit(t.Context(), once); err != nil {
							t.Fatal(err)
						}
					}
					leaver := c.Start("i0", setup)
					c.Start("i1", setup)
					time.Sleep(settled)
					tick := time.Now().Truncate(time.Minute).Add(time.Minute)
					time.Sleep(time.Until(tick) + after)
					do(t, leaver)
					time.Sleep(10 * time.Second)
					ran := make(map[string]bool)
					for _, r := range c.Runs() {
						if !r.Tick.Equal(tick) {
							continue
						}
						if ran[r.Job] = true; r.Instance.Name == "i0" || r.Attempt != 1 {
							t.Fatalf("%s, attempt %d on %s began %v after the tick", r.Job, r.Attempt, r.Instance.Name, r.Started.Sub(tick))
						}
					}
					if len(ran) != jobs {
						t.Errorf("%d jobs ran, want %d", len(ran), jobs)
					}
					wantNoTickTwice(t, c)
					pass(t, c)
				})
			})
		}
	}
}

// An operator's order before the tick of a crowd, which ZooKeeper has acknowledged, holds at it.
func TestCrowdIsPausedOrCanceled(t *testing.T) {
	t.Parallel()
	for what, do := range map[string]func(a *admin.Client, ctx context.Context, job string) error{
		"pause": func(a *admin.Client, ctx context.Context, job string) error {
			_, err := a.Pause(ctx, job, admin.PauseOptions{})
			return err
		},
		"cancel": func(a *admin.Client, ctx context.Context, job string) error {
			_, err := a.Cancel(ctx, job)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			slow(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				const jobs, stopped = 200, 10
				group(t, c, 2, jobs, "0 * * * * ?", working(10*time.Millisecond))
				tick := time.Now().Truncate(time.Minute).Add(time.Minute)
				var ordered time.Time
				operate(t, c, func(a *admin.Client) error {
					time.Sleep(time.Until(tick) - 250*time.Millisecond)
					for k := range stopped {
						if err := do(a, t.Context(), fmt.Sprintf("job%d", k)); err != nil {
							return err
						}
					}
					ordered = time.Now()
					return nil
				})
				if !ordered.Before(tick) {
					t.Fatalf("ordered %v after the tick", ordered.Sub(tick))
				}
				time.Sleep(10 * time.Second)
				began := make(map[string]bool)
				for _, r := range c.Runs() {
					began[r.Job] = r.Tick.Equal(tick)
				}
				for k := range jobs {
					if name := fmt.Sprintf("job%d", k); began[name] != (k >= stopped) {
						t.Errorf("%s ran the tick: %v", name, began[name])
					}
				}
			})
		})
	}
}

// An instance of a crowd that is due each second dies in some phase of a second. The runs that it
// had not begun, by ZooKeeper's log, lose no tick and run none twice, and nothing was begun before
// its tick.
func TestCrowdWhoseOwnerIsKilled(t *testing.T) {
	t.Parallel()
	const phases = 20
	for k := range simkit.Seeds(phases) {
		phase := time.Second * time.Duration((int(simkit.Base())+7*k)%phases) / phases
		t.Run(phase.String(), func(t *testing.T) {
			slow(t, func(t *testing.T, c *swtest.Cluster) { t.Helper(); killInCrowd(t, c, phase) })
		})
	}
}

func killInCrowd(t *testing.T, c *swtest.Cluster, phase time.Duration) {
	t.Helper()
	const jobs, watch = 240, 12
	instances := group(t, c, 3, jobs, "* * * * * ?", working(100*time.Millisecond))
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(5*time.Second + phase)))
	killed := time.Now()
	instances[0].Kill()
	time.Sleep(watch * time.Second)
	tickRecords(t, c, func(at time.Time, job string, record zkrec.Tick) {
		if record.Open() && record.Tick > at.UnixMilli() {
			t.Errorf("%s was claimed at %v, its tick is at %v", job, at, time.UnixMilli(record.Tick))
		}
	})
	begun := begunBy(t, c, "i0", killed)
	ran := make(map[string]map[int64]bool)
	for _, r := range c.Runs() {
		if ran[r.Job] == nil {
			ran[r.Job] = make(map[int64]bool)
		}
		ran[r.Job][r.Tick.Unix()] = true
	}
	waits := 0
	for k := range jobs {
		job := fmt.Sprintf("job%d", k)
		if begun[job] {
			waits++
			continue
		}
		for tick := killed.Unix() - 2; tick < killed.Unix()+watch-1; tick++ {
			if !ran[job][tick] {
				t.Errorf("%s had not begun, and lost its tick %d s after the kill", job, tick-killed.Unix())
			}
		}
	}
	if runs := phase >= 50*time.Millisecond && phase <= 100*time.Millisecond; runs != (waits > 0) && (runs || phase != 150*time.Millisecond) {
		t.Errorf("%d jobs had begun %v after their tick", waits, phase)
	}
	wantNoTickTwice(t, c)
	pass(t, c)
}

// tickRecords calls f for each tick record that was written, in order.
func tickRecords(t *testing.T, c *swtest.Cluster, f func(at time.Time, job string, record zkrec.Tick)) {
	t.Helper()
	for _, txn := range c.Server.Log() {
		slot, isTick := strings.CutSuffix(txn.Path, "/tick")
		if !isTick || txn.Op != zkdev.OpSetData || txn.Code != zkdev.OK {
			continue
		}
		record, err := zkrec.ParseTick(txn.Data, txn.Time)
		if err != nil {
			t.Fatal(err)
		}
		f(txn.Time, strings.TrimPrefix(slot, c.Tree().Root()+"/"), record)
	}
}

// begunBy has the jobs that an instance had begun when it died: ZooKeeper has its claim and not its
// result.
func begunBy(t *testing.T, c *swtest.Cluster, name string, died time.Time) map[string]bool {
	t.Helper()
	begun := make(map[string]bool)
	tickRecords(t, c, func(at time.Time, job string, record zkrec.Tick) {
		if !at.After(died.Add(slowest)) {
			begun[job] = record.Open() && record.SID == name
		}
	})
	return begun
}

// slowest is how long after its instance has died a write may still reach the server of a slow
// cluster.
const slowest = 5 * time.Millisecond

// Instances are killed, stopped for a while, leave and join around the ticks of a crowd: no run
// begins before its tick, none happens twice, and each tick is accounted for.
func TestCrowdAtRandom(t *testing.T) {
	t.Parallel()
	atRandom(t, 20, 11, crowdAtRandom)
}

func crowdAtRandom(t *testing.T, c *swtest.Cluster, rng *rand.Rand) {
	t.Helper()
	const period = 10 * time.Second
	setup := group(t, c, 3, 250, "*/10 * * * * ?", working(time.Duration(rng.Int64N(int64(2*time.Second)))))[0].Setup()
	for k := range 10 {
		tick := time.Now().Add(2 * time.Second).Truncate(period).Add(period)
		time.Sleep(time.Until(tick) - time.Duration(rng.Int64N(int64(150*time.Millisecond))) + 30*time.Millisecond)
		live := c.Live()
		victim := live[rng.IntN(len(live))]
		switch rng.IntN(3) {
		case 0:
			victim.Kill()
			c.Start(fmt.Sprintf("j%d", k), setup)
		case 1:
			c.Start(fmt.Sprintf("j%d", k), setup)
			victim.Leave()
		default:
			victim.Stall()
			time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
			victim.Resume()
		}
	}
	time.Sleep(time.Minute)
	time.Sleep(time.Until(time.Now().Truncate(period).Add(period + 8*time.Second))) // no run is in progress
	early := 0
	for _, r := range c.Runs() {
		if r.Started.Before(r.Tick) {
			early++
		}
	}
	if early > 0 {
		t.Errorf("%d runs began before their ticks", early)
	}
	wantNoTickTwice(t, c)
	pass(t, c)
}

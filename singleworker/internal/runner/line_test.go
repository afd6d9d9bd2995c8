package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// limited returns a world that runs at most so many jobs at once.
func limited(t *testing.T, most int) *world {
	t.Helper()
	w := newWorld(t)
	w.runner.line.limit = most
	w.run(t.Context())
	return w
}

// ownMany owns many jobs that are due every minute, of runs that take 100 ms, and returns the most
// runs of handlers that were in progress at once.
func ownMany(w *world, jobs int, policy ticks.Policy) (most *atomic.Int64) {
	var now atomic.Int64
	most = new(atomic.Int64)
	for i := range jobs {
		j := w.job(fmt.Sprintf("job-%03d", i), "0 * * * * ?", func(context.Context, Run) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(100 * time.Millisecond)
			now.Add(-1)
			return nil
		})
		w.own(withPolicy(j, policy))
	}
	return most
}

// 100 jobs are due in the same second, five may run at once: all run, the last ones two seconds
// late.
func TestMaxRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := limited(t, 5)
		most := ownMany(w, 100, ticks.Policy{})
		pass(90 * time.Second)
		w.stop()
		if n := most.Load(); n != 5 {
			t.Errorf("%d runs at once, want 5", n)
		}
		waited := map[int64]int{}
		for i := range 100 {
			name := fmt.Sprintf("job-%03d", i)
			entries := w.keeper.read(name).history
			if len(entries) != 1 || entries[0].State != history.StateOK {
				t.Fatalf("history of %s: %v, want one run", name, lines(entries))
			}
			e := entries[0]
			if late := e.Started - e.Tick; e.Delayed != late {
				t.Errorf("%s started %d ms late, and is recorded to have waited for %d ms", name, late, e.Delayed)
			}
			waited[e.Delayed]++
		}
		for ms := int64(0); ms < 2000; ms += 100 {
			if waited[ms] != 5 {
				t.Errorf("%d runs waited for %d ms, want 5: %v", waited[ms], ms, waited)
			}
		}
	})
}

// Runs that wait for others begin when those have ended: results are not held back then, although
// many jobs are due.
func TestMaxRunningOfACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := limited(t, crowd)
		const took, asked = 10 * time.Millisecond, 25 * time.Millisecond
		w.own(w.job("job", "@manually", nil))
		for i := range 2 * crowd {
			w.own(w.job(fmt.Sprintf("job-%03d", i), "0 * * * * ?", working(took)))
		}
		pass(time.Minute + asked) // the results of the second half are held back
		w.request(manual("r1"))
		pass(time.Second)
		w.stop()
		waited := map[time.Duration]int{}
		for _, r := range w.started() {
			waited[r.Started.Sub(midnight.Add(time.Minute))]++
		}
		if want := map[time.Duration]int{0: crowd, took: crowd, asked: 1}; !maps.Equal(waited, want) {
			t.Errorf("runs that began, by the time since the tick: %v, want %v", waited, want)
		}
	})
}

// A tick that has waited for longer than its misfire policy allows is not run, and the history says
// why.
func TestMaxRunningDelaysBeyondTheMisfirePolicy(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]ticks.Policy{
		"skip":  {Misfire: jobs.MisfireSkip},
		"grace": {MisfireGrace: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := limited(t, 5)
				ownMany(w, 100, policy)
				pass(90 * time.Second)
				w.stop()
				count := map[string]int{}
				for i := range 100 {
					for _, line := range lines(w.keeper.read(fmt.Sprintf("job-%03d", i)).history) {
						_, what, _ := strings.Cut(line, ": ")
						count[what]++
					}
				}
				if count["ok"] != 55 || count["missed delayed"] != 45 || len(count) != 2 {
					t.Errorf("%v; want those within a second to run, 55, and 45 missed because they were delayed", count)
				}
			})
		})
	}
}

// Ticks that come while the job waits are missed because of that, those before its owner had it are
// not.
func TestMaxRunningSaysWhichTicksItDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := limited(t, 1)
		w.own(w.job("long", "0 0/10 * * * ?", working(5*time.Minute+30*time.Second)))
		pass(10*time.Minute + 30*time.Second)
		j := w.job("job", "0 * * * * ?", nil)
		j.Since = after(9*time.Minute + 30*time.Second)
		w.own(withSpec(j, func(of *ticks.Job) { of.Since = after(8 * time.Minute) }))
		pass(4 * time.Minute)
		inLine := make(chan int)
		w.runner.box.Post(func() { inLine <- len(w.runner.line.jobs) })
		if n := <-inLine; n != 1 {
			t.Errorf("%d stand in line, want the job once", n)
		}
		pass(2 * time.Minute)
		w.stop()
		w.wantHistory("job",
			"9m0s: missed no_owner", "10m0s: missed stalled", "11m0s to 14m0s: 4 missed delayed", "15m0s at 15m30s: ok", "16m0s at 16m0s: ok")
	})
}

// Manual runs wait, too; and who waits longest goes first, also before the next tick of the job
// that makes room.
func TestMaxRunningIsFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := limited(t, 1)
		w.own(withPolicy(w.job("busy", "0/10 * * * * ?", working(15*time.Second)), ticks.Policy{Overlap: jobs.OverlapQueue}))
		w.own(w.job("job", "0 0 0 1 1 ? 2099", nil))
		pass(11 * time.Second)
		w.request(manual("r1"))
		pass(5 * time.Second)
		w.own(w.job("third", "17 * * * * ?", nil))
		pass(time.Minute)
		w.stop()
		var order []string
		for _, r := range w.started() {
			order = append(order, fmt.Sprintf("%s %v", r.Job, r.Started.Sub(midnight)))
		}
		want := []string{"busy 10s", "job 25s", "third 25s", "busy 25s", "busy 40s", "busy 55s"}
		if !slices.Equal(order[:len(want)], want) {
			t.Errorf("runs %q\nwant %q", order, want)
		}
	})
}

// A run whose owner has died is recorded as interrupted at once; its next attempt waits.
func TestMaxRunningDelaysReruns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := limited(t, 1)
		w.own(w.job("long", "0 * * * * ?", working(20*time.Second)))
		pass(70 * time.Second)
		minute := after(time.Minute).UnixMilli()
		w.keeper.change("job", func(k *kept) {
			k.record = ticks.Record{Watermark: minute, Run: zkrec.Run{
				Tick: minute, RunID: "of the dead", SID: "dead", Token: 1, Attempt: 1, Started: minute, State: history.StateRunning,
			}}
		})
		w.own(withSpec(w.job("job", "0 * * * * ?", nil), func(of *ticks.Job) { of.Since = midnight }))
		pass(time.Second)
		if got := lines(w.keeper.read("job").history); !slices.Equal(got, []string{"1m0s at 1m0s: interrupted"}) {
			t.Errorf("history %q while it waits, want the interruption", got)
		}
		pass(20 * time.Second)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: interrupted", "1m0s at 1m20s: ok, attempt 2")
	})
}

// A job that waits for places of a limit leaves the line when its tick is too old, when it waits
// for other runs of this instance instead, and when it needs none any more.
func TestWhoWantsNoPlacesLeavesTheLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		grace       time.Duration
		busy, freed bool
	}{"too old": {grace: 5 * time.Second}, "full": {busy: true}, "needs none": {freed: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := limited(t, 1)
				w.keeper.pull = func(c ticks.Commit) (l lever) {
					if len(c.Limits) > 0 && c.Opens() {
						l.refuse = ticks.ErrLimited
					}
					return l
				}
				j := w.job("job", "0 * * * * ?", nil)
				w.own(withPolicy(j, ticks.Policy{MisfireGrace: test.grace, Limits: map[string]int{"api": 1}}))
				if test.busy {
					w.own(w.job("long", "2 * * * * ?", working(20*time.Second)))
				}
				pass(time.Minute + time.Second)
				if left := w.keeper.leavers(); len(left) > 0 {
					t.Errorf("%v left the line when the tick was a second old", left)
				}
				pass(10 * time.Second)
				if test.freed {
					w.own(withPolicy(j, ticks.Policy{}))
				}
				w.runner.Room("job")
				pass(time.Second)
				if left := w.keeper.leavers(); !slices.Equal(left, []string{"job"}) {
					t.Errorf("%v left the line, want the job, once", left)
				}
				w.stop()
			})
		})
	}
}

// A job that is lost while it waits takes nobody's place.
func TestMaxRunningForgetsLostJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := limited(t, 1)
		w.own(w.job("long", "0 * * * * ?", working(20*time.Second)))
		pass(time.Minute)
		w.own(w.job("job", "5 * * * * ?", nil))
		w.own(w.job("third", "6 * * * * ?", nil))
		pass(10 * time.Second)
		if !w.runner.Full() {
			t.Error("a runner with as many runs as may be says that it is not full")
		}
		w.lose()
		pass(20 * time.Second)
		if w.runner.Full() {
			t.Error("a runner without a run says that it is full")
		}
		w.stop()
		w.wantHistory("job")
		w.wantHistory("third", "1m6s at 1m20s: ok")
	})
}

// Those who ask hear how many wait for their turn.
func TestWaitingIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := limited(t, 2)
		ownMany(w, 6, ticks.Policy{})
		var seen []int
		for range 4 {
			pass(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 50*time.Millisecond)))
			for range 3 {
				seen = append(seen, w.runner.Waiting())
				pass(100 * time.Millisecond)
			}
		}
		w.stop()
		if want := []int{4, 2, 0, 4, 2, 0, 4, 2, 0, 4, 2, 0}; !slices.Equal(seen, want) {
			t.Errorf("waiting: %v, want %v", seen, want)
		}
	})
}

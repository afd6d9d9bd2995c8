package swtest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// crash is the end of an instance, and the slots that it owned then.
type crash struct {
	name string
	at   time.Time
	jobs []string
}

func kill(c *swtest.Cluster, i *swtest.Instance) crash {
	k := crash{name: i.Name, at: time.Now()}
	for name, owner := range c.Owners() {
		if owner == i.Name {
			k.jobs = append(k.jobs, name)
		}
	}
	i.Kill()
	return k
}

// wantRunElsewhere expects that the next ticks of the dead owner's jobs, which are due each second,
// were claimed within a second, nine of ten, and none only when its session was over. Those that it
// had begun wait for that: one that it was just given has a late tick.
func (k crash) wantRunElsewhere(t *testing.T, c *swtest.Cluster) {
	t.Helper()
	tick := k.at.Truncate(time.Second).Add(time.Second)
	first := make(map[string]time.Duration) // by job: from the tick to the first run
	for _, r := range c.Runs() {
		if late, known := first[r.Job]; !r.Started.Before(tick) && (!known || r.Started.Sub(tick) < late) {
			first[r.Job] = r.Started.Sub(tick)
		}
	}
	var late []time.Duration
	begun := begunBy(t, c, k.name, k.at)
	for _, name := range k.jobs {
		switch took, ran := first[name]; {
		case !ran:
			t.Errorf("%s does not run any more", name)
		case !begun[name]:
			late = append(late, took)
		}
	}
	if slices.Sort(late); len(late) < 5 {
		t.Fatalf("%s owned %d jobs, of which %d run", k.name, len(k.jobs), len(late))
	}
	if p90, most := late[len(late)*9/10], late[len(late)-1]; p90 > time.Second || most > 2*time.Second {
		t.Errorf("the jobs of %s ran %v (p90) after their tick, the last one %v, want a second and two at most", k.name, p90, most)
	}
}

// Idle jobs run elsewhere within a second of their tick with two, three and eight deputies, also if
// one of these dies at the same moment, or soon after.
func TestCrashAfterCrash(t *testing.T) {
	t.Parallel()
	for what, play := range map[string]func(c *swtest.Cluster, is []*swtest.Instance) []crash{
		"one": func(c *swtest.Cluster, is []*swtest.Instance) []crash { return []crash{kill(c, is[0])} },
		"two at the same moment": func(c *swtest.Cluster, is []*swtest.Instance) []crash {
			one := kill(c, is[0])
			return []crash{one, kill(c, is[1])}
		},
		"another three seconds later": func(c *swtest.Cluster, is []*swtest.Instance) []crash {
			one := kill(c, is[0])
			time.Sleep(3 * time.Second)
			return []crash{one, kill(c, is[1])}
		},
		"another when the first is back": func(c *swtest.Cluster, is []*swtest.Instance) []crash {
			one := kill(c, is[0])
			time.Sleep(time.Second)
			c.Start("again", is[0].Setup()) // it has not seen that i0 was relieved, whose session lives
			time.Sleep(5 * time.Second)
			return []crash{one, kill(c, is[1])}
		},
	} {
		for _, deputies := range []int{2, 3, 8} {
			t.Run(fmt.Sprintf("%s, %d deputies", what, deputies), func(t *testing.T) {
				slow(t, func(t *testing.T, c *swtest.Cluster) {
					t.Helper()
					instances := group(t, c, deputies+1, 15*(deputies+1), "* * * * * ?", working(10*time.Millisecond))
					time.Sleep(500 * time.Millisecond)
					crashes := play(c, instances)
					time.Sleep(session + settled)
					for _, k := range crashes {
						k.wantRunElsewhere(t, c)
					}
					wantNoTickTwice(t, c)
					pass(t, c)
				})
			})
		}
	}
}

// A replacement that starts while the session of the dead instance lives has not seen the others
// relieve it, and gives it nothing: no job waits for an instance that is dead. Under the same ID it
// joins when that session is over.
func TestReplacementOfADeadInstance(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"again", "i0"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) {
				t.Helper()
				const jobs, ticks = 45, 15
				dead := group(t, c, 3, jobs, "* * * * * ?", working(10*time.Millisecond))[0]
				time.Sleep(500 * time.Millisecond)
				first := time.Now().Truncate(time.Second).Add(time.Second)
				dead.Kill()
				time.Sleep(time.Second)
				c.Start(name, dead.Setup())
				time.Sleep((ticks + 1) * time.Second)
				wantNoTickLate(t, c, jobs, first, ticks)
				if n := c.Shares()[name]; n == 0 {
					t.Errorf("%s owns nothing", name)
				}
				wantNoTickTwice(t, c)
				pass(t, c)
			})
		})
	}
}

// A session may last much longer than a relieved instance is offered nothing for want of a sign of
// life: until it is over, the dead instance is offered nothing, so no tick is late.
func TestDeadInstanceOfALongSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const jobs, ticks = 45, 40
		c := swtest.New(t, swtest.Config{
			SessionTimeout: 30 * time.Second, Server: zkdev.Config{Tick: 2 * time.Second}, // which grants 40 s at most, as ZooKeeper's default does
		})
		time.Sleep(400 * time.Millisecond) // syncs are between two ticks, where slots can move
		dead := group(t, c, 3, jobs, "* * * * * ?", working(10*time.Millisecond))[0]
		first := time.Now().Truncate(time.Second).Add(time.Second)
		dead.Kill()
		time.Sleep((ticks + 2) * time.Second)
		wantNoTickLate(t, c, jobs, first, ticks)
		wantNoTickTwice(t, c)
		pass(t, c)
	})
}

// wantNoTickLate expects that each of so many jobs, which are due each second, began each tick from
// the first on within a second.
func wantNoTickLate(t *testing.T, c *swtest.Cluster, jobs int, first time.Time, ticks int) {
	t.Helper()
	late := make(map[string][]time.Duration) // by job, of each tick
	for _, r := range c.Runs() {
		if k := int(r.Tick.Sub(first) / time.Second); k >= 0 && k < ticks {
			late[r.Job] = append(late[r.Job], r.Started.Sub(r.Tick))
		}
	}
	for job, of := range late {
		if len(of) < ticks || slices.Max(of) > time.Second {
			t.Errorf("%s ran %d of %d ticks, late by %v; want all, a second late at most", job, len(of), ticks, of)
		}
	}
	if len(late) != jobs {
		t.Errorf("%d of %d jobs ran", len(late), jobs)
	}
}

// The jobs of an owner that died in mid-run wait for its session, and their ticks are run late.
// That does not make a deputy patient.
func TestCrashAfterTakeoverOfLateJobs(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		const jobs, length = 60, 300 * time.Millisecond
		setup := swtest.Setup{Handlers: make(map[string]singleworker.Handler)}
		for k := range jobs {
			name := fmt.Sprintf("job%d", k)
			setup.Handlers[name] = working(length)
			if err := c.Submit(t.Context(), singleworker.Job{Name: name, Schedule: "* * * * * ?", Misfire: job.MisfireAll}); err != nil {
				t.Fatal(err)
			}
		}
		var instances []*swtest.Instance
		for k := range 4 {
			instances = append(instances, c.Start(fmt.Sprintf("i%d", k), setup))
		}
		time.Sleep(settled + 100*time.Millisecond)
		first := kill(c, instances[0])
		for c.Shares()[first.name] > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(2700 * time.Millisecond)))
		second := kill(c, instances[1])
		second.jobs = slices.DeleteFunc(second.jobs, func(name string) bool { return slices.Contains(first.jobs, name) }) // which catch up
		time.Sleep(session + settled)
		second.wantRunElsewhere(t, c)
		wantNoTickTwice(t, c)
	})
}

// An instance that hangs for 400 ms of each second claims its ticks too late. Its jobs do not go to
// and fro: the longer that lasts, the more rarely it gets some back.
func TestStarvedOwner(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		starved := group(t, c, 3, 30, "* * * * * ?", working(10*time.Millisecond))[0]
		at := time.Now()
		for range 240 {
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(900 * time.Millisecond)))
			starved.Stall()
			time.Sleep(400 * time.Millisecond)
			starved.Resume()
		}
		for name, n := range changesOfOwner(t, c, at) {
			if n > 12 { // taken at first and after 8, 16 and 32 sync periods, given back as often, and moved once between the others
				t.Errorf("%s changed its owner %d times in %v", name, n, time.Since(at))
			}
		}
		wantNoTickTwice(t, c)
		pass(t, c)
	})
}

// If each request takes up to a second and a half, all claims are late, and nobody takes a job from
// another.
func TestLateGroupKeepsItsJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slowly atomic.Bool
		lag := func() time.Duration {
			if !slowly.Load() {
				return time.Millisecond
			}
			return time.Duration(rand.Int64N(int64(750 * time.Millisecond)))
		}
		c := swtest.New(t, swtest.Config{Latency: func(string) func() zkdev.Latency {
			return func() zkdev.Latency { return zkdev.Latency{There: lag, Back: lag} }
		}})
		group(t, c, 3, 60, "*/5 * * * * ?", working(10*time.Millisecond))
		at := time.Now()
		slowly.Store(true)
		time.Sleep(2 * time.Minute)
		if changes := changesOfOwner(t, c, at); len(changes) > 0 {
			t.Errorf("changes of owner: %v", changes)
		}
		wantNoTickTwice(t, c)
	})
}

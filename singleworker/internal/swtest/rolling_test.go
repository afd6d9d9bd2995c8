package swtest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// account has the fate of each tick, by job, as the instances were told that it was recorded.
type account struct {
	mu   sync.Mutex
	runs map[string]map[int64]int // how often a tick was run, by job
	not  []singleworker.Recorded  // rows of ticks that were not run, and runs that did not end well
}

func (a *account) recorded(e singleworker.Recorded) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.State == history.StateInterrupted && strings.HasSuffix(e.Error, ticks.ErrWithheld.Error()) {
		return // another instance is about to run it
	}
	if e.State != history.StateOK {
		a.not = append(a.not, e)
		return
	}
	if a.runs[e.Job] == nil {
		a.runs[e.Job] = make(map[int64]int)
	}
	a.runs[e.Job][e.Tick.Unix()]++
}

// Six instances with sixty jobs that tick each second are restarted one after the other, as in a
// deploy: no tick is lost, none is run twice.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	for name, lag := range map[string]time.Duration{"next door": 300 * time.Microsecond, "far away": 25 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				way := func() time.Duration { return lag }
				c := swtest.New(t, swtest.Config{Latency: func(string) func() zkdev.Latency {
					return func() zkdev.Latency { return zkdev.Latency{There: way, Back: way} }
				}})
				rollingRestart(t, c)
			})
		})
	}
}

func rollingRestart(t *testing.T, c *swtest.Cluster) {
	t.Helper()
	acc := &account{runs: make(map[string]map[int64]int)}
	setup := swtest.Setup{
		Handlers:  make(map[string]singleworker.Handler),
		Configure: func(cfg *singleworker.Config) { cfg.Hooks.OnRecorded = acc.recorded },
	}
	jobs := 6 * simkit.Share(10) // as many for each instance, so that it is known who owns how many
	for k := range jobs {
		name := fmt.Sprintf("job%d", k)
		setup.Handlers[name] = working(20 * time.Millisecond)
		if err := c.Submit(t.Context(), singleworker.Job{Name: name, Schedule: "*/1 * * * * ?"}); err != nil {
			t.Fatal(err)
		}
	}
	var instances []*swtest.Instance
	for k := range 6 {
		instances = append(instances, c.Start(fmt.Sprintf("i%d", k), setup))
	}
	time.Sleep(settled)
	from := time.Now().Unix()
	for k, i := range instances {
		time.Sleep(time.Duration(k) * 170 * time.Millisecond) // at another part of the second each
		if err := i.Stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(400 * time.Millisecond)
		c.Start(i.Name, setup)
		time.Sleep(10 * time.Second)
	}
	to := time.Now().Unix()
	time.Sleep(3 * time.Second)

	acc.mu.Lock()
	defer acc.mu.Unlock()
	for job, ticks := range acc.runs {
		for tick := from; tick < to; tick++ {
			if n := ticks[tick]; n != 1 {
				t.Errorf("%s at %v: run %d times", job, time.Unix(tick, 0).UTC().Format(time.TimeOnly), n)
			}
		}
	}
	if len(acc.runs) != jobs {
		t.Errorf("%d jobs ran, want %d", len(acc.runs), jobs)
	}
	for _, e := range acc.not {
		if e.Tick.Unix() >= from && e.Tick.Unix() < to {
			t.Errorf("%s %s on %s: %s %s, %d ticks, %s", e.Job, e.Tick.UTC().Format(time.TimeOnly), e.InstanceID, e.State, e.Reason, e.Count, e.Error)
		}
	}
	pass(t, c)
	shares := c.Shares()
	for sid, n := range shares {
		if n != jobs/6 {
			t.Errorf("in the end %s owns %d jobs: %v", sid, n, shares)
		}
	}
}

// A slot that a newcomer gets does not move in the two seconds before its tick, and moves soon
// after it.
func TestNoJobMovesShortlyBeforeItsTick(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		i := group(t, c, 1, 9, "0 * * * * ?", working(time.Second))[0]
		tick := time.Now().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(tick.Add(-1900 * time.Millisecond)))
		c.Start("late", i.Setup())
		time.Sleep(time.Until(tick.Add(500 * time.Millisecond)))
		if got := c.Shares(); got["i0"] != 9 {
			t.Errorf("half a second after the tick: shares %v, want all where they were", got)
		}
		time.Sleep(time.Second)
		if got := c.Shares(); got["i0"] != 5 || got["late"] != 4 {
			t.Errorf("a moment after the runs: shares %v, want 5 and 4", got)
		}
	})
}

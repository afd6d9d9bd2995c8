package swtest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
)

// Hundreds of jobs are due at the same time, and a claim takes two round trips of 10 ms. All runs begin on the tick: they were
// claimed ahead.
func TestCrowdBeginsOnTheTick(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		const jobs, ticks = 300, 3
		group(t, c, 3, jobs, "0 * * * * ?", working(time.Second))
		time.Sleep(time.Until(c.Begun().Truncate(time.Minute).Add(ticks*time.Minute + 30*time.Second)))
		runs := c.Runs()
		for _, r := range runs {
			if late := r.Started.Sub(r.Tick); late != 0 {
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

// Instances are killed, stopped for a while, leave and join while they claim ahead: no run begins before its tick, none
// happens twice, and each tick is accounted for.
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
		time.Sleep(time.Until(tick) - time.Duration(rng.Int64N(int64(150*time.Millisecond))))
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

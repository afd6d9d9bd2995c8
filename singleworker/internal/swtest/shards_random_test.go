package swtest_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
)

// TestShardsAtRandom runs random groups in which instances are killed, leave and join, while the
// number of shards of a job changes at random times: every tick is run under one number,
// successfully once by each shard, or is skipped by one because its previous run was in progress,
// which is late after a kill; and is reported once. (TestSimulation does the same with faults of
// the network, and many jobs.)
func TestShardsAtRandom(t *testing.T) {
	t.Parallel()
	atRandom(t, 30, 7, shardsAtRandom)
}

// atRandom runs a share of that many seeds of a test, each in a separate cluster. The stream is the
// test's: it draws other numbers than others do.
func atRandom(t *testing.T, seeds int, stream uint64, test func(t *testing.T, c *swtest.Cluster, rng *rand.Rand)) {
	t.Helper()
	for k := range uint64(simkit.Seeds(seeds)) {
		seed := simkit.Base() + k
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
				test(t, c, rand.New(rand.NewPCG(seed, stream)))
			})
		})
	}
}

func shardsAtRandom(t *testing.T, c *swtest.Cluster, rng *rand.Rand) {
	t.Helper()
	start := time.Now()
	instances, complete := sharded(t, c, 1+rng.IntN(5), singleworker.Job{
		Name: "rows", Schedule: "*/10 * * * * ?", Shards: rng.IntN(9), Misfire: job.MisfireAll, Overlap: job.OverlapQueue,
	}, working(time.Second+time.Duration(rng.Int64N(int64(2*time.Second)))))
	setup := instances[0].Setup()
	numbers := 0
	for k := range 12 {
		time.Sleep(time.Duration(rng.Int64N(int64(15 * time.Second))))
		live := c.Live()
		victim := live[rng.IntN(len(live))]
		switch rng.IntN(4) {
		case 0, 1:
			numbers++
			reshard(t, c, "rows", 1+rng.IntN(8))
		case 2:
			awaitRest(c)
			victim.Kill()
			c.Start(fmt.Sprintf("j%d", k), setup)
		default:
			c.Start(fmt.Sprintf("j%d", k), setup)
			victim.Leave()
		}
	}
	time.Sleep(time.Minute)
	time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(18 * time.Second))) // no run is in progress
	pass(t, c)
	ticks := wantWholeTicks(t, c, complete, start, history.ReasonOverlap)
	for tick := start.Truncate(10 * time.Second).Add(20 * time.Second); time.Since(tick) > 0; tick = tick.Add(10 * time.Second) {
		if ticks[tick.UTC()] == 0 {
			t.Errorf("the tick %v was not run; the number of shards was changed %d times", tick, numbers)
		}
	}
}

// awaitRest waits until no run has ended, and no slot passed on, for so long that the consequences
// are recorded and reported: the loss when an instance is killed before is not the subject here.
func awaitRest(c *swtest.Cluster) {
	const rest = 300 * time.Millisecond
	for rested := false; !rested; {
		before := c.Owners()
		time.Sleep(rest)
		rested = maps.Equal(before, c.Owners()) && !slices.ContainsFunc(c.Runs(), func(r swtest.Run) bool {
			return time.Since(r.Ended) <= rest
		})
	}
}

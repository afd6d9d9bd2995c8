package sim

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

var sizeFlag = flag.String("sim.size", "", "the only group of TestScale, as jobs x instances: 1000x30")

// TestScale counts the requests of groups in which no job is due: of all instances that start at
// once, of one that joins, one that stops and one that dies, each time until all jobs are owned and
// shares differ by at most one; and per second while nothing happens. -v prints the table.
func TestScale(t *testing.T) {
	t.Parallel()
	sizes := []size{{30, 6}, {100, 6}, {1000, 6}, {1000, 30}, {10000, 6}}
	if *sizeFlag != "" {
		var one size
		if _, err := fmt.Sscanf(*sizeFlag, "%dx%d", &one.jobs, &one.instances); err != nil {
			t.Fatalf("-sim.size=%s: %v; want jobs x instances, such as 1000x30", *sizeFlag, err)
		}
		sizes = []size{one}
	}
	for _, s := range sizes {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			if s.jobs > 100 && *sizeFlag == "" {
				simkit.Slow(t)
			}
			synctest.Test(t, func(t *testing.T) { newScale(t, s, swtest.Config{SessionTimeout: scaleSession}).run() })
		})
	}
}

// size is the size of a group.
type size struct{ jobs, instances int }

func (s size) String() string { return fmt.Sprintf("%dx%d", s.jobs, s.instances) }

// untilBalanced bounds the requests after any change, until the group is balanced: some for each
// job, and some for the news that each instance has of each other. A transaction counts as one.
func (s size) untilBalanced() int { return 20*s.jobs + 10*s.instances*s.instances }

// inRest bounds the requests in d while nothing happens: heartbeats, of which up to 500 are one
// request, and looks at others.
func (s size) inRest(d time.Duration) int {
	return int(d.Seconds() * float64(2*s.instances+s.jobs/500))
}

// scale is a group whose requests are counted.
type scale struct {
	size

	t     *testing.T
	c     *swtest.Cluster
	setup swtest.Setup
	lag   atomic.Int64 // of each message of an instance
	table strings.Builder
}

const (
	scaleSession  = 4 * time.Second
	scaleLatency  = 300 * time.Microsecond // of each message, unless the server is slow
	scalePatience = 2 * time.Minute
	scaleRest     = 30 * time.Second
)

func newScale(t *testing.T, s size, cfg swtest.Config) *scale {
	t.Helper()
	g := &scale{size: s, t: t, setup: swtest.Setup{Handlers: make(map[string]singleworker.Handler)}}
	g.lag.Store(int64(scaleLatency))
	latency := func() time.Duration { return time.Duration(g.lag.Load()) }
	cfg.Latency = func(string) func() zkdev.Latency {
		return func() zkdev.Latency { return zkdev.Latency{There: latency, Back: latency} }
	}
	g.c = swtest.New(t, cfg)
	err := g.c.Operate(t.Context(), func(client *admin.Client) error {
		for k := range s.jobs {
			job := singleworker.Job{Name: jobName(k), Schedule: "0 0 12 * * ?"} // the bubble's clock begins at midnight
			g.setup.Handlers[job.Name] = func(context.Context, *singleworker.Run) error { return nil }
			if _, err := client.Submit(t.Context(), job, admin.SubmitOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *scale) run() {
	g.t.Helper()
	fmt.Fprintf(&g.table, "%-6s %9s %9s %9s %9s\n", g.size, "requests", "at most", "parts", "seconds")
	g.balancedAfter("start", func() {
		for k := range g.instances {
			g.c.Start(fmt.Sprintf("i%d", k), g.setup)
		}
	})
	before := g.c.Server.Traffic()
	time.Sleep(scaleRest)
	g.line("rest", before, scaleRest, g.inRest(scaleRest))
	g.balancedAfter("join", func() { g.c.Start("late", g.setup) })
	g.balancedAfter("stop", func() { g.c.Live()[0].Leave() })
	g.balancedAfter("death", func() { g.c.Live()[0].Kill() })
	g.t.Logf("until balanced, and in rest:\n%s", &g.table)
	for _, i := range g.c.Live() {
		i.Kill() // if all left in order, each would first take over from those before it
	}
}

// balancedAfter does something to a group at rest, and counts until it is balanced.
func (g *scale) balancedAfter(what string, do func()) {
	g.t.Helper()
	before := g.c.Server.Traffic()
	do()
	g.line(what, before, g.awaitBalance(what), g.untilBalanced())
	balanced := g.c.Server.Zxid()
	time.Sleep(5 * scaleSession) // come to rest
	if n := g.ownerRecords(balanced); n > 0 {
		g.t.Errorf("%s: %s: %d owner records are written after the group was balanced", g.size, what, n)
	}
}

// awaitBalance waits until the group is balanced, and returns how long that took.
func (g *scale) awaitBalance(what string) time.Duration {
	g.t.Helper()
	begun := time.Now()
	if !g.c.Await(scalePatience, g.balanced) {
		g.t.Errorf("%s: %s: not balanced after %v: %v", g.size, what, scalePatience, g.c.Shares())
	}
	return time.Since(begun)
}

// ownerRecords counts how many were written after a transaction: one for each slot that is taken,
// and one for each that is offered.
func (g *scale) ownerRecords(after int64) (n int) {
	for _, txn := range g.c.Server.LogAfter(after) {
		if txn.Op == zkdev.OpSetData && txn.Code == zkdev.OK && path.Base(txn.Path) == "alive" {
			n++
		}
	}
	return n
}

func (g *scale) balanced() bool {
	shares := g.c.Shares()
	if len(shares) != len(g.c.Live()) {
		return false // one that left or died is still recorded as an owner
	}
	counts := slices.Sorted(maps.Values(shares))
	total := 0
	for _, n := range counts {
		total += n
	}
	return total == g.jobs && counts[len(counts)-1]-counts[0] <= 1
}

// line adds a line about the requests since, and checks it.
func (g *scale) line(what string, before zkdev.Traffic, d time.Duration, atMost int) {
	g.t.Helper()
	now := g.c.Server.Traffic()
	requests, ops := spent(before.Requests, now.Requests)
	parts, _ := spent(before.Parts, now.Parts)
	fmt.Fprintf(&g.table, "%-6s %9d %9d %9d %9.2f %s\n", what, requests, atMost, parts, d.Seconds(), ops)
	if requests > atMost {
		g.t.Errorf("%s: %s: %d requests, want at most %d:%s", g.size, what, requests, atMost, ops)
	}
}

// spent is how much counts have grown, without pings: a client sends them when it has nothing else
// to send.
func spent(before, now map[zkdev.Op]int) (total int, ops string) {
	var list strings.Builder
	for _, op := range slices.Sorted(maps.Keys(now)) {
		if n := now[op] - before[op]; n > 0 && op != zkdev.OpPing {
			total += n
			fmt.Fprintf(&list, " %s %d", op, n)
		}
	}
	return total, list.String()
}

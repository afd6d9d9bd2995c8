package sim

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// slowly is a connection of an instance that needs its time for all that it is told, as on a machine that has too much to do: what comes
// meanwhile waits.
type slowly struct {
	net.Conn

	perByte time.Duration
}

func (c slowly) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), 1024)])
	time.Sleep(time.Duration(n) * c.perByte)
	return n, err
}

// TestOverloadedStart starts instances at once, of which the slowest needs four times as long as the fastest for what it hears of others'
// slots: some seconds each time. What others take in its place has to move back, which makes all later still. So little of that
// happens before the group is balanced, and nothing after it.
func TestOverloadedStart(t *testing.T) {
	t.Parallel()
	const fastest = 32 * time.Microsecond
	for seed := range simkit.Seeds(10) {
		synctest.Test(t, func(t *testing.T) {
			g := newScale(t, size{400, 10}, swtest.Config{Seed: uint64(seed + 1)})
			for k := range g.instances {
				setup := g.setup
				setup.Dial = func(ctx context.Context, client *zkdev.Client) (net.Conn, error) {
					conn, err := client.Dial(ctx, "tcp", "")
					return slowly{conn, fastest + fastest*time.Duration((k+seed)%13)/4}, err
				}
				g.c.Start(fmt.Sprintf("i%d", k), setup)
			}
			took := g.awaitBalance("start")
			balanced := g.c.Server.Zxid()
			if n, most := g.ownerRecords(0), 3*g.jobs; n > most || took > 90*time.Second {
				t.Errorf("%s, seed %d: balanced after %v and %d changes of owner records, want 90 s and %d at most", g.size, seed, took, n, most)
			}
			time.Sleep(time.Minute)
			if n := g.ownerRecords(balanced); n > 0 {
				t.Errorf("%s, seed %d: %d changes of owner records after it was balanced", g.size, seed, n)
			}
			for _, i := range g.c.Live() {
				i.Kill()
			}
		})
	}
}

// TestJoinOfASlowServer joins a group whose server is slow, as one that has just started: what that costs does not depend on how long answers
// take. Each slot that moves is offered and taken once; those that the instance takes late were taken back, which refused what it sent.
func TestJoinOfASlowServer(t *testing.T) {
	t.Parallel()
	for _, lag := range []time.Duration{scaleLatency, 100 * time.Millisecond, 500 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g := newScale(t, size{2000, 2}, swtest.Config{Seed: 1})
			for k := range g.instances {
				g.c.Start(fmt.Sprintf("i%d", k), g.setup)
			}
			g.awaitBalance("start")
			time.Sleep(time.Minute)
			g.lag.Store(int64(lag))
			before, written := g.c.Server.Traffic(), g.c.Server.Zxid()
			g.c.Start("late", g.setup)
			g.awaitBalance("join")
			requests, ops := spent(before.Requests, g.c.Server.Traffic().Requests)
			if records, want := g.ownerRecords(written), 2*(g.jobs/3); records != want || requests > g.jobs/6 {
				t.Errorf("messages take %v: %d owner records were changed, want %d; %d requests, want %d at most:%s", lag, records, want, requests, g.jobs/6, ops)
			}
			for _, i := range g.c.Live() {
				i.Kill()
			}
		})
	}
}

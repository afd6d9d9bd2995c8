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

// slowly is a connection of an instance that takes its time to read, as on a machine that has too
// much to do: later messages wait.
type slowly struct {
	net.Conn

	perByte time.Duration
}

func (c slowly) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), 1024)])
	time.Sleep(time.Duration(n) * c.perByte)
	return n, err
}

// TestOverloadedStart starts instances at once, of which the slowest takes four times as long as
// the fastest to read the news of others' slots: some seconds each time. Whoever is the first to be
// there takes all slots, and has to give nine tenths of them. Slots that others take in place of
// one that is late have to move back, too, which makes all later still: so few slots move twice,
// and none once all is quiet.
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
			g.awaitBalance("start")
			time.Sleep(30 * time.Second) // what was decided by what had not been heard yet
			quiet := g.c.Server.Zxid()
			// Each slot is taken once, given once, and half of them twice; a change of hands is two changes
			// of a record.
			if n, most := g.ownerRecords(0), g.jobs+2*g.jobs+g.jobs; n > most {
				t.Errorf("%s, seed %d: %d changes of owner records, want %d at most", g.size, seed, n, most)
			}
			time.Sleep(time.Minute)
			if n := g.ownerRecords(quiet); n > 0 {
				t.Errorf("%s, seed %d: %d changes of owner records after it came to rest", g.size, seed, n)
			}
			for _, i := range g.c.Live() {
				i.Kill()
			}
		})
	}
}

// TestJoinOfASlowServer joins a group whose server is slow, as one that has just started: the cost
// does not depend on how long answers take. Each slot that moves is offered and taken once. Slots
// that the instance takes late were taken back, which refused its transactions.
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
			if records, want := g.ownerRecords(written), 2*(g.jobs/3); records != want || requests > g.jobs/5 {
				t.Errorf("messages take %v: %d owner records were changed, want %d; %d requests, want %d at most:%s", lag, records, want, requests, g.jobs/5, ops)
			}
			for _, i := range g.c.Live() {
				i.Kill()
			}
		})
	}
}

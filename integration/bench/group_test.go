package bench

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// A group is a server with jobs, and the instances on it.
type group struct {
	*bench

	server  *zkserver.Server
	live    []*process
	started int           // instances so far
	changed chan struct{} // what an instance owns has changed; buffers one signal
}

const serverType = "bench"

// newGroup starts a server and submits jobs.
func newGroup(b *bench, schedule string) *group {
	b.t.Helper()
	g := &group{bench: b, server: zkserver.Start(b.t), changed: make(chan struct{}, 1)}
	client, err := admin.Dial(b.t.Context(), admin.Config{Servers: g.server.Addr(), ServerType: serverType})
	if err != nil {
		b.t.Fatal(err)
	}
	defer client.Close()
	const workers = 32
	numbers, failed := make(chan int), make(chan error, workers)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for k := range numbers {
				if _, err := client.Submit(b.t.Context(), singleworker.Job{Name: JobName(k), Schedule: schedule}, admin.SubmitOptions{}); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for k := range b.Jobs {
		select {
		case numbers <- k:
		case err := <-failed:
			b.t.Fatal(err)
		}
	}
	close(numbers)
	wg.Wait()
	return g
}

// add starts instances all at once, when each of their processes is ready, and returns when.
func (g *group) add(n int) time.Time {
	g.t.Helper()
	var added []*process
	for range n {
		g.started++
		addr, proxy := g.server.Addr(), (*zkserver.Proxy)(nil)
		if g.proxied {
			proxy = zkserver.NewProxy(g.t, addr)
			addr = proxy.Addr()
		}
		p := start(g.t, g.changed, exec.CommandContext(g.t.Context(), g.program("instance"),
			"-servers", addr, "-group", serverType, "-id", fmt.Sprintf("i%d", g.started),
			"-session", g.session.String(), "-jobs", strconv.Itoa(g.Jobs)))
		p.proxy = proxy
		added = append(added, p)
	}
	for _, p := range added {
		p.awaitReady()
	}
	now := time.Now()
	for _, p := range added {
		p.begin()
	}
	g.live = append(g.live, added...)
	return now
}

// remove ends the instance that owns most, and returns when the signal was sent.
func (g *group) remove(sig syscall.Signal) time.Time {
	g.t.Helper()
	most := slices.MaxFunc(g.live, func(a, b *process) int { return int(a.owned.Load() - b.owned.Load()) })
	g.live = slices.DeleteFunc(g.live, func(p *process) bool { return p == most })
	now := time.Now()
	most.signal(sig)
	return now
}

// shares are the numbers of slots that live instances own, the least first, and their sum.
func (g *group) shares() (counts []int, sum int) {
	for _, p := range g.live {
		n := int(p.owned.Load())
		counts, sum = append(counts, n), sum+n
	}
	slices.Sort(counts)
	return counts, sum
}

// allOwned reports whether live instances own every job.
func (g *group) allOwned() bool {
	_, sum := g.shares()
	return sum == g.Jobs
}

// balanced reports whether they do, with shares that differ by at most one.
func (g *group) balanced() bool {
	counts, sum := g.shares()
	return sum == g.Jobs && counts[len(counts)-1]-counts[0] <= 1
}

// await waits until ok, and for a moment longer because a slot on its way from one to another may be counted
// twice. It returns how long it took since begun, and false if it took longer than the limit.
func (g *group) await(begun time.Time, ok func() bool) (took time.Duration, within bool) {
	const hold = 300 * time.Millisecond
	limit := time.NewTimer(time.Until(begun.Add(g.limit)))
	defer limit.Stop()
	var held <-chan time.Time // nil unless ok
	for {
		switch now := time.Now(); {
		case !ok():
			held = nil
		case held == nil:
			took, held = now.Sub(begun), time.After(hold)
		}
		select {
		case <-g.changed:
		case <-held:
			return took, true
		case <-limit.C:
			return g.limit, false
		}
	}
}

// spent is what a group has cost so far.
type spent struct {
	requests          int64         // without pings
	server, instances time.Duration // processor time; of the instances that live
}

// received is the server's counter of requests.
const received = "zk_packets_received"

// spent returns it, and what the instances have reported with it.
func (g *group) spent() (s spent, all Report) {
	g.t.Helper()
	for _, p := range g.live {
		r := p.report()
		all.Runs, all.Rows = append(all.Runs, r.Runs...), append(all.Rows, r.Rows...)
		all.LeasesLost += r.LeasesLost
		all.Taken += r.Taken
		s.requests -= int64(r.Pings)
		s.instances += r.CPU
	}
	s.requests += g.server.Count(received)
	s.server = g.server.CPU()
	return s, all
}

// requests are those of spent.
func (g *group) requests() int64 {
	g.t.Helper()
	s, _ := g.spent()
	return s.requests
}

package bench

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/swtest/txns"
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
func newGroup(b *bench, jobs []singleworker.Job) *group {
	b.t.Helper()
	g := &group{bench: b, server: zkserver.Start(b.t), changed: make(chan struct{}, 1)}
	g.submit(jobs)
	return g
}

// jobs are as many as the group has, alike but for their names, which begin with the prefix, and
// their handlers.
func (b *bench) jobs(prefix string, like singleworker.Job) (all []singleworker.Job) {
	for k := range b.Jobs {
		like.Name, like.Handler = prefix+JobName(k), JobName(k)
		all = append(all, like)
	}
	return all
}

// every is a schedule by which jobs are due every so many seconds of a minute.
func every(period time.Duration) string {
	return fmt.Sprintf("0/%d * * * * ?", int(period.Seconds()))
}

// operate has an operator's client do something.
func (g *group) operate(do func(*admin.Client) error) {
	g.t.Helper()
	client, err := admin.Dial(g.t.Context(), admin.Config{Servers: g.server.Addr(), ServerType: serverType})
	if err != nil {
		g.t.Fatal(err)
	}
	defer client.Close()
	if err := do(client); err != nil {
		g.t.Fatal(err)
	}
}

// submit creates jobs, or changes them.
func (g *group) submit(jobs []singleworker.Job) {
	g.t.Helper()
	g.operate(func(client *admin.Client) error {
		const workers = 32
		failed := make(chan error, workers)
		var wg sync.WaitGroup
		for part := range slices.Chunk(jobs, len(jobs)/workers+1) {
			wg.Go(func() {
				for _, job := range part {
					if _, err := client.Submit(g.t.Context(), job, admin.SubmitOptions{Replace: true}); err != nil {
						failed <- err
						return
					}
				}
			})
		}
		wg.Wait()
		close(failed)
		return <-failed
	})
}

// assemble starts the instances, and waits until they share the jobs evenly. If that takes too
// long, the line says so.
func (g *group) assemble(l *line) {
	g.t.Helper()
	if _, ok := g.await(g.add(g.Instances), g.balanced); !ok {
		_, sum := g.shares()
		l.remarkf("not balanced within %v, when %d jobs were owned", g.limit, sum)
	}
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

// end kills all instances.
func (g *group) end() {
	for _, p := range g.live {
		p.kill()
	}
}

// remove ends the instance that owns most, and returns when the signal was sent, and when it had
// last sent anything to the server.
func (g *group) remove(sig syscall.Signal) (begun, heard time.Time) {
	g.t.Helper()
	most := slices.MaxFunc(g.live, func(a, b *process) int { return int(a.owned.Load() - b.owned.Load()) })
	g.live = slices.DeleteFunc(g.live, func(p *process) bool { return p == most })
	silent := most.report().Silent
	now := time.Now()
	most.signal(sig)
	return now, now.Add(-silent)
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

// await waits until ok, and for a moment longer because a slot on its way from one to another may
// be counted twice. It returns how long it took since begun, and false if it took longer than the
// limit.
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

// awaitRest waits until no slot has changed hands for a while, at most for the limit, and returns
// when the last one has.
func (g *group) awaitRest(last time.Time) time.Time {
	limit := time.After(g.limit)
	for {
		select {
		case <-g.changed:
			last = time.Now()
		case <-time.After(g.settle):
			return last
		case <-limit:
			return last
		}
	}
}

// spent is a group's cost so far.
type spent struct {
	zkserver.Counters

	at                time.Time
	pings             int64         // of the instances that live
	server, instances time.Duration // processor time; of the instances that live
}

// spent returns it, and the instances' reports.
func (g *group) spent() (s spent, all Report) {
	g.t.Helper()
	for _, p := range g.live {
		r := p.report()
		all.Runs, all.Rows = append(all.Runs, r.Runs...), append(all.Rows, r.Rows...)
		all.LeasesLost += r.LeasesLost
		all.Taken += r.Taken
		all.Gained += r.Gained
		s.pings += int64(r.Pings)
		used, err := zkserver.CPU(p.cmd.Process.Pid)
		if err != nil {
			g.t.Fatal(err)
		}
		s.instances += used
	}
	s.at, s.Counters, s.server = time.Now(), g.server.Counters(), g.server.CPU()
	return s, all
}

// requests returns how many requests the server has received, with pings and the test's.
func (g *group) requests() int64 {
	g.t.Helper()
	return g.server.Counters().Received
}

// requestsSince returns how many more they are, without the question for the counters.
func (g *group) requestsSince(before int64) float64 {
	g.t.Helper()
	return float64(g.requests() - before - 1)
}

// rates adds the group's cost in each second between two moments.
func (g *group) rates(l *line, before, after spent) *line {
	g.t.Helper()
	const kilo, percent, least = 1000, 100, 0.01 // of all bytes, for a kind to be told
	seconds := after.at.Sub(before.at).Seconds()
	perSecond := func(n int64) float64 { return float64(n) / seconds }
	l.add(perSecond(after.Received-before.Received-1), "req/s").add(perSecond(after.pings-before.pings), "pings/s").
		add(perSecond(after.Events-before.Events), "events/s").add(perSecond(after.Sent-before.Sent)/kilo, "sent-KB/s")
	kinds, all := g.logged(before, after)
	l.add(perSecond(int64(all))/kilo, logged)
	for _, kind := range slices.SortedFunc(maps.Keys(kinds), func(a, b string) int { return kinds[b] - kinds[a] }) {
		if n := kinds[kind]; float64(n) >= least*float64(all) {
			l.add(perSecond(int64(n))/kilo, logged+":"+kind)
		}
	}
	return l.add((after.server-before.server).Seconds()/seconds*percent, "%server-cpu").
		add((after.instances-before.instances).Seconds()/seconds/float64(len(g.live))*percent, "%instance-cpu")
}

// logged are the bytes that the server has logged between two moments, by kind, and their sum.
func (g *group) logged(before, after spent) (kinds map[string]int, all int) {
	g.t.Helper()
	kinds, err := txns.Bytes(serverType, g.server.LogDir(), before.at, after.at)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, n := range kinds {
		all += n
	}
	return kinds, all
}

// logged is the unit of the server's log. Behind a colon follows the kind of a part of it.
const logged = "log-KB/s"

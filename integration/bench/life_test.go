package bench

import (
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// idle is a schedule by which nothing is due, unless it is noon on New Year's Day.
const idle = "0 0 12 1 1 ?"

// life measures a group in which no job is due: its start, then in rest the needs of it and its
// operator, stops and joins, and a kill, each of the instance that owns most.
func (b *bench) life() {
	b.t.Helper()
	g, ok := b.start("Start")
	g.inRest()
	g.memory()
	g.list()
	g.pages()
	if b.Instances == 1 || !ok || !b.wants("stop", "join", "kill") { // each begins where the one before it has ended
		return
	}
	for k := range b.moves {
		which := ""
		if k == 0 && b.moves > 1 {
			which = "/first" // the server, which has just started, compiles meanwhile
		}
		g.change("Stop"+which, func() (begun, heard time.Time) {
			begun, _ = g.remove(syscall.SIGTERM)
			return begun, heard
		}, g.allOwned)
		g.change("Join"+which, func() (begun, heard time.Time) { return g.add(1), heard }, g.balanced)
	}
	g.change("Kill", func() (begun, heard time.Time) { return g.remove(syscall.SIGKILL) }, g.allOwned)
}

// start starts a group in which no job is due, measures that as a row of that name, and reports
// whether the group was balanced in time.
func (b *bench) start(name string) (g *group, ok bool) {
	b.t.Helper()
	g = newGroup(b, b.jobs("", singleworker.Job{Schedule: idle}))
	before := g.requests()
	begun := g.add(b.Instances)
	took, ok := g.await(begun, g.balanced)
	n := g.requestsSince(before)
	_, balanced := g.spent()
	rest := g.awaitRest(begun.Add(took))
	_, rested := g.spent()
	start := newLine(name, b.size).add(took.Seconds(), "s").add(n, "req").add(n/float64(b.Jobs), "req/job").
		add(rest.Sub(begun).Seconds(), "rest-s").add(float64(rested.Gained-balanced.Gained), "moved")
	if !ok {
		counts, sum := g.shares()
		start.remarkf("not within %v: %d of %d jobs are owned, shares %d to %d", b.limit, sum, b.Jobs, counts[0], counts[len(counts)-1])
	}
	if b.wants(strings.ToLower(name)) {
		b.print(start)
	}
	return g, ok
}

// inRest measures the group's cost while nothing happens.
func (g *group) inRest() {
	g.t.Helper()
	if !g.wants("rest") {
		return
	}
	before, _ := g.spent()
	time.Sleep(g.window)
	after, _ := g.spent()
	g.print(g.rates(newLine("Rest", g.size), before, after).
		add(float64(after.Watches), "watches").add(float64(after.Watches)/float64(g.Jobs), "watches/slot").add(float64(after.Nodes), "nodes"))
}

// change measures how long it takes until ok, and the cost until the group is balanced. It is told
// when that begins, and when the server has last heard of an instance that ends.
func (g *group) change(name string, do func() (begun, heard time.Time), ok func() bool) {
	g.t.Helper()
	before := g.requests()
	begun, heard := do()
	took, within := g.await(begun, ok)
	_, balances := g.await(begun, g.balanced)
	l := newLine(name, g.size).add(took.Seconds(), "s")
	if !heard.IsZero() {
		l.add(begun.Add(took).Sub(heard).Seconds(), "s-since-heard")
	}
	l.add(g.requestsSince(before), "req")
	if !within {
		l.remarkf("not within %v", g.limit)
	} else if !balances {
		l.remarkf("not balanced within %v", g.limit)
	}
	g.print(l)
	time.Sleep(g.settle)
}

// memory measures the need of a job that is owned and idle, beside an instance's without jobs.
func (g *group) memory() {
	g.t.Helper()
	if !g.wants("memory") || g.Instances > 1 {
		return
	}
	without := start(g.t, nil, exec.CommandContext(g.t.Context(), g.program("instance"),
		"-servers", g.server.Addr(), "-group", "none", "-session", g.session.String()))
	without.begin()
	rival := startRival(g.t, g.Jobs, time.Hour)
	rival.awaitReady()
	bare := rival.weigh()
	rival.begin()
	time.Sleep(g.settle)
	g.perJob("Memory", g.live[0].weigh(), without.weigh())
	g.perJob("Memory/gocron", rival.weigh(), bare)
	without.kill()
	rival.kill()
}

func (g *group) perJob(name string, with, without Report) {
	const kilo, mega = 1e3, 1e6
	each := func(bytes int64) float64 { return float64(bytes) / kilo / float64(g.Jobs) }
	g.print(newLine(name, g.size).add(each(with.Heap-without.Heap), "heap-KB/job").add(each(with.RSS-without.RSS), "RSS-KB/job").
		add(float64(with.RSS)/mega, "RSS-MB"))
}

// list measures an operator's wait.
func (g *group) list() {
	g.t.Helper()
	if !g.wants("list") {
		return
	}
	for _, command := range []string{"list", "instances"} {
		before, begun := g.requests(), time.Now()
		out, err := exec.CommandContext(g.t.Context(), g.program("swctl"), "--zk", g.server.Addr(), "--server-type", serverType, command).CombinedOutput()
		took := time.Since(begun)
		l := newLine("List/"+command, g.size).add(took.Seconds(), "s").add(g.requestsSince(before), "req")
		if err != nil {
			why, _, _ := strings.Cut(string(out), "\n")
			l.remarkf("%v: %s", err, why)
		}
		g.print(l)
	}
}

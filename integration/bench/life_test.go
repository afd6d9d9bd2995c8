package bench

import (
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// idle is a schedule by which nothing is due, unless it is noon on New Year's Day.
const idle = "0 0 12 1 1 ?"

// life measures a group in which no job is due: its start, then in rest what it and its operator need, stops
// and joins, and a kill, each of the instance that owns most.
func (b *bench) life() {
	b.t.Helper()
	g := newGroup(b, idle)
	before := g.server.Count(received)
	took, ok := g.await(g.add(b.Instances), g.balanced)
	n := float64(g.requests() - before)
	start := newLine("Start", b.size).add(took.Seconds(), "s").add(n, "req").add(n/float64(b.Jobs), "req/job")
	if !ok {
		counts, sum := g.shares()
		start.remarkf("not within %v: %d of %d jobs are owned, shares %d to %d", b.limit, sum, b.Jobs, counts[0], counts[len(counts)-1])
	}
	if b.wants("start") {
		b.print(start)
	}
	time.Sleep(b.settle)
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
		g.change("Stop"+which, func() time.Time { return g.remove(syscall.SIGTERM) }, g.allOwned)
		g.change("Join"+which, func() time.Time { return g.add(1) }, g.balanced)
	}
	g.change("Kill", func() time.Time { return g.remove(syscall.SIGKILL) }, g.allOwned)
}

// inRest measures what the group costs while nothing happens.
func (g *group) inRest() {
	g.t.Helper()
	if !g.wants("rest") {
		return
	}
	before, _ := g.spent()
	begun := time.Now()
	time.Sleep(g.rest)
	after, _ := g.spent()
	d := time.Since(begun).Seconds()
	g.print(newLine("Rest", g.size).
		add(float64(after.requests-before.requests)/d, "req/s").
		add((after.server-before.server).Seconds()/d*100, "%server-cpu").
		add((after.instances-before.instances).Seconds()/d/float64(len(g.live))*100, "%instance-cpu").
		add(float64(g.server.Count("zk_watch_count")), "watches").
		add(float64(g.server.Count("zk_znode_count")), "nodes"))
}

// change measures how long it takes until ok, and what it costs until the group is balanced.
func (g *group) change(name string, do func() time.Time, ok func() bool) {
	g.t.Helper()
	before := g.requests()
	begun := do()
	took, within := g.await(begun, ok)
	_, balances := g.await(begun, g.balanced)
	l := newLine(name, g.size).add(took.Seconds(), "s").add(float64(g.requests()-before), "req")
	if !within {
		l.remarkf("not within %v", g.limit)
	} else if !balances {
		l.remarkf("not balanced within %v", g.limit)
	}
	g.print(l)
	time.Sleep(g.settle)
}

// memory measures what a job needs that is owned and idle, beside what an instance needs without jobs.
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
	bare := rival.report()
	rival.begin()
	time.Sleep(g.settle)
	g.perJob("Memory", g.live[0].report(), without.report())
	g.perJob("Memory/gocron", rival.report(), bare)
	without.kill()
	rival.kill()
}

func (g *group) perJob(name string, with, without Report) {
	kib := func(bytes int64) float64 { return float64(bytes) / 1024 / float64(g.Jobs) }
	g.print(newLine(name, g.size).add(kib(with.Heap-without.Heap), "heap-KiB/job").add(kib(with.RSS-without.RSS), "RSS-KiB/job").
		add(float64(with.RSS)/(1<<20), "RSS-MiB"))
}

// list measures what an operator waits for.
func (g *group) list() {
	g.t.Helper()
	if !g.wants("list") {
		return
	}
	for _, command := range []string{"list", "instances"} {
		before, begun := g.requests(), time.Now()
		out, err := exec.CommandContext(g.t.Context(), g.program("swctl"), "--zk", g.server.Addr(), "--server-type", serverType, command).CombinedOutput()
		took := time.Since(begun)
		l := newLine("List/"+command, g.size).add(took.Seconds(), "s").add(float64(g.requests()-before), "req")
		if err != nil {
			why, _, _ := strings.Cut(string(out), "\n")
			l.remarkf("%v: %s", err, why)
		}
		g.print(l)
	}
}

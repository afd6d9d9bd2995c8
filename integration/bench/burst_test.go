package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// burst measures a group whose jobs are all due in the same second, several times in a row, on a
// server that has been used before. The row has that name. Claims go with the row of ticks.
func (b *bench) burst(name string) {
	b.t.Helper()
	g := newGroup(b, fmt.Sprintf("0/%d * * * * ?", int(b.period.Seconds())))
	b.bareClaims(g.server.Addr()) // a server that has just started is slow, and compiles its code in the bursts
	l := newLine(name, b.size)
	if _, ok := g.await(g.add(b.Instances), g.balanced); !ok {
		_, sum := g.shares()
		l.remarkf("not balanced within %v, when %d jobs were owned", b.limit, sum)
	}
	first := time.Now().Add(b.settle).Truncate(b.period).Add(b.period)
	last := first.Add(time.Duration(b.bursts-1) * b.period)
	time.Sleep(time.Until(first.Add(-min(b.settle, b.period) / 2)))
	before, earlier := g.spent() // they forget their runs with it
	time.Sleep(time.Until(last.Add(b.period * 3 / 4)))
	after, seen := g.spent()
	v := judge(seen, b.Jobs, first, last, b.period)
	for v.unexplained > 0 && time.Since(last) < b.limit {
		time.Sleep(time.Second)
		_, more := g.spent()
		seen.Add(more)
		v = judge(seen, b.Jobs, first, last, b.period)
	}
	l.late(v.late).add(float64(seen.LeasesLost-earlier.LeasesLost), "leases-lost").add(float64(seen.Taken-earlier.Taken), "taken").add(float64(v.twice), "twice").
		add(float64(v.again), "run-again").add(float64(v.recorded), "recorded-as-not-run").add(float64(v.unexplained), "unexplained").
		add(float64(after.Received-before.Received-1)/float64(max(1, len(v.late))), "req/run")
	if b.period == time.Second {
		g.perRun(l, before, after, len(v.late))
	}
	if b.wants(strings.ToLower(name)) {
		b.print(l)
	}
	if name == "Ticks" && b.wants("claims") && b.Instances == 1 && len(v.late) > 0 {
		slices.Sort(v.last)
		took := v.last[len(v.last)/2]
		rate, limit := float64(b.Jobs)/took.Seconds(), b.bareClaims(g.server.Addr())
		b.print(newLine("Claims", b.size).add(rate, "claims/s").add(limit, "bare-claims/s").add(rate/limit, "of-bare"))
	}
	for _, p := range g.live {
		p.kill()
	}
	if name == "Ticks" && b.wants("ticks") {
		b.rivalTicks()
	}
}

// perRun adds the cost of each run, and of all in a second.
func (g *group) perRun(l *line, before, after spent, runs int) {
	g.t.Helper()
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(1, runs)) }
	l.add(each(after.instances-before.instances), "us-instances/run").add(each(after.server-before.server), "us-server/run").
		add(each(after.instances-before.instances+after.server-before.server), "us/run")
	g.rates(l, before, after)
}

// rivalTicks measures gocron alone, in one process.
func (b *bench) rivalTicks() {
	b.t.Helper()
	const period = 5 * time.Second
	rival := startRival(b.t, b.Jobs, period)
	rival.begin()
	time.Sleep(time.Until(time.Now().Truncate(period).Add(2*period + period/2)))
	var late []time.Duration
	for _, run := range rival.report().Runs {
		late = append(late, run.Late)
	}
	slices.Sort(late)
	b.print(newLine("Ticks/gocron", size{b.Jobs, 1}).late(late))
	rival.kill()
}

// verdict counts ticks by their fate.
type verdict struct {
	late        []time.Duration // of the ticks that were run, the least first
	last        []time.Duration // of the latest of them, by burst
	twice       int             // first attempts at a tick that had one already
	again       int             // later attempts: the one before was cut off, at times before its handler was called
	recorded    int             // not run, and the history says so
	unexplained int
}

// judge counts the fates of the ticks of all jobs from first to last.
func judge(seen Report, jobs int, first, last time.Time, period time.Duration) (v verdict) {
	type tick struct {
		job string
		at  int64
	}
	firsts, rows, late := make(map[tick]bool), make(map[tick]bool), make(map[tick]time.Duration)
	step, from, to := int64(period.Seconds()), first.Unix(), last.Unix()
	v.last = make([]time.Duration, (to-from)/step+1)
	for _, run := range seen.Runs {
		one := tick{run.Job, run.Tick}
		switch {
		case run.Tick < from || run.Tick > to:
			continue
		case run.Attempt > 1:
			v.again++
		case firsts[one]:
			v.twice++
		default:
			firsts[one] = true
		}
		if before, ok := late[one]; !ok || run.Late < before {
			late[one] = run.Late
		}
	}
	for _, row := range seen.Rows {
		for at := max(row.From, from); at <= min(row.To, to); at += step {
			rows[tick{row.Job, at}] = true
		}
	}
	for k := range jobs {
		for at := from; at <= to; at += step {
			one := tick{JobName(k), at}
			if d, ok := late[one]; ok {
				v.late = append(v.late, d)
				v.last[(at-from)/step] = max(v.last[(at-from)/step], d)
			} else if rows[one] {
				v.recorded++
			} else {
				v.unexplained++
			}
		}
	}
	slices.Sort(v.late)
	return v
}

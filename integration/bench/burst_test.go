package bench

import (
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// burst measures a group whose jobs are all due in the same second, several times in a row, on a
// server that has been used before. The row has that name. Claims go with the row of ticks.
func (b *bench) burst(name string) {
	b.t.Helper()
	g := newGroup(b, b.jobs("", singleworker.Job{Schedule: every(b.period)}))
	b.bareClaims(g.server.Addr()) // a server that has just started is slow, and compiles its code in the bursts
	l := newLine(name, b.size)
	g.assemble(l)
	c := g.crowds()
	c.tell(l)
	if b.period == time.Second {
		g.perRun(l, c.before, c.after, len(c.late))
	}
	if b.wants(strings.ToLower(name)) {
		b.print(l)
	}
	if name == "Ticks" && b.wants("claims") && b.Instances == 1 && len(c.late) > 0 {
		slices.Sort(c.latest)
		took := c.latest[len(c.latest)/2]
		rate, limit := float64(b.Jobs)/took.Seconds(), b.bareClaims(g.server.Addr())
		b.print(newLine("Claims", b.size).add(rate, "claims/s").add(limit, "bare-claims/s").add(rate/limit, "of-bare"))
	}
	g.end()
	if name == "Ticks" && b.wants("ticks") {
		b.rivalTicks()
	}
}

// A crowd is bursts of ticks of all jobs, with their fates and their cost.
type crowd struct {
	verdict

	first, last     time.Time // of the ticks
	before, after   spent
	earlier, within Report // until before, and from then on
}

// crowds measures bursts of ticks.
func (g *group) crowds() (c crowd) {
	g.t.Helper()
	c.first = time.Now().Add(g.settle).Truncate(g.period).Add(g.period)
	c.last = c.first.Add(time.Duration(g.bursts-1) * g.period)
	time.Sleep(time.Until(c.first.Add(-min(g.settle, g.period) / 2)))
	c.before, c.earlier = g.spent() // they forget their runs with it
	time.Sleep(time.Until(c.last.Add(g.period * 3 / 4)))
	c.after, c.within = g.spent()
	c.verdict = judge(c.within, g.Jobs, c.first, c.last, g.period)
	for c.unexplained > 0 && time.Since(c.last) < g.limit {
		time.Sleep(time.Second)
		_, more := g.spent()
		c.within.Add(more)
		c.verdict = judge(c.within, g.Jobs, c.first, c.last, g.period)
	}
	return c
}

// tell adds the fates of the ticks, and the requests of a run.
func (c *crowd) tell(l *line) {
	l.late(c.late).add(float64(c.within.LeasesLost-c.earlier.LeasesLost), "leases-lost").add(float64(c.within.Taken-c.earlier.Taken), "taken").
		add(float64(c.twice), "twice").add(float64(c.again), "run-again").add(float64(c.recorded), "recorded-as-not-run").
		add(float64(c.unexplained), "unexplained").add(float64(c.after.Received-c.before.Received-1)/float64(max(1, len(c.late))), "req/run")
}

// perRun adds the cost of each run, and of all in a second.
func (g *group) perRun(l *line, before, after spent, runs int) {
	g.t.Helper()
	l.cpu(after.instances-before.instances, after.server-before.server, float64(max(1, runs)))
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
	latest      []time.Duration // of them, by burst
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
	v.latest = make([]time.Duration, (to-from)/step+1)
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
				v.latest[(at-from)/step] = max(v.latest[(at-from)/step], d)
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

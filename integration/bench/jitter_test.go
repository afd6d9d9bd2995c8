package bench

import (
	"math"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

// jitter measures jobs with one schedule, first without jitter and then with it: how late they
// begin, and how far the runs that begin in each second of the jitter differ from an even share.
func (b *bench) jitter() {
	b.t.Helper()
	spread := (b.period / 2).Truncate(time.Second)
	like := singleworker.Job{Schedule: every(b.period)}
	g := newGroup(b, b.jobs("", like))
	b.bareClaims(g.server.Addr()) // as for bursts
	at := newLine("Jitter/none", b.size)
	g.assemble(at)
	b.bursts = max(1, int(b.window/b.period))
	c := g.crowds()
	c.tell(at)
	b.print(at)

	like.Jitter = spread
	g.submit(b.jobs("", like))
	c = g.crowds()
	off, delays := g.uneven(c, int64(spread.Seconds())), g.delays(c)
	for k, run := range c.within.Runs {
		c.within.Runs[k].Late -= delays[run.Job][run.Tick]
	}
	c.verdict = judge(c.within, b.Jobs, c.first, c.last, b.period)
	l := newLine("Jitter", b.size).add(percentile(off, 99), "p99-uneven-%").add(off[len(off)-1], "max-uneven-%")
	c.tell(l)
	b.print(l)
	g.end()
}

// delays are how much later than its time each tick is due, by job and tick, as swctl next shows
// them.
func (g *group) delays(c crowd) map[string]map[int64]time.Duration {
	g.t.Helper()
	delays := make(map[string]map[int64]time.Duration)
	g.operate(func(client *admin.Client) error {
		list, err := client.List(g.t.Context())
		for _, job := range list {
			delays[job.Name] = make(map[int64]time.Duration)
			for _, next := range api.TicksOf(job, c.first.Add(-time.Second), g.bursts) {
				delays[job.Name][next.Tick.Unix()] = next.Due.Sub(next.Tick)
			}
		}
		return err
	})
	return delays
}

// uneven are how far the runs that begin in each of so many seconds after the ticks differ from an
// even share, in percent of that, the least first.
func (g *group) uneven(c crowd, seconds int64) (off []float64) {
	const percent = 100
	begun := make(map[int64]int)
	for _, run := range c.within.Runs {
		begun[run.Tick+int64(run.Late/time.Second)]++
	}
	even := float64(g.Jobs) / float64(seconds)
	for tick := c.first; !tick.After(c.last); tick = tick.Add(g.period) {
		for k := range seconds {
			off = append(off, math.Abs(float64(begun[tick.Unix()+k])-even)/even*percent)
		}
	}
	slices.Sort(off)
	return off
}

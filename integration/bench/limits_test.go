package bench

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// waiter is how names of jobs with a limit begin.
const waiter = "waiter-"

// limits measures jobs that are all due at one time and need a place of a limit: the throughput
// with runs that take 200 ms and with long ones, the pause between two runs if there is one place,
// the requests of a run that has waited with many others, and the lateness of jobs without limits,
// alone and beside those.
func (b *bench) limits() {
	b.t.Helper()
	const short = 200 * time.Millisecond
	g := newGroup(b, b.jobs("", singleworker.Job{Schedule: idle}))
	b.bareClaims(g.server.Addr()) // as for bursts
	l := newLine("Limits", b.size)
	g.assemble(l)
	g.submit(b.jobs(waiter, singleworker.Job{Schedule: idle})) // contend changes them
	g.awaitRest(time.Now())
	places, few := min(40, b.Jobs/3), min(10, b.Jobs/3)
	fast := g.limited(l, b.Jobs, places, short)
	slow := g.limited(l, min(b.Jobs, 4*places), places, b.long)
	one := g.limited(l, min(b.Jobs, 100), 1, 50*time.Millisecond)
	trip := g.trip()
	waits := g.limited(l, b.Jobs, few, short)

	b.period = 5 * time.Second
	g.submit(b.jobs("", singleworker.Job{Schedule: every(b.period)}))
	alone := g.crowds()
	at := newLine("Limits/alone", b.size)
	alone.tell(at)
	b.print(at)
	// They wait for longer than the bursts last.
	time.Sleep(time.Until(g.contend(b.Jobs, few, time.Duration(few)*(b.settle+time.Duration(b.bursts+2)*b.period)/time.Duration(b.Jobs))))
	beside := g.crowds()
	if !slices.ContainsFunc(beside.within.Runs, func(r Ran) bool {
		return strings.HasPrefix(r.Job, waiter) && time.Unix(r.Tick, 0).Add(r.Late+r.Took).After(beside.last)
	}) {
		l.remarkf("no place was taken when the last burst came")
	}
	l.add(fast.share, "short-%").add(slow.share, "long-%").add(ms(one.gap), "gap-ms").add(ms(trip), "trip-ms").add(waits.more, "further-req/run")
	beside.tell(l)
	b.print(l)
	g.end()
}

// contend changes the limit, and the first jobs that need it: they are due once, at the time that
// it returns, and take so long.
func (g *group) contend(jobs, places int, takes time.Duration) (at time.Time) {
	g.t.Helper()
	const name, perSecond = "contended", 100 // at which they are submitted at least
	g.operate(func(client *admin.Client) error {
		_, err := client.SetLimit(g.t.Context(), name, places, admin.NamedOptions{})
		return err
	})
	at = time.Now().Add(2*g.settle + time.Duration(jobs)*time.Second/perSecond).Truncate(time.Second).UTC()
	g.submit(g.jobs(waiter, singleworker.Job{
		Schedule: at.Format("5 4 15 * * ?"), Limits: map[string]int{name: 1}, Args: map[string]string{ArgTakes: takes.String()},
	})[:jobs])
	return at
}

// contended is a crowd of runs of which each needs a place of a limit.
type contended struct {
	share float64       // of the ideal throughput, in percent
	gap   time.Duration // from the end of a run to the begin of the next, median
	more  float64       // requests of a run beside its claim, its result, and those at rest
}

// limited measures one.
func (g *group) limited(l *line, jobs, places int, takes time.Duration) (c contended) {
	g.t.Helper()
	at := g.contend(jobs, places, takes)
	g.awaitRest(time.Now())
	earlier, _ := g.spent()
	time.Sleep(time.Until(at.Add(-time.Second / 2)))
	before, _ := g.spent()
	ideal := time.Duration((jobs+places-1)/places) * takes
	time.Sleep(time.Until(at.Add(ideal)))
	asked, after := int64(0), before
	var runs []Ran
	for len(runs) < jobs {
		if time.Since(at) > ideal+g.limit {
			l.remarkf("%d of %d runs of %v with %d places after %v", len(runs), jobs, takes, places, ideal+g.limit)
			return c
		}
		time.Sleep(time.Second / 10)
		now, seen := g.spent()
		after, asked = now, asked+1
		runs = append(runs, seen.Runs...)
	}
	const percent, own = 100, 2
	slices.SortFunc(runs, func(a, b Ran) int { return cmp.Compare(a.Late, b.Late) })
	var gaps []time.Duration
	end := runs[0].Late
	for k, run := range runs {
		if k > 0 {
			gaps = append(gaps, run.Late-runs[k-1].Late-runs[k-1].Took)
		}
		end = max(end, run.Late+run.Took)
	}
	slices.Sort(gaps)
	rest := float64(before.Received-earlier.Received-1) / before.at.Sub(earlier.at).Seconds()
	c.share = float64(ideal) / float64(end-runs[0].Late) * percent
	c.gap = percentile(gaps, 50)
	c.more = (float64(after.Received-before.Received-asked)-rest*after.at.Sub(before.at).Seconds())/float64(jobs) - own
	return c
}

// trip is how long one write takes until it is acknowledged, one after the other, median.
func (g *group) trip() time.Duration {
	g.t.Helper()
	const node, times = "/trip", 100
	conn, _, err := zk.Connect([]string{g.server.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Create(node, nil, 0, zk.WorldACL(zk.PermAll))
	var all []time.Duration
	for range times {
		begun := time.Now()
		if err == nil {
			_, err = conn.Set(node, nil, -1)
		}
		all = append(all, time.Since(begun))
	}
	if err != nil {
		g.t.Fatal(err)
	}
	slices.Sort(all)
	return percentile(all, 50)
}

package bench

import (
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Prefixes that make names of 20 bytes.
const (
	plain = "statistics-"
	child = "evaluation-"
)

// fields measures the cost of a run of jobs that are due every second, with none of the fields and
// with each, in one group after the other: the jobs are changed. The last line is about further
// jobs, which run after the first ones.
func (b *bench) fields() {
	b.t.Helper()
	jobs := b.jobs(plain, singleworker.Job{Schedule: secondly})
	g := newGroup(b, jobs)
	b.bareClaims(g.server.Addr()) // as for bursts
	g.operate(func(client *admin.Client) error {
		if _, err := client.SetLimit(b.t.Context(), "uncontended", job.MaxPlaces, admin.NamedOptions{}); err != nil {
			return err
		}
		for name, is := range map[string]job.Calendar{"holidays": {Yearly: []string{"01-01"}}, "hours": {Hours: []string{"00:00..24:00"}}} {
			if _, err := client.SetCalendar(b.t.Context(), name, is, admin.NamedOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	l := newLine("Fields", b.size)
	g.assemble(l)
	time.Sleep(b.window) // the server, which has just started, compiles meanwhile
	none := g.use(plain)
	b.print(none.each(l, b.Jobs))
	for _, field := range []struct {
		name string
		like singleworker.Job
	}{
		{"window", singleworker.Job{NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(1, 0, 0), MaxRuns: job.MaxMaxRuns}},
		{"jitter", singleworker.Job{Jitter: time.Second}},
		{"calendars", singleworker.Job{Calendars: []string{"-holidays", "hours"}}},
		{"limits", singleworker.Job{Limits: map[string]int{"uncontended": 1}}},
	} {
		field.like.Schedule = secondly
		g.submit(b.jobs(plain, field.like))
		b.print(g.use(plain).each(newLine("Fields/"+field.name, b.size), b.Jobs))
	}
	g.submit(jobs)
	children := b.jobs(child, singleworker.Job{Schedule: "@after"})
	for k := range children {
		children[k].After = []string{jobs[k].Name}
	}
	g.submit(children)
	b.print(g.use(child).minus(none).each(newLine("Fields/after", b.size), b.Jobs))
	g.end()
}

// used is the cost of runs in a window.
type used struct {
	spent // since its beginning, but for the watches

	logged, runs int
}

// use measures it, and counts the runs of jobs whose names begin so.
func (g *group) use(prefix string) (u used) {
	g.t.Helper()
	g.awaitRest(time.Now())
	before, _ := g.spent()
	time.Sleep(g.window)
	after, seen := g.spent()
	_, u.logged = g.logged(before, after)
	u.spent = after
	u.Received -= before.Received + 1
	u.instances, u.server = u.instances-before.instances, u.server-before.server
	for _, run := range seen.Runs {
		if strings.HasPrefix(run.Job, prefix) {
			u.runs++
		}
	}
	return u
}

// minus is the cost beside other runs, in a window that was as long.
func (u used) minus(others used) used {
	u.Received, u.Watches, u.logged = u.Received-others.Received, u.Watches-others.Watches, u.logged-others.logged
	u.instances, u.server = u.instances-others.instances, u.server-others.server
	return u
}

// each adds the cost of each run, and the watches of each slot.
func (u used) each(l *line, slots int) *line {
	runs := float64(max(1, u.runs))
	return l.add(float64(u.runs), "runs").add(float64(u.Received)/runs, "req/run").add(float64(u.logged)/runs, "log-B/run").
		cpu(u.instances, u.server, runs).add(float64(u.Watches)/float64(slots), "watches/slot")
}

package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// topJobs is how many jobs a screen has, if no more of them need attention or run.
const topJobs = 20

// Top is a screen of the whole group. The jobs are in the order in which they are shown.
func (p Page) Top(instances []admin.Instance, jobs []admin.JobStatus) {
	p.linef("%s", stands(jobs))
	inProgress, shown := make(map[string]int), 0
	for _, job := range jobs {
		for _, run := range words.InProgress(job) {
			inProgress[run.InstanceID]++
		}
		if shown < topJobs || Running(job, p.Now) > 0 || len(job.Conditions) > 0 && job.Conditions[0].Severity > reason.Fine {
			shown++
		}
	}
	p.Out.WriteByte('\n')
	of := p.table([]string{"INSTANCE", "STATE", "OWNED", "RUNNING", "STARTED", "NOTE"})
	for _, i := range instances {
		found := words.OfInstance(i, p.Now)
		of.Row(i.ID, i.State, words.Owned(i), strconv.Itoa(inProgress[i.ID]), p.ago(i.StartedAt), words.Line(found))
		of.Paint("STATE", color(found))
	}
	of.Write(p.Out, "")
	p.Out.WriteByte('\n')
	t := p.table([]string{"NAME", "STATE", "OWNER", "RUNNING", "LAST", "NEXT", "REASON"})
	for _, job := range jobs[:shown] {
		running := ""
		if d := Running(job, p.Now); d > 0 {
			running = plain.Span(d)
		}
		t.Row(words.Name(job), words.Health(job), words.Owner(job), running, lastCell(p.Clock, job), p.ago(job.NextRun), words.Line(job.Conditions))
		t.Paint("STATE", color(job.Conditions))
	}
	t.Write(p.Out, "")
}

// stands counts the jobs by how they stand, the worst first: "1 hung, 2 ok".
func stands(jobs []admin.JobStatus) string {
	counts := make(map[string]int)
	for _, job := range jobs {
		counts[job.Health()]++
	}
	parts := []string{Count(len(jobs))}
	states := words.States()
	for _, state := range append(states[1:], states[0]) { // ok is the first
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, "   ")
}

// Running is for how long the longest run of a job, or of its shards, has been in progress; 0 if
// none is.
func Running(job admin.JobStatus, now time.Time) (longest time.Duration) {
	for _, run := range words.InProgress(job) {
		longest = max(longest, now.Sub(run.Started), 1)
	}
	return longest
}

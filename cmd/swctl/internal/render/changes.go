package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Changed says how a job was changed, or would be, and the differences. Owner is who owns it now.
func (p Page) Changed(change api.Change, owner string) {
	job, outcome := change.Job, string(change.Outcome)
	next := p.moment(job.NextRun, job.Job.Zone())
	switch {
	case change.DryRun && change.Outcome == admin.OutcomeUnchanged:
		p.linef("would leave %s unchanged  next %s", job.Name, next)
	case change.DryRun:
		p.linef("would %s %s  next %s", strings.TrimSuffix(outcome, "d"), job.Name, next) // created, replaced
	default:
		p.linef("%s %s v%d  owner %s  next %s", outcome, job.Name, job.Number, owner, next)
	}
	if job.Resizing != nil && !change.DryRun {
		p.linef("  its shards change %s", job.Resizing)
	}
	if change.Before != nil {
		p.differences(fields.Differences(*change.Before, job.Job))
	}
}

// differences lists parts of a job that are changed.
func (p Page) differences(all []fields.Difference) {
	var t output.Table
	for _, d := range all {
		t.Row(d.Field, d.From, "->", d.To)
	}
	t.Write(p.Out, "  ")
}

// Canceled says which jobs are gone, and which of their runs continue.
func (p Page) Canceled(jobs []admin.JobStatus) {
	for _, job := range jobs {
		p.linef("canceled %s", Named(job, "was "))
		p.stillRuns(job, "running shards that are told to stop", "is told to stop")
		if job.Declared {
			p.linef("  it is declared in code: the next start of an instance that declares it creates it again")
		}
	}
}

// Cleared lists the deleted jobs of a server type, or those that would be.
func (p Page) Cleared(serverType string, done admin.Cleared, dryRun bool) {
	verb := "deleted"
	if dryRun {
		verb = "would delete"
	}
	p.linef("%s %s of %s", verb, Count(done.Jobs), serverType)
	if len(done.Instances) > 0 {
		p.linef("  instances are running, and what is theirs stays: %s", strings.Join(done.Instances, ", "))
	}
	if len(done.Left) > 0 {
		p.linef("  nodes that stay, because they are not known or have just been created: %s", strings.Join(done.Left, ", "))
	}
}

// stillRuns says what happens to the runs of a job that are in progress.
func (p Page) stillRuns(job admin.JobStatus, shards, run string) {
	switch n := len(words.InProgress(job)); {
	case n == 0:
	case len(job.Slots) > 0:
		p.linef("  %s: %d", shards, n)
	default:
		p.linef("  its run of %s on %s %s", p.at(job.LastRun.Tick, job.Job.Zone()), job.LastRun.InstanceID, run)
	}
}

// Paused says which jobs were paused or resumed.
func (p Page) Paused(results []api.Paused) {
	for _, r := range results {
		zone := r.Job.Job.Zone()
		next := p.moment(r.Job.NextRun, zone)
		switch {
		case r.Pause == nil:
			p.linef("%s %s: it is not paused  next %s", r.Outcome, r.Job.Name, next)
		case r.Job.Paused != nil:
			p.linef("%s %s %s  next %s", r.Outcome, r.Job.Name, r.Pause.Words(zone, p.Now), next)
			p.stillRuns(r.Job, "shards that continue to run", "continues")
		default:
			p.linef("%s %s; %s  next %s", r.Outcome, r.Job.Name, missed(r.PauseResult), next)
		}
	}
}

// Frozen says how long the group is frozen, or that it is not any more.
func (p Page) Frozen(done admin.FreezeResult) {
	switch f := done.Freeze; {
	case f == nil && done.Outcome == admin.OutcomeUnchanged:
		p.linef("%s: the group is not frozen", done.Outcome)
	case f == nil || done.Outcome == admin.OutcomeUnfrozen:
		p.linef("%s: jobs that are not paused run again", done.Outcome)
	default:
		p.linef("%s %s", done.Outcome, f.Words(time.UTC, p.Now))
	}
}

// missed says what becomes of the ticks of a pause.
func missed(r admin.PauseResult) string {
	one, many := "it does not run", "none of them runs"
	switch r.Pause.Missed {
	case job.MisfireSkip:
	case job.MisfireOnce:
		one, many = "it runs", "the latest runs"
	case job.MisfireAll:
		one, many = "it runs", "each of them runs"
	}
	switch r.Missed {
	case 0:
		return "no tick came while it was paused"
	case 1:
		return "1 tick came while it was paused, " + one
	}
	return fmt.Sprintf("%d ticks came while it was paused, %s", r.Missed, many)
}

// lost names the loss with a record.
var lost = map[admin.Loss]string{
	admin.LossTicks:      "which ticks were run: those until now are not run again, nor recorded as missed",
	admin.LossHistory:    "the history",
	admin.LossPause:      "whether it is paused: it is not any more",
	admin.LossCompletion: "which ticks all shards have completed: those until now are not reported again",
	admin.LossSpec:       "the job itself: submit it again with --replace",
}

// Unreadable says which nodes cannot be read, and the loss from writing them again.
func (p Page) Unreadable(nodes []admin.UnreadableNode) {
	for _, n := range nodes {
		p.linef("%s cannot be read: %s", n.Path, n.Error)
		p.linef("  lost: %s", lost[n.Loss])
	}
}

// Repaired says which nodes of a job were written again.
func (p Page) Repaired(name string, nodes []admin.UnreadableNode) {
	if len(nodes) == 0 {
		p.linef("%s needs no repair: all its records can be read", name)
	}
	for _, n := range nodes {
		p.linef("repaired %s; lost: %s", n.Path, lost[n.Loss])
	}
}

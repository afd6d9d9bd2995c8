package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// field writes one line of a description, or more if the text has more, all
// with the same indent.
func (p Page) field(label, text string) {
	const indent = 12
	for line := range strings.SplitSeq(cmp.Or(strings.TrimSpace(text), "-"), "\n") {
		p.linef("%-*s%s", indent, label, strings.TrimRight(line, "\r"))
		label = ""
	}
}

// Job describes a job, or a shard, and the requests that are pending. Its present version is zero
// if that is not known.
func (p Page) Job(job admin.JobStatus, requests []admin.Request, present admin.JobVersion) {
	zone := job.Job.Zone()
	p.head(job, zone)
	for _, line := range fields.Describe(job.Job) {
		p.field(line.Title, line.Text)
		if text := words.Schedule(job.Job); text != "" && line.Title == "Schedule" {
			p.field("  in words", text)
		}
	}
	p.version(job.Number, present)
	p.field("Declared", declaration(p.Clock, job))
	if o := job.Owner; o != nil {
		p.field("Owner", fmt.Sprintf("%s since %s, token %d", o.InstanceID, p.moment(o.Since, zone), o.Token))
	} else if len(job.Slots) == 0 {
		p.field("Owner", "")
	}
	p.field("Registered", strings.Join(job.Registered, ", "))
	p.field("Next run", p.moment(job.NextRun, zone))
	if len(job.Slots) > 0 {
		p.field("Last run", words.LastOf(job.Slots, p.Now))
		if words.Everywhere(job) {
			p.field("Runs on", words.Owners(job.Slots))
		} else {
			p.field("Complete", p.moment(job.Complete, zone))
			p.field("Shards", words.Owners(job.Slots))
		}
		p.shards(job)
	} else {
		p.run(job.LastRun, zone)
		if held := job.HeldRun; held != nil {
			p.field("Held", fmt.Sprintf("%s: the tick of %s, %s when the pause is over", held.State, p.moment(held.Tick, zone), held.NextAttempt))
		}
	}
	for _, r := range requests {
		if r.Kind == admin.RequestStop {
			p.field("Stop asked", words.StopAsked(job, r, p.Now))
			if r.Stack != "" {
				p.field("  handler", r.Stack)
			}
		}
	}
	if len(requests) > 0 {
		p.field("Requests", fmt.Sprintf("%d pending, the first %s; see swctl requests %s", len(requests),
			plain.Relative(requests[0].At, p.Now), plain.Quoted(job.Name)))
	}
}

// JobVersion describes a job as it was, or how it differs from the present one.
func (p Page) JobVersion(v admin.JobVersion, present *job.Job) {
	p.field("Name", v.Job.Name)
	p.version(v.Number, v)
	if present != nil {
		p.differences(fields.Differences(v.Job, *present))
		return
	}
	for _, line := range fields.Describe(v.Job) {
		p.field(line.Title, line.Text)
	}
}

// version says which version of a job it is, who made it, when and why, as far as that is known.
func (p Page) version(number int, v admin.JobVersion) {
	if number == 0 {
		p.field("Version", "")
		return
	}
	text := fmt.Sprintf("v%d", number)
	if v.Kind != "" {
		text += fmt.Sprintf(" %s by %s %s", v.Kind, v.By, plain.Relative(v.At, p.Now))
	}
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	p.field("Version", text)
}

// declaration says who declared the job, and whether it is still as declared.
func declaration(c Clock, job admin.JobStatus) string {
	by := ""
	if job.DeclaredBy != "" {
		by = fmt.Sprintf(" by %s %s", job.DeclaredBy, plain.Relative(job.DeclaredAt, c.Now))
	}
	if job.Undeclared {
		by += ", and by no live instance any more"
	}
	switch {
	case job.Declared:
		return "in code" + by + ", unchanged"
	case by != "":
		return "in code" + by + ", changed by an operator since"
	}
	return "no; submitted or changed by an operator"
}

// head says which job it is, its state, and its faults.
func (p Page) head(job admin.JobStatus, zone *time.Location) {
	p.field("Name", job.Name)
	if job.Shard != nil {
		p.field("Shard", fmt.Sprintf("%d of %d, from 0", job.Shard.Index, job.Shard.Total))
		p.field("Parameter", job.Shard.Parameter)
	}
	p.field("State", words.Health(job))
	for _, c := range job.Conditions {
		p.condition(c, "swctl show "+plain.Quoted(job.Name), zone)
	}
	if job.Resizing != nil {
		p.resizing(job, zone)
	}
	if !job.Waiting.IsZero() && len(job.Job.After) == 0 {
		p.field("Waiting", "for BeforeTick, since "+p.moment(job.Waiting, zone))
	}
	if a := job.Alarm; a != nil {
		p.field("Last alarm", fmt.Sprintf("the tick of %s was missing; reported by %s %s",
			p.at(a.Tick, zone), a.InstanceID, plain.Relative(a.At, p.Now)))
	}
}

// condition names a fault, its meaning, and a remedy other than the command that says all this.
func (p Page) condition(c reason.Condition, shown string, zone *time.Location) {
	p.field(c.Title, strings.TrimPrefix(c.Detail, strings.ToLower(c.Title)+" "))
	if since := plain.Absolute(c.Since, zone); !strings.Contains(c.Detail, since) {
		p.field("  since", p.moment(c.Since, zone))
	}
	if c.Severity == reason.Fine {
		return
	}
	p.field("  means", c.Sentence)
	if c.Remedy != shown {
		p.field("  try", c.Remedy)
	}
}

func (p Page) run(run *history.Run, zone *time.Location) {
	switch {
	case run == nil:
		p.field("Last run", "")
		return
	case run.Tick.IsZero(): // its record cannot be read
		p.field("Last run", string(run.State))
		p.field("  error", run.Error)
		return
	}
	p.field("Last run", fmt.Sprintf("%s: the tick of %s", run.State, p.moment(run.Tick, zone)))
	if run.Manual != "" {
		p.field("  cause", words.Cause(*run))
	}
	p.field("  on", fmt.Sprintf("%s, token %d, attempt %d, run %s", run.InstanceID, run.Token, run.Attempt, run.RunID))
	p.field("  started", p.at(run.Started, zone))
	ended := p.at(run.Ended, zone)
	if ended != "" {
		ended = fmt.Sprintf("%s, after %s", ended, plain.Span(run.Ended.Sub(run.Started)))
	}
	p.field("  ended", ended)
	if run.StoppedBy != "" {
		p.field("  stop asked", strings.TrimSpace(words.By(run.StoppedBy, run.StoppedReason)))
	}
	if run.Error != "" {
		p.field("  error", run.Error)
	}
	if run.NextAttempt != "" {
		p.field("  "+run.NextAttempt, p.moment(run.NextAttemptAt, zone))
	}
}

// resizing says why a change of the shards waits.
func (p Page) resizing(job admin.JobStatus, zone *time.Location) {
	r := job.Resizing
	if !r.Until.IsZero() {
		p.field("  last tick", p.at(r.Until, zone)+", of the shards as they are")
	}
	var lines []string
	const most = 10
	for _, slot := range words.Slots(job) {
		if !slices.Contains(r.WaitsFor, slot.Name) {
			continue
		}
		if len(lines) == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(r.WaitsFor)-most))
			break
		}
		lines = append(lines, slot.Name+": "+unfinished(p.Clock, slot))
	}
	if len(lines) > 0 {
		p.field("  waits for", strings.Join(lines, "\n"))
	}
}

// unfinished says why a change of the shards waits for this one.
func unfinished(c Clock, slot admin.JobStatus) string {
	run := slot.LastRun
	switch {
	case slot.HeldRun != nil:
		return fmt.Sprintf("%s, %s when the pause is over", words.LastRun(slot.HeldRun, c.Now), slot.HeldRun.NextAttempt)
	case run != nil && run.NextAttempt != "":
		return fmt.Sprintf("%s, %s %s", words.LastRun(run, c.Now), run.NextAttempt, plain.Relative(run.NextAttemptAt, c.Now))
	case run != nil && (run.State == history.StateRunning || run.State == history.StateUnknown || run.State == history.StateUnreadable):
		return words.LastRun(run, c.Now)
	case slot.State != admin.StateOwned:
		return plain.FirstLine(slot.Reason.String())
	}
	return "not there yet"
}

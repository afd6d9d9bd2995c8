package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// Jobs is a table with a row for each job; it has a column of reasons only if a job has one.
func (p Page) Jobs(jobs []admin.JobStatus, indent string) {
	header := []string{"NAME", "SCHEDULE", "ZONE", "STATE", "OWNER", "LAST", "NEXT"}
	reasons := slices.ContainsFunc(jobs, func(job admin.JobStatus) bool { return p.reason(job) != "" })
	if reasons {
		header = append(header, "REASON")
	}
	t := &output.Table{}
	t.Row(header...)
	for _, job := range jobs {
		owner, _, _ := p.owner(job)
		last := p.lastRun(job.LastRun)
		if len(job.Slots) > 0 {
			owner, last = owners(job.Slots), p.lastOf(job.Slots)
		}
		row := []string{name(job), job.Job.Schedule, job.Job.TimeZone, state(job), owner, last, output.Relative(job.NextRun, p.Now)}
		if reasons {
			row = append(row, p.reason(job))
		}
		t.Row(row...)
	}
	t.Write(p.Out, indent)
}

// WideJobs is a table with a row for each job, or for each of its shards, and every column.
func (p Page) WideJobs(jobs []admin.JobStatus) {
	t := &output.Table{}
	t.Row("NAME", "SCHEDULE", "ZONE", "HANDLER", "PARAMETER", "STATE", "OWNER", "SINCE", "TOKEN", "LAST", "NEXT", "REASON")
	for _, job := range jobs {
		for _, slot := range slotsOf(job) {
			param := ""
			if slot.Shard != nil {
				param = slot.Shard.Parameter
			}
			t.Row(append([]string{name(slot), slot.Job.Schedule, slot.Job.TimeZone, slot.Job.Handler, param}, p.slot(slot)...)...)
		}
	}
	t.Write(p.Out, "")
}

// Everywhere reports whether the slots of a job are those of instances, not shards.
func Everywhere(job admin.JobStatus) bool { return len(job.Slots) > 0 && job.Slots[0].InstanceID != "" }

// shards is a table with a row for each shard of a job, or for each instance of one that runs on all.
func (p Page) shards(job admin.JobStatus) {
	t := &output.Table{}
	if Everywhere(job) {
		t.Row("INSTANCE", "STATE", "SINCE", "TOKEN", "LAST", "NEXT", "REASON")
		for _, slot := range job.Slots {
			slot.Paused = nil // all of them are, and it is said above
			columns := p.slot(slot)
			t.Row(append([]string{slot.InstanceID, columns[0]}, columns[2:]...)...)
		}
		t.Write(p.Out, "  ")
		return
	}
	t.Row("SHARD", "PARAMETER", "STATE", "OWNER", "SINCE", "TOKEN", "LAST", "NEXT", "REASON")
	for _, slot := range job.Slots {
		slot.Paused = nil // all of them are, and it is said above
		t.Row(append([]string{strconv.Itoa(slot.Shard.Index), slot.Shard.Parameter}, p.slot(slot)...)...)
	}
	t.Write(p.Out, "  ")
}

// slot is the end of a wide row.
func (p Page) slot(slot admin.JobStatus) []string {
	owner, since, token := p.owner(slot)
	return []string{state(slot), owner, since, token, p.lastRun(slot.LastRun), output.Relative(slot.NextRun, p.Now), p.reason(slot)}
}

// name is the name of a job, or of a shard; quoted if it would be taken for another one. Only that of a node
// which no instance runs would.
func name(job admin.JobStatus) string {
	if output.FirstLine(job.Name) != job.Name {
		return strconv.QuoteToGraphic(job.Name)
	}
	return job.Name
}

// owner is who owns a job, or a shard, since when and with which token.
func (p Page) owner(job admin.JobStatus) (owner, since, token string) {
	if o := job.Owner; o != nil {
		return o.InstanceID, output.Relative(o.Since, p.Now), strconv.FormatInt(o.Token, 10)
	}
	return "", "", ""
}

// slotsOf are the shards of a job, or the job itself if it has none.
func slotsOf(job admin.JobStatus) []admin.JobStatus {
	if len(job.Slots) == 0 {
		return []admin.JobStatus{job}
	}
	return job.Slots
}

// running counts the shards of a job whose run is in progress.
func running(job admin.JobStatus) int {
	n := 0
	for _, slot := range slotsOf(job) {
		if slot.LastRun != nil && slot.LastRun.State == admin.RunRunning {
			n++
		}
	}
	return n
}

// Owner names the owner of a job, or says none.
func Owner(job admin.JobStatus) string {
	switch {
	case len(job.Slots) > 0:
		return owners(job.Slots)
	case job.Owner == nil:
		return "none"
	}
	return job.Owner.InstanceID
}

// instances is "3/4 instances": of those that live and take the job, how many have begun to.
func instances(parts []admin.JobStatus) string {
	owned, absent := 0, 0
	for _, part := range parts {
		switch {
		case part.State == admin.StateOwned:
			owned++
		case part.Reason.Code == reason.Absent:
			absent++
		}
	}
	return fmt.Sprintf("%d/%d instances", owned, len(parts)-absent)
}

// owners says who owns the shards: "3/4 app-1(2) app-2(1)".
func owners(shards []admin.JobStatus) string {
	if shards[0].InstanceID != "" {
		return instances(shards)
	}
	const most = 4
	owned, total := map[string]int{}, 0
	for _, shard := range shards {
		if shard.State == admin.StateOwned {
			owned[shard.Owner.InstanceID]++
			total++
		}
	}
	ids := slices.SortedFunc(maps.Keys(owned), func(a, b string) int {
		return cmp.Or(cmp.Compare(owned[b], owned[a]), cmp.Compare(a, b))
	})
	parts := []string{fmt.Sprintf("%d/%d", total, len(shards))}
	for i, id := range ids {
		if i == most && len(ids) > most+1 {
			parts = append(parts, fmt.Sprintf("+%d more", len(ids)-most))
			break
		}
		parts = append(parts, fmt.Sprintf("%s(%d)", id, owned[id]))
	}
	return strings.Join(parts, " ")
}

// state is the state of a job, or what is more worth knowing of it.
func state(job admin.JobStatus) string {
	switch {
	case job.State != admin.StateOwned:
	case job.Paused != nil:
		return "paused"
	case !job.Overdue.IsZero():
		return "late"
	case job.Resizing != nil:
		return "resizing"
	}
	return string(job.State)
}

// clockSkew is how far in the future a claimed tick may be because clocks differ.
const clockSkew = time.Minute

// reason says why a job does not run as its schedule says.
func (p Page) reason(job admin.JobStatus) string {
	var parts []string
	zone := Zone(job.Job)
	if job.Paused != nil {
		parts = append(parts, "paused "+p.pause(*job.Paused, zone))
	}
	if !job.Overdue.IsZero() {
		parts = append(parts, "late since "+output.Moment(job.Overdue, p.Now, zone))
	}
	if ahead := job.Watermark; ahead.Sub(p.Now) > clockSkew {
		parts = append(parts, "nothing runs before "+output.Moment(ahead, p.Now, zone)+": a clock was wrong, see swctl why "+output.Quoted(job.Name))
	}
	if !job.Overrun.IsZero() {
		parts = append(parts, p.overrun(job))
	}
	if text := p.failing(job); text != "" {
		parts = append(parts, text)
	}
	if job.Resizing != nil {
		parts = append(parts, "resizing "+job.Resizing.String())
	}
	if !job.DoneAt.IsZero() {
		parts = append(parts, p.removed(job))
	} else if !job.Reason.IsZero() {
		parts = append(parts, output.FirstLine(job.Reason.String()))
	}
	return strings.Join(parts, "; ")
}

// removed is "done 3h ago, removed in 21h".
func (p Page) removed(job admin.JobStatus) string {
	text := "done " + output.Relative(job.DoneAt, p.Now)
	switch keep := job.Job.KeepDone; keep {
	case jobs.KeepForever:
		return text + ", kept until it is canceled"
	default:
		return text + ", removed " + output.Relative(job.DoneAt.Add(keep), p.Now)
	}
}

// overrun is "still running after 12m; ticks since 03:00:10 UTC are skipped".
func (p Page) overrun(job admin.JobStatus) string {
	what := "still running"
	if run := job.LastRun; run != nil {
		what += " after " + output.Span(p.Now.Sub(run.Started))
	}
	fate := "are skipped"
	if job.Job.Overlap == jobs.OverlapQueue {
		fate = "wait"
	}
	return fmt.Sprintf("%s; ticks since %s %s", what, output.Absolute(job.Overrun, Zone(job.Job)), fate)
}

// failing is "failed 7 times in a row, last success 3h ago", or "2 of 4 shards fail; import[1] failed
// 7 times ...".
func (p Page) failing(job admin.JobStatus) string {
	var worst *admin.JobStatus
	fail, slots := 0, slotsOf(job)
	for i := range slots {
		if slots[i].Failing != nil {
			fail++
			if worst == nil || slots[i].Failing.Runs > worst.Failing.Runs {
				worst = &slots[i]
			}
		}
	}
	if worst == nil {
		return ""
	}
	times, success := "once", "no success on record"
	if n := worst.Failing.Runs; n > 1 {
		times = fmt.Sprintf("%d times in a row", n)
	}
	if ok := worst.Failing.OK; !ok.IsZero() {
		success = "last success " + output.Relative(ok, p.Now)
	}
	text := "failed " + times + ", " + success
	if len(job.Slots) > 0 {
		what := "shards"
		if Everywhere(job) {
			what = "instances"
		}
		text = fmt.Sprintf("%d of %d %s fail; %s %s", fail, len(slots), what, worst.Name, text)
	}
	return text
}

// pause is "until 2026-11-22 09:00:00 CET (in 1d), by alice@host: why".
func (p Page) pause(pause admin.Pause, zone *time.Location) string {
	text := "until it is resumed"
	if !pause.Until.IsZero() {
		text = "until " + output.Moment(pause.Until, p.Now, zone)
	}
	if pause.By != "" {
		text += ", by " + pause.By
	}
	if pause.Reason != "" {
		text += ": " + pause.Reason
	}
	return text
}

// lastRun is "ok 8h ago" or "running 41s".
func (p Page) lastRun(run *admin.Run) string {
	switch {
	case run == nil:
		return ""
	case run.State == admin.RunRunning:
		return "running " + output.Span(p.Now.Sub(run.Started))
	}
	return strings.TrimSpace(run.State + " " + output.Relative(run.Tick, p.Now))
}

// runStates are the states of runs; those that need attention most come first.
var runStates = []string{
	admin.RunUnreadable, admin.RunLost, admin.RunUnknown, admin.RunFailed, admin.RunTimedOut, admin.RunInterrupted, admin.RunRunning, admin.RunOK,
}

// lastOf counts the results of the last tick that a shard has run: "1 failed, 3 ok, 8h ago".
func (p Page) lastOf(shards []admin.JobStatus) string {
	var last time.Time
	states := map[string]int{}
	for _, shard := range shards {
		if run := shard.LastRun; run != nil && run.Tick.After(last) {
			last = run.Tick
		}
	}
	for _, shard := range shards {
		if run := shard.LastRun; run != nil && (run.Tick.Equal(last) || run.Tick.IsZero()) {
			states[run.State]++
		}
	}
	var parts []string
	for _, state := range slices.SortedFunc(maps.Keys(states), func(a, b string) int {
		return slices.Index(runStates, a) - slices.Index(runStates, b)
	}) {
		parts = append(parts, fmt.Sprintf("%d %s", states[state], state))
	}
	if ago := output.Relative(last, p.Now); ago != "" {
		parts = append(parts, ago)
	}
	return strings.Join(parts, ", ")
}

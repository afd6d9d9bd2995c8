package words

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// Zone is the time zone of a job; UTC when it names none that exists.
func Zone(j jobs.Job) *time.Location {
	zone, err := j.Location()
	if err != nil {
		return time.UTC
	}
	return zone
}

// Schedule says when a job runs: "every day at 02:00 Europe/Berlin"; "" if its schedule cannot be read.
func Schedule(j jobs.Job) string {
	schedule, err := j.ParseSchedule()
	if err != nil {
		return ""
	}
	return schedule.Words()
}

// Everywhere reports whether the slots of a job are those of instances, not shards.
func Everywhere(job admin.JobStatus) bool { return len(job.Slots) > 0 && job.Slots[0].InstanceID != "" }

// Name is the name of a job, or of a shard; quoted if it would be taken for another one. Only that of a node
// which no instance runs would.
func Name(job admin.JobStatus) string {
	if plain.FirstLine(job.Name) != job.Name {
		return strconv.QuoteToGraphic(job.Name)
	}
	return job.Name
}

// Slots are the shards of a job, or the job itself if it has none.
func Slots(job admin.JobStatus) []admin.JobStatus {
	if len(job.Slots) == 0 {
		return []admin.JobStatus{job}
	}
	return job.Slots
}

// Owner names the owner of a job, or says none.
func Owner(job admin.JobStatus) string {
	switch {
	case len(job.Slots) > 0:
		return Owners(job.Slots)
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

// Owners says who owns the shards: "3/4 app-1(2) app-2(1)".
func Owners(shards []admin.JobStatus) string {
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

// State is the state of a job, or the word of the first of its conditions that has one.
func State(job admin.JobStatus) string {
	for r := range conditions(&job, time.Time{}) { // none of the words depends on the time
		if r.State != "" {
			return r.State
		}
	}
	return string(job.State)
}

// Cause says why a job does not run as its schedule says: all of its conditions.
func Cause(job admin.JobStatus, now time.Time) string { return Line(Conditions(job, now)) }

// Line is conditions in one line.
func Line(all []Condition) string {
	parts := make([]string, len(all))
	for i, c := range all {
		parts[i] = c.String()
	}
	return strings.Join(parts, "; ")
}

// removed is "done 3h ago, removed in 21h".
func removed(job admin.JobStatus, now time.Time) string {
	text := "done " + plain.Relative(job.DoneAt, now)
	switch keep := job.Job.KeepDone; keep {
	case jobs.KeepForever:
		return text + ", kept until it is canceled"
	default:
		return text + ", removed " + plain.Relative(job.DoneAt.Add(keep), now)
	}
}

// overrun is "still running after 12m; ticks since 03:00:10 UTC are skipped"; of a run that hangs, the latter.
func overrun(job admin.JobStatus, now time.Time) string {
	what := "still running"
	if run := job.LastRun; run != nil {
		what += " after " + plain.Span(now.Sub(run.Started))
	}
	what += "; "
	if job.Hung != nil {
		what = ""
	}
	fate := "are skipped"
	if job.Job.Overlap == jobs.OverlapQueue {
		fate = "wait"
	}
	return fmt.Sprintf("%sticks since %s %s", what, plain.Absolute(job.Overrun, Zone(job.Job)), fate)
}

// hangs is "hangs: it has been running for 3h, and 95% of its runs took at most 2m".
func hangs(h admin.Hung, now time.Time) string {
	text := "hangs: it has been running for " + plain.Span(now.Sub(h.Since))
	if h.UsualMillis > 0 {
		text += ", and 95% of its runs took at most " + plain.Span(time.Duration(h.UsualMillis)*time.Millisecond)
	}
	return text
}

// Fails reports whether the last run of a job, or of one of its slots, failed.
func Fails(job admin.JobStatus) bool {
	worst, _ := failing(&job)
	return worst != nil
}

// failing is the slot of a job with the most failures in a row, or nil, and how many slots fail.
func failing(job *admin.JobStatus) (worst *admin.JobStatus, fail int) {
	if job.Failing != nil {
		return job, 1
	}
	for i := range job.Slots {
		if slot := &job.Slots[i]; slot.Failing != nil {
			fail++
			if worst == nil || slot.Failing.Runs > worst.Failing.Runs {
				worst = slot
			}
		}
	}
	return worst, fail
}

// failed is "failed 7 times in a row, last success 3h ago", "failed at least 20 times in a row, no success on record", or
// "2 of 4 shards fail; import[1] failed 7 times ...".
func failed(job admin.JobStatus, now time.Time) (since time.Time, detail string) {
	worst, fail := failing(&job)
	times, success := "once", "no success on record"
	if n := worst.Failing.Runs; n > 1 {
		times = fmt.Sprintf("%d times in a row", n)
	}
	if worst.Failing.More {
		times = "at least " + times
	}
	if ok := worst.Failing.OK; !ok.IsZero() {
		success = "last success " + plain.Relative(ok, now)
	}
	text := "failed " + times + ", " + success
	if len(job.Slots) > 0 {
		what := "shards"
		if Everywhere(job) {
			what = "instances"
		}
		text = fmt.Sprintf("%d of %d %s fail; %s %s", fail, len(job.Slots), what, worst.Name, text)
	}
	return worst.Failing.Since, text
}

// Pause is "until 2026-11-22 09:00:00 CET (in 1d), by alice@host: why".
func Pause(pause admin.Pause, zone *time.Location, now time.Time) string {
	text := "until it is resumed"
	if !pause.Until.IsZero() {
		text = "until " + plain.Moment(pause.Until, now, zone)
	}
	if pause.By != "" {
		text += ", by " + pause.By
	}
	if pause.Reason != "" {
		text += ": " + pause.Reason
	}
	return text
}

// LastRun is "ok 8h ago" or "running 41s".
func LastRun(run *admin.Run, now time.Time) string {
	switch {
	case run == nil:
		return ""
	case run.State == admin.RunRunning:
		return "running " + plain.Span(now.Sub(run.Started))
	}
	return strings.TrimSpace(run.State + " " + plain.Relative(run.Tick, now))
}

// runStates are the states of runs; those that need attention most come first.
var runStates = []string{
	admin.RunUnreadable, admin.RunLost, admin.RunUnknown, admin.RunFailed, admin.RunTimedOut, admin.RunInterrupted, admin.RunRefused,
	admin.RunRunning, admin.RunOK,
}

// LastOf counts the results of the last tick that a shard has run: "1 failed, 3 ok, 8h ago".
func LastOf(shards []admin.JobStatus, now time.Time) string {
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
	if ago := plain.Relative(last, now); ago != "" {
		parts = append(parts, ago)
	}
	return strings.Join(parts, ", ")
}

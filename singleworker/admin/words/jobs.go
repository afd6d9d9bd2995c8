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
	"github.com/swjobs/singleworker/singleworker/history"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// Schedule says when a job runs: "every day at 02:00 Europe/Berlin"; "" if its schedule cannot be
// read.
func Schedule(j jobs.Job) string {
	schedule, err := j.Uncalendared().ParseSchedule()
	if err != nil {
		return ""
	}
	return schedule.Words()
}

// Calendar is the content of a calendar in one line, with its time zone.
func Calendar(is jobs.Calendar) string {
	var parts []string
	for _, part := range [][]string{is.Dates, is.Yearly, is.Weekdays, is.Hours} {
		if len(part) > 0 {
			parts = append(parts, strings.Join(part, ", "))
		}
	}
	return strings.Join(append(parts, jobs.Job{TimeZone: is.TimeZone}.Zone().String()), "; ")
}

// Everywhere reports whether the slots of a job are those of instances, not shards.
func Everywhere(job admin.JobStatus) bool { return len(job.Slots) > 0 && job.Slots[0].InstanceID != "" }

// Name is the name of a job, or of a shard; quoted if it would be taken for another one. Only that
// of a node which no instance runs would.
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

// InProgress lists the runs in progress of a job, or of its shards.
func InProgress(job admin.JobStatus) (runs []history.Run) {
	for _, slot := range Slots(job) {
		if run := slot.LastRun; run != nil && run.State == history.StateRunning {
			runs = append(runs, *run)
		}
	}
	return runs
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

// Health is the Health of a job for people: "failing x12", or "failing x20+" if the history does
// not reach back to where that began.
func Health(job admin.JobStatus) string {
	if len(job.Conditions) == 0 {
		return job.Health()
	}
	first := job.Conditions[0]
	worst := &admin.Failing{}
	for _, slot := range append([]admin.JobStatus{job}, job.Slots...) {
		if slot.Failing != nil && slot.Failing.Runs > worst.Runs {
			worst = slot.Failing
		}
	}
	if first.Code != reason.Failing || worst.Runs < 2 {
		return first.Word
	}
	text := fmt.Sprintf("%s x%d", first.Word, worst.Runs)
	if worst.More {
		text += "+"
	}
	return text
}

// States lists all that admin.JobStatus.Health says.
func States() []string {
	all := []string{admin.HealthOK}
	for _, m := range reason.Meanings() {
		if !slices.Contains(all, m.State) {
			all = append(all, m.State)
		}
	}
	return all
}

// Line is what is wrong with a job, or an instance, in one line.
func Line(all []reason.Condition) string {
	parts := make([]string, len(all))
	for i := range all {
		parts[i] = plain.FirstLine(all[i].Detail)
	}
	return strings.Join(parts, "; ")
}

// advice names the command for what is most wrong with a job, unless it is meant not to run. That
// swctl why tells more is not said by swctl why.
func advice(job admin.JobStatus) []string {
	for i, c := range job.Conditions {
		switch {
		case i == 0 && c.Code == reason.Paused:
			return []string{"To end the pause: " + c.Remedy + "."}
		case i == 0 && c.Code == reason.Frozen:
			return []string{"To end the freeze of the group: " + c.Remedy + "."}
		case i == 0 && c.Severity == reason.Fine:
			return nil
		case c.Severity != reason.Fine && !strings.HasPrefix(c.Remedy, "swctl why "):
			return []string{fmt.Sprintf("%s%s: try %s.", strings.ToUpper(c.Sentence[:1]), c.Sentence[1:], c.Remedy)}
		}
	}
	return nil
}

// LastRun is "ok 8h ago" or "running 41s".
func LastRun(run *history.Run, now time.Time) string {
	switch {
	case run == nil:
		return ""
	case run.State == history.StateRunning:
		return "running " + plain.Span(now.Sub(run.Started))
	}
	return strings.TrimSpace(string(run.State) + " " + plain.Relative(run.Tick, now))
}

// LastTick is the tick of the latest run of some jobs, or shards; zero if none ever ran.
func LastTick(of ...admin.JobStatus) (last time.Time) {
	for i := range of {
		for _, slot := range Slots(of[i]) {
			if run := slot.LastRun; run != nil && run.Tick.After(last) {
				last = run.Tick
			}
		}
	}
	return last
}

// LastOf counts the results of the last tick that a shard has run: "1 failed, 3 ok, 8h ago".
func LastOf(shards []admin.JobStatus, now time.Time) string {
	last, states := LastTick(shards...), map[history.State]int{}
	for _, shard := range shards {
		if run := shard.LastRun; run != nil && (run.Tick.Equal(last) || run.Tick.IsZero()) {
			states[run.State]++
		}
	}
	var parts []string
	for _, state := range slices.SortedFunc(maps.Keys(states), admin.ByFate) {
		parts = append(parts, fmt.Sprintf("%d %s", states[state], state))
	}
	if ago := plain.Relative(last, now); ago != "" {
		parts = append(parts, ago)
	}
	return strings.Join(parts, ", ")
}

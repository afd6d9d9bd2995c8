package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// wholeJobs refuses the name of a shard where only a job will do.
func (c *call) wholeJobs(names ...string) error {
	verb := c.Command
	for _, name := range names {
		if of, _, ok := job.SplitShard(name); ok {
			return cmdline.Usage("%s works on a whole job, and %s is one of its shards", verb, name).Try("swctl %s %s", verb, output.Quoted(of))
		}
	}
	return nil
}

// slotsOf are the shards of a job, or the job itself if it is not divided.
func slotsOf(job admin.JobStatus) []admin.JobStatus {
	if len(job.Slots) == 0 {
		return []admin.JobStatus{job}
	}
	return job.Slots
}

// runningShards counts the shards of a job with a run in progress.
func runningShards(job admin.JobStatus) int {
	n := 0
	for _, slot := range slotsOf(job) {
		if slot.LastRun != nil && slot.LastRun.State == admin.RunRunning {
			n++
		}
	}
	return n
}

// ownerSummary says who owns the shards: "3/4 app-1(2) app-2(1)".
func ownerSummary(shards []admin.JobStatus) string {
	const most = 4
	owned, total := map[string]int{}, 0
	for _, shard := range shards {
		if shard.State == admin.StateOwned {
			owned[shard.Owner.InstanceID]++
			total++
		}
	}
	sids := slices.SortedFunc(maps.Keys(owned), func(a, b string) int {
		return cmp.Or(cmp.Compare(owned[b], owned[a]), cmp.Compare(a, b))
	})
	parts := []string{fmt.Sprintf("%d/%d", total, len(shards))}
	for i, sid := range sids {
		if i == most && len(sids) > most+1 {
			parts = append(parts, fmt.Sprintf("+%d more", len(sids)-most))
			break
		}
		parts = append(parts, fmt.Sprintf("%s(%d)", sid, owned[sid]))
	}
	return strings.Join(parts, " ")
}

// runStates are the states of runs, that which needs most to be looked at
// first.
var runStates = []string{
	admin.RunUnreadable, admin.RunLost, admin.RunUnknown, admin.RunFailed, admin.RunTimedOut, admin.RunInterrupted, admin.RunRunning, admin.RunOK,
}

// lastSummary says how the shards did in the last tick that one of them ran:
// "1 failed, 3 ok, 8h ago".
func (c *call) lastSummary(shards []admin.JobStatus) string {
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
	if ago := output.Relative(last, c.Now()); ago != "" {
		parts = append(parts, ago)
	}
	return strings.Join(parts, ", ")
}

// resizingText says of a change of the shards what it waits for, and why.
func (c *call) resizingText(job admin.JobStatus) string {
	r, zone := job.Resizing, zoneOf(job.Job)
	lines := []string{r.String()}
	if !r.Until.IsZero() {
		lines[0] += "; the last tick before it is " + output.Absolute(r.Until, zone)
	}
	const most = 10
	for _, slot := range slotsOf(job) {
		if !slices.Contains(r.WaitsFor, slot.Name) {
			continue
		}
		if len(lines) > most {
			lines = append(lines, fmt.Sprintf("and %d more", len(r.WaitsFor)-most))
			break
		}
		lines = append(lines, slot.Name+": "+c.unfinished(slot))
	}
	return strings.Join(lines, "\n")
}

// unfinished says why a change of the shards waits for this one.
func (c *call) unfinished(slot admin.JobStatus) string {
	run := slot.LastRun
	switch {
	case run != nil && run.NextAttempt != "":
		return fmt.Sprintf("%s, %s %s", c.lastRun(run), run.NextAttempt, output.Relative(run.NextAttemptAt, c.Now()))
	case run != nil && (run.State == admin.RunRunning || run.State == admin.RunUnknown || run.State == admin.RunUnreadable):
		return c.lastRun(run)
	case slot.State != admin.StateOwned:
		return output.FirstLine(slot.Reason)
	}
	return "not there yet"
}

// shardTable has one row for each shard of a job.
func (c *call) shardTable(job admin.JobStatus) *output.Table {
	t := &output.Table{}
	t.Row("SHARD", "PARAMETER", "STATE", "OWNER", "SINCE", "TOKEN", "LAST", "NEXT", "REASON")
	for _, slot := range job.Slots {
		owner, since, token := ownerCells(slot, c.Now())
		t.Row(strconv.Itoa(slot.Shard.Index), slot.Shard.Parameter, stateWord(slot), owner, since, token,
			c.lastRun(slot.LastRun), output.Relative(slot.NextRun, c.Now()), c.shardReason(slot))
	}
	return t
}

// ownerCells are who owns a job, or a shard, since when and with which token.
func ownerCells(job admin.JobStatus, now time.Time) (owner, since, token string) {
	if o := job.Owner; o != nil {
		return o.InstanceID, output.Relative(o.Since, now), strconv.FormatInt(o.Token, 10)
	}
	return "", "", ""
}

// shardReason is the reason of a shard without that which all of them have.
func (c *call) shardReason(slot admin.JobStatus) string {
	slot.Paused = nil
	return c.reason(slot)
}

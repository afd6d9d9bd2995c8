package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
)

// History is a table of what became of ticks; it has a column of shards if the job has several.
func (p Page) History(job admin.JobStatus, entries []history.Entry) {
	zone := job.Job.Zone()
	header := historyHeader
	shards := len(job.Slots) > 0 && !words.Everywhere(job)
	if shards {
		header = slices.Insert(slices.Clone(header), 1, "SHARD")
	}
	t := p.table(header, historyBelow...)
	for _, e := range entries {
		row := p.historyRow(e, zone)
		if shards && e.Shard != nil {
			row = slices.Insert(row, 1, strconv.Itoa(*e.Shard))
		}
		t.Row(row...)
		t.Paint("STATE", outcome(e))
	}
	t.Write(p.Out, "")
}

// historyHeader heads what historyRow returns.
var historyHeader = []string{"TICK", "STATE", "LAG", "TOOK", "ON", "ATTEMPT", "CAUSE", "RUN", "WHY"}

// historyBelow are the columns that a narrow terminal has below the rows first.
var historyBelow = []string{"CAUSE", "RUN", "ATTEMPT"}

// outcome is the color of an entry.
func outcome(e history.Entry) output.Color {
	switch e.State {
	case history.StateOK:
		return output.Green
	case history.StateRunning, history.StateSkipped, history.StateWaiting, "": // the last is no run
		return output.Plain
	case history.StateInterrupted, history.StateUnknown, history.StateRefused:
		return output.Yellow
	default:
		return output.Red
	}
}

// historyRow is a line about what became of a tick.
func (p Page) historyRow(e history.Entry, zone *time.Location) []string {
	row := []string{p.at(e.Tick, zone), string(e.State), "", "", e.InstanceID, "", "", p.runID(e.RunID), words.Note(e, p.in(zone), p.Now)}
	if e.RunID != "" {
		row[5] = strconv.Itoa(e.Attempt)
	}
	if e.Manual != "" {
		if row[6] = "manual"; e.Past != "" {
			row[6] = "by name, " + string(e.Past)
		}
	}
	if !e.Started.IsZero() {
		row[2] = plain.Span(e.Started.Sub(e.Tick))
	}
	switch {
	case e.Started.IsZero():
	case !e.Ended.IsZero():
		row[3] = plain.Span(e.Ended.Sub(e.Started))
	case e.State == history.StateRunning:
		row[3] = plain.Span(p.Now.Sub(e.Started))
	}
	return row
}

// Triggered confirms a request, and says how the runs ended if they were waited for.
func (p Page) Triggered(result admin.TriggerResult, runs []history.Entry) {
	p.linef("triggered %s  request %s  owner %s", result.Job.Name, result.ID, words.Owner(result.Job))
	for _, run := range runs {
		if run.RunID != "" {
			p.linef("  %srun %s on %s, attempt %d: %s", shardOf(run), run.RunID, run.InstanceID, run.Attempt, words.Outcome(run.Run))
		}
	}
}

// listed is how many ticks of a slot are printed.
const listed = 100

// Backfilled lists the ticks that a backfill runs, or would run, and counts the others.
func (p Page) Backfilled(result admin.BackfillResult) {
	t := p.table([]string{"TICK", "WAS", "ATTEMPT", "OF"})
	total, left := 0, make(map[string]int)
	for _, slot := range result.Slots {
		total += len(slot.Ticks)
		for why, n := range slot.LeftOut {
			left[why] += n
		}
		for _, tick := range slot.Ticks[:min(len(slot.Ticks), listed)] {
			t.Row(p.at(tick.Tick, result.Job.Job.Zone()), string(tick.Past), strconv.Itoa(tick.Attempt), slot.Slot)
		}
		if more := len(slot.Ticks) - listed; more > 0 {
			t.Row(fmt.Sprintf("and %d more", more), "", "", slot.Slot)
		}
	}
	t.Write(p.Out, "")
	var others []string
	for _, why := range slices.Sorted(maps.Keys(left)) {
		text := why
		if history.Past(why) == history.PastAgain {
			text = "ok (again)"
		}
		others = append(others, fmt.Sprintf("%d %s", left[why], text))
	}
	text := ""
	if len(others) > 0 {
		text = "; left out: " + strings.Join(others, ", ")
	}
	switch {
	case result.ID != "":
		p.linef("requested %d past ticks of %s  request %s  owner %s%s", total, result.Job.Name, result.ID, words.Owner(result.Job), text)
	case total > 0:
		p.linef("%d past ticks of %s would be run%s", total, result.Job.Name, text)
	default:
		p.linef("no tick of %s is to be run%s", result.Job.Name, text)
	}
}

// Stopped says what became of runs that were told to end.
func (p Page) Stopped(name string, runs []history.Entry) {
	for _, run := range runs {
		p.linef("stopped %s  %srun %s on %s: %s", name, shardOf(run), run.RunID, run.InstanceID, words.Outcome(run.Run))
	}
}

// shardOf is "shard 3: " of a run in a shard.
func shardOf(run history.Entry) string {
	if run.Shard == nil {
		return ""
	}
	return fmt.Sprintf("shard %d: ", *run.Shard)
}

// Requests is a table of requests.
func (p Page) Requests(list []admin.Request) {
	t := p.table([]string{"JOB", "REQUEST", "WHEN", "BY", "RUN", "ID", "REASON"}, "RUN")
	for _, r := range list {
		asked := "unreadable " + r.Kind
		switch {
		case r.Kind == admin.RequestRun && r.RunID != "":
			asked = "run, started"
		case r.Kind == admin.RequestRun:
			asked = "run"
		case r.Kind == admin.RequestPast:
			asked = "run of the tick " + p.at(r.Tick, time.UTC)
			if r.RunID != "" {
				asked += ", started"
			}
		case r.Backfill != nil:
			asked = words.Backfill(*r.Backfill, p.at(r.Backfill.Next, time.UTC))
		case r.Kind == admin.RequestStop:
			asked = "stop of a run"
		}
		t.Row(r.Slot, asked, p.ago(r.At), r.By, p.runID(r.RunID), r.ID, r.Reason)
	}
	t.Write(p.Out, "")
}

// Ticks is a table of times in the zone of their schedule and in UTC, and the schedule in words.
func (p Page) Ticks(ticks []api.Tick, out []api.LeftOut, means string) {
	delayed := slices.ContainsFunc(ticks, func(tick api.Tick) bool { return !tick.Due.Equal(tick.Tick) })
	columns := []string{"TIME", "RELATIVE", "UTC"}
	if delayed {
		columns = []string{"TICK", "DUE", "RELATIVE", "UTC"}
	}
	t := p.table(columns)
	for _, tick := range ticks {
		row := []string{plain.Absolute(tick.Local, tick.Local.Location()), plain.Relative(tick.Due, p.Now), tick.Due.Format("2006-01-02 15:04:05Z")}
		if delayed {
			row = slices.Insert(row, 1, tick.Due.In(tick.Local.Location()).Format("15:04:05.000"))
		}
		t.Row(row...)
	}
	t.Write(p.Out, "")
	if len(ticks) > 0 {
		p.linef("(%s)", means)
	}
	for _, no := range out {
		p.linef("no tick at %s: %s", plain.Absolute(no.Local, no.Local.Location()), no.Calendar)
	}
}

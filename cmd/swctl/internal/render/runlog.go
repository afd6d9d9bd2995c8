package render

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// RunLog is a table of a store's entries. Times are in UTC. named adds the name of the job, which
// is shown of shards anyway.
func (p Page) RunLog(entries []runlog.Entry, named bool) {
	named = named || slices.ContainsFunc(entries, func(e runlog.Entry) bool { return e.Slot != entries[0].Slot })
	header := historyHeader
	if named {
		header = slices.Insert(slices.Clone(header), 1, "JOB")
	}
	t := p.table(header, historyBelow...)
	for _, e := range entries {
		row := p.historyRow(e.Entry, time.UTC)
		row[1], row[8] = words.Logged(e, p.in(time.UTC), p.Now)
		if e.Kind == runlog.Gone {
			row[0] = p.at(e.At, time.UTC)
		}
		if named {
			row = slices.Insert(row, 1, cmp.Or(e.Slot, "(any)"))
		}
		t.Row(row...)
		t.Paint("STATE", outcome(e.Entry))
	}
	t.Write(p.Out, "")
}

// Summaries is a table of a store's summary of each job.
func (p Page) Summaries(sums []runlog.Summary) {
	var header []string
	for _, column := range words.SummaryColumns {
		header = append(header, strings.ToUpper(column))
	}
	t := p.table(header)
	for _, s := range sums {
		t.Row(words.Summary(s, p.Now)...)
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
		row[6] = "manual"
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

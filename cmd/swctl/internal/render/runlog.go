package render

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/words"
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

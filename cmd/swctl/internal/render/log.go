package render

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Log is a table of who did what.
func (p Page) Log(entries []admin.LogEntry) {
	t := p.table([]string{"TIME", "RELATIVE", "WHAT", "OF", "BY", "FROM", "REASON"}, "RELATIVE", "FROM")
	for _, e := range entries {
		t.Row(p.at(e.At, time.UTC), plain.Relative(e.At, p.Now), e.Kind, words.LogTarget(e, time.UTC), e.By, e.From, e.Reason)
	}
	t.Write(p.Out, "")
}

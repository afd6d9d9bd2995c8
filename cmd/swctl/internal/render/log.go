package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Log is a table of who did what.
func (p Page) Log(entries []admin.LogEntry) {
	t := p.table([]string{"TIME", "RELATIVE", "WHAT", "OF", "BY", "FROM", "REASON"}, "RELATIVE", "FROM")
	for _, e := range entries {
		of := strings.Join(e.Jobs, ", ")
		switch {
		case e.More > 0:
			of = strings.TrimSpace(fmt.Sprintf("%s and %d more", of, e.More))
		case of == "":
			of = e.Where
		case e.Where != "":
			of += " on " + e.Where
		}
		if e.Kind == admin.LogOutage {
			of = words.Outage(admin.Outage{Since: e.Since, Until: e.Until, Instances: []string{e.From}}, time.UTC)
		}
		t.Row(p.at(e.At, time.UTC), plain.Relative(e.At, p.Now), e.Kind, of, e.By, e.From, e.Reason)
	}
	t.Write(p.Out, "")
}

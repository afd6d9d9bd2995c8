package render

import (
	"cmp"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/effects"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Effects shows a comparison of a database with the run log.
func (p Page) Effects(r effects.Report) {
	p.field("Group", r.Group)
	compared := "nothing"
	if !r.From.IsZero() {
		compared = fmt.Sprintf("from %s to %s", plain.Absolute(r.From, time.UTC), plain.Absolute(r.To, time.UTC))
	}
	p.field("Compared", compared)
	p.field("Jobs", fmt.Sprintf("%d, %d others do not use package once", r.Slots, r.Others))
	p.field("Ticks", fmt.Sprintf("%d ok runs, %d markers", r.Runs, r.Markers))
	p.Out.WriteByte('\n')
	switch {
	case r.Slots == 0:
		return
	case r.Found == 0:
		p.linef("PASS")
		return
	}
	t := p.table([]string{"JOB", "TICK", "MISSING", "RUN", "INSTANCE", "AT", "WHAT TO DO"}, "RUN")
	for _, d := range r.Differences {
		missing, todo := "marker", "see if its effects are there, and do what is missing"
		if d.Missing == effects.InLog {
			missing = "ok in the log, which has it as " + cmp.Or(string(d.State), "nothing")
			todo = "its effects are there: do not do it again"
		}
		name := plain.Printable(d.Slot)
		if d.Request != "" {
			name += " (request " + plain.Printable(d.Request) + ")"
		}
		t.Row(name, p.at(d.Tick, time.UTC), missing, plain.Printable(d.RunID), plain.Printable(d.InstanceID), p.at(d.At, time.UTC), todo)
	}
	t.Write(p.Out, "")
	if more := r.Found - len(r.Differences); more > 0 {
		p.linef("and %d more", more)
	}
}

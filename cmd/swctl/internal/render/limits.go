package render

import (
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// Limits is a table of limits.
func (p Page) Limits(list []admin.Limit) {
	t := p.table([]string{"NAME", "MAX", "HELD", "WAITING", "JOBS", "BY"})
	for _, of := range list {
		by := admin.Holders(of.Held)
		if of.Error != "" {
			by = of.Error
		}
		t.Row(of.Name, strconv.Itoa(of.Max), strconv.Itoa(len(of.Held)), strconv.Itoa(len(of.Waiting)), strconv.Itoa(len(of.Jobs)), by)
	}
	t.Write(p.Out, "")
}

// Limit is a limit with each of its places that is taken, and each instance that waits.
func (p Page) Limit(of admin.Limit) {
	if p.linef("%s: %d of %d places held", of.Name, len(of.Held), of.Max); of.Error != "" {
		p.linef("cannot be read: %s", of.Error)
	}
	if len(of.Jobs) > 0 {
		p.linef("jobs: %s", strings.Join(of.Jobs, ", "))
	}
	for _, place := range of.Held {
		leaked := ""
		if place.Leaked {
			leaked = ": leaked, no run of it has the place"
		}
		p.linef("place %d: %s, since %s%s", place.Place, place.Slot, p.moment(place.Since, time.UTC), leaked)
	}
	for _, w := range of.Waiting {
		p.linef("waiting: %s, for a run that was due %s", w.InstanceID, p.moment(w.Since, time.UTC))
	}
}

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

// Freed lists the places that were given back.
func (p Page) Freed(name string, freed []admin.HeldPlace, dry bool) {
	did := "was given back"
	if dry {
		did = "is held for no run (dry run: nothing was changed)"
	}
	for _, place := range freed {
		p.linef("limit %s: place %d of %s %s", name, place.Place, place.Slot, did)
	}
	if len(freed) == 0 {
		p.linef("limit %s: each place that is held is a run's in progress", name)
	}
}

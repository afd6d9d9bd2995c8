package web

import (
	"net/http"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// limitRow is a limit of the group, as jobs name it.
type limitRow struct {
	admin.Limit

	Holders []holderRow
	Waiting []waiterRow
	Jobs    []choice
	More    int // jobs that are not shown
}

// holderRow is a run that holds a place.
type holderRow struct {
	choice

	Since  stamp
	Leaked bool
}

// waiterRow is an instance of which runs wait.
type waiterRow struct {
	choice

	Since stamp
}

// limits are how many runs of several jobs there are at once, and whose they are.
func (p *pages) limits(r *http.Request, _ *snapshot) (view, error) {
	list, err := p.group.limits(r.Context())
	if err != nil {
		return view{}, err
	}
	l := p.look(r)
	var rows []limitRow
	for _, of := range list {
		row := limitRow{Limit: of}
		row.Jobs, row.More = jobLinks(of.Jobs)
		for _, place := range of.Held[:min(len(of.Held), mostNamed)] {
			row.Holders = append(row.Holders, holderRow{choice{Name: place.Slot, Link: jobLink(place.Slot)}, l.stamp(place.Since), place.Leaked})
		}
		for _, w := range of.Waiting[:min(len(of.Waiting), mostNamed)] {
			row.Waiting = append(row.Waiting, waiterRow{choice{Name: w.InstanceID, Link: instanceLink(w.InstanceID)}, l.stamp(w.Since)})
		}
		rows = append(rows, row)
	}
	return view{Template: "limits", Title: "Limits", look: l, Body: rows}, nil
}

package web

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
)

// ownerRow is a job of the map of owners.
type ownerRow struct {
	Name, Link, Owner string
	State             state
	Cells             []ownerCell // one for each instance
	Since             stamp
	Moves             []string // the latest first
}

// ownerCell counts an instance's slots of a job.
type ownerCell struct{ Kind, Text string }

// maxColumns is up to how many instances have a column each.
const maxColumns = 16

func (p *pages) owners(r *http.Request, s *snapshot) (view, error) {
	l := p.look(r)
	jobs, sh := selected(r, s, l.now)
	const week = 7 * 24 * time.Hour
	past, err := p.group.histories(r.Context(), jobs, week, time.Time{})
	if err != nil {
		return view{}, err
	}
	type body struct {
		sheet

		Instances []instanceRow
		Rows      []ownerRow
		Problem   string // with the run log
	}
	b := body{sheet: sh, Problem: past.problem}
	if len(s.instances) <= maxColumns {
		for _, i := range s.instances {
			b.Instances = append(b.Instances, instanceRowOf(i, l))
		}
	}
	for i, job := range jobs {
		b.Rows = append(b.Rows, ownerRowOf(job, past.of[i], b.Instances, l))
	}
	return view{Template: "owners", Title: "Who owns what", look: l, Body: b}, nil
}

func ownerRowOf(job admin.JobStatus, entries []history.Entry, instances []instanceRow, l look) ownerRow {
	row := ownerRow{Name: words.Name(job), Link: jobLink(job.Name), State: jobState(job), Owner: words.Owner(job), Moves: moves(job, entries, l.now)}
	if job.Owner != nil {
		row.Since = l.stamp(job.Owner.Since)
	}
	owned, ran := make(map[string]int), make(map[string]bool)
	for _, slot := range words.Slots(job) {
		if slot.Owner != nil {
			owned[slot.Owner.InstanceID]++
		}
	}
	for _, e := range entries {
		ran[e.InstanceID] = true
	}
	for _, i := range instances {
		var cell ownerCell
		switch n := owned[i.ID]; {
		case n > 0 && len(job.Slots) > 0:
			cell = ownerCell{"owns", fmt.Sprintf("owns %d", n)}
		case n > 0:
			cell = ownerCell{"owns", "owns"}
		case ran[i.ID]:
			cell = ownerCell{"ran", "before"}
		}
		row.Cells = append(row.Cells, cell)
	}
	return row
}

// moves say how a job without shards went from one instance to another, as far as its entries tell.
func moves(job admin.JobStatus, entries []history.Entry, now time.Time) (all []string) {
	const most = 3
	if len(job.Slots) > 0 {
		return nil
	}
	before := ""
	for _, e := range slices.Backward(entries) {
		if e.RunID == "" || e.InstanceID == "" {
			continue
		}
		if before != "" && before != e.InstanceID {
			all = append(all, fmt.Sprintf("%s → %s %s", before, e.InstanceID, plain.Relative(e.Started, now)))
		}
		before = e.InstanceID
	}
	if o := job.Owner; o != nil && before != "" && before != o.InstanceID {
		all = append(all, fmt.Sprintf("%s → %s %s", before, o.InstanceID, plain.Relative(o.Since, now)))
	}
	slices.Reverse(all)
	return all[:min(len(all), most)]
}

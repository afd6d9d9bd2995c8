package web

import (
	"net/http"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/job"
)

// calendarRow is a calendar of the group, as jobs name it.
type calendarRow struct {
	Name, Text, Set string
	Error           string // why it cannot be read
	Since           stamp
	Jobs            []choice
	More            int // jobs that are not shown
	Next            []string
	Former          []formerRow
}

// formerRow is what a calendar was before.
type formerRow struct {
	Since stamp
	Text  string
}

// mostNamed is how many jobs, or runs, a row names.
const mostNamed = 50

// jobLinks are links to the first few of many jobs, and how many more there are.
func jobLinks(names []string) (links []choice, more int) {
	more = max(0, len(names)-mostNamed)
	for _, name := range names[:len(names)-more] {
		links = append(links, choice{Name: name, Link: jobLink(name)})
	}
	return links, more
}

// calendars are the times that jobs leave out, or are bound to.
func (p *pages) calendars(r *http.Request, _ *snapshot) (view, error) {
	list, err := p.group.calendars(r.Context())
	if err != nil {
		return view{}, err
	}
	const mostSpans = 3
	l := p.look(r)
	var rows []calendarRow
	for _, of := range list {
		row := calendarRow{Name: of.Name, Text: words.Calendar(of.Is), Set: of.Set, Error: of.Error, Since: l.stamp(of.Since)}
		row.Jobs, row.More = jobLinks(of.Jobs)
		own := look{l.now, job.Job{TimeZone: of.Is.TimeZone}.Zone()}
		for _, span := range of.Is.Spans(l.now, mostSpans) {
			text := plain.Absolute(span.From, own.zone) + " to "
			if span.Until.IsZero() {
				text += "in a year or later"
			} else {
				text += plain.Absolute(span.Until, own.zone)
			}
			row.Next = append(row.Next, text)
		}
		for _, was := range of.Former {
			row.Former = append(row.Former, formerRow{l.stamp(was.Since), words.Calendar(was.Is)})
		}
		rows = append(rows, row)
	}
	return view{Template: "calendars", Title: "Calendars", look: l, Body: rows}, nil
}

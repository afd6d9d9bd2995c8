package web

import (
	"net/http"
	"slices"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/doctor"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// maxLogRows is how many entries a page of the log has.
const maxLogRows = 200

// whoDid is the log of who did what, of one job if the query names it.
func (p *pages) whoDid(r *http.Request, _ *snapshot) (view, error) {
	entries, err := p.group.whoDid(r.Context())
	if err != nil {
		return view{}, err
	}
	type row struct {
		At                         stamp
		Kind, Of, By, From, Reason string
	}
	type body struct {
		Job, Link string
		Rows      []row
		More      int
	}
	l, b := p.look(r), body{Job: r.FormValue("job")}
	if b.Job != "" {
		b.Link = jobLink(b.Job)
		entries = slices.DeleteFunc(slices.Clone(entries), func(e admin.LogEntry) bool { return !e.Tells(b.Job) })
	}
	b.More = max(0, len(entries)-maxLogRows)
	for _, e := range entries[:len(entries)-b.More] {
		b.Rows = append(b.Rows, row{l.stamp(e.At), e.Kind, words.LogTarget(e, l.zone), e.By, e.From, e.Reason})
	}
	return view{Template: "log", Title: "Who did what", look: l, Body: b}, nil
}

// doctor is the result of each check of the group as a whole.
func (p *pages) doctor(r *http.Request, s *snapshot) (view, error) {
	e, err := p.group.examination(r.Context(), s)
	if err != nil {
		return view{}, err
	}
	type row struct {
		doctor.Check

		Class string
	}
	type body struct{ Wrong, Fine []row }
	var b body
	for _, c := range doctor.Checks(e) {
		switch one := (row{c, bad}); c.Severity {
		case reason.Fine:
			one.Class = good
			b.Fine = append(b.Fine, one)
		case reason.Notice:
			one.Class = warn
			fallthrough
		case reason.Warning, reason.Broken:
			b.Wrong = append(b.Wrong, one)
		}
	}
	return view{Template: "doctor", Title: "Doctor", look: p.look(r), Body: b}, nil
}

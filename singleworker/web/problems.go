package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
)

// cause are problems that have the same cause.
type cause struct {
	problem // the first of them

	Class string // colors it
	Count string // "12 jobs", or "" of one problem
	Rows  []problemRow
	More  int // rows that are not shown
}

// problemRow is a problem beside its cause.
type problemRow struct {
	What, Link, Detail, Owner, Remedy string
	Since                             stamp
	Mend                              *mending
}

// mending is a button that does the same as the remedy.
type mending struct{ Path, Label string }

// maxAlike is how many problems of a cause have a row each.
const maxAlike = 50

// alike is equal for problems of one cause: of failing jobs, that is the error.
func (p problem) alike() string {
	if p.Code == reason.Failing && p.Error != "" {
		return p.kind + p.Word + p.Error
	}
	return p.kind + p.Word + p.Detail
}

// attention is the first page: the problems.
func (p *pages) attention(r *http.Request, s *snapshot) (view, error) {
	l := p.look(r)
	type body struct {
		Causes  []*cause
		More    int
		Soon    jobTable
		Actions *offered // of any of the problems
		Group   *offered // of the group
	}
	b := body{Soon: jobTableOf(nil, soon(s, l))}
	verb := verbFreeze
	if s.frozen() != "" {
		verb = verbUnfreeze
	}
	b.Group = p.rights.offers(r, "", "", verb)
	seen := make(map[string]*cause)
	rows := 0
	for _, one := range attention(s, l.now) {
		c := seen[one.alike()]
		switch {
		case c == nil && len(b.Causes) == perPage:
			b.More++
			continue
		case c == nil:
			c = &cause{problem: one, Class: health([]reason.Condition{one.Condition})}
			seen[one.alike()], b.Causes = c, append(b.Causes, c)
		case len(c.Rows) == maxAlike || rows >= perPage:
			c.More++
			continue
		}
		rows++
		row := problemRow{What: one.What, Link: one.Link, Detail: one.Cause, Owner: one.Owner, Remedy: one.Remedy, Since: l.stamp(one.Since)}
		if verb := one.mend(); verb != "" {
			if may := p.rights.offers(r, one.kind, one.of, verb); may != nil {
				row.Mend, b.Actions = &mending{may.Path + verb, labels[verb]}, may
			}
		}
		c.Rows = append(c.Rows, row)
	}
	for _, c := range b.Causes {
		if n := len(c.Rows) + c.More; n > 1 {
			c.Count = counted(n, strings.TrimSuffix(c.kind, "s"))
		}
	}
	return view{Template: "attention", Title: "Needs attention", look: l, Body: b}, nil
}

// mend is the verb that does the same as the remedy, or "".
func (p problem) mend() string {
	for _, does := range []struct{ kind, verb, remedy string }{
		{"jobs", "resume", "swctl resume "}, {"jobs", "stop-run", "swctl stop-run "}, {"instances", "enable", "swctl instances enable "},
	} {
		if does.kind == p.kind && does.remedy+plain.Quoted(p.of) == p.Remedy {
			return does.verb
		}
	}
	return ""
}

// soon are the jobs that run next.
func soon(s *snapshot, l look) (rows []jobRow) {
	const most = 10
	next := slices.DeleteFunc(slices.Clone(s.jobs), func(job admin.JobStatus) bool { return job.NextRun.IsZero() })
	slices.SortStableFunc(next, func(a, b admin.JobStatus) int { return a.NextRun.Compare(b.NextRun) })
	for _, job := range next[:min(most, len(next))] {
		rows = append(rows, rowOf(job, l))
	}
	return rows
}

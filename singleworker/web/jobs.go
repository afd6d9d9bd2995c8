package web

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
)

// perPage is how many rows a page has: a page of jobs with long names stays below 150 KB.
const perPage = 200

// attention is the first page: the problems.
func (p *pages) attention(_ *http.Request, s *snapshot) (view, error) {
	now := p.group.now()
	all := attention(s, now)
	type body struct {
		Problems []problem
		More     int
		Soon     []jobRow
	}
	b := body{Problems: all[:min(len(all), perPage)], More: max(0, len(all)-perPage), Soon: soon(s, now)}
	return view{Template: "attention", Title: "Needs attention", Now: now, Body: b}, nil
}

// soon are the jobs that run next.
func soon(s *snapshot, now time.Time) (rows []jobRow) {
	const most = 10
	next := slices.DeleteFunc(slices.Clone(s.jobs), func(job admin.JobStatus) bool { return job.NextRun.IsZero() })
	slices.SortStableFunc(next, func(a, b admin.JobStatus) int { return a.NextRun.Compare(b.NextRun) })
	for _, job := range next[:min(most, len(next))] {
		rows = append(rows, rowOf(job, now))
	}
	return rows
}

// jobRow is a job in a table.
type jobRow struct {
	Name, Link      string
	Schedule, Zone  string
	State           string // also its class
	Owner           string
	OwnerLink       string // "" if it is not one instance
	Last, LastState string
	LastAt          stamp
	Next            stamp
	Cause           string
}

func rowOf(job admin.JobStatus, now time.Time) jobRow {
	row := jobRow{
		Name: words.Name(job), Link: jobLink(job.Name), Schedule: job.Job.Schedule, Zone: job.Job.TimeZone, State: words.State(job),
		Owner: words.Owner(job), Next: stamp{job.NextRun, now, job.Job.Zone()}, Cause: words.Line(job.Conditions),
	}
	switch {
	case len(job.Slots) > 0:
		row.Last = words.LastOf(job.Slots, now)
	default:
		row.Last = words.LastRun(job.LastRun, now)
	}
	if job.Owner != nil {
		row.OwnerLink = instanceLink(job.Owner.InstanceID)
	}
	if run := lastOf(job); run != nil {
		row.LastState, row.LastAt = string(run.State), stamp{run.Tick, now, job.Job.Zone()}
	}
	return row
}

// lastOf is the last run of a job, of whatever shard.
func lastOf(job admin.JobStatus) (last *history.Run) {
	for _, slot := range words.Slots(job) {
		if slot.LastRun != nil && (last == nil || slot.LastRun.Tick.After(last.Tick)) {
			last = slot.LastRun
		}
	}
	return last
}

// filter selects jobs by the query of a request.
type filter struct {
	Text, State string
	page        int
}

func filterOf(r *http.Request) filter {
	page, err := strconv.Atoi(r.FormValue("page"))
	if err != nil {
		page = 1
	}
	return filter{Text: strings.TrimSpace(r.FormValue("q")), State: r.FormValue("state"), page: page}
}

// matches looks for the text in names, handlers, owners and labels.
func (f filter) matches(job admin.JobStatus) bool {
	if _, fails := job.Condition(reason.Failing); f.State != "" && words.State(job) != f.State && !(f.State == "failing" && fails) {
		return false
	}
	if f.Text == "" {
		return true
	}
	in := []string{job.Name, job.Job.Handler, words.Owner(job)}
	for key, value := range job.Job.Labels {
		in = append(in, key+"="+value)
	}
	return slices.ContainsFunc(in, func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(f.Text)) })
}

// sheet is one page of a long list.
type sheet struct {
	From, To, Of   int
	Prev, Next     string // links, "" on the first and the last page
	Filter         filter
	States         []string
	first, through int
}

// sheetOf cuts a list of n rows into pages.
func sheetOf(r *http.Request, f filter, n int) sheet {
	last := max(1, (n+perPage-1)/perPage)
	page := min(max(f.page, 1), last)
	sh := sheet{Of: n, Filter: f, first: (page - 1) * perPage, through: min(page*perPage, n)}
	sh.From, sh.To = min(sh.first+1, n), sh.through
	link := func(page int) string {
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(page))
		return "?" + query.Encode()
	}
	if page > 1 {
		sh.Prev = link(page - 1)
	}
	if page < last {
		sh.Next = link(page + 1)
	}
	return sh
}

// selected are the jobs of a snapshot that a request asks for, and the page of them.
func selected(r *http.Request, s *snapshot) ([]admin.JobStatus, sheet) {
	f := filterOf(r)
	states := map[string]bool{}
	var jobs []admin.JobStatus
	for _, job := range s.jobs {
		if states[words.State(job)] = true; f.matches(job) {
			jobs = append(jobs, job)
		}
	}
	sh := sheetOf(r, f, len(jobs))
	for state := range states {
		sh.States = append(sh.States, state)
	}
	sh.States = append(sh.States, "failing")
	slices.Sort(sh.States)
	return jobs[sh.first:sh.through], sh
}

func (p *pages) jobs(r *http.Request, s *snapshot) (view, error) {
	now := p.group.now()
	jobs, sh := selected(r, s)
	type body struct {
		sheet

		Rows []jobRow
	}
	b := body{sheet: sh}
	for _, job := range jobs {
		b.Rows = append(b.Rows, rowOf(job, now))
	}
	return view{Template: "jobs", Title: "Jobs", Now: now, Body: b}, nil
}

// instanceRow is an instance in a table.
type instanceRow struct {
	ID, Link, State, Owned, Host, Version, Weight, Address string
	PID                                                    int
	Started                                                stamp
	Conditions                                             []reason.Condition
}

func instanceRowOf(i admin.Instance, now time.Time) instanceRow {
	state := i.State
	if i.Leader {
		state = "leader"
	}
	return instanceRow{
		ID: i.ID, Link: instanceLink(i.ID), State: state, Owned: words.Owned(i), Host: i.Host, PID: i.PID, Version: cmp.Or(i.Program, i.Version),
		Weight: strconv.Itoa(i.Weight), Address: i.Address, Started: stamp{i.StartedAt, now, time.UTC}, Conditions: words.OfInstance(i, now),
	}
}

func (p *pages) instances(_ *http.Request, s *snapshot) (view, error) {
	now := p.group.now()
	type body struct {
		Rows   []instanceRow
		Orders []string
	}
	var b body
	for _, i := range s.instances {
		b.Rows = append(b.Rows, instanceRowOf(i, now))
	}
	for _, o := range s.orders {
		of := o.InstanceID
		if o.Host != "" {
			of = "host " + o.Host
		}
		b.Orders = append(b.Orders, of+" is disabled"+words.Order(o, now))
	}
	return view{Template: "instances", Title: "Instances", Now: now, Body: b}, nil
}

func (p *pages) instance(r *http.Request, _ *snapshot) (view, error) {
	d, err := p.group.instance(r.Context(), r.FormValue("id"))
	if err != nil {
		return view{}, err
	}
	now := p.group.now()
	type slot struct {
		Name, Link, Run string
		Since           stamp
	}
	type body struct {
		instanceRow

		Session, Timeout, Labels string
		Handlers                 []string
		Slots                    []slot
		More                     int
		Actions                  *offered
	}
	b := body{
		instanceRow: instanceRowOf(d.Instance, now), Session: d.SessionID, Timeout: plain.Exact(d.SessionTimeout), Handlers: d.Handlers,
		Labels: reason.Labels(d.Instance.Labels), More: max(0, len(d.Slots)-perPage), Actions: p.rights.offers(r, "instances", d.Instance.ID, "drain", "enable"),
	}
	for _, o := range d.Slots[:min(len(d.Slots), perPage)] {
		one := slot{Name: o.Name, Link: jobLink(o.Name), Run: o.Error, Since: stamp{o.Since, now, time.UTC}}
		if o.Run != nil {
			one.Run = words.LastRun(o.Run, now)
		}
		b.Slots = append(b.Slots, one)
	}
	return view{Template: "instance", Title: d.Instance.ID, Now: now, Body: b}, nil
}

package web

import (
	"cmp"
	"maps"
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

// perPage is how many rows a page has: a page of jobs with long names stays below 150 KB as sent.
const perPage = 200

// jobRow is a job in a table.
type jobRow struct {
	Name, Link     string
	Schedule, Zone string
	State          state
	Owner          string
	OwnerLink      string // "" if it is not one instance
	Last           state  // of the last run
	LastAt         stamp
	Took           string // by the last run, if it has ended
	Next           stamp
	Cause          string
	Strip          strip  // the last runs
	Pick           string // the job's name for actions, "" if the viewer may do nothing with it
}

func rowOf(job admin.JobStatus, l look) jobRow {
	row := jobRow{
		Name: words.Name(job), Link: jobLink(job.Name), Schedule: job.Job.Schedule, Zone: job.Job.TimeZone, State: jobState(job),
		Owner: words.Owner(job), Next: l.stamp(job.NextRun), Cause: words.Line(job.Conditions),
	}
	if job.Owner != nil {
		row.OwnerLink = instanceLink(job.Owner.InstanceID)
	}
	if run := lastOf(job); run != nil {
		row.Last, row.LastAt = runState(run.State), l.stamp(run.Tick)
		row.Last.Word = words.LastRun(run, l.now)
		if took := run.Ended.Sub(run.Started); !run.Ended.IsZero() {
			row.Took = plain.Span(took)
		}
	}
	if len(job.Slots) > 0 {
		row.Last.Word = words.LastOf(job.Slots, l.now)
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

// filter selects jobs by the query of a request, and says how they are sorted.
type filter struct {
	Text, State, Sort string
	page              int
}

func filterOf(r *http.Request) filter {
	page, err := strconv.Atoi(r.FormValue("page"))
	if err != nil {
		page = 1
	}
	return filter{Text: strings.TrimSpace(r.FormValue("q")), State: r.FormValue("state"), Sort: r.FormValue("sort"), page: page}
}

// matches looks for the text in names, handlers, owners and labels.
func (f filter) matches(job admin.JobStatus) bool {
	if _, fails := job.Condition(reason.Failing); f.State != "" && job.Health() != f.State && !(f.State == "failing" && fails) {
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

const columnStrip = "Last runs"

// columns are in the table of jobs. The table can be sorted by each that has a key.
var columns = []struct {
	name, key string
	compare   func(a, b admin.JobStatus, now time.Time) int
}{
	{"Job", "job", func(a, b admin.JobStatus, _ time.Time) int { return strings.Compare(a.Name, b.Name) }},
	{"State", "state", func(a, b admin.JobStatus, _ time.Time) int {
		return cmp.Or(cmp.Compare(urgency(b), urgency(a)), strings.Compare(a.Health(), b.Health()))
	}},
	{"Owner", "owner", func(a, b admin.JobStatus, _ time.Time) int { return strings.Compare(words.Owner(a), words.Owner(b)) }},
	{"Last run", "last", func(a, b admin.JobStatus, _ time.Time) int { return lastTick(b).Compare(lastTick(a)) }},
	{"Took", "took", func(a, b admin.JobStatus, now time.Time) int { return cmp.Compare(lastTook(b, now), lastTook(a, now)) }},
	{columnStrip, "", nil},
	{"Next run", "next", func(a, b admin.JobStatus, _ time.Time) int { return nextTick(a).Compare(nextTick(b)) }},
	{"Schedule", "", nil},
	{"Cause", "", nil},
}

// urgency is how urgently somebody should look at a job: less than Fine if it has no conditions.
func urgency(job admin.JobStatus) reason.Severity {
	if len(job.Conditions) == 0 {
		return reason.Fine - 1
	}
	return job.Conditions[0].Severity
}

func lastTick(job admin.JobStatus) time.Time {
	if run := lastOf(job); run != nil {
		return run.Tick
	}
	return time.Time{}
}

// lastTook is how long the last run has taken until now, and negative without one.
func lastTook(job admin.JobStatus, now time.Time) time.Duration {
	if run := lastOf(job); run != nil && !run.Started.IsZero() {
		return endOf(*run, now).Sub(run.Started)
	}
	return -1
}

// nextTick is far away if there is none.
func nextTick(job admin.JobStatus) time.Time {
	if job.NextRun.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return job.NextRun
}

// sorted sorts jobs as the filter says. "-took" is the reverse of "took".
func (f filter) sorted(jobs []admin.JobStatus, now time.Time) {
	key, reverse := strings.CutPrefix(f.Sort, "-")
	for _, c := range columns {
		if c.key == key && c.compare != nil {
			slices.SortStableFunc(jobs, func(a, b admin.JobStatus) int {
				if reverse {
					a, b = b, a
				}
				return c.compare(a, b, now)
			})
		}
	}
}

// column is the head of a column.
type column struct {
	Name string
	Link string // sorts by it, "" if nothing does
	Sort string // "ascending" or "descending" if the table is sorted by it
}

// jobTable is a table of jobs. Without a request, it has neither links to sort it nor strips.
type jobTable struct {
	Columns []column
	Rows    []jobRow
	Pick    bool // rows can be selected
	Strips  bool // rows have the last runs
}

func jobTableOf(r *http.Request, rows []jobRow) jobTable {
	t := jobTable{Rows: rows, Strips: r != nil}
	for _, c := range columns {
		if c.name == columnStrip && !t.Strips {
			continue
		}
		head := column{Name: c.name}
		if r != nil && c.key != "" {
			query, now := r.URL.Query(), r.FormValue("sort")
			query.Del("page")
			query.Set("sort", c.key)
			switch now {
			case c.key:
				head.Sort = "ascending"
				query.Set("sort", "-"+c.key)
			case "-" + c.key:
				head.Sort = "descending"
			}
			head.Link = "?" + query.Encode()
		}
		t.Columns = append(t.Columns, head)
	}
	return t
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
func selected(r *http.Request, s *snapshot, now time.Time) ([]admin.JobStatus, sheet) {
	f := filterOf(r)
	states := map[string]bool{"failing": true}
	var jobs []admin.JobStatus
	for _, job := range s.jobs {
		if states[job.Health()] = true; f.matches(job) {
			jobs = append(jobs, job)
		}
	}
	f.sorted(jobs, now)
	sh := sheetOf(r, f, len(jobs))
	sh.States = slices.Sorted(maps.Keys(states))
	return jobs[sh.first:sh.through], sh
}

func (p *pages) jobs(r *http.Request, s *snapshot) (view, error) {
	l := p.look(r)
	jobs, sh := selected(r, s, l.now)
	type body struct {
		sheet

		Table   jobTable
		Actions *offered // for those that are selected
	}
	held, _ := p.group.held(r.Context(), jobs) // without them, the table is as good
	b := body{sheet: sh}
	var rows []jobRow
	for i, job := range jobs {
		row := rowOf(job, l)
		if held != nil {
			row.Strip = stripOf(held[i])
		}
		if may := p.rights.offers(r, "jobs", job.Name, "trigger", "pause", "resume"); may != nil {
			row.Pick = job.Name
			if b.Actions == nil {
				b.Actions = may
			}
			maps.Copy(b.Actions.May, may.May)
		}
		rows = append(rows, row)
	}
	b.Table = jobTableOf(r, rows)
	b.Table.Pick = b.Actions != nil
	return view{Template: "jobs", Title: "Jobs", look: l, Body: b}, nil
}

package web

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
)

// span is a length of time that a timeline can show.
type span struct {
	name   string
	length time.Duration
}

var spans = []span{
	{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"28d", 28 * 24 * time.Hour},
}

const (
	defaultSpan = 1 // an hour
	// timeWidth is how wide a timeline is, in units of its drawings, which fill the width of the page,
	// and rowHeight how high one of its rows, in pixels.
	timeWidth = 900
	rowHeight = 18
	// ahead is the part of the span that is yet to come.
	ahead = 0.1
	// fitRuns are about how many runs of most jobs the span has that fits.
	fitRuns = 3
	// leastFit is the shortest time before now that fits.
	leastFit = time.Minute
	// maxLanes is how many jobs of instances have a row each.
	maxLanes = 400
)

// window is the part of time that a timeline shows.
type window struct {
	Begin, End, now time.Time
}

// x is where a moment is drawn.
func (w window) x(t time.Time) int {
	return int(min(max(t.Sub(w.Begin).Seconds()/w.End.Sub(w.Begin).Seconds(), 0), 1) * timeWidth)
}

// touches reports whether something from a to b is seen.
func (w window) touches(a, b time.Time) bool { return !b.Before(w.Begin) && a.Before(w.End) }

// choice is a link of a row of links.
type choice struct {
	Name, Link string
	On         bool
}

// mark is a label of the axis.
type mark struct {
	Percent float64 // of the width
	Text    string
}

// timeRow is a job over time, or the head of the jobs of an instance.
type timeRow struct {
	Name, Link string
	State      state
	Head       bool
	Text       string // for those who do not see it
	Paths      []timePath
}

// timePath draws all runs of one state.
type timePath struct{ Class, D string }

type timeBody struct {
	sheet
	window

	Spans, By      []choice
	Earlier, Later string
	Width, Height  int
	X              int    // of now
	Grid           string // a path
	Marks          []mark
	Rows           []timeRow
	More           int // rows that are not shown
	ByInstance     bool
	Problem        string // with the run log
}

func (p *pages) timeline(r *http.Request, s *snapshot) (view, error) {
	l := p.look(r)
	jobs, sh := selected(r, s, l.now)
	i := slices.IndexFunc(spans, func(s span) bool { return s.name == r.FormValue("span") })
	fit := i < 0
	if fit {
		i = fitting(jobs, l.now)
	}
	of := spans[i]
	end, err := timeOf(r, "end")
	if err != nil {
		end = time.Time{}
	}
	end = end.Truncate(time.Second)
	past, err := p.group.histories(r.Context(), jobs, of.length, end)
	if err != nil {
		return view{}, err
	}
	w := window{end.Add(-of.length), end, l.now}
	if end.IsZero() {
		before := time.Duration((1 - ahead) * float64(of.length))
		if oldest := oldestOf(past.of); fit && !oldest.IsZero() {
			before = min(before, max(l.now.Sub(oldest), leastFit))
		}
		w = window{l.now.Add(-before), l.now.Add(time.Duration(ahead / (1 - ahead) * float64(before))), l.now}
	}
	b := timeBody{sheet: sh, window: w, Width: timeWidth, Height: rowHeight, X: w.x(l.now), ByInstance: r.FormValue("by") == "instance", Problem: past.problem}
	if b.ByInstance {
		b.Rows = instanceTimes(b.window, s.instances, jobs, past.of, l)
		b.More = max(0, len(b.Rows)-maxLanes)
		b.Rows = b.Rows[:len(b.Rows)-b.More]
	} else {
		for i, job := range jobs {
			b.Rows = append(b.Rows, jobTimes(b.window, job, past.of[i]))
		}
	}
	b.marks(l.zone)
	b.links(r, of, fit)
	return view{Template: "timeline", Title: "Timeline", look: l, Body: b}, nil
}

// fitting is the shortest span in which half of the jobs have run a few times.
func fitting(jobs []admin.JobStatus, now time.Time) int {
	var ages []time.Duration
	for _, job := range jobs {
		if run := lastOf(job); run != nil {
			ages = append(ages, now.Sub(run.Tick))
		}
	}
	if len(ages) == 0 {
		return defaultSpan
	}
	slices.Sort(ages)
	for i, s := range spans {
		if s.length >= fitRuns*ages[len(ages)/2] {
			return i
		}
	}
	return len(spans) - 1
}

// oldestOf is the first tick on record, or zero.
func oldestOf(all [][]history.Entry) (oldest time.Time) {
	for _, entries := range all {
		for _, e := range entries {
			if !e.Tick.IsZero() && (oldest.IsZero() || e.Tick.Before(oldest)) {
				oldest = e.Tick
			}
		}
	}
	return oldest
}

// links are the same page for other spans, other times, and the other kind of rows.
func (b *timeBody) links(r *http.Request, of span, fit bool) {
	with := func(name, value string) string {
		query := r.URL.Query()
		if query.Del(name); value != "" {
			query.Set(name, value)
		}
		return "?" + query.Encode()
	}
	b.Spans = []choice{{"fit", with("span", ""), fit}}
	for _, other := range spans {
		b.Spans = append(b.Spans, choice{other.name, with("span", other.name), !fit && other.name == of.name})
	}
	b.By = []choice{{"by job", with("by", ""), !b.ByInstance}, {"by instance", with("by", "instance"), b.ByInstance}}
	b.Earlier = with("end", b.End.Add(-of.length/2).UTC().Format(time.RFC3339))
	switch later := b.End.Add(of.length / 2); {
	case r.FormValue("end") == "":
	case later.After(b.now):
		b.Later = with("end", "")
	default:
		b.Later = with("end", later.UTC().Format(time.RFC3339))
	}
}

// marks are at round times of the viewer's zone.
func (b *timeBody) marks(zone *time.Location) {
	const (
		most = 8
		last = 0.96 // beyond, there is no room for a label
		day  = 24 * time.Hour
	)
	length := b.End.Sub(b.Begin)
	step := rounded(length / most)
	year, month, date := b.Begin.In(zone).Date()
	at, layout := time.Date(year, month, date, 0, 0, 0, 0, zone), "15:04"
	switch {
	case step >= day:
		layout = "2 Jan"
	case step < time.Minute:
		layout = "15:04:05"
	}
	for ; at.Before(b.End); at = later(at, step) {
		part := at.Sub(b.Begin).Seconds() / length.Seconds()
		if at.Before(b.Begin) || part > last {
			continue
		}
		text := at.Format(layout)
		if at.Hour() == 0 && at.Minute() == 0 && at.Second() == 0 {
			text = at.Format("2 Jan")
		}
		b.Marks = append(b.Marks, mark{100 * part, text}) //nolint:mnd // percent
		b.Grid += fmt.Sprintf("M%d 0v%d", b.x(at), b.Height)
	}
}

// later keeps the time of day over days.
func later(at time.Time, step time.Duration) time.Time {
	const day = 24 * time.Hour
	if step >= day {
		return at.AddDate(0, 0, int(step/day))
	}
	return at.Add(step)
}

// jobTimes draws a job: its runs, its moves from one instance to another, the time without records,
// and the ticks to come.
func jobTimes(w window, job admin.JobStatus, entries []history.Entry) timeRow {
	d := newDrawing(w)
	oldest := w.now
	owners := make(map[int]string) // by shard
	for _, e := range slices.Backward(entries) {
		if !e.Tick.IsZero() && e.Tick.Before(oldest) {
			oldest = e.Tick
		}
		d.entry(e)
		shard := -1
		if e.Shard != nil {
			shard = *e.Shard
		}
		if before := owners[shard]; e.RunID != "" && before != "" && before != e.InstanceID && w.touches(e.Started, e.Started) && !job.Job.Everywhere {
			d.addf("moved", "M%d 0h8l-4 5z", w.x(e.Started)-4)
		}
		if e.RunID != "" {
			owners[shard] = e.InstanceID
		}
	}
	if schedule, err := job.Job.ParseSchedule(); err == nil {
		d.unknown(schedule, oldest)
		d.planned(job)
	}
	return d.row(job)
}

// unknown marks the time before the oldest entry, if ticks came in it.
func (d *drawing) unknown(schedule *cronexpr.Schedule, oldest time.Time) {
	if before := schedule.Prev(oldest); before.After(d.Begin) && oldest.After(d.Begin) {
		d.addf("unknown", "M0 9h%d", d.x(oldest))
	}
}

// planned marks the next ticks.
func (d *drawing) planned(of admin.JobStatus) {
	const most = 40
	for _, tick := range api.TicksOf(of, d.now, most) {
		if !d.touches(tick.Due, tick.Due) {
			return
		}
		d.addf("planned", "M%d 6v6", d.x(tick.Due))
	}
}

// instanceTimes draws the runs of each job on each instance, also on those that are gone.
func instanceTimes(w window, instances []admin.Instance, jobs []admin.JobStatus, all [][]history.Entry, l look) (rows []timeRow) {
	heads := make(map[string]timeRow)
	for _, i := range instances {
		heads[i.ID] = timeRow{Name: i.ID, Link: instanceLink(i.ID), State: instanceState(i, words.OfInstance(i, l.now)), Head: true}
	}
	lanes := make(map[string][]timeRow) // by instance
	for i, job := range jobs {
		drawings := make(map[string]*drawing) // by instance
		for _, e := range slices.Backward(all[i]) {
			if e.RunID == "" {
				continue
			}
			if drawings[e.InstanceID] == nil {
				drawings[e.InstanceID] = newDrawing(w)
			}
			drawings[e.InstanceID].entry(e)
		}
		for id, d := range drawings {
			if _, lives := heads[id]; !lives {
				heads[id] = timeRow{Name: id, State: state{"gone", off}, Head: true}
			}
			if len(d.counts) > 0 {
				lanes[id] = append(lanes[id], d.row(job))
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(heads)) {
		rows = append(append(rows, heads[id]), lanes[id]...)
	}
	return rows
}

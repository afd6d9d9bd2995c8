package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
	layout string // of the times on its axis
}

var spans = []span{
	{"15m", 15 * time.Minute, "15:04:05"}, {"1h", time.Hour, "15:04"}, {"6h", 6 * time.Hour, "15:04"}, {"24h", 24 * time.Hour, "15:04"},
	{"7d", 7 * 24 * time.Hour, "Mon 2 Jan"}, {"28d", 28 * 24 * time.Hour, "2 Jan"},
}

const (
	defaultSpan = 1 // an hour
	// timeWidth is how wide a timeline is, in pixels, and rowHeight how high one of its rows.
	timeWidth = 900
	rowHeight = 18
	// ahead is the part of the span that is yet to come.
	ahead = 0.1
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
	X    int
	Text string
}

// timeRow is a job, or an instance, over time.
type timeRow struct {
	Name, Link, State string
	Text              string // for those who do not see it
	Paths             []timePath
}

// timePath draws all runs of one state.
type timePath struct{ Class, D string }

type timeBody struct {
	sheet
	window

	Spans, By        []choice
	Earlier, Later   string
	Width, Height, X int
	Marks            []mark
	Rows             []timeRow
	ByInstance       bool
	Problem          string // with the run log
}

func (p *pages) timeline(r *http.Request, s *snapshot) (view, error) {
	of := spans[defaultSpan]
	if i := slices.IndexFunc(spans, func(s span) bool { return s.name == r.FormValue("span") }); i >= 0 {
		of = spans[i]
	}
	end, err := timeOf(r, "end")
	if err != nil {
		end = time.Time{}
	}
	end = end.Truncate(time.Second)
	now := p.group.now()
	jobs, sh := selected(r, s)
	past, err := p.group.histories(r.Context(), jobs, of.length, end)
	if err != nil {
		return view{}, err
	}
	to := end
	if end.IsZero() {
		to = now.Add(time.Duration(ahead * float64(of.length)))
	}
	b := timeBody{sheet: sh, window: window{to.Add(-of.length), to, now}, Width: timeWidth, Height: rowHeight, ByInstance: r.FormValue("by") == "instance", Problem: past.problem}
	b.X = b.x(now)
	if b.ByInstance {
		b.Rows = instanceTimes(b.window, s.instances, jobs, past.of)
	} else {
		for i, job := range jobs {
			b.Rows = append(b.Rows, jobTimes(b.window, job, past.of[i]))
		}
	}
	b.marks(of.layout)
	b.links(r, of)
	return view{Template: "timeline", Title: "Timeline", Now: now, Body: b}, nil
}

// links are the same page for other spans, other times, and the other kind of rows.
func (b *timeBody) links(r *http.Request, of span) {
	with := func(name, value string) string {
		query := r.URL.Query()
		if query.Del(name); value != "" {
			query.Set(name, value)
		}
		return "?" + query.Encode()
	}
	for _, other := range spans {
		b.Spans = append(b.Spans, choice{other.name, with("span", other.name), other.name == of.name})
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

func (b *timeBody) marks(layout string) {
	const n = 6
	for i := range n {
		at := b.Begin.Add(b.End.Sub(b.Begin) * time.Duration(i) / n)
		b.Marks = append(b.Marks, mark{b.x(at), at.UTC().Format(layout)})
	}
}

// drawing collects the shapes of a row by class. A shape that would be drawn twice is drawn once.
type drawing struct {
	window

	shapes map[string]*strings.Builder
	bars   map[string][2]int // by class, the latest bar, which is not drawn yet, because others may touch it
	last   map[string]int    // where the latest shape of a class begins
	counts map[history.State]int
}

func newDrawing(w window) *drawing {
	return &drawing{
		window: w, shapes: make(map[string]*strings.Builder), bars: make(map[string][2]int), last: make(map[string]int), counts: make(map[history.State]int),
	}
}

// bar draws a bar, together with the latest one if it touches that: thousands of runs are a few
// bars.
func (d *drawing) bar(class string, from, to int) {
	latest, drawn := d.bars[class]
	if drawn && from <= latest[1] && to >= latest[0] {
		d.bars[class] = [2]int{min(from, latest[0]), max(to, latest[1])}
		return
	}
	d.flush(class)
	d.bars[class] = [2]int{from, to}
}

func (d *drawing) flush(class string) {
	if bar, drawn := d.bars[class]; drawn {
		d.addf(class, "M%d 9h%d", bar[0], bar[1]-bar[0])
	}
}

func (d *drawing) addf(class, format string, args ...any) {
	if d.shapes[class] == nil {
		d.shapes[class] = new(strings.Builder)
	}
	fmt.Fprintf(d.shapes[class], format, args...)
}

// entry draws a run, or a row of ticks that were not run. Each kind has its own shape, not only its
// color.
func (d *drawing) entry(e history.Entry) {
	from, to := e.Started, endOf(e.Run, d.now)
	if e.RunID == "" {
		from, to = e.Tick, e.To
	}
	if to.IsZero() {
		to = from
	}
	if from.IsZero() || !d.touches(from, to) {
		return
	}
	d.counts[e.State] += e.Count
	x := d.x(from)
	w := max(2, d.x(to)-x)
	switch e.State {
	case history.StateOK:
		d.bar("ok", x, x+w)
	case history.StateFailed, history.StateTimedOut, history.StateLost:
		d.bar("failed", x, x+w)
		const apart = 16 // crosses that do not touch
		if d.once("cross", x, apart) {
			d.addf("cross", "M%d 1l8 16m0-16l-8 16", x-4+w/2)
		}
	default:
		if d.once(string(e.State), x, 1) {
			d.shape(e.State, x, w)
		}
	}
}

// once reports whether a shape of a kind is to be drawn: at this zoom, the latest one is not the
// same.
func (d *drawing) once(kind string, x, apart int) bool {
	if last, drawn := d.last[kind]; drawn && x-last < apart {
		return false
	}
	d.last[kind] = x
	return true
}

func (d *drawing) shape(state history.State, x, w int) {
	switch state {
	case history.StateRunning:
		d.addf("running", "M%d 5h%dl4 4-4 4h-%dz", x, w, w)
	case history.StateSkipped:
		d.addf("skipped", "M%d 9h%d", x, max(4, w))
	case history.StateMissed:
		d.addf("missed", "M%d 9l4-5 4 5-4 5zM%d 9h%d", x-4, x, max(4, w))
	case stateHole:
		d.addf("unknown", "M%d 9h%d", x, w)
	default:
		d.addf("unsure", "M%d 5h%dv8h-%dz", x, w, w)
	}
}

// painted are the classes in the order in which they are painted: failures are over runs that went
// well.
var painted = []string{"unknown", "planned", "skipped", "missed", "ok", "running", "unsure", "failed", "cross", "moved"}

// row is the drawing.
func (d *drawing) row(name, link, state string) timeRow {
	row := timeRow{Name: name, Link: link, State: state}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(d.counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", d.counts[state], state))
	}
	row.Text = name + ": " + cmp.Or(strings.Join(parts, ", "), "nothing in this time")
	for _, class := range painted {
		if d.flush(class); d.shapes[class] != nil {
			row.Paths = append(row.Paths, timePath{class, d.shapes[class].String()})
		}
	}
	return row
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
		d.planned(schedule)
	}
	return d.row(words.Name(job), jobLink(job.Name), words.State(job))
}

// unknown marks the time before the oldest entry, if ticks came in it.
func (d *drawing) unknown(schedule *cronexpr.Schedule, oldest time.Time) {
	if before := schedule.Prev(oldest); before.After(d.Begin) && oldest.After(d.Begin) {
		d.addf("unknown", "M0 9h%d", d.x(oldest))
	}
}

// planned marks the next ticks.
func (d *drawing) planned(schedule *cronexpr.Schedule) {
	const most = 40
	for _, tick := range api.TicksOf(schedule, d.now, most) {
		if !d.touches(tick.Tick, tick.Tick) {
			return
		}
		d.addf("planned", "M%d 6v6", d.x(tick.Tick))
	}
}

// instanceTimes draws the runs on each instance, also on those that are gone.
func instanceTimes(w window, instances []admin.Instance, jobs []admin.JobStatus, all [][]history.Entry) (rows []timeRow) {
	drawings := make(map[string]*drawing)
	states := make(map[string]string)
	for _, i := range instances {
		drawings[i.ID], states[i.ID] = newDrawing(w), i.State
	}
	var entries []history.Entry
	for i := range jobs {
		entries = append(entries, all[i]...)
	}
	slices.SortFunc(entries, func(a, b history.Entry) int { return a.Started.Compare(b.Started) })
	for _, e := range entries {
		if e.RunID == "" {
			continue
		}
		if drawings[e.InstanceID] == nil {
			drawings[e.InstanceID], states[e.InstanceID] = newDrawing(w), "gone"
		}
		drawings[e.InstanceID].entry(e)
	}
	for _, id := range slices.Sorted(maps.Keys(drawings)) {
		link := instanceLink(id)
		if states[id] == "gone" {
			link = "?" + url.Values{"by": {"instance"}}.Encode()
		}
		rows = append(rows, drawings[id].row(id, link, states[id]))
	}
	return rows
}

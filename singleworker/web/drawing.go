package web

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
)

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
		const apart = 16 // failures that are not so far apart have one cross
		if d.once("cross", x, apart) {
			d.addf("cross", "M%d 1l8 16m0-16l-8 16", x-4+w/2)
		}
		d.last["cross"] = x
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
func (d *drawing) row(job admin.JobStatus) timeRow {
	row := timeRow{Name: words.Name(job), Link: jobLink(job.Name), State: jobState(job)}
	row.Text = row.Name + ": " + cmp.Or(strings.Join(tally(d.counts), ", "), "nothing in this time")
	for _, class := range painted {
		if d.flush(class); d.shapes[class] != nil {
			row.Paths = append(row.Paths, timePath{class, d.shapes[class].String()})
		}
	}
	return row
}

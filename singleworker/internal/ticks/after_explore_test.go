package ticks_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// afterGroup is a child of two parents, a and b, of which the tick 10:01 is explored: all have the
// ticks of each minute, in their windows, and b has a calendar.
type afterGroup struct {
	name             string
	a, b, child      job.Job // their windows
	deadline         time.Duration
	leavesOut, keeps []string // the times of b's calendar, and of one of the child
	endless          bool     // the tick waits for its parents without an end
	none             bool     // 10:01 is no tick
}

// afterParent is one that has not begun the tick, runs it, or has an outcome of it.
type afterParent struct {
	state    history.State
	canceled bool
	again    bool // it was submitted again, and begins after the tick
}

// afterWorld is a group in the middle of its events.
type afterWorld struct {
	parents [2]afterParent
	child   ticks.Record
	rows    string // the fate of the tick in the child's history
	runs    int
	paused  *zkrec.Pause
	resumed bool
	over    bool // the deadline
	holiday bool // b's calendar has come to leave out the tick

	versions afterVersions
	write    *ticks.Plan   // is under way
	on       afterVersions // by which it was decided
	trace    string
}

// afterVersions are the versions of the records that a claim checks.
type afterVersions [4]int

// The records that a claim checks.
const (
	_          = iota // none
	itsSwitch         // the child's
	itsParents        // their specs, and that they are the same jobs
	aCalendar
)

// afterExplorer goes through all events of one tick.
type afterExplorer struct {
	t *testing.T
	afterGroup

	unchecked int // the record that writes do not check

	seen  map[string]bool
	fates map[string]bool // the rows; "" for a run
	found string          // what is wrong
}

// job is the child as its owner knows it, and whether it can be run. ticked says that the child has
// the tick.
func (x *afterExplorer) job(w afterWorld) (is ticks.Job, valid, ticked bool) {
	x.t.Helper()
	calendar := func(sets ...[]string) (times job.CalendarTimes) {
		for i, hours := range sets {
			is := job.Calendar{Hours: hours}
			if hours == nil {
				is.Dates = []string{"1999-12-31"}
			}
			var err error
			if times, err = times.Add(at(x.t, []string{"08:00", "10:00:30"}[i]), is); err != nil {
				x.t.Fatal(err)
			}
		}
		return times
	}
	breaks := [][]string{x.leavesOut}
	if w.holiday {
		breaks = append(breaks, []string{"10:00:45..10:01:15"})
	}
	calendars := map[string]job.CalendarTimes{"breaks": calendar(breaks...), "office": calendar(x.keeps)}
	group := relatives{}
	for name, of := range map[string]job.Job{"a": x.a, "b": x.b, "child": x.child} {
		of.Name, of.Schedule = name, "* * * * *"
		since := "09:00"
		switch name {
		case "b":
			of.Calendars = []string{"-breaks"}
		case "child":
			of.Schedule, of.After, of.Deadline, of.Misfire = "@after", []string{"a", "b"}, x.deadline, job.MisfireAll
			if x.keeps != nil {
				of.Calendars = []string{"office"}
			}
		}
		if i := strings.Index("ab", name); i >= 0 && w.parents[i].again {
			since = "10:01:10"
		} else if i >= 0 && w.parents[i].canceled {
			continue
		}
		group[name] = &zkrec.Spec{Job: of.WithCalendars(calendars), Since: ms(x.t, since), Switch: zkrec.Switch{Paused: w.paused}}
	}
	whole, _ := ticks.WithParents(zkrec.NewTree("g"), *group["child"], group)
	is, err := ticks.JobOf("g", &whole, ticks.Version{})
	if err != nil {
		return is, false, false
	}
	is.Paused = w.paused
	return is, true, is.Schedule.Next(at(x.t, "10:00")).Equal(at(x.t, "10:01"))
}

// view is the basis of the owner's decision.
func (x *afterExplorer) view(w afterWorld) (v ticks.View, valid, ticked bool) {
	x.t.Helper()
	v = situation{through: "10:00", now: "10:01:20"}.view(x.t)
	if v.Record = w.child; w.over {
		v.Now = at(x.t, "10:02")
	}
	if v.Job, valid, ticked = x.job(w); !valid {
		return v, false, false
	}
	var gates []*ticks.Gate
	for i, p := range w.parents {
		of := parent{first: first{through: "10:00"}}
		switch one := run(x.t, p.state, "10:01", other, "10:01", "10:01:10"); {
		case p.again:
			of.through = "10:01:10"
		case p.state == "":
		case p.state == history.StateSkipped:
			of.through, of.rows = "10:01", []zkrec.Entry{{Run: zkrec.Run{Tick: one.Tick, State: p.state}, Reason: history.ReasonPaused}}
		default:
			if p.state == history.StateRunning {
				one.Ended = 0
			}
			of.first = first{through: "10:01", runs: []zkrec.Run{one}}
		}
		gates = append(gates, of.gate(x.t, string("ab"[i])))
	}
	v.Job = v.Of("child", ticks.AllOf(gates))
	return v, valid, ticked
}

// failf notes the first thing that is wrong.
func (x *afterExplorer) failf(w afterWorld, format string, args ...any) {
	if x.found == "" {
		x.found = w.trace + ": " + fmt.Sprintf(format, args...)
	}
}

// explore goes on from w with each event that may come next.
func (x *afterExplorer) explore(w afterWorld) {
	x.t.Helper()
	underWay := ""
	if w.write != nil {
		underWay = say(w.child, *w.write) + strconv.FormatBool(x.isRefused(w))
	}
	key := fmt.Sprint(w.parents, w.rows, w.runs, w.paused != nil, w.resumed, w.over, w.holiday, w.child.Watermark, w.child.State, underWay)
	if x.seen[key] || x.found != "" {
		return
	}
	x.seen[key] = true
	then := func(step string, change func(w *afterWorld)) {
		next := w
		change(&next)
		next.trace += "; " + step
		x.explore(next)
	}
	for i, p := range w.parents {
		name := string("ab"[i])
		ends := map[history.State][]history.State{
			"": {history.StateRunning, history.StateSkipped}, history.StateRunning: {history.StateOK, history.StateFailed},
		}
		for _, next := range ends[p.state] {
			if !p.canceled {
				then(name+" "+string(next), func(w *afterWorld) { w.parents[i].state = next })
			}
		}
		switch {
		case !p.canceled:
			then("cancel "+name, func(w *afterWorld) { w.parents[i].canceled = true; w.versions[itsParents]++ })
		case !p.again:
			then("submit "+name, func(w *afterWorld) { w.parents[i] = afterParent{canceled: true, again: true}; w.versions[itsParents]++ })
		}
	}
	switch {
	case w.paused == nil:
		then("pause", func(w *afterWorld) { w.paused = &zkrec.Pause{Since: ms(x.t, "10:00:30")}; w.versions[itsSwitch]++ })
	case !w.resumed:
		then("resume", func(w *afterWorld) {
			w.paused, w.resumed = &zkrec.Pause{Since: ms(x.t, "10:00:30"), Until: ms(x.t, "10:01:15"), Missed: job.MisfireAll}, true
			w.versions[itsSwitch]++
		})
	}
	if !w.over {
		then("deadline", func(w *afterWorld) { w.over = true })
	}
	if !w.holiday {
		then("holiday", func(w *afterWorld) { w.holiday = true; w.versions[aCalendar]++ })
	}
	if w.write != nil {
		x.arrive(w)
	} else {
		x.decide(w)
	}
}

// decide has the owner send what it decides on. If it has nothing to decide, the tick needs no
// fate, or has it.
func (x *afterExplorer) decide(w afterWorld) {
	x.t.Helper()
	v, valid, ticked := x.view(w)
	if !valid {
		return
	}
	if plan := ticks.Next(v); plan.Change {
		w.write, w.on = &plan, w.versions
		w.trace += "; decide: " + say(v.Record, plan)
		x.explore(w)
		return
	}
	isDone := func(p afterParent) bool { return p.state != "" && p.state != history.StateRunning }
	decidable := w.over && !x.endless || isDone(w.parents[0]) && isDone(w.parents[1])
	if waits := w.rows == "" && w.runs == 0; waits && ticked && decidable && (w.paused == nil || w.resumed) {
		x.failf(w, "the tick has no fate")
	}
}

// isRefused reports whether one of the records has changed that the write on its way checks.
func (x *afterExplorer) isRefused(w afterWorld) bool {
	w.on[x.unchecked] = w.versions[x.unchecked]
	return w.on != w.versions
}

// arrive has a write reach the server.
func (x *afterExplorer) arrive(w afterWorld) {
	x.t.Helper()
	plan, refused := *w.write, x.isRefused(w)
	if w.write = nil; refused {
		w.trace += "; refused"
		x.explore(w)
		return
	}
	w.trace += "; written"
	v, valid, ticked := x.view(w)
	for _, e := range plan.Entries {
		if e.Tick != ms(x.t, "10:01") || e.Last() != e.Tick || !ticked {
			x.failf(w, "a row of %s", clock(e.Tick))
		}
		w.rows += fmt.Sprint(e.State, e.Reason, ";")
	}
	if plan.Opens {
		w.runs++
		switch {
		case !valid || !ticked || plan.Record.Tick != ms(x.t, "10:01"):
			x.failf(w, "it runs %s, which is no tick", clock(plan.Record.Tick))
		case w.parents[0].state != history.StateOK || w.parents[1].state != history.StateOK:
			x.failf(w, "it runs, and its parents are %v", w.parents)
		case w.paused != nil && !w.resumed:
			x.failf(w, "it runs in a pause")
		}
		if x.found != "" {
			return
		}
		plan.Record = ticks.End(v.Job, plan.Record, ticks.Outcome{State: history.StateOK, Ended: v.Now}).Record
	}
	if w.child = plan.Record; w.runs > 1 || w.runs == 1 && w.rows != "" || strings.Count(w.rows, ";") > 1 {
		x.failf(w, "it has run %d times, and has the rows %s", w.runs, w.rows)
	}
	x.fates[w.rows] = true
	x.explore(w)
}

// afterGroups are the groups of which all events of a tick are explored.
func afterGroups(t *testing.T) []afterGroup {
	t.Helper()
	from := func(tick string) job.Job { return job.Job{NotBefore: at(t, tick)} }
	until := func(tick string) job.Job { return job.Job{NotAfter: at(t, tick)} }
	noon := []string{"12:00..13:00"}
	return []afterGroup{
		{name: "until the next tick"},
		{name: "until a deadline", deadline: 40 * time.Second},
		{name: "the first tick of a parent", a: from("10:01")},
		{name: "the last tick of a parent", a: until("10:01"), endless: true},
		{name: "the last tick of a parent, and a deadline", b: until("10:01"), deadline: 40 * time.Second},
		{name: "the first tick of the child", child: from("10:01")},
		{name: "the last tick of the child", child: until("10:01"), endless: true},
		{name: "the parent's calendar has other times", leavesOut: noon},
		{name: "the child's calendar keeps the tick", keeps: []string{"10:00..11:00"}},
		{name: "after the last tick of a parent", a: until("10:00"), none: true},
		{name: "before the first tick of the child", child: from("10:02"), none: true},
		{name: "left out by the parent's calendar", leavesOut: []string{"10:01..10:02"}, none: true},
		{name: "left out by the child's calendar", keeps: noon, none: true},
	}
}

// TestExploreAfter goes through all events of one tick of a child of two parents, with windows and
// calendars: each parent has not begun the tick, runs it, is ok, or failed, or has skipped it in a
// pause. It is canceled, and submitted again. The child is paused and resumed, a calendar comes to
// leave out the tick, and the deadline comes. The owner decides whenever it likes, and all of that
// may happen before its write arrives. The tick is run once at most, and only if it is one, and
// both parents are ok then. In the end it has one fate.
func TestExploreAfter(t *testing.T) {
	t.Parallel()
	for _, of := range afterGroups(t) {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			x := &afterExplorer{t: t, afterGroup: of, seen: map[string]bool{}, fates: map[string]bool{}}
			x.explore(afterWorld{child: ticks.Record{Watermark: ms(t, "10:00")}})
			if x.found != "" {
				t.Error(x.found)
			}
			want := []string{"", "missedparent_late;", "skippedparent;", "skippedpaused;"}
			if x.endless {
				want = slices.Delete(want, 1, 2)
			}
			if x.none {
				want = nil
			}
			fates := slices.Sorted(maps.Keys(x.fates))
			if !slices.Equal(fates, want) {
				t.Errorf("fates %q, want %q", fates, want)
			}
			t.Logf("%d states, fates %q", len(x.seen), fates)
		})
	}
}

// TestExploreAfterBreaches has writes not check one of the records, which the exploration must
// notice.
func TestExploreAfterBreaches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		unchecked int
		want      string
	}{
		{"the switch", itsSwitch, "it runs in a pause"},
		{"the parents", itsParents, "it runs 10:01, which is no tick"},
		{"a calendar", aCalendar, "it runs 10:01, which is no tick"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x := &afterExplorer{t: t, afterGroup: afterGroups(t)[0], unchecked: tt.unchecked, seen: map[string]bool{}, fates: map[string]bool{}}
			x.explore(afterWorld{child: ticks.Record{Watermark: ms(t, "10:00")}})
			if !strings.HasSuffix(x.found, ": "+tt.want) {
				t.Errorf("found %q, want %q", x.found, tt.want)
			}
			t.Log(x.found)
		})
	}
}

package ticks_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// parent are the records of a parent: as of a first shard, and rows of ticks that were not run.
type parent struct {
	first

	rows []zkrec.Entry // before the runs
}

func (p parent) gate(t *testing.T, name string) *ticks.Gate {
	t.Helper()
	r := ticks.Record{Watermark: ms(t, p.through), NextAttempt: p.again}
	h := zkrec.History{Entries: p.rows}
	for i, one := range p.runs {
		if i == len(p.runs)-1 {
			r.Run = one
			if one.Open() {
				continue
			}
		}
		h.Entries = append(h.Entries, zkrec.Entry{Run: one})
	}
	return ticks.ParentGate(name, r, h, at(t, p.through))
}

// TestAfter: the fate of the ticks of a child, by the records of its parents.
func TestAfter(t *testing.T) {
	t.Parallel()
	ran := func(tick string, state history.State) zkrec.Run { return run(t, state, tick, other, tick, tick) }
	ok := func(tick string) zkrec.Run { return ran(tick, history.StateOK) }
	through := func(through string, runs ...zkrec.Run) first { return first{through: through, runs: runs} }
	row := func(tick, to string, state history.State, reason history.Reason) zkrec.Entry {
		return zkrec.Entry{Run: zkrec.Run{Tick: ms(t, tick), State: state}, To: ms(t, to), Reason: reason}
	}
	again := ok("10:01")
	again.Manual = "m"
	again.AskedFor(history.Asked{Past: history.PastFailed})
	manual := ok("10:01")
	manual.Manual = "m"
	busy := ran("10:01", history.StateRunning)
	busy.Ended = 0
	after := func(deadline time.Duration) ticks.Policy {
		return ticks.Policy{After: []string{"a", "b"}, Deadline: deadline}
	}
	for _, tt := range []struct {
		name     string
		now      string
		deadline time.Duration
		a, b     *parent
		want     string
	}{
		{"nothing is known", "10:01", 0, nil, nil, ""},
		{"nothing is known of one", "10:04", time.Minute, &parent{first: through("10:01", ok("10:01"))}, nil, ""},
		{"one has not begun", "10:01", 0, &parent{first: through("10:01", ok("10:01"))}, &parent{first: through("10:00")}, ""},
		{"one runs", "10:01:30", 0, &parent{first: through("10:01", ok("10:01"))}, &parent{first: through("10:01", busy)}, ""},
		{"both are ok", "10:01:30", 0, &parent{first: through("10:01", ok("10:01"))}, &parent{first: through("10:01", ok("10:01"))}, "run 10:01#1; through 10:01"},
		{"one is to be repeated", "10:01:30", 0, &parent{first: through("10:01", ok("10:01"))}, &parent{first: first{through: "10:01", again: history.NextRetry, runs: []zkrec.Run{ran("10:01", history.StateFailed)}}}, ""},
		{"one has failed", "10:01:30", 0, &parent{first: through("10:01", ok("10:01"))}, &parent{first: through("10:01", ran("10:01", history.StateFailed))}, "skipped(parent) 10:01 b: failed; through 10:01"},
		{"it was asked for again by name", "10:01:30", 0, &parent{first: through("10:01", ok("10:01"))}, &parent{first: through("10:01", ran("10:01", history.StateFailed), again)}, "run 10:01#1; through 10:01"},
		{"a run by hand is of no tick", "10:01:30", 0, &parent{first: through("10:01", ok("10:01"))}, &parent{first: through("10:01", ran("10:01", history.StateFailed), manual)}, "skipped(parent) 10:01 b: failed; through 10:01"},
		{"failed while the other one runs", "10:01:30", 0, &parent{first: through("10:01", busy)}, &parent{first: through("10:01", ran("10:01", history.StateLost))}, ""},
		{"skipped and missed", "10:03:30", 0, &parent{first: through("10:03", ok("10:01"), ok("10:02"), ok("10:03"))}, &parent{first{through: "10:03", runs: []zkrec.Run{ok("10:03")}}, []zkrec.Entry{row("10:01", "10:01", history.StateSkipped, history.ReasonPaused), row("10:02", "10:02", history.StateMissed, history.ReasonNoOwner)}},
			"skipped(parent) 10:01 b: skipped (paused); skipped(parent) 10:02 b: missed (no_owner); run 10:03#1; through 10:03"},
		{"late", "10:02", 0, &parent{first: through("10:01", ok("10:01"))}, &parent{first: through("10:01", busy)}, "missed(parent_late) 10:01 b had not run it by the deadline; through 10:01"},
		{"not late by its own deadline", "10:03", 3 * time.Minute, &parent{first: through("10:03", ok("10:01"))}, &parent{first: through("10:01", busy)}, "wake 10:04"},
		{"late by that", "10:04", 3 * time.Minute, &parent{first: through("10:04", ok("10:01"))}, &parent{first: through("10:01", busy)}, "missed(parent_late) 10:01 b had not run it by the deadline; through 10:01"},
		{"by a short one", "10:01:20", 20 * time.Second, &parent{first: through("10:01", ok("10:01"))}, &parent{first: through("10:00")}, "missed(parent_late) 10:01 b had not run it by the deadline; through 10:01"},
		{"forgotten", "10:03:30", 0, &parent{first: through("10:03", ok("10:03"))}, &parent{first: through("10:03", ok("10:03"))}, "missed(parent_forgotten) 10:01 to 10:02, 2 a has no record of it any more; run 10:03#1; through 10:03"},
		{"after an outage only the latest is run", "10:04:30", 0, &parent{first: through("10:03", ok("10:01"), ok("10:02"), ok("10:03"))}, &parent{first: through("10:03", ok("10:01"), ok("10:02"), ok("10:03"))},
			"missed(stalled) 10:01; missed(stalled) 10:02; run 10:03#1; through 10:03"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := situation{policy: after(tt.deadline), through: "10:00", now: tt.now}.view(t)
			var gates []*ticks.Gate
			for i, p := range []*parent{tt.a, tt.b} {
				if p == nil {
					gates = append(gates, nil)
				} else {
					gates = append(gates, p.gate(t, after(0).After[i]))
				}
			}
			v.Job = v.Of("child", ticks.AllOf(gates))
			plan := ticks.Next(v)
			got := say(v.Record, plan)
			for _, e := range plan.Entries { // which say does not tell
				at := strings.Index(got, clock(e.Tick))
				if n := strings.IndexByte(got[at:], ';'); e.RunID == "" && e.Error != "" {
					got = got[:at+n] + " " + e.Error + got[at+n:]
				}
			}
			if got != tt.want {
				t.Errorf("Next:\n got %s\nwant %s", got, tt.want)
			}
			if plan.Opens && plan.Record.Passed == 0 {
				t.Error("the claim does not say since when the parents have been ok")
			}
		})
	}
}

// To wait for parents is no lateness, and nobody is relieved for it. An alarm counts from the
// deadline.
func TestAfterIsNotOverdue(t *testing.T) {
	t.Parallel()
	v := situation{policy: ticks.Policy{After: []string{"a"}, Deadline: 5 * time.Minute}, through: "10:00", now: "10:03"}.view(t)
	waits := v.Of("child", ticks.AllOf([]*ticks.Gate{parent{first: first{through: "10:00"}}.gate(t, "a")}))
	if since := ticks.Unclaimed(waits, v.Record, nil, v.Now); !since.IsZero() {
		t.Errorf("unclaimed since %v", since)
	}
	for now, want := range map[string]string{"10:03": "", "10:06:59": "", "10:07": "10:01"} {
		if tick, _ := ticks.Overdue(waits, v.Record, false, at(t, now)); !same(tick, ms(t, want)) {
			t.Errorf("at %s %v is overdue, want %s", now, tick, want)
		}
	}
	if tick := ticks.Waiting(waits, v.Record, v.Now); !same(tick, ms(t, "10:01")) {
		t.Errorf("%v waits", tick)
	}
	ready := v.Of("child", ticks.AllOf([]*ticks.Gate{parent{first: first{through: "10:02", runs: []zkrec.Run{run(t, history.StateOK, "10:01", other, "10:01", "10:02")}}}.gate(t, "a")}))
	if since := ticks.Unclaimed(ready, v.Record, nil, v.Now); !same(since, ms(t, "10:02")) {
		t.Errorf("unclaimed since %v, want when the parent was ok", since)
	}
}

// relatives are the specs of a group of jobs.
type relatives map[string]*zkrec.Spec

func (r relatives) Spec(name string) *zkrec.Spec { return r[name] }

func (r relatives) Parent(name string) (ticks.Parent, bool) {
	spec := r[name]
	if spec == nil {
		return ticks.Parent{}, false
	}
	whole, named := ticks.WithParents(zkrec.NewTree("g"), *spec, r)
	p := ticks.Parent{Spec: spec, Created: 7}
	if parsed, err := ticks.JobOf("g", &whole, ticks.Version{Spec: 3, Named: named}); err == nil {
		p.Job = &parsed
	}
	return p, true
}

// A child's ticks are in its parents' schedules, also in former ones, and rest on the specs of all
// its ancestors.
func TestWithParents(t *testing.T) {
	t.Parallel()
	group := relatives{}
	add := func(name, schedule string, after ...string) *zkrec.Spec {
		group[name] = &zkrec.Spec{Job: job.Job{Name: name, Schedule: schedule, After: after}, Since: ms(t, "09:00")}
		return group[name]
	}
	add("a", "*/5 * * * *").Former = &zkrec.Former{Schedule: "*/2 * * * *", Since: ms(t, "08:00")}
	add("b", "*/3 * * * *").Since = ms(t, "08:00")
	add("left", "@after", "a")
	add("end", "@after", "b", "left").Since = ms(t, "08:10")
	add("early", "@after", "a").Since = ms(t, "08:10")
	until := func(name, last string) (got []string, named zkrec.NodeVersions) {
		spec, named := ticks.WithParents(zkrec.NewTree("g"), *group[name], group)
		schedule, err := spec.Job.ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		for tick := schedule.Next(at(t, "08:55")); !tick.After(at(t, last)); tick = schedule.Next(tick) {
			got = append(got, clock(tick.UnixMilli()))
		}
		return got, named
	}
	if got, _ := until("early", "09:10"); !slices.Equal(got, []string{"08:56", "08:58", "09:00", "09:05", "09:10"}) {
		t.Errorf("ticks %v, want those of the former schedule of the parent, and then those of the next", got)
	}
	got, named := until("end", "09:30")
	if want := []string{"09:15", "09:30"}; !slices.Equal(got, want) { // left begins with its own schedule, at 09:00
		t.Errorf("ticks %v, want %v", got, want)
	}
	var nodes []string
	for path, version := range named.Nodes() {
		nodes = append(nodes, fmt.Sprint(path, "@", version))
	}
	if want := []string{"/g/a@3", "/g/b@3", "/g/left@3"}; !slices.Equal(nodes, want) {
		t.Errorf("it rests on %v, want %v", nodes, want)
	}
	for _, tt := range []struct {
		change func()
		want   string
	}{
		{func() { delete(group, "b") }, "is no job of the group"},
		{func() { add("b", "@manually") }, "no ticks that recur"},
		{func() { add("b", "* * * * *").Job.Shards = 2 }, "has shards"},
		{func() { add("b", "* * * * *").Layout = &zkrec.Layout{Sharding: zkrec.Sharding{Shards: 2}} }, "has shards"},
		{func() { add("b", "* * * * *").Job.Everywhere = true }, "every instance"},
		{func() { add("b", "* * * * *").Job.MaxRuns = 2 }, "MaxRuns"},
		{func() { add("b", "never") }, "is invalid"},
		{func() { add("b", "@after", "left"); add("a", "@after", "end") }, "end after left after a after end"},
		{func() {
			add("b", "* * * * *")
			add("a", "* * * * *").Former = &zkrec.Former{Schedule: "@after", After: []string{"end"}, Since: 1}
		}, ""},
	} {
		tt.change()
		spec, _ := ticks.WithParents(zkrec.NewTree("g"), *group["end"], group)
		_, err := spec.Job.ParseSchedule()
		if refused := new(invalid.FieldError); (err == nil) != (tt.want == "") || err != nil && (!errors.As(err, &refused) || refused.Field != "After" || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

package ticks_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// tinyFaults are how often something may still happen.
type tinyFaults struct{ edits, leaps int8 }

// tinyBreach is a check that is left out.
type tinyBreach int

const (
	tinySound   tinyBreach = iota
	tinyAnySpec            // a claim does not check the spec's version
	tinyHasty              // the new layout does not wait for the old one's last tick
)

// tiny is one state of a job with a tick every two seconds, two instances, and at most two shards.
// Who owns a shard is decided at once, as by package lease. Time passes in seconds.
type tiny struct {
	left   tinyFaults
	breach tinyBreach
	now    int64 // seconds

	spec    zkrec.Spec
	version int32 // of the spec
	slots   [2]tinySlot
	hosts   [2]tinyHost
	tokens  int64
	shards  [8]int8 // of the last ticks: under how many shards each was claimed; by its number, modulo

	failure string
	story   *[]string
}

// tinySlot is a shard in ZooKeeper.
type tinySlot struct {
	exists  bool
	record  ticks.Record
	version int32
	owner   int8 // host + 1; 0: nobody
	token   int64
}

// tinyHost is an instance.
type tinyHost struct {
	ahead  int64      // of its clock, in seconds
	spec   zkrec.Spec // as it knows it
	ver    int32
	slots  [2]tinyOwned
	keeper tinyKeeper
}

// tinyOwned is an instance's state of a shard.
type tinyOwned struct {
	token   int64 // 0: it does not own it
	since   int64 // on its clock
	known   bool
	refused bool // its latest write was
	record  ticks.Record
	version int32
	active  string // the run in progress
	began   int64
	under   int8          // number of shards
	write   *ticks.Commit // under way
	on      int32         // version of the record that it was decided on
}

// tinyKeeper is the state of the layout's keeper, with the records that it has read.
type tinyKeeper struct {
	read     bool
	records  [2]ticks.Record
	versions [2]int32
	next     *zkrec.Spec // under way
	ver      int32
	token    int64
	refused  bool // the next sync tries again, or the next spec
}

const (
	tinyPass int8 = iota
	tinyAdopt
	tinyRefresh
	tinyLoad
	tinyDecide
	tinyArrive
	tinyFinish
	tinyRead
	tinyKeep
	tinyLayout
	tinyEdit
	tinyLeap
)

const tinyStart = 1_800_000_000 // a second in which no tick is due

func newTiny(f tinyFaults, b tinyBreach) tiny {
	w := tiny{left: f, breach: b, now: tinyStart + 1}
	w.spec = zkrec.Spec{Job: job.Job{Name: "job", Schedule: "*/2 * * * * ?", Shards: 1}, Since: tinyStart * 1000}
	w.slots[0] = tinySlot{exists: true, record: ticks.Record{Watermark: tinyStart * 1000}}
	for k := range w.hosts {
		w.hosts[k].spec = w.spec
	}
	w.do(simkit.Move{Kind: tinyAdopt})
	w.do(simkit.Move{Kind: tinyLoad})
	return w
}

// tinyJobs are the specs that were parsed, by the fields that differ.
var tinyJobs sync.Map

// tinyJob is a spec, parsed.
func tinyJob(spec zkrec.Spec) ticks.Job {
	layout := spec.ActiveLayout()
	key := [4]int64{int64(spec.Job.Shards), int64(layout.Shards), layout.Since, layout.Until}
	if parsed, known := tinyJobs.Load(key); known {
		return parsed.(ticks.Job) //nolint:forcetypeassert // nothing else is stored
	}
	kept := spec
	parsed, err := ticks.JobOf("group", &kept, ticks.Version{})
	if err != nil {
		panic(err)
	}
	tinyJobs.Store(key, parsed)
	return parsed
}

func (w *tiny) clock(k int) time.Time { return time.Unix(w.now+w.hosts[k].ahead, 0).UTC() }

func (w *tiny) failf(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

func (w *tiny) logf(format string, args ...any) {
	if w.story != nil {
		*w.story = append(*w.story, fmt.Sprintf(format, args...))
	}
}

func (w tiny) Failure() string { return w.failure }

// Settled reports whether the layout is the one that was asked for, and every past tick is
// accounted for.
func (w tiny) Settled() bool {
	if w.over() {
		return true
	}
	if w.spec.Resizing() {
		return false
	}
	for s := range w.spec.ActiveLayout().Shards {
		slot := w.slots[s]
		if !slot.exists || slot.record.Watermark < (w.now-6)*1000 {
			return false
		}
	}
	return true
}

func (w tiny) Tell(m simkit.Move) string {
	var story []string
	w.story = &story
	before := w.now
	w.do(m)
	return fmt.Sprintf("%2d %v %s", before-tinyStart, m, strings.Join(story, "; "))
}

func (w tiny) After(m simkit.Move) tiny {
	w.do(m)
	return w
}

// view is the basis of a host's decision.
func (w *tiny) view(k, s int) ticks.View {
	h, o := &w.hosts[k], &w.hosts[k].slots[s]
	return ticks.View{
		Job: tinyJob(h.spec), Record: o.record, Now: w.clock(k), SID: string(rune('a' + k)), Token: o.token,
		OwnedSince: time.Unix(o.since, 0), RunID: fmt.Sprintf("%d %d %d", k, s, w.now), Active: o.active,
	}
}

// over reports whether the world has come to its end: both new shards have accounted for two ticks.
func (w *tiny) over() bool {
	enough := w.spec.ActiveLayout().Since + 4000
	return w.spec.Layout != nil && !w.spec.Resizing() && min(w.slots[0].record.Watermark, w.slots[1].record.Watermark) >= enough
}

// Moves lists the possible next steps. A second passes when nothing else is left to do in it; a run
// lasts no time, or two seconds.
func (w tiny) Moves() []simkit.Move {
	var moves []simkit.Move
	if w.over() {
		return []simkit.Move{{Kind: tinyPass, Passes: true}}
	}
	do := func(kind int8, k, s int) { moves = append(moves, simkit.Move{Kind: kind, Who: int8(k), Arg: int8(s)}) }
	idle := func() bool { return len(moves) == 0 }
	for k := range w.hosts {
		w.duties(k, do)
	}
	if idle() {
		moves = append(moves, simkit.Move{Kind: tinyPass, Passes: true})
	}
	for k := range w.hosts {
		h := &w.hosts[k]
		for s := range h.slots {
			if o := &h.slots[s]; o.active != "" && o.write == nil && o.known && o.began == w.now {
				do(tinyFinish, k, s)
			}
		}
		if w.left.leaps > 0 {
			do(tinyLeap, k, 0)
			do(tinyLeap, k, 1)
		}
	}
	if w.left.edits > 0 {
		do(tinyEdit, 0, 0)
	}
	return moves
}

// duties are a host's steps before the second passes.
func (w *tiny) duties(k int, do func(kind int8, k, s int)) {
	h := &w.hosts[k]
	if h.ver != w.version {
		do(tinyRefresh, k, 0)
	}
	for s := range h.slots {
		o, slot := &h.slots[s], &w.slots[s]
		if slot.owner == 0 && s < max(h.spec.ActiveLayout().Shards, w.spec.ActiveLayout().Shards) {
			do(tinyAdopt, k, s)
		}
		switch {
		case o.write != nil:
			do(tinyArrive, k, s)
		case o.token == 0 && o.active == "":
		case o.refused && h.ver != w.version: // the new spec comes first
		case !o.known:
			do(tinyLoad, k, s)
		case o.active != "" && o.began <= w.now-2:
			do(tinyFinish, k, s)
		case o.token != 0 && ticks.Next(w.view(k, s)).Change:
			do(tinyDecide, k, s)
		}
	}
	if w.keeps(k) && !h.keeper.refused {
		switch {
		case h.keeper.next != nil:
			do(tinyLayout, k, 0)
		case !h.keeper.read:
			do(tinyRead, k, 0)
		case w.nextLayout(k) != nil:
			do(tinyKeep, k, 0)
		case h.keeper.versions != [2]int32{w.slots[0].version, w.slots[1].version}:
			do(tinyRead, k, 0)
		}
	} else if h.keeper.next != nil {
		do(tinyLayout, k, 0)
	}
}

// keeps reports whether a host looks after the layout.
func (w *tiny) keeps(k int) bool {
	h := &w.hosts[k]
	return h.slots[0].token != 0 && h.spec.Resizing()
}

// nextLayout is the keeper's next step, as resize of package keeper takes it; nil if it has to
// wait.
func (w *tiny) nextLayout(k int) *zkrec.Spec {
	h := &w.hosts[k]
	spec, layout := h.spec, h.spec.ActiveLayout()
	if layout.Until == 0 {
		layout.Until = max(spec.Since, layout.Since)
		for s := range layout.Shards {
			layout.Until = max(layout.Until, h.keeper.records[s].Watermark)
		}
		spec.Layout = &layout
		return &spec
	}
	for s := range layout.Shards {
		if w.breach != tinyHasty && !ticks.Settled(tinyJob(spec), h.keeper.records[s]) {
			return nil
		}
	}
	spec = spec.Resized()
	return &spec
}

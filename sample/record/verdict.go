package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// slack is how near to an event a tick may be for its run to be cut off by it:
// a claim, a short handler, and the writing of the line.
const slack Millis = 250

// findings are what a demonstration must not show, counted, and the ticks that
// nobody ran because the job had no owner just then.
type findings struct {
	runs                     int
	twice, overlaps, missing int
	inTakeover, inHandOver   int
	faults                   []string
}

func (f *findings) faultf(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// Verdict is what a record proves.
type Verdict struct {
	Pass bool
	Text string // the figures, or why not: one line
}

// String is the line that a demonstration ends with.
func (v Verdict) String() string {
	if v.Pass {
		return "PASS  " + v.Text
	}
	return "FAIL  " + v.Text
}

// Judge compares what was run with what should have been. It fails when the record
// cannot be read.
func (d Dir) Judge() (Verdict, error) {
	all, err := d.read()
	if err != nil {
		return Verdict{}, err
	}
	f := all.judge()
	killed, err := all.moves("kill")
	if err != nil {
		f.faultf("after the kill: %v", err)
	}
	stopped, err := all.moves("stop")
	if err != nil {
		f.faultf("after the stop: %v", err)
	}
	if len(f.faults) > 0 {
		return Verdict{Text: f.reasons()}, nil
	}
	e := all.events
	return Verdict{Pass: true, Text: fmt.Sprintf("%d instances, %d jobs, %d runs: "+
		"%d double, %d overlapping, %d missing (not counting %d ticks during the takeover, %d during hand-overs); "+
		"takeover max %s; hand-over max %d ms; shares %s",
		len(e.instances), len(e.periods), f.runs,
		f.twice, f.overlaps, f.missing, f.inTakeover, f.inHandOver,
		e.takeovers(killed), slowestHandOver(stopped), strings.Join(e.shares, ", "))}, nil
}

// reasons are the first faults, and how many more there are.
func (f *findings) reasons() string {
	const enough = 5
	text := strings.Join(f.faults[:min(enough, len(f.faults))], "; ")
	if over := len(f.faults) - enough; over > 0 {
		text += fmt.Sprintf("; and %d more", over)
	}
	return text
}

// judge compares the ledger with what should be in it.
func (d *demo) judge() *findings {
	f := new(findings)
	for _, step := range steps {
		if d.events.at[step] == 0 {
			f.faultf("events: no %s", step)
		}
	}
	for _, job := range slices.Sorted(maps.Keys(d.runs)) {
		if d.events.periods[job] == 0 {
			f.faultf("%s ran and was not submitted", job)
		}
	}
	if len(f.faults) > 0 {
		return f
	}
	for _, job := range slices.Sorted(maps.Keys(d.events.periods)) {
		d.judgeRuns(f, job)
		d.judgeTicks(f, job)
	}
	return f
}

// judgeRuns looks at what was run: nothing twice, nothing side by side, nothing
// that was not due.
func (d *demo) judgeRuns(f *findings, job string) {
	canceled, isCanceled := d.events.canceled[job]
	ran := make(map[Millis]Run)
	var last Run // of those so far, the one that ended last
	for _, r := range d.runs[job] {
		f.runs++
		// A further attempt at what a kill has cut off, or kept from being recorded, is
		// not a second time.
		if first, twice := ran[r.Tick]; twice && r.Attempt != first.Attempt+1 {
			f.twice++
			f.faultf("%s: tick %v ran twice, on %s and %s", job, r.Tick, first.SID, r.SID)
		}
		ran[r.Tick] = r
		if r.Start < last.End {
			f.overlaps++
			f.faultf("%s: the runs of ticks %v on %s and %v on %s overlap", job, last.Tick, last.SID, r.Tick, r.SID)
		}
		if r.End > last.End {
			last = r
		}
		switch {
		case r.Tick%d.events.periods[job] != 0:
			f.faultf("%s: %v is no tick of it", job, r.Tick)
		case r.Start < r.Tick:
			f.faultf("%s: tick %v ran at %v, too early", job, r.Tick, r.Start)
		case isCanceled && r.Start > canceled.to:
			f.faultf("%s: tick %v ran although the job was cancelled at %v", job, r.Tick, canceled.to)
		case isCanceled && r.End >= canceled.from && r.Outcome == "interrupted":
			// Whoever cancels a job has its run told to stop.
		case r.Outcome != "ok":
			f.faultf("%s: tick %v %s on %s", job, r.Tick, r.Outcome, r.SID)
		}
	}
}

// judgeTicks looks at what should have been run: every tick from when all was
// settled to the end, but for those that came while the job had no owner.
func (d *demo) judgeTicks(f *findings, job string) {
	period, end := d.events.periods[job], d.events.at["quit"]
	if canceled, is := d.events.canceled[job]; is {
		end = canceled.from
	}
	ran := make(map[Millis]bool)
	for _, r := range d.runs[job] {
		ran[r.Tick] = true
	}
	settled := d.events.at["settled"]
	for tick := settled - settled%period + period; tick <= end-slack; tick += period {
		switch {
		case ran[tick]:
		case d.inTakeover(job, tick):
			f.inTakeover++
		case d.inHandOver(job, tick):
			f.inHandOver++
		default:
			f.missing++
			f.faultf("%s: tick %v was not run", job, tick)
		}
	}
}

// inTakeover reports whether a tick that was not run came after the kill and
// before the job must run elsewhere.
func (d *demo) inTakeover(job string, tick Millis) bool {
	kill := d.events.at["kill"]
	return kill-slack <= tick && tick <= kill+d.events.takeoverBound(1000) && d.changedOwner(job, tick)
}

// inHandOver reports whether a tick that was not run came while jobs moved in
// good order: after a join, a stop or a cancel, until the shares had evened out.
func (d *demo) inHandOver(job string, tick Millis) bool {
	starts := []Millis{d.events.at["join"], d.events.at["stop"]}
	for _, canceled := range d.events.canceled {
		starts = append(starts, canceled.from)
	}
	for _, start := range starts {
		i, _ := slices.BinarySearch(d.events.evened, start)
		if i < len(d.events.evened) && start-slack <= tick && tick <= d.events.evened[i] {
			return d.changedOwner(job, tick)
		}
	}
	return false
}

// changedOwner reports whether the runs before and after a tick were under two
// different tokens.
func (d *demo) changedOwner(job string, tick Millis) bool {
	var before, after int64
	for _, r := range d.runs[job] {
		if r.Tick < tick {
			before = r.Token
		} else if after == 0 {
			after = r.Token
		}
	}
	return after != 0 && before != after
}

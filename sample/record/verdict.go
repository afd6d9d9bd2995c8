package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/swtest/audit"
)

// slack is how close to an event a tick may be for the event to affect its run:
// enough for a claim, a short handler, and writing the line.
const slack Millis = 250

func (m Millis) time() time.Time { return time.UnixMilli(int64(m)) }

// findings counts violations, and the ticks that did not run because the job had no
// owner at the time.
type findings struct {
	runs                     int
	twice, overlaps, missing int
	inTakeover, inHandOver   int
	faults                   []string
}

func (f *findings) faultf(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// Verdict is the result of checking a record.
type Verdict struct {
	Pass bool
	Text string // the figures or the reason, on one line
}

// String returns the last line of a demonstration.
func (v Verdict) String() string {
	if v.Pass {
		return "PASS  " + v.Text
	}
	return "FAIL  " + v.Text
}

// Judge compares the runs with the due ticks. It returns an error if the record cannot be read.
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
		takeovers(killed), slowestHandOver(stopped), strings.Join(e.shares, ", "))}, nil
}

// reasons returns the first faults and the number of others.
func (f *findings) reasons() string {
	const enough = 5
	text := strings.Join(f.faults[:min(enough, len(f.faults))], "; ")
	if over := len(f.faults) - enough; over > 0 {
		text += fmt.Sprintf("; and %d more", over)
	}
	return text
}

// judge compares the ledger with the due ticks.
func (d *demo) judge() *findings {
	f := new(findings)
	for _, step := range steps {
		if d.events.at[step] == 0 {
			f.faultf("events: no %s", step)
		}
	}
	for _, job := range slices.Sorted(maps.Keys(d.runs)) {
		if d.events.periods[job] == 0 {
			f.faultf("%s ran but was not submitted", job)
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

// evidence returns the runs of a job for package audit.
func (d *demo) evidence(job string) []audit.Run {
	var runs []audit.Run
	for _, r := range d.runs[job] {
		runs = append(runs, audit.Run{
			Job: job, Instance: r.SID, Tick: r.Tick.time(), Attempt: r.Attempt, Token: r.Token, Start: r.Start.time(), End: r.End.time(),
		})
	}
	return runs
}

// judgeRuns checks the runs: no tick twice, no two at the same time, none that was
// not due.
func (d *demo) judgeRuns(f *findings, job string) {
	for _, found := range audit.Runs(d.evidence(job)) {
		switch found.Rule {
		case audit.Twice, audit.Skipped:
			f.twice++
		case audit.Overlap:
			f.overlaps++
		case audit.Early:
		default:
			continue // the demonstration does not check late ticks and tokens
		}
		f.faultf("%v", found)
	}
	canceled, isCanceled := d.events.canceled[job]
	for _, r := range d.runs[job] {
		f.runs++
		switch {
		case r.Tick%d.events.periods[job] != 0:
			f.faultf("%s: %v is not one of its ticks", job, r.Tick)
		case isCanceled && r.Start > canceled.to:
			f.faultf("%s: tick %v ran although the job was canceled at %v", job, r.Tick, canceled.to)
		case isCanceled && r.End >= canceled.from && r.Outcome == "interrupted":
			// Canceling a job cancels its run.
		case r.Outcome != "ok":
			f.faultf("%s: tick %v %s on %s", job, r.Tick, r.Outcome, r.SID)
		}
	}
}

// judgeTicks checks that every tick from settled to quit has run, except those due
// while the job had no owner.
func (d *demo) judgeTicks(f *findings, job string) {
	end := d.events.at["quit"]
	if canceled, is := d.events.canceled[job]; is {
		end = canceled.from
	}
	period := time.Duration(d.events.periods[job]) * time.Millisecond
	due := audit.Every(period, d.events.at["settled"].time(), (end - slack).time())
	for _, missing := range audit.Missing(d.evidence(job), due) {
		switch tick := Millis(missing.UnixMilli()); {
		case d.inTakeover(job, tick):
			f.inTakeover++
		case d.inHandOver(job, tick):
			f.inHandOver++
		default:
			f.missing++
			f.faultf("%s: tick %v did not run", job, tick)
		}
	}
}

// inTakeover reports whether a missed tick was due after the kill and before the
// job must run elsewhere.
func (d *demo) inTakeover(job string, tick Millis) bool {
	kill := d.events.at["kill"]
	return kill-slack <= tick && tick <= kill+takeoverBound(1000) && d.changedOwner(job, tick)
}

// inHandOver reports whether a missed tick was due during a hand-over: after a
// join, a stop or a cancel, until the shares were even.
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

// changedOwner reports whether the runs before and after a tick had different
// tokens.
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

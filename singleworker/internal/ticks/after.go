package ticks

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Parent is a job after which others run.
type Parent struct {
	Spec    *zkrec.Spec
	Job     *Job  // Spec parsed; nil if it is invalid
	Created int64 // the transaction that has created it
	Written int64 // when Spec was, on ZooKeeper's clock, in Unix milliseconds
}

// Why a job that names a parent is invalid.
var (
	errNoParent      = errors.New("is no job of the group")
	errParentInvalid = errors.New("is invalid, see there")
)

// Kin are the jobs of a group, of which some run after others.
type Kin interface {
	// Spec is the spec of a job, or nil.
	Spec(name string) *zkrec.Spec
	// Parent is a job whose own parents are known, if it exists.
	Parent(name string) (parent Parent, found bool)
}

// Ancestors lists the jobs that come before one, see zkrec.Ancestors.
func Ancestors(kin Kin, of *zkrec.Spec) ([]string, error) {
	return zkrec.Ancestors(of.Job.Name, func(name string) []string {
		if name == of.Job.Name {
			return of.Job.After
		}
		if spec := kin.Spec(name); spec != nil {
			return spec.Job.After
		}
		return nil
	})
}

// comesAfter reports whether a job runs, or once ran, after the one of a spec.
func comesAfter(kin Kin, name string, of *zkrec.Spec) bool {
	before, err := zkrec.Ancestors(name, func(name string) []string {
		if spec := kin.Spec(name); spec != nil && name != of.Job.Name {
			return spec.ParentNames()
		}
		return nil
	})
	return err != nil || slices.Contains(before, of.Job.Name)
}

// WithParents returns spec with the times of its parents, without which a job after others has no
// schedule, and the versions of the specs of all its ancestors, and of their calendars. The parents
// of a former schedule tell which ticks were missed, unless they have come after the job since.
func WithParents(tree zkrec.Tree, spec zkrec.Spec, kin Kin) (zkrec.Spec, zkrec.NodeVersions) {
	names := spec.ParentNames()
	if len(names) == 0 {
		return spec, ""
	}
	_, refused := Ancestors(kin, &spec)
	known, versions := make(map[string]job.ParentTimes, len(names)), zkrec.NodeVersions("")
	for _, name := range names {
		switch former := !slices.Contains(spec.Job.After, name); {
		case !former && refused != nil:
			known[name] = job.ParentTimes{Err: refused}
			continue
		case former && comesAfter(kin, name, &spec):
			known[name] = job.ParentTimes{Err: errNoParent}
			continue
		}
		parent, found := kin.Parent(name)
		switch {
		case !found:
			known[name] = job.ParentTimes{Err: errNoParent}
			continue
		case parent.Job == nil:
			known[name] = job.ParentTimes{Err: errParentInvalid}
			continue
		}
		version := parent.Job.Version
		versions = versions.With(tree.Job(name), version.Spec, parent.Created, parent.Written).And(version.Named)
		if err := parent.Spec.CheckParent(); err != nil {
			known[name] = job.ParentTimes{Err: err}
		} else {
			known[name] = job.ParentTimes{Schedule: parent.Job.timeline()}
		}
	}
	spec.Job = spec.Job.WithParents(known)
	return spec, versions
}

// timeline is the job's schedule and those before, each in its time.
func (j Job) timeline() *cronexpr.Schedule {
	turns := []cronexpr.Turn{{Schedule: j.Schedule, Since: j.Since}}
	for _, former := range j.Former {
		if former.Since.Before(turns[len(turns)-1].Since) { // else it was replaced before it began
			turns = append(turns, cronexpr.Turn{Schedule: former.Schedule, Since: former.Since})
		}
	}
	slices.Reverse(turns)
	return cronexpr.InTurn(turns...)
}

// isChild reports whether the job runs after others.
func (j Job) isChild() bool { return len(j.Policy.After) > 0 }

// ParentGate returns the gate that the records of a parent are for its children, as GateOf: a tick
// begins for them when it was run with state ok.
func ParentGate(name string, r Record, h zkrec.History, written time.Time) *Gate {
	g := &Gate{done: Shard{Record: r}.done(), parent: name, history: h}
	for _, e := range h.Entries {
		g.addOK(e.Run, e.Ended)
	}
	g.addOK(r.Run, written.UnixMilli())
	slices.SortFunc(g.fates, func(a, b fate) int { return cmp.Compare(a.tick, b.tick) })
	return g
}

// History is the history of a parent.
func (g *Gate) History() zkrec.History { return g.history }

// addOK takes in a run. One that was asked for by hand is of a tick if it names it.
func (g *Gate) addOK(r zkrec.Run, at int64) {
	if r.State != history.StateOK || r.Manual != "" && r.Past() == "" {
		return
	}
	if !slices.ContainsFunc(g.fates, func(f fate) bool { return f.tick == r.Tick }) {
		g.fates = append(g.fates, fate{tick: r.Tick, begun: true, at: at})
	}
}

// AllOf returns the gate of a child whose parents have these, or nil if one of them is not known.
func AllOf(parents []*Gate) *Gate {
	if slices.Contains(parents, nil) {
		return nil
	}
	all := &Gate{Attempt: parents[0].Attempt, done: parents[0].done, parents: parents}
	for _, p := range parents[1:] {
		all.Attempt = min(all.Attempt, p.Attempt)
		all.done = min(all.done, p.done)
	}
	for _, f := range parents[0].fates {
		for _, p := range parents[1:] {
			other, _ := p.of(f.tick)
			f.begun, f.at = f.begun && other.begun, max(f.at, other.at)
		}
		if f.begun {
			all.fates = append(all.fates, f)
		}
	}
	return all
}

// decided is the tick up to which it is known at t of each whether it begins: by the gate, or
// because it waits no longer. A gate of which nothing is known says nothing at a deadline, either.
func (j Job) decided(t time.Time) time.Time {
	decided := j.Gate.decided()
	if !j.isChild() || len(j.Gate.parents) == 0 {
		return decided
	}
	if d := j.Policy.Deadline; d > 0 {
		return Later(decided, j.through(t.Add(-d)))
	}
	if last := j.Schedule.Prev(after(j.through(t))); !last.IsZero() {
		return Later(decided, before(last))
	}
	return decided
}

// deadline is when a tick waits no longer for the job's parents, or zero if it has no end.
func (j Job) deadline(tick time.Time) time.Time {
	if d := j.Policy.Deadline; d > 0 {
		return j.Due(tick).Add(d)
	}
	return j.Due(j.Schedule.Next(tick))
}

// waitEnds is the deadline of the first tick that waits for parents, if that is to come and is not
// the next tick, or zero.
func (v View) waitEnds() time.Time {
	if !v.isChild() || v.Policy.Deadline == 0 {
		return time.Time{}
	}
	tick := Waiting(v.Job, v.Record, v.Now)
	if tick.IsZero() || !v.deadline(tick).After(v.Now) { // nothing is known of the parents yet
		return time.Time{}
	}
	return v.deadline(tick)
}

// notOK is why a child's tick is not run, by the first of its parents that has not run it, and will
// not: else by one that has not run it yet.
func (g *Gate) notOK(tick int64) (why Entry) {
	why.State, why.Reason = history.StateMissed, history.ReasonParentLate
	for _, p := range g.parents {
		switch e, found := p.outcome(tick); {
		case p.Begun(tick):
		case tick > p.done:
			if why.Error == "" {
				why.Error = p.parent + " had not run it by the deadline"
			}
		case !found:
			why.Reason, why.Error = history.ReasonParentForgotten, p.parent+" has no record of it any more"
			return why
		default:
			how := string(e.State)
			if e.Reason != "" {
				how = fmt.Sprintf("%s (%s)", e.State, e.Reason)
			}
			why.State, why.Reason, why.Error = history.StateSkipped, history.ReasonParent, p.parent+": "+how
			return why
		}
	}
	return why
}

// outcome is the last entry of a parent's history for a tick.
func (g *Gate) outcome(tick int64) (e Entry, found bool) {
	for _, e := range slices.Backward(g.history.Entries) {
		if (e.Manual == "" || e.Past() != "") && e.Tick <= tick && tick <= e.Last() {
			return e, true
		}
	}
	return Entry{}, false
}

// changes are the times between which it is the same for all ticks why they are not run.
func (g *Gate) changes() (times []time.Time) {
	if g == nil {
		return nil
	}
	for _, f := range g.fates {
		times = append(times, before(time.UnixMilli(f.tick)), time.UnixMilli(f.tick))
	}
	for _, p := range g.parents {
		times = append(times, p.changes()...)
		times = append(times, time.UnixMilli(p.done))
	}
	for _, e := range g.history.Entries {
		times = append(times, before(time.UnixMilli(e.Tick)), time.UnixMilli(e.Last()))
	}
	return times
}

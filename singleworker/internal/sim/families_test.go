package sim

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Families of random groups: chains, diamonds and other orders of jobs, of which some run after
// others. Parents fail, change their schedules, come to their end, and at times one is gone, can be
// no parent, or waits for its child.

// families has jobs after jobs, and instances that may hear late of what becomes of parents.
func families(p *profile) { p.Families, p.Lagging = true, true }

// relative is a job of a family, by number.
type relative struct {
	elders  []int // of the family, after which it may run
	parents []int // of these, after which it runs to begin with; none: it has times of its own
}

// The orders of a family.
const (
	chain = iota
	diamonds
	anyOrder
	familyKinds
)

// drawFamilies makes families of 3 to 6 jobs, of most of those that may be in one.
func (w *world) drawFamilies() {
	if !w.Families {
		return
	}
	w.relatives = make(map[int]relative)
	rng := rand.New(rand.NewPCG(w.seed, 9))
	var elders []int
	size, members, kind := 0, 0, 0
	for k := range w.shards {
		if w.everywhere[k] || rng.IntN(5) == 0 {
			continue
		}
		if members == size {
			elders, members, size, kind = nil, 0, 3+rng.IntN(4), rng.IntN(familyKinds)
		}
		if w.shards[k] > 0 && len(elders) == 0 {
			continue // it can be no parent
		}
		w.relatives[k] = relative{slices.Clone(elders), drawParents(rng, kind, elders)}
		if members++; w.shards[k] == 0 {
			elders = append(elders, k)
		}
	}
}

func drawParents(rng *rand.Rand, kind int, elders []int) []int {
	n := len(elders)
	switch {
	case n == 0, kind == anyOrder && n == 1 && rng.IntN(2) == 0:
		return nil
	case kind == chain, n == 1:
		return elders[n-1:]
	case kind == diamonds && n == 2:
		return elders[:1]
	case kind == diamonds:
		return elders[n-2:]
	}
	return someOf(rng, elders)
}

// someOf draws one to three of several.
func someOf(rng *rand.Rand, of []int) (some []int) {
	for _, k := range rng.Perm(len(of))[:1+rng.IntN(min(3, len(of)))] {
		some = append(some, of[k])
	}
	return some
}

// isParent reports whether a job may have children, and has no shards.
func (w *world) isParent(k int) bool {
	_, related := w.relatives[k]
	return related && w.shards[k] == 0
}

// parentTimes are the schedules of jobs that have children.
var parentTimes = []string{"* * * * * ?", "*/2 * * * * ?", "*/3 * * * * ?", "*/5 * * * * ?", "*/6 * * * * ?", "*/10 * * * * ?"}

// relate gives a job of a family the times that it may have there.
func (w *world) relate(k int, job *jobs.Job) {
	of, related := w.relatives[k]
	if !related {
		return
	}
	job.TimeZone, job.MaxRuns, job.KeepDone, job.After, job.Deadline = "", 0, 0, nil, 0
	if len(of.parents) == 0 {
		job.Schedule = draw(w, parentTimes...)
		return
	}
	job.Schedule = "@after"
	parents := of.parents
	if w.rng.IntN(4) == 0 {
		parents = someOf(w.rng, of.elders)
	}
	for _, parent := range parents {
		job.After = append(job.After, jobName(parent))
	}
	if w.rng.IntN(2) == 0 {
		job.Deadline = time.Second + w.upTo(15*time.Second)
	}
	onlyWhatFits(job)
}

// familyRuns is how long the handlers of a family take.
var familyRuns = []time.Duration{0, 50 * time.Millisecond, 700 * time.Millisecond, 2500 * time.Millisecond, 6 * time.Second}

// changeFamily changes a job of a family: its times, or its parents; it is submitted again, paused,
// or can be no parent for a while.
func (w *world) changeFamily() {
	if len(w.relatives) == 0 {
		return
	}
	all := slices.Sorted(maps.Keys(w.relatives))
	k := draw(w, all...)
	for range 3 {
		if !w.isParent(k) {
			k = draw(w, all...)
		}
	}
	switch w.rng.IntN(6) {
	case 0, 1:
		w.set(k)
	case 2:
		w.cancel(k)
		time.Sleep(w.upTo(w.Session))
		w.submit(k)
	case 3:
		w.pause(jobName(k))
	case 4:
		w.trigger(k)
	default:
		w.spoilParent(k)
	}
}

// spoilParent has a job be no parent for a while, or one that has no tick any more.
func (w *world) spoilParent(k int) {
	var to jobs.Job
	w.relate(k, &to)
	lasts, mend := w.upTo(2*w.Session), func() { w.retime(k, to) }
	switch n := w.rng.IntN(6); {
	case n == 0 && w.isParent(k):
		mend = func() { w.replaceUndivided(k) }
		w.operate("divide "+jobName(k)+", a parent", func(ctx context.Context) error { return w.divideBy(ctx, k, 2, nil) })
	case n == 1 && w.isParent(k):
		w.tangle(k)
	case n == 2 && to.Schedule != "@after":
		last := to
		last.NotAfter = time.Now().UTC().Add(w.upTo(w.Session)).Truncate(time.Second)
		w.retime(k, last)
	case n == 3 && to.Schedule != "@after":
		counted := to
		counted.MaxRuns = 1 + w.rng.IntN(9)
		w.retime(k, counted)
	default:
		w.retime(k, jobs.Job{Schedule: "@manually"})
	}
	w.after(lasts, mend)
}

// tangle has a job run after one of its children, as submits of both at the same time may bring
// about, or somebody by hand.
func (w *world) tangle(k int) {
	if !w.isChangeable(jobName(k)) {
		return
	}
	w.read()
	var spec zkrec.Spec
	w.cluster.View(func(m *swtest.Model) {
		for _, name := range slices.Sorted(maps.Keys(m.Jobs)) {
			if parent := m.Jobs[jobName(k)]; parent != nil && slices.Contains(m.Jobs[name].Spec.Job.After, jobName(k)) {
				to := parent.Spec.Job.Clone()
				withTimes(&to, jobs.Job{Schedule: "@after", After: []string{name}})
				spec = zkrec.Spec{Job: to, Declaration: parent.Spec.Declaration}.Over(parent.Spec)
			}
		}
	})
	if len(spec.Job.After) == 0 {
		return
	}
	w.operate(fmt.Sprintf("%s runs after %v", jobName(k), spec.Job.After), func(ctx context.Context) error {
		return unless(w.cluster.Rewrite(ctx, jobName(k), spec.Encode()), zkconn.ErrNoNode)
	})
}

// retime sets the times of a job.
func (w *world) retime(k int, to jobs.Job) {
	if !w.isChangeable(jobName(k)) {
		return
	}
	w.operate("set "+jobName(k)+" to "+to.Schedule, func(ctx context.Context) error {
		return w.cluster.Operate(ctx, func(c *admin.Client) error {
			_, err := c.Edit(ctx, jobName(k), func(j *jobs.Job) error {
				withTimes(j, to)
				onlyWhatFits(j)
				return nil
			}, admin.EditOptions{})
			return unless(unlessOver(err), admin.ErrNotFound, admin.ErrConflict)
		})
	})
}

// severalParents are the parents of a job that has more than one, in its record.
var severalParents = regexp.MustCompile(`"after":\["[^"]*"(,"[^"]*")+\]`)

// firstParent leaves out all parents but the first.
func firstParent(record []byte) []byte {
	first, rest, _ := bytes.Cut(record, []byte(","))
	return slices.Concat(first, bytes.Repeat([]byte(" "), len(rest)), []byte("]"))
}

// unproven makes claims not check that the jobs that come before are still the same.
func unproven(op zkdev.Op, path string, version int32) (string, int32) {
	if op == zkdev.OpCheck && strings.Contains(path, "/_proof-") {
		return "/", -1
	}
	return path, version
}

// setFamilies submits the jobs of families that are not there, and gives those that can be no
// parents, or wait for each other, the times of one.
func (w *world) setFamilies() {
	for _, k := range slices.Sorted(maps.Keys(w.relatives)) {
		job := singleworker.Job{Name: jobName(k), Shards: w.shards[k]}
		w.relate(k, &job)
		w.read()
		var is *zkrec.Spec
		tangled := false
		w.cluster.View(func(m *swtest.Model) {
			if j := m.Jobs[job.Name]; j != nil {
				is, tangled = &j.Spec, slices.Contains(w.ledger.ancestors(j.Spec.Job), job.Name)
			}
		})
		switch {
		case is == nil:
			w.mu.Lock()
			w.jobs[job.Name] = true
			w.mu.Unlock()
			w.operate("submit "+job.Name, func(ctx context.Context) error { return unlessOver(w.cluster.Submit(ctx, job)) })
		case w.isParent(k) && is.Job.Shards+is.ActiveLayout().Shards > 0:
			w.replaceUndivided(k)
		case tangled, is.Job.Schedule == "@manually", is.Job.MaxRuns > 0:
			w.retime(k, job)
		}
	}
}

package sim

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Property 20: limits across jobs, in random groups. Package ledger judges them.

// shared has jobs that need places of limits.
func shared(p *profile) { p.Shared = true }

// limitNames are all limits of a group.
var limitNames = []string{"api", "db"}

// mostNeeded is how many places of a limit a job of a random group needs at most.
const mostNeeded = 2

// turnWithin is how long the run of a job with limits waits at most in a quiet group: handlers
// return at once there, but some sixty jobs may have the same tick.
const turnWithin = 10 * time.Second

// nameLimits gives a job some limits, at times: not one that always runs, which would have its
// places for ever.
func (w *world) nameLimits(job *jobs.Job) {
	if job.Limits = nil; !w.Shared || job.Schedule == "@always" {
		return
	}
	for _, name := range limitNames {
		if w.rng.IntN(2) == 0 {
			if job.Limits == nil {
				job.Limits = make(map[string]int)
			}
			job.Limits[name] = 1 + w.rng.IntN(mostNeeded)
		}
	}
	onlyWhatFits(job)
}

// setLimits gives each limit at least as many places as a job needs.
func (w *world) setLimits() {
	if !w.Shared {
		return
	}
	for _, name := range limitNames {
		w.setLimit(name, mostNeeded+w.rng.IntN(4))
	}
}

func (w *world) setLimit(name string, places int) {
	w.operate(fmt.Sprintf("set limit %s to %d", name, places), func(ctx context.Context) error {
		return unless(w.cluster.SetLimit(ctx, name, places), admin.ErrConflict)
	})
}

// changeLimit gives a limit another number of places, at times fewer than are taken, or somebody
// spoils its node, for so long that nobody raises alarms for jobs which cannot run.
func (w *world) changeLimit() {
	name := draw(w, limitNames...)
	if w.rng.IntN(4) > 0 {
		w.setLimit(name, mostNeeded+w.rng.IntN(4))
		return
	}
	is, away := mostNeeded+w.rng.IntN(4), w.upTo(2*w.Session)
	w.operate("spoil limit "+name, func(ctx context.Context) error {
		return unless(w.cluster.Overwrite(ctx, w.cluster.Tree().Limit(name), []byte("{}")), zkconn.ErrNoNode)
	})
	w.after(away, func() { w.setLimit(name, is) })
}

// relimiting takes in that a limit is to change, before it does: jobs that name it run, or do not
// run, from then on.
func (l *ledger) relimiting(txn *zkdev.Txn) {
	name, is := l.tree.LimitAt(txn.Path)
	if !is {
		return
	}
	for slot := range l.vigils {
		if j := l.model.Jobs[slot]; j != nil && slices.Contains(j.Spec.Job.LimitNames(), name) {
			l.changes(slot, txn.Time)
		}
	}
}

var mostPlaces = regexp.MustCompile(`"max":[1-8]\b`)

func oneMore(text []byte) []byte {
	text[len(text)-1]++
	return text
}

// stolen has a claim create a node beside the place which it takes.
func stolen(op zkdev.Op, path string, version int32) (string, int32) {
	if op == zkdev.OpCreate && strings.Contains(path, "/held/") {
		return fmt.Sprintf("%s-%d", path, time.Now().UnixNano()), version
	}
	return path, version
}

// freedElsewhere has the end of a run give back another place than the run holds.
func freedElsewhere(op zkdev.Op, path string, version int32) (string, int32) {
	if op == zkdev.OpDelete && strings.HasSuffix(path, "/held/0") {
		return strings.TrimSuffix(path, "0") + "1", version
	}
	return path, version
}

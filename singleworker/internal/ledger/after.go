package ledger

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Schedule is the schedule of a job, nil if that cannot be read: of one that runs after others, by
// these as they are, nil if one is not there, or cannot be a parent. parse is called for jobs whose
// parents are known. before are the jobs that come after it.
func (m *Model) Schedule(j job.Job, parse func(job.Job) *cronexpr.Schedule, before ...string) *cronexpr.Schedule {
	if len(j.After) == 0 {
		return parse(j)
	}
	known := make(map[string]job.ParentTimes, len(j.After))
	for _, name := range j.After {
		of := m.Jobs[name]
		if of == nil || !of.Known.Spec || slices.Contains(before, name) || of.Spec.CheckParent() != nil || m.turned(j.Name, name) {
			return nil
		}
		schedule := func(j job.Job) *cronexpr.Schedule { return m.Schedule(j, parse, append(slices.Clone(before), name)...) }
		turns := []cronexpr.Turn{{Schedule: schedule(of.Spec.Job), Since: zkrec.Time(of.Spec.Since)}}
		if turns[0].Schedule == nil {
			return nil
		}
		for was := of.Spec.Former; was != nil; was = was.Former {
			if since := zkrec.Time(was.Since); since.Before(turns[len(turns)-1].Since) {
				turns = append(turns, cronexpr.Turn{Schedule: schedule(was.Job(of.Spec.Job)), Since: since})
			}
		}
		slices.Reverse(turns)
		known[name] = job.ParentTimes{Schedule: cronexpr.InTurn(turns...)}
	}
	return parse(j.WithParents(known))
}

// turned reports whether a job once ran after another one that has come after it since. Then nobody
// can tell any more which ticks it had.
func (m *Model) turned(job, once string) bool {
	if of := m.Jobs[job]; of == nil || slices.Contains(of.Spec.Job.After, once) {
		return false
	}
	before, err := zkrec.Ancestors(once, func(name string) []string {
		if of := m.Jobs[name]; of != nil && name != job {
			return of.Spec.ParentNames()
		}
		return nil
	})
	return err != nil || slices.Contains(before, job)
}

// judgeAfter verifies that all parents of a job had run a tick with state ok before the job claims
// it.
func (l *Ledger) judgeAfter(j *Job, rec zkrec.Tick) {
	if !j.Known.Spec {
		return
	}
	for _, name := range j.Spec.Job.After {
		of := l.model.Jobs[name]
		if of == nil && l.whole {
			l.violatef(Claim, j.Name, "%s claims %s after %s, which is no job", rec.SID, clockMs(rec.Tick), name)
			continue
		}
		if of == nil || !of.Known.Tick || !of.Known.History {
			l.counts.Unjudged++
			continue
		}
		runs := append(slices.Clone(of.History.Entries), zkrec.Entry{Run: of.Tick.Run})
		ran := slices.ContainsFunc(runs, func(e zkrec.Entry) bool {
			return e.State == history.StateOK && e.Tick == rec.Tick && (e.Manual == "" || e.Past() != "")
		})
		switch {
		case ran: // as it must be
		case of.History.Dropped > 0 && runs[0].Tick > rec.Tick:
			l.counts.Unjudged++ // the history does not go back that far
		default:
			l.violatef(Claim, j.Name, "%s claims %s, which %s has not run: that is at %s, %s", rec.SID, clockMs(rec.Tick), name,
				clockMs(of.Tick.Tick), of.Tick.State)
		}
	}
}

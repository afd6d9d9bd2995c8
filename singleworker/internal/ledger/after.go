package ledger

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// after is the schedule of a job that runs after others, as the transaction finds these: nil if one
// of them is not there, or cannot be a parent. before are the jobs that come after it.
func (l *Ledger) after(j job.Job, before ...string) *cronexpr.Schedule {
	known := make(map[string]job.ParentTimes, len(j.After))
	for _, name := range j.After {
		of := l.model.Jobs[name]
		if of == nil || !of.Known.Spec || slices.Contains(before, name) || of.Spec.CheckParent() != nil {
			return nil
		}
		parse := func(j job.Job) *cronexpr.Schedule {
			if len(j.After) > 0 {
				return l.after(j, append(slices.Clone(before), name)...)
			}
			return l.schedule(j)
		}
		turns := []cronexpr.Turn{{Schedule: parse(of.Spec.Job), Since: zkrec.Time(of.Spec.Since)}}
		if turns[0].Schedule == nil {
			return nil
		}
		for was := of.Spec.Former; was != nil; was = was.Former {
			if since := zkrec.Time(was.Since); since.Before(turns[len(turns)-1].Since) {
				turns = append(turns, cronexpr.Turn{Schedule: parse(was.Job(of.Spec.Job)), Since: since})
			}
		}
		slices.Reverse(turns)
		known[name] = job.ParentTimes{Schedule: cronexpr.InTurn(turns...)}
	}
	sched, _ := l.model.Calendars.Into(zkrec.Spec{Job: j.WithParents(known)}).Job.ParseSchedule()
	return sched
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

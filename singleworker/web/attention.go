package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// problem is something that an operator should look at.
type problem struct {
	Kind  string // one of kinds
	What  string // the name of a job, or the ID of an instance
	Link  string // its page
	Cause string
	Try   string // the command that mends it, or tells more
}

// kinds of problems, the worst first. Each is a class in the style sheet.
var kinds = []string{"invalid", "nobody may run it", "full", "unowned", "late", "hung", "failing", "running over", "wrong clock", "gone", "instance", "long paused"}

// pausedLong is as long as a pause, or an order, that may have been forgotten.
const pausedLong = 24 * time.Hour

// attention lists what is wrong with a group, the worst first.
func attention(s *snapshot, now time.Time) []problem {
	var all []problem
	for _, job := range s.jobs {
		if kind, try := ailing(job, now); kind != "" {
			all = append(all, problem{Kind: kind, What: words.Name(job), Link: jobLink(job.Name), Cause: words.Cause(job, now), Try: try})
		}
	}
	for _, i := range s.instances {
		if p, wrong := unwell(i, now); wrong {
			all = append(all, p)
		}
	}
	all = append(all, gone(s)...)
	slices.SortStableFunc(all, func(a, b problem) int {
		return cmp.Or(slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind), cmp.Compare(a.What, b.What))
	})
	return all
}

// ailing says what is wrong with a job, and what to try; "" if nothing is.
func ailing(job admin.JobStatus, now time.Time) (kind, try string) {
	name := plain.Quoted(job.Name)
	switch {
	case job.State == admin.StateInvalid:
		return "invalid", repairing(job)
	case job.State == admin.StateUnowned:
		return unowned(job, job.Reason)
	case job.State != admin.StateOwned:
		return "", ""
	case job.Paused != nil && now.Sub(job.Paused.Since) > pausedLong:
		return "long paused", "swctl resume " + name
	case job.Paused != nil:
		return "", ""
	case !job.Overdue.IsZero(), job.Watermark.Sub(now) > time.Minute:
		return "late", "swctl why " + name
	case job.Hung != nil:
		return "hung", "swctl stop-run " + name
	case words.Failing(job, now) != "":
		return "failing", "swctl history " + name + " --failed"
	case !job.Overrun.IsZero():
		return "running over", "swctl stop-run " + name
	}
	return "", ""
}

// repairs are the commands that mend an invalid job, by the reason; another one is repaired.
var repairs = map[reason.Code]string{
	reason.BadSpec: "swctl submit %s SCHEDULE --replace", reason.NewerVersion: "swctl show %s", reason.Denied: "swctl show %s --auth-file FILE",
	reason.BadName: "swctl list",
}

func repairing(job admin.JobStatus) string {
	command := cmp.Or(repairs[job.Reason.Code], "swctl repair %s")
	return strings.ReplaceAll(command, "%s", plain.Quoted(job.Name))
}

// unowned says what keeps a job, or the first of its shards without an owner, from being owned.
func unowned(job admin.JobStatus, why reason.Reason) (kind, try string) {
	name := plain.Quoted(job.Name)
	switch {
	case why.Code == reason.SomeShards && why.Why != nil:
		return unowned(job, *why.Why)
	case why.Code == reason.AllFull:
		return "full", "swctl instances"
	case why.Code == reason.NoHandler:
		return "nobody may run it", "swctl set " + name + " --handler NAME"
	case why.Code == reason.AllClosed && len(why.Instances) > 0:
		return "nobody may run it", "swctl instances enable " + plain.Quoted(why.Instances[0].ID)
	case why.Code == reason.Nowhere && len(job.Job.Require) > 0:
		return "nobody may run it", "swctl set " + name + " --drop-require KEY"
	case why.Code == reason.Nowhere:
		return "nobody may run it", "swctl set " + name + " --instance ID"
	case why.Code == reason.HandlerGone:
		return "nobody may run it", "swctl instances"
	}
	return "unowned", "swctl why " + name
}

// unwell says what is wrong with an instance.
func unwell(i admin.Instance, now time.Time) (problem, bool) {
	id := plain.Quoted(i.ID)
	p := problem{What: i.ID, Link: instanceLink(i.ID), Cause: strings.Join(words.Notes(i, now), "; ")}
	switch {
	case i.State == admin.InstanceWrongClock, words.ClockNote(i) != "":
		p.Kind, p.Try = "wrong clock", "swctl instances show "+id
	case i.State == admin.InstanceNone, i.State == admin.InstanceUnreadable:
		p.Kind, p.Try = "instance", "swctl instances show "+id
	case i.Order != nil && now.Sub(i.Order.At) > pausedLong:
		p.Kind, p.Try = "instance", "swctl instances enable "+id
		if i.Order.Host != "" {
			p.Try = "swctl instances enable --host " + plain.Quoted(i.Order.Host)
		}
	default:
		return p, false
	}
	p.Cause = cmp.Or(p.Cause, "it is "+i.State)
	return p, true
}

// gone lists the instances that jobs have on record as owners, and that do not run.
func gone(s *snapshot) []problem {
	owned := make(map[string]int)
	for _, job := range s.jobs {
		for _, slot := range words.Slots(job) {
			if slot.Owner != nil && slot.InstanceID == "" && slot.State == admin.StateUnowned {
				owned[slot.Owner.InstanceID]++
			}
		}
	}
	for _, i := range s.instances {
		delete(owned, i.ID)
	}
	var all []problem
	for id, n := range owned {
		all = append(all, problem{
			Kind: "gone", What: id, Link: instanceLink(id), Try: "swctl instances",
			Cause: fmt.Sprintf("it is not running, and still owns %s on record; others take over within a session timeout", counted(n, "job")),
		})
	}
	return all
}

// counted is "1 job" or "2 jobs".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

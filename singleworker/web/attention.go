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
	Kind  string
	Means string // what that says of whatever job; "" of an instance
	What  string // the name of a job, or the ID of an instance
	Link  string // its page
	Cause string
	Try   string // the command that mends it, or tells more

	severity reason.Severity
	rank     int // within the severity: below 0 of jobs, whose problems come first
}

// kinds of problems of instances, the worst first.
var kinds = []string{"wrong clock", "gone", "instance"}

// pausedLong is as long as an order that may have been forgotten.
const pausedLong = 24 * time.Hour

// attention lists what is wrong with a group, the worst first.
func attention(s *snapshot, now time.Time) []problem {
	all := ailing(s.jobs)
	for _, i := range s.instances {
		if p, wrong := unwell(i, now); wrong {
			all = append(all, p)
		}
	}
	all = append(all, gone(s)...)
	slices.SortStableFunc(all, func(a, b problem) int {
		return cmp.Or(cmp.Compare(b.severity, a.severity), cmp.Compare(a.rank, b.rank), cmp.Compare(a.What, b.What))
	})
	return all
}

// ailing are the jobs with which something is wrong, as the first of their conditions says.
func ailing(jobs []admin.JobStatus) (all []problem) {
	meanings := reason.Meanings()
	for _, job := range jobs {
		if len(job.Conditions) == 0 || job.Conditions[0].Severity == reason.Fine {
			continue
		}
		first := job.Conditions[0]
		all = append(all, problem{
			Kind: first.Word, Means: first.Sentence, What: words.Name(job), Link: jobLink(job.Name), Cause: words.Cause(job), Try: first.Remedy,
			severity: first.Severity, rank: slices.IndexFunc(meanings, func(m reason.Meaning) bool { return m.Word == first.Word }) - len(meanings),
		})
	}
	return all
}

// unwell says what is wrong with an instance.
func unwell(i admin.Instance, now time.Time) (problem, bool) {
	id := plain.Quoted(i.ID)
	p := problem{What: i.ID, Link: instanceLink(i.ID), Cause: strings.Join(words.Notes(i, now), "; "), severity: reason.Warning}
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
	p.Cause, p.rank = cmp.Or(p.Cause, "it is "+i.State), slices.Index(kinds, p.Kind)
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
			Kind: "gone", What: id, Link: instanceLink(id), Try: "swctl instances", severity: reason.Warning, rank: slices.Index(kinds, "gone"),
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

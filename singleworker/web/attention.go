package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
)

// problem is something that an operator should look at.
type problem struct {
	reason.Condition

	kind  string // "jobs" or "instances"
	of    string // the name of the job, or the ID of the instance
	What  string // the same, legible
	Link  string // its page
	Cause string // all that is wrong with it
	Owner string // of a job
	Error string // of its last run that has one
}

// summary is the line below the head of each page.
type summary struct {
	Jobs, Instances, Running, Problems string
	Bad                                bool
	At                                 stamp
	Clock                              string // of this machine, if it is wrong
	Frozen                             string // how long the group is, if a job is because of that
}

func (s *snapshot) summary(l look) *summary {
	running := 0
	for _, job := range s.jobs {
		running += len(words.InProgress(job))
	}
	problems := len(attention(s, l.now))
	return &summary{
		Jobs: counted(len(s.jobs), "job"), Instances: counted(len(s.instances), "instance"), Running: fmt.Sprintf("%d running", running),
		Problems: counted(problems, "problem"), Bad: problems > 0, At: l.stamp(s.at), Clock: s.clock, Frozen: s.frozen(),
	}
}

// frozen is how long the group is frozen, "" if no job is.
func (s *snapshot) frozen() string {
	for _, job := range s.jobs {
		if c, is := job.Condition(reason.Frozen); is {
			return c.Detail
		}
	}
	return ""
}

// attention lists a group's faults, the worst first.
func attention(s *snapshot, now time.Time) (all []problem) {
	add := func(p problem, found []reason.Condition) {
		if len(found) > 0 && found[0].Severity != reason.Fine {
			p.Condition, p.Cause = found[0], words.Line(found)
			all = append(all, p)
		}
	}
	for _, job := range s.jobs {
		add(problem{kind: "jobs", of: job.Name, What: words.Name(job), Link: jobLink(job.Name), Owner: words.Owner(job), Error: lastError(job)}, job.Conditions)
	}
	for _, i := range s.instances {
		add(problem{kind: "instances", of: i.ID, What: i.ID, Link: instanceLink(i.ID)}, words.OfInstance(i, now))
	}
	for id, n := range gone(s) {
		m, _ := reason.Means(reason.Gone)
		add(problem{kind: "instances", of: id, What: id, Link: instanceLink(id)}, []reason.Condition{{
			Meaning: m, Detail: fmt.Sprintf("it is not running, and still owns %s on record; others take over within a session timeout", counted(n, "job")),
		}})
	}
	ranked := make(map[string]int)
	for i, m := range slices.Concat(reason.Meanings(), reason.InstanceMeanings()) {
		if _, is := ranked[m.Word]; !is {
			ranked[m.Word] = i
		}
	}
	slices.SortFunc(all, func(a, b problem) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(ranked[a.Word], ranked[b.Word]), cmp.Compare(a.What, b.What))
	})
	return all
}

// lastError is the first line of the error of the last run, of whatever shard, that has one.
func lastError(job admin.JobStatus) string {
	var last history.Run
	for _, slot := range words.Slots(job) {
		if run := slot.LastRun; run != nil && run.Error != "" && run.Tick.After(last.Tick) {
			last = *run
		}
	}
	return clip(plain.FirstLine(last.Error))
}

// gone counts the jobs of the instances that they have on record as owners, and that do not run.
func gone(s *snapshot) map[string]int {
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
	return owned
}

package notify

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// submitted says whom a job names.
func submitted(name string, to map[string][]Kind) admin.Event {
	return admin.Event{Kind: admin.EventJobSubmitted, Job: name, Notify: to}
}

// told returns the messages of each of two targets now.
func told(b *book) (said []string) {
	owed := b.owed([]string{"dev", "ops"})
	for _, target := range []string{"dev", "ops"} {
		sending(owed[target])
		b.sent(target, owed[target])
		for _, o := range owed[target] {
			said = append(said, target+": "+string(o.item.Kind)+" "+o.item.Job)
		}
	}
	b.owed([]string{"dev", "ops"})
	return said
}

// status is a job as a poll reads it.
func status(name string, to map[string][]Kind) admin.JobStatus {
	return admin.JobStatus{Name: name, Job: job.Job{Name: name, Schedule: "@daily", Notify: to}}
}

// A job's own targets come beside the rules of the group.
func TestRulesOfJobs(t *testing.T) {
	t.Parallel()
	b := toOps(Rule{Jobs: "report", On: []Kind{Failed, Recovered}, To: []string{"ops"}, After: 2})
	everything := map[string][]Kind{"dev": {}, "nobody": {Failed}}
	b.take(submitted("report", everything))
	b.take(submitted("other", map[string][]Kind{"dev": {Failed}, "ops": {Recovered}}))
	b.take(ran("report[1]", "a", history.StateFailed, 0))
	b.take(ran("other", "b", history.StateFailed, 0))
	b.take(missed("other", 0, 1))
	b.take(ran("third", "c", history.StateFailed, 0))
	wantSaid(t, told(b), "dev: failed other", "dev: failed report[1]")
	b.take(ran("report[1]", "d", history.StateFailed, 1))
	b.take(ran("other", "e", history.StateOK, 1))
	wantSaid(t, told(b), "ops: failed report[1]") // the group waits for two
	b.take(ran("report[1]", "f", history.StateOK, 2))
	wantSaid(t, told(b), "dev: recovered report[1]", "ops: recovered report[1]")
	if len(b.unknown) != 1 || b.unknown["nobody"] != "report" {
		t.Errorf("targets that do not exist: %v, want nobody, named by report", b.unknown)
	}
}

// Of an episode that lasts, a target hears that the job names only later; one that is no longer
// named hears no more.
func TestRulesOfJobsThatChange(t *testing.T) {
	t.Parallel()
	b := toOps()
	b.take(ran("report", "a", history.StateFailed, 0))
	wantSaid(t, told(b), "ops: failed report")
	b.take(submitted("report", map[string][]Kind{"dev": {Failed, Recovered}}))
	wantSaid(t, told(b), "dev: failed report")
	b.take(ran("report", "b", history.StateOK, 1))
	wantSaid(t, told(b), "dev: recovered report", "ops: recovered report")
	b.take(ran("report", "c", history.StateFailed, 2))
	wantSaid(t, told(b), "dev: failed report", "ops: failed report")
	b.take(submitted("report", nil))
	b.take(ran("report", "d", history.StateOK, 3))
	wantSaid(t, told(b), "ops: recovered report")
	if len(b.jobs) > 0 {
		t.Errorf("%v is remembered of a job that names nobody", b.jobs)
	}
	b.take(submitted("report", map[string][]Kind{"dev": {Late}}))
	invalid := admin.JobStatus{Name: "report", State: admin.StateInvalid, Reason: reason.Reason{Code: reason.Unreadable}}
	invalid.SetConditions(noon)
	b.begin([]admin.JobStatus{invalid}, noon) // its record cannot be read: what it said holds on
	wantSaid(t, told(b), "dev: late report", "ops: late report")
}

// Each condition of the table that has a kind of notification is told when it begins and when it
// ends, and a job without an owner is not.
func TestEveryConditionWithAKindIsTold(t *testing.T) {
	t.Parallel()
	for _, m := range reason.Meanings() {
		job := status("report", nil)
		job.State = admin.State(m.State)
		job.Reason.Code = m.Code
		switch m.Code {
		case reason.Late:
			job.State, job.Overdue = admin.StateOwned, noon
		case reason.Hung:
			job.State, job.Hung = admin.StateOwned, &admin.Hung{RunID: "a", Since: noon}
		default:
			if m.Severity != reason.Broken {
				continue
			}
		}
		b := toOps()
		begins, ends := []string{}, []string{}
		if m.Notify != "" {
			begins, ends = []string{"ops: " + string(m.Notify) + " report"}, []string{"ops: recovered report"}
		}
		b.take(stand(job, noon))
		wantSaid(t, told(b), begins...)
		b.take(stand(status("report", nil), noon.Add(time.Minute)))
		wantSaid(t, told(b), ends...)
	}
}

// Whom a job named is told that it was canceled, also by an heir that never saw the job.
func TestRulesOfJobsThatAreCanceled(t *testing.T) {
	t.Parallel()
	for _, heir := range []bool{false, true} {
		b := toOps(Rule{Jobs: "others", To: []string{"ops"}})
		b.cursor = 1
		b.begin([]admin.JobStatus{status("report", map[string][]Kind{"dev": {}})}, noon)
		b.take(admin.Event{Kind: admin.EventWatching, Cursor: 1})
		b.take(ran("report", "a", history.StateFailed, 0))
		wantSaid(t, told(b), "dev: failed report")
		if heir {
			b = restarted(t, b)
			b.jobs = make(map[string]jobRules)
			b.begin(nil, noon.Add(time.Minute))
		} else {
			b.take(admin.Event{Kind: admin.EventJobCanceled, Job: "report", At: noon.Add(time.Minute)})
		}
		wantSaid(t, told(b), "dev: recovered report")
		wantSaid(t, told(b))
		if r := b.parts[partOf("report")].slots["report"]; len(b.jobs) > 0 || b.lasting() > 0 || r != nil && r.To != nil {
			t.Errorf("heir %v: whom a canceled job named is remembered: %v, %v", heir, b.jobs, r)
		}
	}
}

package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/job"
)

// A job that is done says for how long, and when it goes.
func TestJobsThatAreDone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 25, 0, 0, 0, 0, time.UTC)
	for keep, want := range map[time.Duration]string{
		24 * time.Hour: "3h ago, removed in 21h", job.KeepForever: "3h ago, kept until it is canceled",
	} {
		var out bytes.Buffer
		p := Page{Out: &out, Clock: Clock{Now: now}}
		one := admin.JobStatus{
			Name: "once", State: admin.StateDone, DoneAt: now.Add(-3 * time.Hour), Reason: reason.Reason{Code: reason.Done},
			Job: job.Job{Name: "once", Schedule: "@at 2026-12-24T21:00:00Z", KeepDone: keep}.WithDefaults(),
		}
		one.SetConditions(now)
		p.Jobs([]admin.JobStatus{one}, "")
		p.Job(one, nil, admin.JobVersion{})
		if strings.Count(out.String(), want) != 2 || strings.Contains(out.String(), one.Reason.String()) {
			t.Errorf("no %q, twice, in\n%s", want, out.String())
		}
	}
}

// A node that is no job, or no instance, is a row that says so, and is not taken for another one.
func TestRowsOfOtherNodes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := Page{Out: &out}
	lead := admin.JobStatus{Name: " lead", State: admin.StateInvalid, Reason: reason.Reason{Code: reason.BadName, Error: "its name begins or ends with a blank"}}
	lead.SetConditions(time.Time{})
	p.Jobs([]admin.JobStatus{{Name: "lead", State: admin.StateOwned}, lead, {Name: "a\u202eb", State: admin.StateInvalid}}, "")
	p.Instances([]admin.Instance{{ID: "ghost", State: admin.InstanceNone, Reason: "it is held by no session"}})
	for _, want := range []string{"\nlead ", "\n\" lead\" ", "\n\"a\\u202eb\" ", "its name begins or ends with a blank", "none", "it is held by no session"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Whatever an instance has written, a terminal does not obey it.
func TestOrderedIsPrintable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	hostile := admin.Instance{State: "\x1b]0;title\a\u009b31m\u202e"}
	Page{Out: &out}.Ordered(admin.Target{InstanceID: "i"}, admin.OrderResult{
		Outcome: admin.OutcomeOrdered, Order: &admin.Order{By: "\x1b[2J", Reason: "a\nb"}, Instance: &hostile,
	})
	if want := "disabled i by �[2J: a�b\n  it is �]0;title��31m� and owns 0 jobs\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

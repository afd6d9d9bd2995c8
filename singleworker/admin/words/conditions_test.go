package words

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// statuses has a status for each code, in which nothing else is wrong, with the STATE that it is
// listed with.
func statuses() map[reason.Code]admin.JobStatus {
	all := make(map[reason.Code]admin.JobStatus)
	of := func(code reason.Code, state admin.State, change func(job *admin.JobStatus)) {
		job := admin.JobStatus{Name: "report", State: state, Job: jobs.Job{Name: "report", Require: map[string]string{"zone": "a"}}}
		job.Reason = reason.Reason{Code: code, Error: "why", Instances: []reason.Instance{{ID: "app-1"}}}
		if state == admin.StateOwned {
			job.Reason = reason.Reason{}
		}
		if change != nil {
			change(&job)
		}
		job.SetConditions(noon)
		all[code] = job
	}
	for _, code := range []reason.Code{reason.NewerVersion, reason.Unreadable, reason.Denied, reason.BadName, reason.BadSpec, reason.BadCalendar, reason.BadLimit, reason.BadParent} {
		of(code, admin.StateInvalid, nil)
	}
	for _, code := range []reason.Code{
		reason.NoHandler, reason.HandlerGone, reason.AllClosed, reason.Nowhere, reason.AllFull, reason.OwnerGone, reason.Offered, reason.Waiting, reason.Absent,
	} {
		of(code, admin.StateUnowned, nil)
	}
	of(reason.Unlisted, admin.StateUnowned, func(job *admin.JobStatus) { job.Job.Require = nil })
	of(reason.Canceling, admin.StateCanceled, nil)
	of(reason.Done, admin.StateDone, func(job *admin.JobStatus) { job.DoneAt = noon })
	of(reason.LongPaused, admin.StateOwned, func(job *admin.JobStatus) { job.Paused = &admin.Pause{Since: noon.Add(-25 * time.Hour)} })
	of(reason.Paused, admin.StateOwned, func(job *admin.JobStatus) { job.Paused = &admin.Pause{Since: noon} })
	of(reason.Frozen, admin.StateOwned, func(job *admin.JobStatus) { job.Frozen = &admin.Pause{Since: noon} })
	of(reason.Late, admin.StateOwned, func(job *admin.JobStatus) { job.Overdue = noon.Add(-time.Hour) })
	of(reason.NoResolver, admin.StateOwned, func(job *admin.JobStatus) {
		job.Job.Interrupted, job.Owner = "ask", &admin.Owner{InstanceID: "app-1"}
	})
	of(reason.OwnerClock, admin.StateOwned, func(job *admin.JobStatus) { job.Owner = &admin.Owner{InstanceID: "app-1", WrongClock: true} })
	of(reason.Ahead, admin.StateOwned, func(job *admin.JobStatus) { job.Watermark = noon.Add(time.Hour) })
	of(reason.Hung, admin.StateOwned, func(job *admin.JobStatus) { job.Hung = &admin.Hung{Since: noon.Add(-time.Hour)} })
	of(reason.Failing, admin.StateOwned, func(job *admin.JobStatus) { job.Failing = &admin.Failing{Runs: 7, Since: noon.Add(-time.Hour)} })
	of(reason.Overrun, admin.StateOwned, func(job *admin.JobStatus) { job.Overrun = noon.Add(-time.Hour) })
	of(reason.After, admin.StateOwned, func(job *admin.JobStatus) {
		job.Waiting, job.WaitsFor = noon, []admin.Parent{{Name: "load"}}
	})
	of(reason.Limited, admin.StateOwned, func(job *admin.JobStatus) { job.Limited = []admin.LimitWait{{Limit: "api", Max: 1, Since: noon}} })
	of(reason.Resizing, admin.StateOwned, func(job *admin.JobStatus) { job.Resizing = &admin.Resizing{From: 1, To: 2} })
	of(reason.Conflict, admin.StateOwned, func(job *admin.JobStatus) {
		job.Declarations = []admin.Declaration{{InstanceID: "app-1", Fingerprint: "1"}, {InstanceID: "app-2", Fingerprint: "2"}}
	})
	return all
}

// Every code is told from a status, and says everything that its readers ask for.
func TestEveryCondition(t *testing.T) {
	t.Parallel()
	all := statuses()
	for _, m := range reason.Meanings() {
		job, known := all[m.Code]
		if !known {
			t.Errorf("%s: no status has it", m.Code)
			continue
		}
		found := job.Conditions
		if len(found) != 1 || found[0].Code != m.Code {
			t.Errorf("%s: %+v", m.Code, found)
			continue
		}
		if c := found[0]; c.Detail == "" || strings.Contains(c.Detail, "\n") || c.Word == "" || c.Title == "" || c.Sentence == "" || strings.HasSuffix(c.Sentence, ".") ||
			!strings.HasPrefix(c.Remedy, "swctl ") || strings.Contains(c.Remedy, " NAME") || Line(job.Conditions) != c.Detail {
			t.Errorf("%s: %+v", m.Code, c)
		}
		if got := job.Health(); got != m.State || !slices.Contains(States(), got) {
			t.Errorf("%s: state %s, want %s", m.Code, got, m.State)
		}
		if owned := job.State == admin.StateOwned; owned && (m.Severity == reason.Broken || m.Idle) || m.State == "" || strings.Contains(m.State, " ") {
			t.Errorf("%s: severity %d, state %s", m.Code, m.Severity, m.State)
		}
		if shown := Health(job); shown != m.Word && (m.Code != reason.Failing || shown != "failing x7") {
			t.Errorf("%s: shown as %s, want %s", m.Code, shown, m.Word)
		}
	}
	well := admin.JobStatus{State: admin.StateOwned}
	well.SetConditions(noon)
	if len(reason.Meanings()) != len(all) || well.Conditions != nil || well.Health() != admin.HealthOK || Health(well) != admin.HealthOK {
		t.Errorf("%d codes, %d statuses; a job that is well: %+v", len(reason.Meanings()), len(all), well.Conditions)
	}
}

// Every code of an instance is told from it, the worst first, but for that of one that is gone.
func TestConditionsOfInstances(t *testing.T) {
	t.Parallel()
	ahead := time.Minute
	long := &admin.Order{InstanceID: "app-1", By: "alice", Reason: "disk\nfull", At: noon.Add(-25 * time.Hour)}
	for _, row := range []struct {
		of   admin.Instance
		want []reason.Code
		line string
	}{
		{admin.Instance{ID: "app-1", State: admin.InstanceActive}, nil, ""},
		{
			admin.Instance{ID: "app-1", State: admin.InstanceUnreadable, Reason: "garbage", ClockOffset: &ahead, Order: long, JobOrders: []admin.Order{{Job: "report"}}},
			[]reason.Code{reason.WrongClock, reason.Unusable, reason.LongClosed, reason.JobsClosed},
			"its clock is 1m ahead of ZooKeeper's; garbage; disabled 1d1h ago by alice: disk; disabled for report",
		},
		{admin.Instance{ID: "app-1", State: admin.InstanceWrongClock, Withdrawn: true}, []reason.Code{reason.WrongClock, reason.Closed}, "its clock is wrong; drained by its own program"},
		{admin.Instance{ID: "app-1", State: admin.InstanceUnreadable, Order: &admin.Order{Host: "db8"}}, []reason.Code{reason.Unusable, reason.Closed}, "it is unreadable; its host is disabled"},
		{admin.Instance{ID: "app-1", State: admin.InstanceDraining, Order: &admin.Order{Incarnation: "1", At: noon}}, []reason.Code{reason.Closed}, "told to drain now"},
	} {
		found := OfInstance(row.of, noon)
		var codes []reason.Code
		for _, c := range found {
			codes = append(codes, c.Code)
			if m, known := reason.Means(c.Code); !known || strings.Contains(c.Remedy, " ID") || m.Word == "" || m.Title == "" || m.Sentence == "" {
				t.Errorf("%+v", c)
			}
		}
		if line := Line(found); !slices.Equal(codes, row.want) || line != row.line {
			t.Errorf("%v, %s\nwant %v, %s", codes, line, row.want, row.line)
		}
	}
}

// The first condition explains or excuses the others, and all are said.
func TestOrderOfConditions(t *testing.T) {
	t.Parallel()
	job := admin.JobStatus{
		Name: "report", State: admin.StateUnowned, Reason: reason.Reason{Code: reason.SomeShards, Shards: 1, Of: 2, First: "report[1]", Why: &reason.Reason{
			Code: reason.AllClosed, Instances: []reason.Instance{{ID: "app 1", State: admin.InstanceDisabled}},
		}},
		Paused: &admin.Pause{Since: noon}, Overdue: noon.Add(-time.Hour), Watermark: noon.Add(time.Hour), Hung: &admin.Hung{Since: noon.Add(-time.Hour)},
		Overrun: noon.Add(-time.Minute), Resizing: &admin.Resizing{From: 1, To: 2}, Failing: &admin.Failing{Runs: 1},
	}
	want := []reason.Code{reason.AllClosed, reason.Paused, reason.Late, reason.Ahead, reason.Hung, reason.Failing, reason.Overrun, reason.Resizing}
	for _, state := range []string{"nobody", "paused", "late", "wrong_clock", "hung", "failing", "overrun", "resizing"} {
		var codes []reason.Code
		job.SetConditions(noon)
		found := job.Conditions
		for _, c := range found {
			codes = append(codes, c.Code)
		}
		if !slices.Equal(codes, want) || job.Health() != state {
			t.Errorf("%s, %v; want %s, %v", job.Health(), codes, state, want)
		}
		switch state {
		case "nobody":
			if got := found[0].Remedy; got != "swctl instances enable 'app 1'" {
				t.Error(got)
			}
			job.State, job.Reason, want = admin.StateOwned, reason.Reason{}, want[1:]
		case "paused":
			job.Paused, want = nil, want[1:]
		case "late":
			job.Overdue, want = time.Time{}, want[1:]
		case "wrong_clock":
			job.Watermark, want = time.Time{}, want[1:]
		case "hung":
			job.Hung, want = nil, want[1:]
		case "failing":
			job.Failing, want = nil, want[1:]
		case "overrun":
			job.Overrun, want = time.Time{}, want[1:]
		}
	}
}

// The JSON of a status has its conditions with all that a program asks for, and a status that is
// decoded from it is as the first.
func TestConditionsInJSON(t *testing.T) {
	t.Parallel()
	for code, job := range statuses() {
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		var fields struct{ Conditions []map[string]any }
		var decoded admin.JobStatus
		if err := errors.Join(json.Unmarshal(text, &fields), json.Unmarshal(text, &decoded)); err != nil {
			t.Fatal(err)
		}
		c := job.Conditions[0]
		want := map[string]any{"code": string(code), "severity": c.Severity.String(), "sentence": c.Sentence, "remedy": c.Remedy, "detail": c.Detail}
		if !c.Since.IsZero() {
			want["since"] = c.Since.Format(time.RFC3339)
		}
		if len(fields.Conditions) != 1 || !maps.Equal(fields.Conditions[0], want) {
			t.Errorf("%v\nwant %v", fields.Conditions, want)
		}
		if !slices.Equal(decoded.Conditions, job.Conditions) || decoded.Health() != job.Health() || Line(decoded.Conditions) != Line(job.Conditions) {
			t.Errorf("%s: %+v\nwant %+v", code, decoded.Conditions, job.Conditions)
		}
	}
	if text, err := json.Marshal(admin.JobStatus{State: admin.StateOwned}); err != nil || strings.Contains(string(text), "conditions") {
		t.Errorf("%s, %v", text, err)
	}
}

// The first table of symptoms of OPERATE.md has a row for each thing that can be wrong with a job,
// with the command that is tried.
func TestSymptomsOfJobs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../OPERATE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "### A job does not run\n")
	if !found {
		t.Fatal("OPERATE.md has no section on jobs that do not run")
	}
	section, _, _ = strings.Cut(section, "\n### ")
	for _, m := range reason.Meanings() {
		if !slices.ContainsFunc(strings.Split(section, "\n"), func(row string) bool {
			cells := strings.Split(row, " | ")
			return len(cells) == 3 && strings.Contains(cells[0], "`"+m.Word+"`") && strings.Contains(cells[2], "`"+m.Remedy+"`")
		}) {
			t.Errorf("no row for %s, with STATE %s and %q", m.Code, m.Word, m.Remedy)
		}
	}
}

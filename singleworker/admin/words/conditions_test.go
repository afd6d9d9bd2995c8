package words

import (
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

// statuses has a status for each code, in which nothing else is wrong, with the STATE that it is listed with.
func statuses() map[Code]admin.JobStatus {
	all := make(map[Code]admin.JobStatus)
	of := func(code Code, state admin.State, change func(job *admin.JobStatus)) {
		job := admin.JobStatus{Name: "report", State: state, Job: jobs.Job{Name: "report", Require: map[string]string{"zone": "a"}}}
		job.Reason = reason.Reason{Code: reason.Code(code), Error: "why", Instances: []reason.Instance{{ID: "app-1"}}}
		if state == admin.StateOwned {
			job.Reason = reason.Reason{}
		}
		if change != nil {
			change(&job)
		}
		all[code] = job
	}
	for _, code := range []reason.Code{reason.NewerVersion, reason.Unreadable, reason.Denied, reason.BadName, reason.BadSpec} {
		of(Code(code), admin.StateInvalid, nil)
	}
	for _, code := range []reason.Code{
		reason.NoHandler, reason.HandlerGone, reason.AllClosed, reason.Nowhere, reason.AllFull, reason.OwnerGone, reason.Offered, reason.Waiting, reason.Absent,
	} {
		of(Code(code), admin.StateUnowned, nil)
	}
	of(Unlisted, admin.StateUnowned, func(job *admin.JobStatus) { job.Reason.Code, job.Job.Require = reason.Nowhere, nil })
	of(Code(reason.Canceling), admin.StateCanceled, nil)
	of(Code(reason.Done), admin.StateDone, func(job *admin.JobStatus) { job.DoneAt = noon })
	of(LongPaused, admin.StateOwned, func(job *admin.JobStatus) { job.Paused = &admin.Pause{Since: noon.Add(-25 * time.Hour)} })
	of(Paused, admin.StateOwned, func(job *admin.JobStatus) { job.Paused = &admin.Pause{Since: noon} })
	of(Late, admin.StateOwned, func(job *admin.JobStatus) { job.Overdue = noon.Add(-time.Hour) })
	of(Ahead, admin.StateOwned, func(job *admin.JobStatus) { job.Watermark = noon.Add(time.Hour) })
	of(Hung, admin.StateOwned, func(job *admin.JobStatus) { job.Hung = &admin.Hung{Since: noon.Add(-time.Hour)} })
	of(Failing, admin.StateOwned, func(job *admin.JobStatus) { job.Failing = &admin.Failing{Runs: 7, Since: noon.Add(-time.Hour)} })
	of(Overrun, admin.StateOwned, func(job *admin.JobStatus) { job.Overrun = noon.Add(-time.Hour) })
	of(Resizing, admin.StateOwned, func(job *admin.JobStatus) { job.Resizing = &admin.Resizing{From: 1, To: 2} })
	return all
}

// Every code is told from a status, and says everything that its readers ask for.
func TestEveryCondition(t *testing.T) {
	t.Parallel()
	all := statuses()
	for _, m := range Meanings() {
		job, known := all[m.Code]
		if !known {
			t.Errorf("%s: no status has it", m.Code)
			continue
		}
		found := Conditions(job, noon)
		if len(found) != 1 || found[0].Code != m.Code {
			t.Errorf("%s: %+v", m.Code, found)
			continue
		}
		if c := found[0]; c.Detail == "" || strings.Contains(c.Detail, "\n") || c.Word == "" || c.Title == "" || c.Sentence == "" || strings.HasSuffix(c.Sentence, ".") ||
			!strings.HasPrefix(c.Remedy, "swctl ") || strings.Contains(c.Remedy, " NAME") || Cause(job, noon) != c.String() {
			t.Errorf("%s: %+v", m.Code, c)
		}
		want := m.State
		if want == "" {
			want = "owned"
		}
		if got := State(job); got != want || !slices.Contains(States(), got) {
			t.Errorf("%s: STATE %s, want %s", m.Code, got, want)
		}
		if owned := job.State == admin.StateOwned; owned && m.Severity == Broken || !owned && m.State != string(job.State) {
			t.Errorf("%s: severity %d, state %s", m.Code, m.Severity, m.State)
		}
	}
	if well := (admin.JobStatus{State: admin.StateOwned}); len(Meanings()) != len(all) || Conditions(well, noon) != nil || State(well) != "owned" {
		t.Errorf("%d codes, %d statuses; a job that is well: %+v", len(Meanings()), len(all), Conditions(well, noon))
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
	want := []Code{Code(reason.AllClosed), Paused, Late, Ahead, Hung, Failing, Overrun, Resizing}
	for _, state := range []string{"unowned", "paused", "late", "hung", "resizing"} {
		var codes []Code
		found := Conditions(job, noon)
		for _, c := range found {
			codes = append(codes, c.Code)
		}
		if !slices.Equal(codes, want) || State(job) != state {
			t.Errorf("%s, %v; want %s, %v", State(job), codes, state, want)
		}
		switch state {
		case "unowned":
			if got := found[0].Remedy; got != "swctl instances enable 'app 1'" {
				t.Error(got)
			}
			job.State, job.Reason, want = admin.StateOwned, reason.Reason{}, want[1:]
		case "paused":
			job.Paused, want = nil, want[1:]
		case "late":
			job.Overdue, job.Watermark, want = time.Time{}, time.Time{}, want[2:]
		case "hung":
			job.Hung, job.Failing, job.Overrun, want = nil, nil, time.Time{}, want[3:]
		}
	}
}

// What was decoded from JSON has a sentence instead of a code, and no facts.
func TestConditionsOfADecodedStatus(t *testing.T) {
	t.Parallel()
	for state, want := range map[admin.State]Code{
		admin.StateInvalid: Code(reason.Unreadable), admin.StateUnowned: Code(reason.Waiting), admin.StateDone: Code(reason.Done), admin.StateCanceled: Code(reason.Canceling),
	} {
		job := admin.JobStatus{State: state, Reason: reason.Reason{Code: reason.Sentence, Error: "why"}}
		if found := Conditions(job, noon); len(found) != 1 || found[0].Code != want || State(job) != string(state) {
			t.Errorf("%s: %+v, want %s", state, found, want)
		}
	}
}

// The first table of symptoms of OPERATE.md has a row for each thing that can be wrong with a job, with the command that is tried.
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
	for _, m := range Meanings() {
		state := m.State
		if state == "" {
			state = string(admin.StateOwned)
		}
		if !slices.ContainsFunc(strings.Split(section, "\n"), func(row string) bool {
			cells := strings.Split(row, " | ")
			return len(cells) == 3 && strings.HasPrefix(cells[0], "| `"+state+"`") && strings.Contains(cells[2], "`"+m.Remedy+"`")
		}) {
			t.Errorf("no row for %s, with STATE %s and %q", m.Code, state, m.Remedy)
		}
	}
}

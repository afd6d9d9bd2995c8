package admin

import (
	"errors"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A set is recorded in the transaction that submits the job, stays while others edit it, and goes
// when somebody submits another job in its place.
func TestSets(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		daily := job.Job{Name: "daily", Schedule: "@daily"}
		submit := func(j job.Job, set string, want Outcome, edited bool) {
			t.Helper()
			done, err := w.c.Submit(w.Context(), j, SubmitOptions{Replace: true, Set: set})
			if status := w.get("daily"); err != nil || done.Outcome != want || status.Set != set || status.Edited != edited {
				t.Errorf("set %q: %s, %v, and it is %q, edited: %v; want %s, %v", set, done.Outcome, err, status.Set, status.Edited, want, edited)
			}
		}
		w.submit(daily)
		submit(daily, "a", OutcomeReplaced, false)
		submit(daily, "a", OutcomeUnchanged, false)
		if _, err := w.c.Submit(w.Context(), daily, SubmitOptions{}); err != nil || w.get("daily").Set != "a" {
			t.Errorf("the same job without a set: %v, %q", err, w.get("daily").Set)
		}
		submit(daily, "b", OutcomeReplaced, false)
		if _, err := w.edit("daily", func(j *job.Job) { j.Retries = 3 }); err != nil {
			t.Fatal(err)
		}
		if status := w.get("daily"); status.Set != "b" || !status.Edited {
			t.Errorf("after an edit: %q, edited: %v", status.Set, status.Edited)
		}
		submit(daily, "b", OutcomeReplaced, false)
		submit(job.Job{Name: "daily", Schedule: "@hourly"}, "", OutcomeReplaced, false)
		refused := new(invalid.FieldError)
		if _, err := w.c.Submit(w.Context(), daily, SubmitOptions{Set: "a/b"}); !errors.As(err, &refused) || refused.Field != "Set" {
			t.Errorf("a set with a slash: %v", err)
		}
	})
}

// A job is replaced only as it was seen: not another version of it, nor another job of its name.
func TestSeen(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		submit := func(schedule string, seen Seen) error {
			_, err := w.c.Submit(w.Context(), job.Job{Name: "daily", Schedule: schedule}, SubmitOptions{Replace: true, Seen: &seen})
			return err
		}
		seen := func() Seen { return Seen{w.get("daily").ID, w.get("daily").Version} }
		w.submit(job.Job{Name: "daily", Schedule: "@daily"})
		first := seen()
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
		if err := submit("@hourly", first); err != nil {
			t.Errorf("an answer was lost: %v", err)
		}
		if err := submit("@hourly", first); err != nil {
			t.Errorf("it is as wanted already: %v", err)
		}
		if err := submit("@weekly", first); !errors.Is(err, ErrConflict) {
			t.Errorf("another version: %v", err)
		}
		if _, err := w.c.Cancel(w.Context(), "daily"); err != nil {
			t.Fatal(err)
		}
		if err := submit("@weekly", first); !errors.Is(err, ErrConflict) {
			t.Errorf("a job that is gone: %v", err)
		}
		w.submit(job.Job{Name: "daily", Schedule: "@daily"})
		if again := seen(); again.Version != first.Version || again.ID == first.ID {
			t.Errorf("the job was %+v, and another one of its name is %+v", first, again)
		}
		if err := submit("@weekly", first); !errors.Is(err, ErrConflict) {
			t.Errorf("another job: %v", err)
		}
		if err := submit("@weekly", seen()); err != nil {
			t.Error(err)
		}
	})
}

// A pause ends in the transaction that replaces the job, and none of its ticks runs.
func TestSubmitResumes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		daily := job.Job{Name: "job", Schedule: "@daily"}
		if _, err := w.c.Submit(w.Context(), daily, SubmitOptions{Pause: &PauseOptions{Missed: job.MisfireAll}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		for _, want := range []Outcome{OutcomeReplaced, OutcomeUnchanged} {
			done, err := w.c.Submit(w.Context(), daily, SubmitOptions{Replace: true, Resume: true})
			if err != nil || done.Outcome != want || w.get("job").Paused != nil {
				t.Errorf("%s, %v, %+v; want %s", done.Outcome, err, w.get("job").Paused, want)
			}
		}
		w.wantSwitch(`{"schema":1,"paused":{"since":946728000000,"over":true}}`)
	})
}

// Jobs are submitted in one transaction: all, once, also when its answer is lost, or none.
func TestSubmitAll(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "old", Schedule: "@daily"})
		of := func(schedule string, seen *Seen) []Submission {
			var jobs []Submission
			for _, name := range []string{"a", "old", "b"} {
				jobs = append(jobs, Submission{job.Job{Name: name, Schedule: schedule}, SubmitOptions{Replace: true}})
			}
			jobs[1].Options.Seen = seen
			return jobs
		}
		submit := func(schedule string, seen *Seen, want ...Outcome) {
			t.Helper()
			changes, err := w.c.SubmitAll(w.Context(), of(schedule, seen))
			if err != nil || len(changes) != len(want) {
				t.Fatalf("%+v, %v; want %s", changes, err, want)
			}
			for i, c := range changes {
				if is := w.get(c.Job.Name); c.Outcome != want[i] || is.Version != c.Version || is.Job.Schedule != schedule {
					t.Errorf("%+v, and it is v%d, %s; want %s", c, is.Version, is.Job.Schedule, want[i])
				}
			}
		}
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
		submit("@hourly", nil, OutcomeCreated, OutcomeReplaced, OutcomeCreated)
		submit("@hourly", nil, OutcomeUnchanged, OutcomeUnchanged, OutcomeUnchanged)
		seen := Seen{w.get("old").ID, w.get("old").Version}
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.Refuse(zkdev.BadVersion) })
		submit("@weekly", &seen, OutcomeReplaced, OutcomeReplaced, OutcomeReplaced)
		if _, err := w.c.SubmitAll(w.Context(), of("@monthly", &seen)); !errors.Is(err, ErrConflict) || w.get("a").Job.Schedule != "@weekly" {
			t.Errorf("one has changed: %v, and a is %s", err, w.get("a").Job.Schedule)
		}
		bad := of("@monthly", nil)
		bad[2].Job.Schedule = "@odd"
		refused := new(invalid.FieldError)
		if _, err := w.c.SubmitAll(w.Context(), bad); !errors.As(err, &refused) || w.get("a").Job.Schedule != "@weekly" {
			t.Errorf("one is invalid: %v, and a is %s", err, w.get("a").Job.Schedule)
		}
		if _, err := w.c.Cancel(w.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		submit("@monthly", nil, OutcomeReplaced, OutcomeReplaced, OutcomeCreated)
		entries, err := w.c.Log(w.Context(), LogOptions{Job: "a"})
		if err != nil || len(entries) != 3 || entries[0].Kind != zkrec.DeedReplace || len(entries[0].Jobs) != 3 {
			t.Errorf("the log has %+v, %v", entries, err)
		}
	})
}

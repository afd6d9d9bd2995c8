package admin

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// retry changes how often a job is tried again, as bob does.
func (w *world) retry(n int) {
	w.Helper()
	ctx := As(w.Context(), Who{By: "bob", Reason: fmt.Sprint("to ", n)})
	done, err := w.c.Edit(ctx, "job", changing(func(j *job.Job) { j.Retries = n }), EditOptions{})
	if w.must(err); done.Number != w.get("job").Number {
		w.Errorf("version %d, want %d", done.Number, w.get("job").Number)
	}
}

// wantVersions expects the versions of the job named "job": who made them, and how often it was to
// be tried again.
func (w *world) wantVersions(want string) []JobVersion {
	w.Helper()
	versions, err := w.c.Versions(w.Context(), "job")
	w.must(err)
	var lines []string
	for _, v := range versions {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%d:%d %s %s", v.Number, v.Job.Retries, v.Kind, v.Reason)))
	}
	if got := strings.Join(lines, ", "); got != want {
		w.Errorf("versions %s\nwant %s", got, want)
	}
	return versions
}

// Each change of a job by somebody is a version, and a pause is none.
func TestVersions(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		began := time.Now()
		w.wantVersions("1:0")
		time.Sleep(time.Hour)
		_, err := w.c.Pause(w.Context(), "job", PauseOptions{})
		w.must(err)
		if _, found, err := w.hand.conn.Exists(w.Context(), w.c.tree.Versions("job")); err != nil || found {
			t.Errorf("a job that was never changed has versions, %v", err)
		}
		w.retry(1)
		w.retry(1)
		changed := time.Now()
		time.Sleep(time.Hour)
		_, err = w.c.Submit(w.Context(), job.Job{Name: "job", Schedule: "@daily", Retries: 2}, SubmitOptions{Replace: true})
		w.must(err)
		versions := w.wantVersions("3:2 replace, 2:1 set to 1, 1:0")
		for i, want := range []time.Time{time.Now(), changed, began} {
			if !versions[i].At.Equal(want) {
				t.Errorf("version %d is of %v, want %v", versions[i].Number, versions[i].At, want)
			}
		}
		time.Sleep(time.Hour)
		if done, err := w.c.Rollback(w.Context(), "job", 2, EditOptions{DryRun: true}); err != nil || done.Outcome != OutcomeChanged {
			t.Errorf("dry run: %+v, %v", done, err)
		}
		done, err := w.c.Rollback(w.Context(), "job", 2, EditOptions{})
		if err != nil || done.Outcome != OutcomeChanged || done.Number != 4 || done.Job.Schedule != "@hourly" {
			t.Errorf("rollback: %+v, %v", done, err)
		}
		w.wantVersions("4:1 rollback to version 2, 3:2 replace, 2:1 set to 1, 1:0")
		if status, spec := w.get("job"), w.spec("job"); status.Paused == nil || spec.Since != 0 || spec.Former == nil || spec.Former.Schedule != "@daily" {
			t.Errorf("pause %+v, record %+v; want that it is paused, and begins now", status.Paused, spec)
		}
		if done, err := w.c.Rollback(w.Context(), "job", 2, EditOptions{}); err != nil || done.Outcome != OutcomeUnchanged || done.Number != 4 {
			t.Errorf("rollback again: %+v, %v", done, err)
		}
		if _, err := w.c.Rollback(w.Context(), "job", 9, EditOptions{}); !errors.Is(err, ErrNoVersion) || !strings.Contains(err.Error(), "4, 3, 2, 1") {
			t.Errorf("to a version that never was: %v", err)
		}
		w.cancel("job")
		w.undelete("job", "")
		w.wantVersions("4:1 rollback to version 2, 3:2 replace, 2:1 set to 1, 1:0")
		for i := range 2 * zkrec.MaxVersions {
			w.retry(3 + i)
		}
		if versions, err := w.c.Versions(w.Context(), "job"); err != nil || len(versions) != zkrec.MaxVersions+1 || versions[0].Number != 24 {
			t.Errorf("%d versions are kept, %v", len(versions), err)
		}
		if v, err := w.c.Version(w.Context(), "job", 20); err != nil || v.Number != 20 || v.By != "bob" {
			t.Errorf("version 20: %+v, %v", v, err)
		}
		if _, err := w.c.Version(w.Context(), "job", 1); !errors.Is(err, ErrNoVersion) {
			t.Errorf("a version that is forgotten: %v", err)
		}
	})
}

// A change whose answer was lost is one version.
func TestVersionsAfterALostAnswer(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		for i, answer := range []zkdev.Action{zkdev.CutAfter(), zkdev.CutBefore()} {
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return answer })
			w.retry(1 + i)
		}
		w.wantVersions("3:2 set to 2, 2:1 set to 1, 1:0")
	})
}

// Versions that cannot be read begin again, unless a newer version has written them. Numbers go on.
func TestVersionsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.retry(1)
		w.retry(2)
		w.put(w.c.tree.Versions("job"), []byte("x"))
		if _, err := w.c.Versions(w.Context(), "job"); !errors.Is(err, ErrUnreadable) {
			t.Errorf("versions: %v", err)
		}
		w.get("job")
		w.retry(3)
		w.wantVersions("4:3 set to 3, 3:2")
		w.put(w.c.tree.Versions("job"), []byte(`{"schema":2}`))
		if _, err := w.edit("job", func(j *job.Job) { j.Retries = 9 }); !errors.Is(err, ErrUnreadable) {
			t.Errorf("over a newer version's: %v", err)
		}
		w.multi(zkdelete(w.c.tree.Versions("job")))
		w.wantVersions("4:3")
		w.put(w.c.tree.Job("job"), []byte("{"))
		_, err := w.c.Submit(w.Context(), job.Job{Name: "job", Schedule: "@hourly", Retries: 4}, SubmitOptions{Replace: true})
		w.must(err)
		w.wantVersions("2:4 replace, 1:0")
		if _, err := w.c.Rollback(w.Context(), "job", 1, EditOptions{}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("to a version that cannot be read: %v", err)
		}
	})
}

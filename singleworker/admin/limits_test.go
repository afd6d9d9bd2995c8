package admin

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func (w *world) setLimit(name string, places int) {
	w.Helper()
	_, err := w.c.SetLimit(w.Context(), name, places, NamedOptions{})
	w.must(err)
}

// limit is one of the group's limits.
func (w *world) limit(name string) Limit {
	w.Helper()
	list, err := w.c.Limits(w.Context())
	w.must(err)
	i := slices.IndexFunc(list, func(l Limit) bool { return l.Name == name })
	if i < 0 {
		w.Fatalf("there is no limit %s among %+v", name, list)
	}
	return list[i]
}

// hold writes that a run of the slot is in progress, and has places of api.
func (w *world) hold(slot string, numbers ...int) {
	w.Helper()
	var places []zkrec.Place
	var ops []zkconn.Op
	for _, n := range numbers {
		place := zkrec.Place{Limit: "api", Number: n}
		places, ops = append(places, place), append(ops, zkcreate(w.c.tree.HeldPlace(place), []byte(slot)))
	}
	run := zkrec.Run{Tick: noon.UnixMilli(), RunID: "run-" + slot, State: history.StateRunning, SID: "app-1", Started: noon.UnixMilli()}
	tick := zkrec.Tick{Watermark: noon.UnixMilli(), Run: run, Places: zkrec.PlacesOf(places...)}
	w.multi(append(ops, zkconn.SetOp(w.c.tree.Tick(slot), tick.Encode(), zkconn.AnyVersion))...)
}

// A limit is made, changed and deleted as a calendar is, never below the needs of a job that names
// it, and who did it is in the log.
func TestSetLimit(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		set := func(places int, opts NamedOptions, want Outcome) {
			t.Helper()
			if done, err := w.c.SetLimit(w.Context(), "api", places, opts); err != nil || done.Outcome != want {
				t.Errorf("%d places: %+v, %v, want %s", places, done, err, want)
			}
		}
		remove := func(opts NamedOptions) error {
			_, err := w.c.DeleteLimit(w.Context(), "api", opts)
			return err
		}
		if list, err := w.c.Limits(w.Context()); err != nil || len(list) != 0 {
			t.Errorf("before the first: %v, %v", list, err)
		}
		if err := remove(NamedOptions{}); !errors.Is(err, ErrNoLimit) {
			t.Errorf("delete a limit that is not there: %v", err)
		}
		set(2, NamedOptions{DryRun: true}, OutcomeCreated)
		set(2, NamedOptions{}, OutcomeCreated)
		set(2, NamedOptions{}, OutcomeUnchanged)
		set(2, NamedOptions{Set: "files"}, OutcomeReplaced)
		set(3, NamedOptions{}, OutcomeReplaced)
		w.submit(job.Job{Name: "sync", Schedule: "@hourly", Limits: map[string]int{"api": 2}})
		if of := w.limit("api"); of.Max != 3 || of.Set != "files" || !slices.Equal(of.Jobs, []string{"sync"}) {
			t.Errorf("%+v", of)
		}
		if err := remove(NamedOptions{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "sync") {
			t.Errorf("delete a limit that a job names: %v", err)
		}
		for _, places := range []int{-1, 0, 1, job.MaxPlaces + 1} {
			refused := new(invalid.FieldError)
			if _, err := w.c.SetLimit(w.Context(), "api", places, NamedOptions{}); !errors.As(err, &refused) || refused.Field != "Max" {
				t.Errorf("%d places, of which a job needs 2: %v", places, err)
			}
		}
		_, err := w.edit("sync", func(j *job.Job) { j.Limits = nil })
		w.must(err)
		w.must(remove(NamedOptions{DryRun: true}))
		w.must(remove(NamedOptions{}))
		if list, err := w.c.Limits(w.Context()); err != nil || len(list) != 0 {
			t.Errorf("after the deletion: %v, %v", list, err)
		}
		set(1, NamedOptions{}, OutcomeCreated)
		var told []string
		log, err := w.c.Log(w.Context(), LogOptions{})
		for _, e := range slices.Backward(log) {
			if e.Where == "api" {
				told = append(told, e.Kind)
			}
		}
		if want := "[set-limit set-limit set-limit delete-limit set-limit]"; err != nil || fmt.Sprint(told) != want {
			t.Errorf("log %v, %v, want %s", told, err, want)
		}
		w.put(w.c.tree.Limit("api"), []byte("spoilt"))
		if err := remove(NamedOptions{}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("delete a record that is no limit: %v", err)
		}
		if of := w.limit("api"); of.Error == "" {
			t.Errorf("a record that is no limit: %+v", of)
		}
		set(1, NamedOptions{}, OutcomeCreated)
		w.put(w.c.tree.Limit("api"), []byte(`{"schema":99,"max":5}`))
		if _, err := w.c.SetLimit(w.Context(), "api", 1, NamedOptions{}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("replace a record of a newer version: %v", err)
		}
	})
}

// A change whose answer is lost is made once.
func TestSetLimitWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.setLimit("other", 1)
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
		if done, err := w.c.SetLimit(w.Context(), "api", 2, NamedOptions{}); err != nil || done.Outcome != OutcomeCreated {
			t.Errorf("%+v, %v", done, err)
		}
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
		if done, err := w.c.DeleteLimit(w.Context(), "api", NamedOptions{}); err != nil || done.Outcome != OutcomeDeleted {
			t.Errorf("%+v, %v", done, err)
		}
	})
}

// A job cannot come to name a limit that has not the places that it needs, and is invalid when a
// limit has become so.
func TestBadLimit(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		refused := func(err error, why string) {
			t.Helper()
			if field := new(invalid.FieldError); !errors.As(err, &field) || field.Field != "Limits" || !strings.Contains(err.Error(), why) {
				t.Errorf("%v, want a refusal that says %q", err, why)
			}
		}
		j := job.Job{Name: "job", Schedule: "@hourly", Limits: map[string]int{"api": 2}}
		_, err := w.c.Submit(w.Context(), j, SubmitOptions{})
		refused(err, "no limit of the group")
		w.setLimit("api", 1)
		_, err = w.c.Submit(w.Context(), j, SubmitOptions{})
		refused(err, "the job needs 2")
		w.setLimit("api", 2)
		w.owned(j)
		_, err = w.edit("job", func(j *job.Job) { j.Limits = map[string]int{"api": 2, "none": 1} })
		refused(err, "no limit of the group")
		for _, bad := range []string{"spoilt", `{"schema":1,"max":2,"deleted":true}`, `{"schema":1,"max":1}`, `{"schema":1,"max":0}`, `{"schema":99,"max":2}`} {
			w.put(w.c.tree.Limit("api"), []byte(bad))
			s := w.get("job")
			if c, holds := s.Condition(reason.BadLimit); s.State != StateInvalid || !holds || !strings.Contains(c.Detail, "api") {
				t.Errorf("by the limit %s it is %s: %v", bad, s.State, s.Conditions)
			}
			if _, err := w.edit("job", func(j *job.Job) { j.Retries++ }); err != nil {
				t.Errorf("another field, by the limit %s: %v", bad, err)
			}
		}
		if _, err := w.c.Cancel(w.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		_, err = w.c.Undelete(w.Context(), "job", UndeleteOptions{})
		refused(err, "cannot be read")
	})
}

// A run that is due waits for a limit if its owner is in the limit's line. Who holds places is
// told.
func TestLimited(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.setLimit("api", 2)
		for _, name := range []string{"report", "sync"} {
			w.submit(job.Job{Name: name, Schedule: "0 * * * *", Limits: map[string]int{"api": 1}})
		}
		w.owned(job.Job{Name: "job", Schedule: "0 * * * *", AlarmAfter: 10 * time.Minute, Limits: map[string]int{"api": 1}})
		w.hold("report", 1)
		w.hold("sync", 0)
		time.Sleep(time.Hour + time.Minute)
		if s := w.get("job"); len(s.Limited) > 0 {
			t.Errorf("its owner is not in line: %+v", s.Limited)
		}
		due := noon.Add(time.Hour)
		wait := zkrec.Waiter{Due: due.Unix(), Need: 1, SID: "app-1"}
		w.multi(zkcreate(w.c.tree.Waiter("api", wait.Name()), nil))
		s := w.get("job")
		const says = "waits for limit api: 2 of 2 held by sync, report"
		if c, holds := s.Condition(reason.Limited); !holds || c.Detail != says || !c.Since.Equal(due) || s.Health() != "limited" {
			t.Errorf("it is %s: %+v, want %q since %v", s.Health(), c, says, due)
		}
		list, err := w.c.List(w.Context())
		if i := slices.IndexFunc(list, func(s JobStatus) bool { return s.Name == "job" }); err != nil || list[i].Health() != "limited" {
			t.Errorf("list: %v, %+v", err, list)
		}
		of := w.limit("api")
		if len(of.Waiting) != 1 || of.Waiting[0].InstanceID != "app-1" || !of.Waiting[0].Since.Equal(due) {
			t.Errorf("%+v", of)
		}
		time.Sleep(10 * time.Minute)
		if s := w.get("job"); s.Health() != "late" || len(s.Limited) == 0 {
			t.Errorf("it is %s: %+v", s.Health(), s.Conditions)
		}
		why, err := w.c.Why(w.Context(), "job", time.Time{})
		if w.must(err); why.Fate != FateLimited || !why.Tick.Equal(due) {
			t.Errorf("the tick %v is %s, want %v", why.Tick, why.Fate, due)
		}
		if why, err = w.c.Why(w.Context(), "job", noon); err != nil || why.Fate == FateLimited {
			t.Errorf("a tick before: %s, %v", why.Fate, err)
		}
		w.claim(zkrec.Run{Tick: due.UnixMilli(), RunID: "run"})
		if s := w.get("job"); len(s.Limited) > 0 {
			t.Errorf("with a run in progress: %+v", s.Limited)
		}
	})
}

// A place is leaked that no open run has, and no other.
func TestLeakedPlace(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.setLimit("api", 4)
		for _, name := range []string{"report", "sync", "ended"} {
			w.submit(job.Job{Name: name, Schedule: "0 * * * *", Limits: map[string]int{"api": 1}})
		}
		w.hold("report", 0)
		for n, slot := range []string{"sync", "ended", "gone"} {
			w.multi(zkcreate(w.c.tree.HeldPlace(zkrec.Place{Limit: "api", Number: n + 1}), []byte(slot)))
		}
		w.put(w.c.tree.Tick("sync"), []byte("spoilt")) // it may have the place
		var leaked []string
		for _, place := range w.limit("api").Held {
			leaked = append(leaked, fmt.Sprintf("%d %s %v", place.Place, place.Slot, place.Leaked))
		}
		if want := "[0 report false 1 sync false 2 ended true 3 gone true]"; fmt.Sprint(leaked) != want {
			t.Errorf("%v, want %s", leaked, want)
		}
		free := func(opts NamedOptions) string {
			t.Helper()
			freed, err := w.c.FreePlaces(w.Context(), "api", opts)
			w.must(err)
			var slots []string
			for _, place := range freed {
				slots = append(slots, place.Slot)
			}
			return strings.Join(slots, " ")
		}
		if slots := free(NamedOptions{DryRun: true}); slots != "ended gone" || len(w.limit("api").Held) != 4 {
			t.Errorf("a dry run: %q of %+v", slots, w.limit("api").Held)
		}
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.CutBefore() })
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.CutAfter() })
		if slots := free(NamedOptions{}); slots != "ended gone" || len(w.limit("api").Held) != 2 {
			t.Errorf("freed: %q, left: %+v", slots, w.limit("api").Held)
		}
		if slots := free(NamedOptions{}); slots != "" {
			t.Errorf("freed again: %q", slots)
		}
		if _, err := w.c.FreePlaces(w.Context(), "none", NamedOptions{}); !errors.Is(err, ErrNoLimit) {
			t.Errorf("a limit that is not there: %v", err)
		}
		w.multi(zkcreate(w.c.tree.HeldPlace(zkrec.Place{Limit: "api", Number: 3}), []byte("gone")))
		g, err := w.c.Group(w.Context())
		w.must(err)
		e, err := w.c.Examine(w.Context(), g)
		if w.must(err); len(e.Limits) != 1 || len(e.Limits[0].Held) != 3 || !e.Limits[0].Held[2].Leaked {
			t.Errorf("examined: %+v", e.Limits)
		}
		all, err := w.c.Limits(w.Context())
		if w.must(err); len(all[0].Jobs) == 0 || !reflect.DeepEqual(e.Limits, all) {
			t.Errorf("examined: %+v, want %+v", e.Limits, all)
		}
	})
}

// A group without limits is read for as many requests as before there were any.
func TestLimitsCost(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		for k := range 5 {
			w.submit(job.Job{Name: fmt.Sprint("job", k), Schedule: "@hourly"})
		}
		read := func() int64 {
			t.Helper()
			ctx, sent := Counted(w.Context())
			if _, err := w.c.List(ctx); err != nil {
				t.Fatal(err)
			}
			return sent.Load()
		}
		without := read()
		w.setLimit("api", 1)
		w.setLimit("other", 1)
		if n := read(); n != without {
			t.Errorf("%d requests with limits that no job names, %d without", n, without)
		}
		for k := range 5 {
			_, err := w.edit(fmt.Sprint("job", k), func(j *job.Job) { j.Limits = map[string]int{"api": 1, "other": 1} })
			w.must(err)
		}
		if n := read(); n > without+3 {
			t.Errorf("%d requests with limits that jobs name, %d without", n, without)
		}
	})
}

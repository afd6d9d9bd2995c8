package admin

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// frozenRecord reads the group's freeze as it is written.
func (w *world) frozenRecord() string {
	w.Helper()
	data, _, err := w.hand.conn.Get(w.Context(), w.c.tree.Freeze())
	w.must(err)
	return string(data)
}

func (w *world) freeze(opts FreezeOptions) FreezeResult {
	w.Helper()
	done, err := w.c.Freeze(w.Context(), opts)
	w.must(err)
	return done
}

// The record has no time by the clock of the operator, is one whatever the number of jobs, and
// keeps the last eight freezes.
func TestFreezeAndUnfreeze(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.instance("app-1", "job")
		who := PauseOptions{By: "alice@host", Reason: "migration"}
		done := w.freeze(FreezeOptions{PauseOptions: who})
		if f := done.Freeze; done.Outcome != OutcomeFrozen || !f.Since.Equal(noon) || !f.Until.IsZero() || f.Missed != job.MisfireSkip {
			t.Errorf("%+v", done)
		}
		if got, want := w.frozenRecord(), `{"schema":1,"spans":[{"pause":{"by":"alice@host","reason":"migration"}}]}`; got != want {
			t.Errorf("record %s, want %s", got, want)
		}
		if s := w.get("job"); s.Frozen == nil || s.Paused != nil || !s.NextRun.IsZero() {
			t.Errorf("frozen %+v, next run at %v", s.Frozen, s.NextRun)
		}
		time.Sleep(time.Hour)
		if again := w.freeze(FreezeOptions{PauseOptions: who}); again.Outcome != OutcomeUnchanged || !again.Freeze.Since.Equal(noon) {
			t.Errorf("the same again: %+v", again)
		}
		who.For = 4 * time.Hour
		if longer := w.freeze(FreezeOptions{PauseOptions: who}); !longer.Freeze.Since.Equal(noon) || !longer.Freeze.Until.Equal(noon.Add(5*time.Hour)) {
			t.Errorf("for a while: %+v", longer.Freeze)
		}
		if s := w.get("job"); !s.NextRun.Equal(noon.Add(5 * time.Hour)) {
			t.Errorf("next run at %v", s.NextRun)
		}
		other := w.freeze(FreezeOptions{PauseOptions: who, Except: []string{"job", "job"}})
		if f := other.Freeze; !f.Since.Equal(noon.Add(time.Hour)) || !slices.Equal(f.Except, []string{"job"}) {
			t.Errorf("with an exception: %+v", f)
		}
		if s := w.get("job"); s.Frozen != nil || !s.NextRun.Equal(noon.Add(2*time.Hour)) {
			t.Errorf("excepted: %+v, next run at %v", s.Frozen, s.NextRun)
		}
		in, err := w.c.Frozen(w.Context())
		if err != nil || in == nil || !slices.Equal(in.Except, []string{"job"}) || !strings.HasSuffix(in.Words(time.UTC, noon), "; except job") {
			t.Errorf("in force: %+v, %v", in, err)
		}
		ended, err := w.c.Unfreeze(w.Context(), ResumeOptions{Missed: job.MisfireOnce})
		if err != nil || ended.Outcome != OutcomeUnfrozen || !ended.Freeze.Until.Equal(noon.Add(time.Hour)) || ended.Freeze.Missed != job.MisfireOnce {
			t.Errorf("unfrozen: %+v, %v", ended, err)
		}
		if in, err := w.c.Frozen(w.Context()); in != nil || err != nil {
			t.Errorf("over: %+v, %v", in, err)
		}
		if again, err := w.c.Unfreeze(w.Context(), ResumeOptions{}); err != nil || again.Outcome != OutcomeUnchanged || again.Freeze != nil {
			t.Errorf("again: %+v, %v", again, err)
		}
		log, err := w.c.Log(w.Context(), LogOptions{})
		if err != nil || log[0].Kind != "unfreeze" || log[1].Kind != "freeze" || log[1].By != "alice@host" || log[1].Reason != "migration" {
			t.Errorf("the log has %+v, %v", log, err)
		}
		for range 2 * zkrec.MaxSpans {
			time.Sleep(time.Minute)
			w.freeze(FreezeOptions{PauseOptions: PauseOptions{For: time.Second}})
		}
		if n := strings.Count(w.frozenRecord(), `"pause"`); n != zkrec.MaxSpans {
			t.Errorf("%d freezes are kept", n)
		}
	})
}

// A lost reply repeats nothing, a record that is none freezes the group until it is replaced, and
// one of a newer version stays.
func TestFreezeOfARecordThatIsNone(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		for _, action := range []func() zkdev.Action{zkdev.CutAfter, zkdev.CutBefore} {
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return action() })
			if done := w.freeze(FreezeOptions{}); done.Outcome != OutcomeFrozen || done.Freeze == nil {
				t.Errorf("freeze: %+v", done)
			}
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return action() })
			if done, err := w.c.Unfreeze(w.Context(), ResumeOptions{}); err != nil || done.Outcome != OutcomeUnfrozen {
				t.Errorf("unfreeze: %+v, %v", done, err)
			}
		}
		_, stat, err := w.hand.conn.Get(w.Context(), w.c.tree.Freeze())
		if w.must(err); stat.Version != 4 {
			t.Errorf("its version is %d, want four changes", stat.Version)
		}
		w.put(w.c.tree.Freeze(), []byte("{"))
		if s := w.get("job"); s.Frozen == nil || s.Frozen.Reason == "" {
			t.Errorf("garbage: %+v", s.Frozen)
		}
		if done, err := w.c.Unfreeze(w.Context(), ResumeOptions{}); err != nil || done.Outcome != OutcomeUnfrozen || w.get("job").Frozen != nil {
			t.Errorf("unfreeze: %+v, %v", done, err)
		}
		w.put(w.c.tree.Freeze(), []byte(`{"schema":2}`))
		if _, err := w.c.Unfreeze(w.Context(), ResumeOptions{}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("of a newer version: %v", err)
		}
	})
}

func TestFreezeRefuses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		if _, err := w.c.Freeze(w.Context(), FreezeOptions{}); !errors.Is(err, ErrNoGroup) {
			t.Errorf("without a group: %v", err)
		}
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		if _, err := w.c.Freeze(w.Context(), FreezeOptions{Except: []string{"jbo"}}); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "jbo") {
			t.Errorf("a job that is none: %v", err)
		}
		for field, opts := range map[string]FreezeOptions{
			"Until": {PauseOptions: PauseOptions{Until: noon}}, "For": {PauseOptions: PauseOptions{For: -1}}, "Name": {Except: []string{"a/b"}}, "Missed": {PauseOptions: PauseOptions{Missed: "never"}},
		} {
			no := new(invalid.FieldError)
			if _, err := w.c.Freeze(w.Context(), opts); !errors.As(err, &no) || no.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		if _, err := w.c.Unfreeze(w.Context(), ResumeOptions{Missed: "never"}); !errors.As(err, new(*invalid.FieldError)) {
			t.Errorf("unfreeze: %v", err)
		}
	})
}

package singleworker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/runner"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// wired returns the parts of a manager that was not started.
func wired(t *testing.T, change func(*Config), handlers map[string]Handler) *bridge {
	t.Helper()
	cfg := valid()
	cfg.InstanceID = "host-7"
	cfg.Logger = slog.New(slog.DiscardHandler)
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range handlers {
		if err := m.Handle(name, h); err != nil {
			t.Fatal(err)
		}
	}
	return m.wire(t.Context())
}

// A clock step that the leases notice also reaches the runner's alarms.
func TestRunnerIsNotifiedOfClockSteps(t *testing.T) {
	t.Parallel()
	if w := wired(t, nil, nil); w.leases.OnStep == nil {
		t.Error("the runner is not notified when the wall clock is set")
	}
}

// From the owner record to the handler.
func TestRunOfAnOwnedJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := record(slog.LevelInfo)
		var got *Run
		w := wired(t, func(c *Config) { c.Logger = slog.New(log) }, map[string]Handler{
			"stats": func(_ context.Context, run *Run) error {
				got = run
				run.Args["a"] = "changed" // its own copy
				run.Logger().Info("working")
				return nil
			},
		})
		spec := &zkrec.Spec{Job: job.Job{Name: "daily", Schedule: "@daily", Handler: "stats", Args: map[string]string{"a": "1"}}}
		claim := runner.Run{Job: "daily", Run: history.Run{
			Tick: time.UnixMilli(86_400_000).UTC(), RunID: "r1", Token: 7, Attempt: 1, Started: time.UnixMilli(86_400_005),
		}}
		handler := w.handlers.of(spec.Job.HandlerName())
		if err := handler(t.Context(), w.newRun(claim, spec)); err != nil {
			t.Fatal(err)
		}
		if got.Group != "billing" || got.Job != "daily" || got.Slot != "daily" || got.ID != "r1" || got.Token != 7 || got.Attempt != 1 || got.InstanceID != "host-7" ||
			!got.Tick.Equal(claim.Tick) || spec.Job.Args["a"] != "1" {
			t.Errorf("the handler was given %+v, arguments left %v", got, spec.Job.Args)
		}
		want := "level=INFO msg=working job=daily run_id=r1 tick=1970-01-02T00:00:00.000Z token=7\n"
		if text := log.text.String(); text != want {
			t.Errorf("logged %swant %s", text, want)
		}
	})
}

// Arguments of a manual run override the job's.
func TestManualRun(t *testing.T) {
	t.Parallel()
	w := wired(t, nil, nil)
	spec := &zkrec.Spec{Job: job.Job{Schedule: "@daily", Args: map[string]string{"a": "1", "b": "2"}, Payload: []byte(`{"n":1}`)}}
	request := ticks.Request{ID: "q1", Request: zkrec.Request{
		Kind: zkrec.RequestRun, Args: map[string]string{"b": "3"}, Payload: []byte(`{"n":2}`),
	}}
	run := w.newRun(runner.Run{Job: "daily", Run: history.Run{Manual: "q1"}, Request: &request}, spec)
	want := map[string]string{"a": "1", "b": "3"}
	if !run.Manual || run.Request != "q1" || !maps.Equal(run.Args, want) || string(run.Payload) != `{"n":2}` || spec.Job.Args["b"] != "2" {
		t.Errorf("the handler was given %+v, the job has %+v", run, spec)
	}
	run = w.newRun(runner.Run{Job: "daily[3]"}, spec)
	if run.Job != "daily" || run.Slot != "daily[3]" || run.Manual || run.Request != "" || !maps.Equal(run.Args, spec.Job.Args) || string(run.Payload) != `{"n":1}` {
		t.Errorf("a scheduled run was given %+v, want the job's arguments", run)
	}
}

func TestOwnAndDisownCallHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		w := wired(t, func(c *Config) { c.Hooks = reporting(func(text string) { got = append(got, text) }) },
			map[string]Handler{"daily": idle})
		own := journal.Ownership{
			Slot: "daily", Spec: &zkrec.Spec{Job: job.Job{Name: "daily", Schedule: "@daily"}}, Lease: w.leases.Open("daily", 7, time.Hour),
			Record: new(zkrec.Tick),
		}
		w.Own(own)
		own.Spec = &zkrec.Spec{Job: job.Job{Name: "daily", Schedule: "@hourly"}}
		w.Own(own) // the spec has changed, the owner has not
		own.Lease = w.leases.Open("daily", 9, time.Hour)
		w.Own(own)
		w.Disown("daily", leases.ErrLost)
		w.Disown("daily", leases.ErrLost) // is told once
		w.Disown("never owned", catalog.ErrElsewhere)
		w.hooks.box.Run()
		want := []string{"owned daily under 7", "owned daily under 9", "released daily: singleworker: lease lost"}
		if !slices.Equal(got, want) {
			t.Errorf("hooks were called with\n  %q, want\n  %q", got, want)
		}
	})
}

func TestWhatIsLogged(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	claim := runner.Run{Job: "daily", Run: history.Run{Attempt: 1, Tick: start, RunID: "r1", Started: start}}
	result := func(state history.State, err error) runner.Result {
		ended := claim
		ended.Ended, ended.State = start.Add(time.Second), state
		return runner.Result{Run: ended, Err: err}
	}
	const about = " job=daily run_id=r1 tick=2026-11-21T08:00:00.000Z attempt=1 state="
	for what, row := range map[string]struct {
		happens func(*bridge)
		want    string
	}{
		"success": {func(w *bridge) { w.Ended(result(history.StateOK, nil)) }, ""},
		"failure": {
			func(w *bridge) { w.Ended(result(history.StateFailed, errors.New("boom"))) },
			`level=ERROR msg="run failed"` + about + "failed duration=1s err=boom",
		},
		"panic": {
			func(w *bridge) {
				w.Ended(result(history.StateFailed, &task.PanicError{Task: "handler", Value: "glass", Stack: []byte("main.go:7")}))
			},
			`level=ERROR msg="run failed"` + about + `failed duration=1s err="handler panicked: glass" stack=main.go:7`,
		},
		"overlap": {
			func(w *bridge) {
				row := zkrec.Entry{Count: 3, To: start.Add(2 * time.Hour).UnixMilli(), Reason: history.ReasonOverlap}
				row.Tick, row.State = start.UnixMilli(), history.StateSkipped
				w.Recorded("daily", []zkrec.Entry{row, {Run: zkrec.Run{RunID: "r1", State: history.StateOK}}})
			},
			`level=WARN msg="ticks not run" job=daily tick=2026-11-21T08:00:00.000Z to=2026-11-21T10:00:00.000Z count=3` +
				` state=skipped reason=overlap`,
		},
		"overdue": {
			func(w *bridge) { w.Overdue("daily", &zkrec.Spec{}, start) },
			`level=ERROR msg="tick missed" job=daily tick=2026-11-21T08:00:00.000Z late=` +
				time.Since(start).Round(time.Second).String(),
		},
	} {
		log := record(slog.LevelInfo)
		w := wired(t, func(c *Config) { c.Logger = slog.New(log) }, nil)
		row.happens(w)
		if got := strings.TrimSuffix(log.text.String(), "\n"); got != row.want {
			t.Errorf("%s: logged\n  %s\nwant\n  %s", what, got, row.want)
		}
	}
}

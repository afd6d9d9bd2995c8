package singleworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/coord"
	"github.com/swjobs/singleworker/singleworker/internal/grant"
	"github.com/swjobs/singleworker/singleworker/internal/runner"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// wired returns the parts of a manager that was not started.
func wired(t *testing.T, change func(*Config), handlers map[string]Handler) *wiring {
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
	return m.wire()
}

func TestJudge(t *testing.T) {
	t.Parallel()
	w := wired(t, nil, map[string]Handler{"daily": idle, "stats": idle})
	for _, row := range []struct {
		job  string
		spec zkrec.Spec
		want string
	}{
		{"daily", zkrec.Spec{Schedule: "@daily"}, ""},
		{"other", zkrec.Spec{Schedule: "@daily", Handler: "stats"}, ""},
		{"other", zkrec.Spec{Schedule: "@daily"}, `handler "other": no such handler in this instance`},
		{"daily", zkrec.Spec{Schedule: "@daily", Handler: "x"}, `handler "x": no such handler in this instance`},
		{"daily", zkrec.Spec{Schedule: "nonsense"}, `singleworker: Job.Schedule "nonsense": schedule`},
		{"daily", zkrec.Spec{Schedule: "@daily", TimeZone: "Mars"}, `singleworker: Job.TimeZone "Mars": unknown time zone`},
	} {
		err := w.judge(row.job, row.spec)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.HasPrefix(err.Error(), row.want)) {
			t.Errorf("judge(%s, %+v) = %v, want %q", row.job, row.spec, err, row.want)
		}
		if elsewhere := strings.Contains(row.want, "no such handler"); errors.Is(err, coord.ErrElsewhere) != elsewhere {
			t.Errorf("judge(%s, %+v) = %v, others' business: %v", row.job, row.spec, err, elsewhere)
		}
	}
}

// From the owner record to the handler, and back to the tick's record.
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
		spec := zkrec.Spec{Schedule: "@daily", Handler: "stats", Args: map[string]string{"a": "1"}}
		claim := runner.Claim{
			Job: "daily", Tick: time.UnixMilli(86_400_000).UTC(), RunID: "r1", Token: 7, Attempt: 1, Started: time.UnixMilli(86_400_005),
		}
		handler := w.handlers[spec.HandlerOf("daily")]
		if err := handler(t.Context(), w.newRun(claim, spec.Args)); err != nil {
			t.Fatal(err)
		}
		if got.Job != "daily" || got.ID != "r1" || got.Token != 7 || got.Attempt != 1 || got.InstanceID != "host-7" ||
			!got.Tick.Equal(claim.Tick) || spec.Args["a"] != "1" {
			t.Errorf("the handler was given %+v, arguments left %v", got, spec.Args)
		}
		want := "level=INFO msg=working job_name=daily run_id=r1 tick=1970-01-02T00:00:00.000Z token=7\n"
		if text := log.text.String(); text != want {
			t.Errorf("logged %swant %s", text, want)
		}
		record := zkrec.Tick{
			Tick: 86_400_000, RunID: "r1", SID: "host-7", Token: 7, Attempt: 1, Started: 86_400_005, State: "running",
		}
		if got := w.record(claim, zkrec.RunRunning); got != record {
			t.Errorf("recorded %+v, want %+v", got, record)
		}
	})
}

// The runner's states are those of the records: neither knows the other.
func TestStatesAreTheSame(t *testing.T) {
	t.Parallel()
	got := []string{runner.OK, runner.Failed, runner.Interrupted}
	if want := []string{zkrec.RunOK, zkrec.RunFailed, zkrec.RunInterrupted}; !slices.Equal(got, want) {
		t.Errorf("the runner says %q, records say %q", got, want)
	}
}

func TestOwnAndDisownAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		w := wired(t, func(c *Config) { c.Hooks = reporting(func(text string) { got = append(got, text) }) },
			map[string]Handler{"daily": idle})
		own := coord.Ownership{Job: "daily", Spec: zkrec.Spec{Schedule: "@daily"}, Grant: w.book.Open("daily", 7, time.Hour)}
		w.Own(own)
		own.Spec.Schedule = "@hourly"
		w.Own(own) // the spec has changed, the owner has not
		own.Grant = w.book.Open("daily", 9, time.Hour)
		w.Own(own)
		w.Disown("daily", grant.ErrLost)
		w.Disown("daily", grant.ErrLost) // is told once
		w.Disown("never owned", coord.ErrElsewhere)
		w.hooks.box.Run()
		want := []string{"owned daily under 7", "owned daily under 9", "released daily: lease lost"}
		if !slices.Equal(got, want) {
			t.Errorf("hooks were told\n  %q, want\n  %q", got, want)
		}
	})
}

func TestWhatIsLogged(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	claim := runner.Claim{Job: "daily", Tick: start, RunID: "r1", Started: start}
	result := func(state string, err error) runner.Result {
		return runner.Result{Claim: claim, Ended: start.Add(time.Second), State: state, Err: err}
	}
	const about = " job=daily run_id=r1 tick=2026-11-21T08:00:00.000Z state="
	for what, row := range map[string]struct {
		happens func(*wiring)
		want    string
	}{
		"success": {func(w *wiring) { w.Ended(result(runner.OK, nil)) }, ""},
		"failure": {
			func(w *wiring) { w.Ended(result(runner.Failed, errors.New("boom"))) },
			`level=ERROR msg="run not successful"` + about + "failed duration=1s err=boom",
		},
		"panic": {
			func(w *wiring) {
				w.Ended(result(runner.Failed, &task.PanicError{Task: "handler", Value: "glass", Stack: []byte("main.go:7")}))
			},
			`level=ERROR msg="run not successful"` + about + `failed duration=1s err="handler panicked: glass" stack=main.go:7`,
		},
		"overlap": {
			func(w *wiring) { w.Skipped("daily", start, runner.ErrOverlap) },
			`level=WARN msg="tick not run here" job=daily tick=2026-11-21T08:00:00.000Z reason="the previous run is still going on"`,
		},
		"run by another":   {func(w *wiring) { w.Skipped("daily", start, coord.ErrClaimed) }, ""},
		"owned by another": {func(w *wiring) { w.Skipped("daily", start, fmt.Errorf("claim: %w", coord.ErrNotOwner)) }, ""},
	} {
		log := record(slog.LevelInfo)
		w := wired(t, func(c *Config) { c.Logger = slog.New(log) }, nil)
		row.happens(w)
		if got := strings.TrimSuffix(log.text.String(), "\n"); got != row.want {
			t.Errorf("%s: logged\n  %s\nwant\n  %s", what, got, row.want)
		}
	}
}

package singleworker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
)

// call calls every hook once through a hookCaller, in this order.
var call = []func(*hookCaller){
	func(h *hookCaller) { h.owned(Ownership{Job: "j", Token: 7}) },
	func(h *hookCaller) { h.runStarted(RunInfo{Job: "j", Run: history.Run{RunID: "r"}}) },
	func(h *hookCaller) {
		h.recorded(Recorded{"j", history.Entry{Run: history.Run{State: history.StateSkipped}, Reason: "overlap"}})
	},
	func(h *hookCaller) {
		h.runEnded(RunResult{RunInfo: RunInfo{Job: "j", Run: history.Run{RunID: "r", State: history.StateOK}}})
	},
	func(h *hookCaller) { h.tickMissed(Missed{Job: "k", Tick: time.Unix(60, 0)}) },
	func(h *hookCaller) { h.tickComplete(TickResult{Job: "j", Shards: make([]history.Entry, 3)}) },
	func(h *hookCaller) { h.clock(Clock{Wrong: true, Offset: time.Minute}) },
	func(h *hookCaller) { h.released(Ownership{Job: "j", Token: 7}, ErrJobCanceled) },
	func(h *hookCaller) { h.session(SessionEvent{State: SessionExpired, SessionTimeout: 10 * time.Second}) },
	func(h *hookCaller) { h.leadershipGained(Leadership{8}) },
	func(h *hookCaller) { h.leadershipLost(Leadership{8}, ErrLeaseLost) },
	func(h *hookCaller) { h.runHung(HungRun{RunInfo{Job: "j", Run: history.Run{RunID: "r"}}, time.Minute}) },
}

// reporting returns hooks that record their calls.
func reporting(note func(text string)) Hooks {
	return Hooks{
		OnOwned:        func(o Ownership) { note(fmt.Sprintf("owned %s under %d", o.Job, o.Token)) },
		OnReleased:     func(o Ownership, err error) { note(fmt.Sprintf("released %s: %v", o.Job, err)) },
		OnRunStart:     func(r RunInfo) { note("start of " + r.RunID) },
		OnRunEnd:       func(r RunResult) { note("end of " + r.RunID + ": " + string(r.State)) },
		OnRunHung:      func(r HungRun) { note(fmt.Sprintf("hung %s, usually %v", r.RunID, r.Usual)) },
		OnRecorded:     func(e Recorded) { note(fmt.Sprintf("recorded %s: %s, %s", e.Job, e.State, e.Reason)) },
		OnTickMissed:   func(m Missed) { note("missed " + m.Job) },
		OnTickComplete: func(r TickResult) { note(fmt.Sprintf("complete %s: %d", r.Job, len(r.Shards))) },
		OnSession:      func(e SessionEvent) { note(fmt.Sprintf("session %s, %v", e.State, e.SessionTimeout)) },

		OnLeadershipGained: func(l Leadership) { note(fmt.Sprintf("leads under %d", l.Token)) },
		OnLeadershipLost:   func(l Leadership, err error) { note(fmt.Sprintf("led under %d: %v", l.Token, err)) },
		OnClock:            func(c Clock) { note(fmt.Sprintf("clock %v, wrong: %v", c.Offset, c.Wrong)) },
	}
}

var reports = []string{
	"owned j under 7", "start of r", "recorded j: skipped, overlap", "end of r: ok",
	"missed k", "complete j: 3", "clock 1m0s, wrong: true", "released j: singleworker: job canceled",
	"session expired, 10s", "leads under 8", "led under 8: singleworker: lease lost",
	"hung r, usually 1m0s",
}

func TestHooksAreCalledInTheOrderOfTheEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		h := newHookCaller(reporting(func(text string) { got = append(got, text) }))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.run(ctx) }()
		for _, f := range call {
			f(h)
		}
		synctest.Wait()
		if !slices.Equal(got, reports) {
			t.Errorf("hooks were called with\n  %q, want\n  %q", got, reports)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run = %v, want nil", err)
		}
		if n := reflect.TypeFor[Hooks]().NumField(); n != len(reports) {
			t.Errorf("%d hooks, %d of them tested", n, len(reports))
		}
	})
}

func TestHookThatBlocksDelaysOnlyHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []string
		hooks := reporting(func(text string) { got = append(got, text) })
		hooks.OnOwned = func(Ownership) {
			time.Sleep(time.Hour)
			got = append(got, "owned, at last")
		}
		h := newHookCaller(hooks)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.run(ctx) }()

		start := time.Now()
		for _, f := range call {
			f(h)
			synctest.Wait()
		}
		cancel()
		if took := time.Since(start); took != 0 {
			t.Errorf("the work was delayed by %v", took)
		}
		if err := <-ended; err != nil || time.Since(start) != time.Hour {
			t.Errorf("run = %v after %v, want nil when the last hook has returned, after 1h", err, time.Since(start))
		}
		if want := append([]string{"owned, at last"}, reports[1:]...); !slices.Equal(got, want) {
			t.Errorf("hooks were called with\n  %q, want\n  %q", got, want)
		}
	})
}

func TestNilHooksAreSkipped(t *testing.T) {
	t.Parallel()
	var got []string
	all := reporting(func(text string) { got = append(got, text) })
	h := newHookCaller(Hooks{OnRunEnd: all.OnRunEnd})
	for _, f := range call {
		f(h)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.run(ctx); err != nil || !slices.Equal(got, reports[3:4]) {
		t.Errorf("%v; hooks were called with %q, want only %q", err, got, reports[3:4])
	}
}

// errors.Is finds the public name of a cause, however it is wrapped.
func TestErrorsHaveTheirOwnNames(t *testing.T) {
	t.Parallel()
	all := map[string]error{
		"ErrLeaseLost": ErrLeaseLost, "ErrStopping": ErrStopping, "ErrJobCanceled": ErrJobCanceled,
		"ErrTimeout": ErrTimeout, "ErrStopped": ErrStopped,
		"ErrDuplicateInstance": ErrDuplicateInstance, "ErrAccessDenied": ErrAccessDenied,
		"ErrMode": ErrMode, "ErrNewerVersion": ErrNewerVersion, "ErrNotHandedBack": ErrNotHandedBack, "ErrStarted": ErrStarted, "ErrNotRunning": ErrNotRunning,
	}
	for name, err := range all {
		for other, otherErr := range all {
			if (name == other) != errors.Is(err, otherErr) {
				t.Errorf("errors.Is(%s, %s) = %v", name, other, errors.Is(err, otherErr))
			}
		}
	}
}

// Two sets of hooks are both told, the first one first; what neither has stays nil.
func TestHooksThen(t *testing.T) {
	t.Parallel()
	var got []string
	reporter := func(prefix string) Hooks {
		return reporting(func(text string) { got = append(got, prefix+text) })
	}
	tell := func(hooks Hooks) []string {
		got = nil
		h := newHookCaller(hooks)
		for _, f := range call {
			f(h)
		}
		h.box.Run()
		return got
	}
	var want []string
	for _, report := range reports {
		want = append(want, "1 "+report, "2 "+report)
	}
	if got := tell(reporter("1 ").Then(reporter("2 "))); !slices.Equal(got, want) {
		t.Errorf("told\n  %q, want\n  %q", got, want)
	}
	for what, hooks := range map[string]Hooks{"first": reporter("").Then(Hooks{}), "second": Hooks{}.Then(reporter(""))} {
		if got := tell(hooks); !slices.Equal(got, reports) {
			t.Errorf("only the %s: told\n  %q, want\n  %q", what, got, reports)
		}
	}
	none := reflect.ValueOf(Hooks{}.Then(Hooks{}))
	for i := range none.NumField() {
		if !none.Field(i).IsNil() {
			t.Errorf("%s is set by two sets without it", none.Type().Field(i).Name)
		}
	}
}

package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// obey is an owner that stops a run on request, within a second.
func (w *world) obey(token int64) {
	owner := w.operator()
	w.every(time.Second, func() bool {
		waiting, _ := owner.waiting(w.Context(), "job")
		for id, request := range waiting {
			entry := zkrec.Entry{Run: zkrec.Run{
				Tick: noon.UnixMilli(), RunID: request.RunID, Token: token, State: history.StateInterrupted,
				Error: "stopped by " + request.By + ": " + request.Reason,
			}}
			w.end(entry, zkdelete(owner.tree.Request("job", id)))
		}
		return false
	})
}

func TestStopRun(t *testing.T) {
	t.Parallel()
	for what, action := range map[string]func() zkdev.Action{"": zkdev.Pass, "reply lost": zkdev.CutAfter, "request lost": zkdev.CutBefore} {
		inWorld(t, func(w *world) {
			token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
			w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "a", Token: token, Attempt: 1})
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return action() })
			w.obey(token)
			entries, err := w.c.StopRun(w.Context(), "job", StopOptions{By: "alice", Reason: "wrong day"})
			entry := only(entries)
			if err != nil || entry.State != history.StateInterrupted || entry.RunID != "a" || entry.Error != "stopped by alice: wrong day" {
				t.Errorf("%s: %+v, %v", what, entry, err)
			}
			if left := w.requests(); len(left) != 0 {
				t.Errorf("%s: %d requests left", what, len(left))
			}
		})
	}
}

// A stop is accepted beside the maximum of pending requests, and two stops of a run are one
// request.
func TestStopRunOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "a", Token: token})
		for range zkrec.MaxRequests {
			if _, err := w.c.Trigger(w.Context(), "job", TriggerOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			entries, err := w.c.StopRun(ctx, "job", StopOptions{RunID: "a"})
			cancel()
			entry := only(entries)
			if entry.State != history.StateRunning || !errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), "run a on app-1 has not ended yet") {
				t.Errorf("the owner does not react: %+v, %v", entry, err)
			}
		}
		stops := 0
		for _, request := range w.requests() {
			if request.Kind == zkrec.RequestStop && request.RunID == "a" {
				stops++
			}
		}
		if stops != 1 {
			t.Errorf("%d requests to stop it, want one", stops)
		}
	})
}

func TestStopRunRefuses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		refused := func(what string, opts StopOptions, says string) {
			t.Helper()
			if _, err := w.c.StopRun(w.Context(), "job", opts); !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want ErrNotRunning: %s", what, err, says)
			}
		}
		refused("nothing ever ran", StopOptions{}, "the job never ran")
		w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "a", Token: token})
		refused("another one runs", StopOptions{RunID: "b"}, "not b, but a runs")
		w.kill()
		refused("its owner is dead", StopOptions{}, "its last run a is unknown")
		ok := zkrec.Entry{Run: zkrec.Run{Tick: noon.UnixMilli(), RunID: "a", Token: token, State: history.StateOK}}
		w.end(ok)
		refused("it has ended", StopOptions{RunID: "a"}, "its last run a is ok")
		if left := w.requests(); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
		if _, err := w.c.StopRun(w.Context(), "nobody", StopOptions{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("no such job: %v", err)
		}
		_, err := w.c.StopRun(w.Context(), "job", StopOptions{Reason: strings.Repeat("x", 1025)})
		wantInvalid(t, err, "Reason", `Reason "xxx`)
	})
}

// StopRun does not wait for a run whose owner dies.
func TestStopRunOfAnOwnerThatDies(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "a", Token: token})
		time.AfterFunc(time.Second, func() { w.kill() })
		if entries, err := w.c.StopRun(w.Context(), "job", StopOptions{}); err != nil || only(entries).State != history.StateUnknown {
			t.Errorf("%+v, %v; want it unknown", entries, err)
		}
	})
}

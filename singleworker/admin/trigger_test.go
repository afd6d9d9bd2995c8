package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// requests reads the pending requests of "job".
func (w *world) requests() map[string]zkrec.Request {
	w.Helper()
	waiting, err := w.c.waiting(w.Context(), "job")
	if err != nil {
		w.Fatal(err)
	}
	return waiting
}

// manual is the run of a request.
func manual(id string, token int64, attempt int) zkrec.Run {
	return zkrec.Run{
		Tick: time.Now().UnixMilli(), Manual: id, RunID: fmt.Sprintf("run-%d", attempt), Token: token,
		Attempt: attempt, Started: time.Now().UnixMilli(),
	}
}

// only is the entry of a job without shards.
func only(entries []history.Entry) history.Entry {
	if len(entries) != 1 {
		return history.Entry{}
	}
	return entries[0]
}

func TestTriggerAsks(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		result, err := w.c.Trigger(w.Context(), "job", TriggerOptions{
			Args: map[string]string{"a": "1"}, Payload: json.RawMessage(`{"n":1}`), By: "alice@host", Reason: "again",
		})
		if err != nil || result.ID == "" || result.Job.Name != "job" {
			t.Fatalf("%+v, %v", result, err)
		}
		want := zkrec.Request{
			Schema: zkrec.Schema, Kind: zkrec.RequestRun, At: noon, By: "alice@host", Reason: "again",
			Args: map[string]string{"a": "1"}, Payload: json.RawMessage(`{"n":1}`),
		}
		if got := w.requests()[result.ID]; string(got.Encode()) != string(want.Encode()) {
			t.Errorf("asked for %s, want %s", got.Encode(), want.Encode())
		}
		second, err := w.c.Trigger(w.Context(), "job", TriggerOptions{})
		if err != nil || second.ID <= result.ID || len(w.requests()) != 2 {
			t.Errorf("a second one: %+v, %v; want it beside the first, and after it", second, err)
		}
	})
}

// Each of these is refused at once and leaves no request.
func TestTriggerRefuses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		trigger := func(name string, opts TriggerOptions) error {
			_, err := w.c.Trigger(w.Context(), name, opts)
			return err
		}
		if err := trigger("nobody", TriggerOptions{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("no such job: %v", err)
		}
		err := trigger("job", TriggerOptions{})
		if want := `trigger job: no instance can run the job: no instance has registered handler "job"`; !errors.Is(err, ErrNoHandler) || err.Error() != want {
			t.Errorf("no handler: %v, want %s", err, want)
		}
		w.instance("app-1", "job")
		w.kill()
		if err := trigger("job", TriggerOptions{}); !errors.Is(err, ErrNoHandler) || !strings.Contains(err.Error(), "last seen on app-1") {
			t.Errorf("the handler's instance is dead: %v", err)
		}
		wantRefused(t, trigger("a/b/c", TriggerOptions{}), "Name", `job.Name "a/b/c": `)
		wantRefused(t, trigger("job", TriggerOptions{Payload: json.RawMessage("{")}), "Payload", `job.Payload "{": is not JSON: `)
		wantRefused(t, trigger("job", TriggerOptions{Payload: json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)}), "Payload", `job.Payload "65`)
		wantRefused(t, trigger("job", TriggerOptions{Args: map[string]string{"a": strings.Repeat("x", 64<<10)}}), "Args", `job.Args "65`)
		wantInvalid(t, trigger("job", TriggerOptions{By: strings.Repeat("x", 1025)}), "By", `By "xxx`)
		wantInvalid(t, trigger("job", TriggerOptions{Reason: strings.Repeat("x", 1025)}), "Reason", `Reason "xxx`)
		w.put(w.c.tree.Job("job"), []byte("@dialy"))
		if err := trigger("job", TriggerOptions{WaitForHandler: true}); !errors.Is(err, ErrUnreadable) {
			t.Errorf("a job that can never run: %v", err)
		}
		if left := w.requests(); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestTriggerAtTheSameTime(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.multi(zkdelete(w.c.tree.Requests("job"))) // as a job of an older version
		var accepted, busy atomic.Int32
		var all sync.WaitGroup
		for range zkrec.MaxRequests + 3 {
			c := w.operator()
			all.Go(func() {
				for {
					_, err := c.Trigger(w.Context(), "job", TriggerOptions{})
					switch {
					case errors.Is(err, ErrConflict):
						continue
					case errors.Is(err, ErrBusy) && strings.Contains(err.Error(), "requests: 10, at most 10 are allowed"):
						busy.Add(1)
					case err != nil:
						t.Error(err)
					default:
						accepted.Add(1)
					}
					return
				}
			})
		}
		all.Wait()
		if n := len(w.requests()); n != zkrec.MaxRequests || accepted.Load() != zkrec.MaxRequests || busy.Load() != 3 {
			t.Errorf("%d accepted, %d refused, %d wait; want 10, 3, 10", accepted.Load(), busy.Load(), n)
		}
	})
}

// One call is one run, whichever reply is lost, also when the run has ended
// before the retry.
func TestTriggerWithoutReply(t *testing.T) {
	t.Parallel()
	for what, action := range map[string]func() zkdev.Action{"applied": zkdev.CutAfter, "lost": zkdev.CutBefore} {
		for _, fast := range []bool{false, true} {
			inWorld(t, func(w *world) {
				token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
				w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return action() })
				if fast && what == "applied" {
					owner := w.operator()
					w.every(time.Millisecond, func() bool { // done before the operator is back
						waiting, _ := owner.waiting(w.Context(), "job")
						for id := range waiting {
							entry := zkrec.Entry{Run: manual(id, token, 1)}
							entry.State = history.StateOK
							w.end(entry, zkdelete(owner.tree.Request("job", id)))
						}
						return len(waiting) > 0
					})
				}
				result, err := w.c.Trigger(w.Context(), "job", TriggerOptions{})
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				synctest.Wait()
				waiting := w.requests()
				if _, ok := waiting[result.ID]; !ok && !fast || len(waiting) > 1 {
					t.Errorf("%s, fast %v: %d requests wait", what, fast, len(waiting))
				}
			})
		}
	}
}

func TestAwaitRun(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		result, err := w.c.Trigger(w.Context(), "job", TriggerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		id := result.ID
		soon := func() (history.Entry, error) {
			ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
			defer cancel()
			entries, err := w.c.AwaitRun(ctx, "job", id)
			return only(entries), err
		}
		want := func(what string, state history.State, says string) {
			t.Helper()
			entry, err := soon()
			if entry.State != state || entry.Manual != id || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %s, %v; want %s, %s", what, entry.State, err, state, says)
			}
		}
		want("at first", history.StateWaiting, "app-1 has not started it")
		w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "other", Token: token})
		want("behind another run", history.StateWaiting, "it waits for the run in progress on app-1")
		w.claim(manual(id, token, 1))
		want("it runs", history.StateRunning, "it is running on app-1")
		failed := zkrec.Entry{Run: manual(id, token, 1)}
		failed.State = history.StateFailed
		w.put(w.c.tree.History("job"), zkrec.Log{}.Add(zkrec.MinHistory, 0, failed).Encode(0))
		w.put(w.c.tree.Tick("job"), zkrec.Tick{Run: failed.Run, NextAttempt: history.NextRetry, NextAttemptAt: 5}.Encode())
		want("it failed", history.StateFailed, "attempt 1 is failed, the retry is pending")
		w.claim(manual(id, token, 2))
		w.kill()
		want("its owner died", history.StateUnknown, "it is unknown")

		begin := time.Now()
		time.AfterFunc(500*time.Millisecond, func() {
			ok := zkrec.Entry{Run: manual(id, token, 2)}
			ok.State = history.StateOK
			w.end(ok, zkdelete(w.c.tree.Request("job", id)))
		})
		if entry, err := soon(); err != nil || !entry.OK() || entry.Attempt != 2 || time.Since(begin) != 500*time.Millisecond {
			t.Errorf("it has ended: %+v, %v after %v; want it at once", entry, err, time.Since(begin))
		}
		w.put(w.c.tree.History("job"), nil)
		w.put(w.c.tree.Tick("job"), nil)
		if entry, err := soon(); err != nil || entry.State != history.StateUnknown {
			t.Errorf("it was forgotten: %+v, %v", entry, err)
		}
		if _, err := w.c.Cancel(w.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		if _, err := soon(); !errors.Is(err, ErrNotFound) {
			t.Errorf("the job was canceled: %v", err)
		}
	})
}

// A request may wait for a future instance, and its status says so.
func TestTriggerBeforeThereIsAHandler(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		result, err := w.c.Trigger(w.Context(), "job", TriggerOptions{WaitForHandler: true})
		if err != nil || len(w.requests()) != 1 {
			t.Fatal(result, err)
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		_, err = w.c.AwaitRun(ctx, "job", result.ID)
		if want := `manual run of job: it has not started: no instance has registered handler "job": context deadline exceeded`; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// If the server becomes unreachable, the status is reported as last seen.
func TestServerGoesAwayWhileARunIsAwaited(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		result, err := w.c.Trigger(w.Context(), "job", TriggerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(5*time.Second, w.server.Stop)
		_, err = w.c.AwaitRun(ctx, "job", result.ID)
		want := "manual run of job: when last seen, app-1 has not started it: ZooKeeper did not answer in time: context deadline exceeded; " +
			"last connection attempt: "
		if !errors.Is(err, ErrUnavailable) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s...", err, want)
		}
	})
}

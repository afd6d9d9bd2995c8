package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// shardTexts is texts with the shards.
func shardTexts(entries []history.Entry) string {
	var list []string
	for _, e := range entries {
		shard := "-"
		if e.Shard != nil {
			shard = strconv.Itoa(*e.Shard)
		}
		list = append(list, fmt.Sprintf("%s:%s %s", shard, e.Tick.UTC().Format("15:04"), e.State))
	}
	return strings.Join(list, ", ")
}

func TestHistoryOfShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.sharded(3)
		time.Sleep(2 * time.Hour)
		one, two := noon.Add(time.Hour), noon.Add(2*time.Hour)
		w.ticked("job[0]", one, history.StateOK, nil)
		w.ticked("job[1]", one, history.StateFailed, nil)
		w.ticked("job[2]", one, history.StateRunning, nil)
		w.ticked("job[0]", two, history.StateOK, nil)
		w.ticked("job[1]", two, history.StateOK, nil)
		for name, want := range map[string]string{
			"job":    "2:13:00 running, 0:14:00 ok, 1:14:00 ok, 0:13:00 ok, 1:13:00 failed",
			"job[1]": "1:14:00 ok, 1:13:00 failed",
		} {
			history, err := w.c.History(w.Context(), name)
			if got := shardTexts(history.Entries); err != nil || got != want || history.Job.Name != name {
				t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, want)
			}
		}
		w.put(w.c.tree.History("job[1]"), []byte("zzz"))
		history, err := w.c.History(w.Context(), "job")
		if got := shardTexts(history.Entries); err != nil || got != "2:13:00 running, 0:14:00 ok, 1:14:00 ok, 0:13:00 ok, 1:00:00 unreadable" {
			t.Errorf("garbage in one: %v\ngot %s", err, got)
		}
	})
}

func TestWhyOfShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		facts := map[string]Explanation{}
		why := func(what, name string, at time.Time, fate history.State) Explanation {
			t.Helper()
			x, err := w.c.Why(w.Context(), name, at)
			if err != nil || x.Fate != fate {
				t.Errorf("%s: %s, %v, want %s", what, x.Fate, err, fate)
			}
			facts[what] = x
			return x
		}
		w.sharded(4)
		why("to come", "job", time.Time{}, FateComing)
		time.Sleep(time.Hour + 2*time.Minute)
		one := noon.Add(time.Hour)
		w.ticked("job[0]", one, history.StateOK, nil)
		w.ticked("job[1]", one, history.StateRunning, nil)
		w.ticked("job[2]", one, history.StateFailed, func(t *zkrec.Tick) { t.Error = "no route" })
		w.put(w.c.tree.Shards("job"), zkrec.Complete{Tick: noon.UnixMilli()}.Encode())
		x := why("different fates", "job", one, FateLate)
		if got := shardTexts(x.Entries); got != "0:13:00 ok, 1:13:00 running, 2:13:00 failed" {
			t.Errorf("entries %s", got)
		}
		why("one shard", "job[1]", one, history.StateRunning)
		w.kill()
		if _, err := w.edit("job", func(j *job.Job) { j.Shards = 5 }); err != nil {
			t.Fatal(err)
		}
		why("without an owner", "job", one.Add(time.Minute), FateLate)

		resized := w.spec("job")
		resized.Layout.Until = one.UnixMilli()
		w.put(w.c.tree.Job("job"), resized.Resized().Encode())
		why("after a change", "job", one, history.StateUnknown)
		why("a shard that is new", "job[4]", one, FateForgotten)
		w.put(w.c.tree.Job("job"), []byte(`{"schedule":"@dialy","shards":4}`))
		why("cannot run", "job", one, FateNone)
		w.put(w.c.tree.Job("job"), []byte(`{"schedule":"@at 2000-01-02T00:00:00Z","shards":4}`))
		if x := why("no tick", "job", noon.Add(-time.Hour), FateNone); !x.Tick.IsZero() {
			t.Errorf("no tick: %+v", x)
		}
		golden(t, "why-shards", facts)
	})
}

// waitingAt are the requests that wait at a slot.
func (w *world) waitingAt(slot string) map[string]zkrec.Request {
	w.Helper()
	waiting, err := w.c.waiting(w.Context(), slot)
	if err != nil {
		w.Fatal(err)
	}
	return waiting
}

func TestTriggerShards(t *testing.T) {
	t.Parallel()
	for what, action := range map[string]func() zkdev.Action{"": zkdev.Pass, "reply lost": zkdev.CutAfter, "request lost": zkdev.CutBefore} {
		inWorld(t, func(w *world) {
			w.sharded(3)
			w.multi(zkdelete(w.c.tree.Requests("job[1]")))
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return action() })
			result, err := w.c.Trigger(w.Context(), "job", TriggerOptions{Args: map[string]string{"a": "1"}, By: "alice"})
			if err != nil || len(result.Job.Slots) != 3 {
				t.Fatalf("%s: %+v, %v", what, result, err)
			}
			for _, slot := range []string{"job[0]", "job[1]", "job[2]"} {
				waiting := w.waitingAt(slot)
				if request := waiting[result.ID]; len(waiting) != 1 || request.Kind != zkrec.RequestRun || request.Args["a"] != "1" || request.By != "alice" {
					t.Errorf("%s: at %s wait %v", what, slot, waiting)
				}
			}
			one, err := w.c.Trigger(w.Context(), "job[2]", TriggerOptions{})
			if err != nil || len(w.waitingAt("job[2]")) != 2 || len(w.waitingAt("job[0]")) != 1 || one.Job.Shard == nil {
				t.Errorf("%s: one shard: %+v, %v", what, one, err)
			}
		})
	}
}

// Either all shards are asked, or none.
func TestTriggerOfShardsRefuses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly", Shards: 3})
		refused := func(what string, opts TriggerOptions, want error, says string) {
			t.Helper()
			_, err := w.c.Trigger(w.Context(), "job", opts)
			if err == nil || !errors.Is(err, want) && want != nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %v: %s", what, err, want, says)
			}
		}
		refused("no handler", TriggerOptions{}, ErrNoHandler, `trigger job: job[0]: no instance can run the job: no instance has registered handler "job"`)
		result, err := w.c.Trigger(w.Context(), "job", TriggerOptions{WaitForHandler: true})
		if err != nil || len(w.waitingAt("job[2]")) != 1 {
			t.Errorf("before there is a handler: %+v, %v; want the shards made for it", result, err)
		}
		data, _, err := w.c.conn.Get(w.Context(), w.c.tree.Tick("job[2]"))
		stat, _, jobErr := w.c.conn.Exists(w.Context(), w.c.tree.Job("job"))
		if tick, _ := zkrec.ParseTick(data, time.Time{}); err != nil || jobErr != nil || tick.Watermark != stat.Mtime.UnixMilli() {
			t.Errorf("shard 2 has %s, %v", data, err)
		}
		w.instance("app-1", "job")
		for range zkrec.MaxRequests - 1 {
			if _, err := w.c.Trigger(w.Context(), "job[1]", TriggerOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		refused("no room at one", TriggerOptions{}, ErrBusy, "trigger job: job[1]: too many pending requests: 10, at most 10 are allowed")
		if n := len(w.waitingAt("job[0]")); n != 1 {
			t.Errorf("%d wait at shard 0, though not all could be asked", n)
		}
		w.submit(job.Job{Name: "many", Schedule: "@hourly", Shards: job.MaxShards})
		if _, err = w.c.Trigger(w.Context(), "many", TriggerOptions{WaitForHandler: true}); err != nil || len(w.waitingAt("many[1023]")) != 1 {
			t.Errorf("all that a job can have: %v", err)
		}
		_, err = w.c.Trigger(w.Context(), "many", TriggerOptions{WaitForHandler: true, Payload: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)})
		if refused := new(invalid.FieldError); !errors.As(err, &refused) || refused.Field != "Args" || !strings.Contains(err.Error(), "do not fit in one transaction for all 1024 shards") {
			t.Errorf("too much for one transaction: %v", err)
		}
	})
}

func TestAwaitRunsOfShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.sharded(3)
		result, err := w.c.Trigger(w.Context(), "job", TriggerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ends := func(slot string, state history.State) {
			w.ticked(slot, noon, state, func(t *zkrec.Tick) { t.Manual = result.ID })
			w.multi(zkdelete(w.c.tree.Request(slot, result.ID)))
		}
		soon := func(what, want, says string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
			defer cancel()
			entries, err := w.c.AwaitRun(ctx, "job", result.ID)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if shardStates(entries) != want || got != says || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %s, %v; want %s, %s", what, shardStates(entries), err, want, says)
			}
		}
		soon("at first", "0 waiting, 1 waiting, 2 waiting", "manual run of job: 3 of 3 shards are not done, the first of them job[0]: app-1 has not started it: context deadline exceeded")
		ends("job[0]", history.StateOK)
		w.ticked("job[1]", noon, history.StateRunning, func(t *zkrec.Tick) { t.Manual = result.ID })
		soon("one runs", "0 ok, 1 running, 2 waiting", "manual run of job: 2 of 3 shards are not done, the first of them job[1]: it is running on app-1: context deadline exceeded")
		ends("job[1]", history.StateFailed)
		time.AfterFunc(time.Second, func() { ends("job[2]", history.StateOK) })
		soon("all have ended", "0 ok, 1 failed, 2 ok", "")

		second, err := w.c.Trigger(w.Context(), "job", TriggerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { // of three shards, one is left
			for _, slot := range []string{"job[0]", "job[1]", "job[2]"} {
				w.multi(zkdelete(w.c.tree.Request(slot, second.ID)))
			}
			spec := w.spec("job")
			spec.Job.Shards = 1
			w.put(w.c.tree.Job("job"), spec.Encode())
		})
		entries, err := w.c.AwaitRun(w.Context(), "job", second.ID)
		if err != nil || shardStates(entries) != "0 unknown, 1 unknown, 2 unknown" {
			t.Errorf("removed shards: %s, %v", shardStates(entries), err)
		}
	})
}

// shardStates is "0 ok, 1 failed".
func shardStates(entries []history.Entry) string {
	var list []string
	for _, e := range entries {
		list = append(list, fmt.Sprintf("%d %s", *e.Shard, e.State))
	}
	return strings.Join(list, ", ")
}

func TestStopRunsOfShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.sharded(4)
		_, err := w.c.StopRun(w.Context(), "job", StopOptions{})
		if want := "stop the run of job: job is not running: nor is any of its 4 shards"; !errors.Is(err, ErrNotRunning) || err.Error() != want {
			t.Errorf("nothing runs: %v, want %s", err, want)
		}
		for _, slot := range []string{"job[0]", "job[2]", "job[3]"} {
			w.ticked(slot, noon, history.StateRunning, nil)
		}
		owner := w.operator()
		w.every(time.Second, func() bool {
			for _, slot := range []string{"job[0]", "job[2]", "job[3]"} {
				waiting, _ := owner.waiting(w.Context(), slot)
				for id, request := range waiting {
					if slot != "job[3]" { // which ignores it
						w.ticked(slot, noon, history.StateInterrupted, func(t *zkrec.Tick) { t.RunID = request.RunID })
						w.multi(zkdelete(owner.tree.Request(slot, id)))
					}
				}
			}
			return false
		})
		stop := func(name string, opts StopOptions) ([]history.Entry, error) {
			ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
			defer cancel()
			return w.c.StopRun(ctx, name, opts)
		}
		if entries, err := stop("job", StopOptions{RunID: "job[2] at 12:00"}); err != nil || shardStates(entries) != "2 interrupted" {
			t.Errorf("one run: %s, %v", shardStates(entries), err)
		}
		if _, err := stop("job[2]", StopOptions{}); !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "its last run job[2] at 12:00 is interrupted") {
			t.Errorf("one shard that does not run: %v", err)
		}
		entries, err := stop("job", StopOptions{})
		if !errors.Is(err, context.DeadlineExceeded) || shardStates(entries) != "0 interrupted, 3 running" ||
			!strings.Contains(err.Error(), "run job[3] at 12:00 on app-1 has not ended yet") {
			t.Errorf("all: %s, %v", shardStates(entries), err)
		}
	})
}

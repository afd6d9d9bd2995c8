package admin

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// texts shortens entries to what the tests compare.
func texts(entries []history.Entry) string {
	var list []string
	for _, e := range entries {
		text := fmt.Sprintf("%s %s %s", e.Tick.UTC().Format("15:04"), e.State, e.RunID)
		if e.Count > 1 {
			text += fmt.Sprintf("to %s x%d", e.To.UTC().Format("15:04"), e.Count)
		}
		list = append(list, strings.TrimSpace(text+" "+string(e.Reason)+e.NextAttempt))
	}
	return strings.Join(list, ", ")
}

func TestHistory(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		want := func(what, want string) {
			t.Helper()
			past, err := w.c.History(w.Context(), "job")
			if got := texts(past.Entries); err != nil || got != want || past.Job.Name != "job" {
				t.Errorf("%s: %v\ngot  %s\nwant %s", what, err, got, want)
			}
		}
		want("before anything", "")
		run := func(id string, hour int) zkrec.Run {
			return zkrec.Run{Tick: noon.Add(time.Duration(hour) * time.Hour).UnixMilli(), RunID: id, Token: token, Attempt: 1}
		}
		w.claim(run("a", 0))
		want("a run is in progress", "12:00 running a")
		ended := zkrec.Entry{Run: run("a", 0)}
		ended.State = history.StateOK
		w.end(ended)
		want("it has ended", "12:00 ok a")

		row := zkrec.Entry{Run: run("", 1), To: run("", 3).Tick, Count: 3, Reason: history.ReasonNoOwner}
		row.State, row.SID = history.StateMissed, "app-2"
		w.put(w.c.tree.History("job"), zkrec.Log{}.Add(zkrec.MinHistory, 0, ended, row).Encode(0))
		w.claim(run("b", 4))
		want("a row, and a run", "16:00 running b, 13:00 missed to 15:00 x3 no_owner, 12:00 ok a")

		w.adopt("app-1", "job")
		want("another owner", "16:00 unknown b, 13:00 missed to 15:00 x3 no_owner, 12:00 ok a")

		failed := zkrec.Entry{Run: run("b", 4)}
		failed.State, failed.Error = history.StateFailed, "no"
		w.put(w.c.tree.Tick("job"), zkrec.Tick{Watermark: failed.Tick, Run: failed.Run, NextAttempt: history.NextRetry, NextAttemptAt: failed.Tick + 5}.Encode())
		w.put(w.c.tree.History("job"), zkrec.Log{}.Add(zkrec.MinHistory, 0, failed).Encode(0))
		want("a retry is to come", "16:00 failed b retry")
		asked := zkrec.Entry{Run: run("c", 5)}
		asked.Manual, asked.State = "ask", history.StateOK
		held := zkrec.Held{Run: failed.Run, NextAttempt: history.NextRetry, NextAttemptAt: failed.Tick + 5}
		w.put(w.c.tree.Tick("job"), zkrec.Tick{Watermark: failed.Tick, Run: asked.Run, Held: held}.Encode())
		w.put(w.c.tree.History("job"), zkrec.Log{}.Add(zkrec.MinHistory, 0, failed, asked).Encode(0))
		want("it waits beside a manual run", "17:00 ok c, 16:00 failed b retry")
		w.put(w.c.tree.Tick("job"), zkrec.Tick{Watermark: failed.Tick, Run: failed.Run, NextAttempt: history.NextRetry, NextAttemptAt: failed.Tick + 5}.Encode())

		w.put(w.c.tree.History("job"), nil)
		want("as an older version left it", "16:00 failed b retry")
	})
}

func TestUnknownWhenTheOwnerIsDead(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "a", Token: token})
		time.Sleep(3 * time.Hour)
		if job := w.get("job"); job.LastRun.State != history.StateRunning || !job.Overdue.IsZero() || !job.Watermark.Equal(noon) {
			t.Errorf("%+v of %+v; want it running, nothing overdue", job.LastRun, job)
		}
		w.kill()
		if job := w.get("job"); job.LastRun.State != history.StateUnknown || !job.Overdue.Equal(noon.Add(time.Hour)) || job.State != StateUnowned {
			t.Errorf("%+v of %+v; want it unknown, the next tick overdue", job.LastRun, job)
		}
		w.instance("app-1b", "job")
		w.multi(zkconn.CreateEphemeralOp(w.c.tree.Instance("app-1"), zkrec.Instance{Incarnation: "app-1-2"}.Encode()))
		if job := w.get("job"); job.LastRun.State != history.StateUnknown || job.State != StateUnowned {
			t.Errorf("%+v of %+v; want it unknown: another start of the same instance", job.LastRun, job)
		}
	})
}

// An unreadable record is shown as such, and hides nothing else.
func TestHistoryOfGarbage(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.put(w.c.tree.Tick("job"), []byte("zzz"))
		ok := zkrec.Entry{Run: zkrec.Run{Tick: noon.UnixMilli(), RunID: "a", State: history.StateOK}}
		w.put(w.c.tree.History("job"), zkrec.Log{}.Add(zkrec.MinHistory, 0, ok).Encode(0))
		time.Sleep(3 * time.Hour)
		past, err := w.c.History(w.Context(), "job")
		if err != nil || len(past.Entries) != 2 || past.Entries[0].State != history.StateUnreadable ||
			!strings.HasPrefix(past.Entries[0].Error, `/billing/job/tick cannot be read: tick record "zzz": `) || past.Entries[1].RunID != "a" {
			t.Errorf("garbage in the tick record: %+v, %v", past.Entries, err)
		}
		if job := w.get("job"); !job.Overdue.IsZero() {
			t.Errorf("overdue since %v, though nobody knows", job.Overdue)
		}
		w.put(w.c.tree.Tick("job"), nil)
		if job := w.get("job"); !job.Overdue.IsZero() {
			t.Errorf("overdue since %v, though its owner begins when the record was emptied", job.Overdue)
		}
		w.put(w.c.tree.Tick("job"), zkrec.Tick{Run: ok.Run}.Encode())
		for garbage, want := range map[string]string{"zzz": `history "zzz": `, `{"schema":9}`: "history: written with schema 9"} {
			w.put(w.c.tree.History("job"), []byte(garbage))
			past, err = w.c.History(w.Context(), "job")
			if err != nil || len(past.Entries) != 2 || past.Entries[0].RunID != "a" || !strings.HasPrefix(past.Entries[1].Error, want) {
				t.Errorf("garbage in the history: %+v, %v", past.Entries, err)
			}
		}
		w.multi(zkcreate(w.c.tree.Alarm("job"), []byte("zzz")))
		if job := w.get("job"); job.Alarm != nil {
			t.Errorf("an alarm %+v of garbage", job.Alarm)
		}
		w.multi(zkdelete(w.c.tree.History("job")), zkdelete(w.c.tree.Tick("job")), zkdelete(w.c.tree.Requests("job")))
		if past, err := w.c.History(w.Context(), "job"); err != nil || len(past.Entries) != 0 {
			t.Errorf("a job without records: %+v, %v", past, err)
		}
		if _, err := w.c.History(w.Context(), "nobody"); !errors.Is(err, ErrNotFound) {
			t.Errorf("no such job: %v", err)
		}
		_, err = w.c.History(w.Context(), "a/b/c")
		if !errors.As(err, new(*invalid.FieldError)) {
			t.Errorf("no name of a job: %v", err)
		}
	})
}

// A history that exceeds the limit is read completely.
func TestHistoryOverItsCap(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		var long zkrec.Log
		for i := range 3 * zkrec.MinHistory {
			long = long.Add(3*zkrec.MinHistory, 0, zkrec.Entry{Run: zkrec.Run{Tick: noon.UnixMilli() + int64(i), RunID: strconv.Itoa(i), State: history.StateOK}})
		}
		for k := range zkrec.HistoryPages - 1 {
			if k > 0 {
				w.multi(zkcreate(w.c.tree.HistoryPage("job", k), nil))
			}
			w.put(w.c.tree.HistoryPage("job", k), long.Encode(k))
		}
		history, err := w.c.History(w.Context(), "job")
		if err != nil || len(history.Entries) != 3*zkrec.MinHistory || history.Entries[0].RunID != "59" {
			t.Errorf("%d entries, %v; want all, the newest first", len(history.Entries), err)
		}
	})
}

func TestAlarmIsShown(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		noticed := noon.Add(61 * time.Minute)
		w.multi(zkcreate(w.c.tree.Alarm("job"), zkrec.Alarm{Tick: noon.Add(time.Hour).UnixMilli(), SID: "app-2", At: noticed}.Encode()))
		job := w.get("job")
		if a := job.Alarm; a == nil || !a.Tick.Equal(noon.Add(time.Hour)) || a.InstanceID != "app-2" || !a.At.Equal(noticed) {
			t.Errorf("alarm %+v", a)
		}
	})
}

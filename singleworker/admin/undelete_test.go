package admin

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// cancel cancels a job as bob does.
func (w *world) cancel(name string) {
	w.Helper()
	_, err := w.c.Cancel(As(w.Context(), Who{By: "bob", Reason: "too loud"}), name)
	w.must(err)
}

// undelete brings a job back.
func (w *world) undelete(name, as string) Change {
	w.Helper()
	done, err := w.c.Undelete(w.Context(), name, UndeleteOptions{As: as})
	if w.must(err); done.Outcome != OutcomeUndeleted || done.Job.Name != cmp.Or(as, name) {
		w.Errorf("undelete %s as %q: %+v", name, as, done)
	}
	return done
}

// pastOf is the runs in the history of a job, newest first.
func (w *world) pastOf(name string) string {
	w.Helper()
	h, err := w.c.History(w.Context(), name)
	w.must(err)
	var runs []string
	for _, e := range h.Entries {
		runs = append(runs, fmt.Sprintf("%d:%s:%s", e.Number, e.RunID, e.State))
	}
	return strings.Join(runs, " ")
}

// A canceled job says who did it, and comes back with its past: nothing of that is told again, and
// its ticks begin now.
func TestUndelete(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly", Handler: "work", Retries: 3})
		w.end(entryOfRun("a", history.StateOK))
		w.end(entryOfRun("b", history.StateFailed))
		time.Sleep(2 * time.Hour)
		w.claim(zkrec.Run{Tick: time.Now().Add(-time.Second).UnixMilli(), RunID: "c", Token: token, Attempt: 1})
		_, err := w.c.Pause(w.Context(), "job", PauseOptions{For: 24 * time.Hour, Reason: "db"})
		w.must(err)
		until := w.get("job").Paused.Until
		on, read := w.watch(w.operator(), WatchOptions{}), w.read(w.operator(), WatchHistoriesOptions{})
		settle()
		on.take()
		read.heard = nil
		before := w.spec("job")
		at := time.Now()
		w.cancel("job")
		on.want("cancel", "job_canceled job")
		for what, ask := range map[string]func() error{
			"show":    func() error { _, err := w.c.Get(w.Context(), "job"); return err },
			"history": func() error { _, err := w.c.History(w.Context(), "job"); return err },
			"why":     func() error { _, err := w.c.Why(w.Context(), "job", time.Time{}); return err },
			"pause":   func() error { _, err := w.c.Pause(w.Context(), "job", PauseOptions{}); return err },
			"cancel":  func() error { _, err := w.c.Cancel(w.Context(), "job"); return err },
		} {
			gone := new(CanceledError)
			if err := ask(); !errors.Is(err, ErrNotFound) || !errors.As(err, &gone) || gone.By != "bob" || gone.Reason != "too loud" || !gone.At.Equal(at) {
				t.Errorf("%s: %v, want who has canceled it, and when", what, err)
			}
		}
		time.Sleep(90 * time.Minute)
		w.undelete("job", "")
		now := time.Now()
		status := w.get("job")
		if status.Paused == nil || !status.Paused.Until.Equal(until) || status.Job.Retries != 3 || status.Watermark.After(now) {
			t.Errorf("it is %+v, pause %+v until %v", status, status.Paused, until)
		}
		if past := w.pastOf("job"); past != "3:c:lost 2:b:failed 1:a:ok" {
			t.Errorf("its history is %s", past)
		}
		spec := w.spec("job")
		if spec.Since != 0 || spec.Former != nil || spec.Fingerprint() != before.Fingerprint() {
			t.Errorf("its record is %+v", spec)
		}
		on.want("undelete", "job_submitted job paused", "run_ended job c lost")
		if last := read.heard[len(read.heard)-1].Slots; len(last) != 1 || last[0].Inherited.Rev != 2 || last[0].Inherited.Number != 2 || last[0].Rev != 3 ||
			last[0].Inherited.Incarnation == 0 || last[0].Inherited.Incarnation == last[0].Incarnation {
			t.Errorf("its history is read as %+v, want that two entries are of before", last)
		}
		if x, err := w.c.Why(w.Context(), "job", at.Add(time.Hour)); err != nil || x.Fate != FateNone && x.Fate != history.StateLost {
			t.Errorf("a tick between is %s, %v", x.Fate, err)
		}
		w.end(entryOfRun("d", history.StateOK))
		on.want("a run", "run_begun job d", "run_ended job d ok")
		if past := w.pastOf("job"); past != "4:d:ok 3:c:lost 2:b:failed 1:a:ok" {
			t.Errorf("its history is %s", past)
		}
		second := w.watch(w.operator(), WatchOptions{Since: on.server.Zxid()})
		second.want("from there", "watching")
		if log := w.entries(LogOptions{Max: 1}); !strings.HasPrefix(log[0], "undelete job ") {
			t.Errorf("the log has %q", log)
		}
		if names, err := w.c.children(w.Context(), w.c.tree.Canceled()); err != nil || len(names) > 0 {
			t.Errorf("%q are kept, %v; want nothing", names, err)
		}
	})
}

// A name that is used again is not taken from who has it.
func TestUndeleteAs(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.end(entryOfRun("a", history.StateOK))
		w.cancel("job")
		w.submit(job.Job{Name: "job", Schedule: "@daily"})
		if _, err := w.c.Undelete(w.Context(), "job", UndeleteOptions{}); !errors.Is(err, ErrExists) {
			t.Errorf("of a name that is used: %v", err)
		}
		w.end(entryOfRun("b", history.StateOK))
		w.cancel("job")
		w.undelete("job", "second")
		w.undelete("job", "first")
		for name, want := range map[string]string{"second": "1:b:ok", "first": "1:a:ok"} {
			if status := w.get(name); w.pastOf(name) != want || status.Job.HandlerName() != "job" {
				t.Errorf("%s has the handler %s and the history %s, want %s", name, status.Job.HandlerName(), w.pastOf(name), want)
			}
		}
		_, err := w.c.Undelete(w.Context(), "job", UndeleteOptions{})
		if !errors.Is(err, ErrNotFound) || errors.As(err, new(*CanceledError)) {
			t.Errorf("a third time: %v", err)
		}
		for name, as := range map[string]string{"a/b": "", "job": "_x"} {
			if _, err := w.c.Undelete(w.Context(), name, UndeleteOptions{As: as}); err == nil {
				t.Errorf("%s as %s is accepted", name, as)
			}
		}
	})
}

// Ticks that an owner has accounted for by a clock that is ahead are not run again.
func TestUndeleteKeepsAWatermarkThatIsAhead(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		ahead := time.Now().Add(time.Hour).Truncate(time.Hour)
		e := entryOfRun("a", history.StateOK)
		e.Tick = ahead.UnixMilli()
		w.end(e)
		w.cancel("job")
		if done := w.undelete("job", ""); !w.get("job").Watermark.Equal(ahead) {
			t.Errorf("accounted for until %v, want %v; %+v", w.get("job").Watermark, ahead, done)
		}
		w.instance("app", "job")
		w.adopt("app", "job")
		if next := w.get("job").NextRun; !next.After(ahead) {
			t.Errorf("the next run is at %v, and %v has been", next, ahead)
		}
	})
}

// Answers that are lost make neither two of a job nor none.
func TestUndeleteAfterALostAnswer(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.cancel("job")
		w.undelete("job", "")
		w.end(entryOfRun("a", history.StateOK))
		kept := func() int {
			names, err := w.c.children(w.Context(), w.c.tree.Canceled())
			w.must(err)
			return len(names)
		}
		for _, answer := range []zkdev.Action{zkdev.CutAfter(), zkdev.CutBefore()} {
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return answer })
			if w.cancel("job"); kept() != 2 {
				t.Errorf("%d nodes are kept, want the job and its past", kept())
			}
			w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return answer })
			if w.undelete("job", ""); kept() != 0 || w.pastOf("job") != "1:a:ok" {
				t.Errorf("%d nodes are kept, and the history is %s", kept(), w.pastOf("job"))
			}
		}
	})
}

// Of a job with shards its record is kept, also when it goes in several steps, of which any may be
// the last.
func TestUndeleteShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.huge()
		w.multis(func(n int, _ *zkdev.Request) zkdev.Action {
			if n == 2 {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		if _, err := w.c.Cancel(w.Context(), large); !errors.Is(err, ErrDenied) {
			t.Errorf("cancel, of which the second step is refused: %v", err)
		}
		w.undelete(large, "")
		if spec := w.spec(large); spec.Canceled || spec.Job.Shards != job.MaxShards || spec.Layout != nil {
			t.Errorf("it is %+v", spec)
		}
		if n := len(w.entries(LogOptions{Job: large})); n != 3 {
			t.Errorf("%d entries in the log, want its begin, end and return", n)
		}
		w.cancel(large)
		w.undelete(large, "")
	})
}

// A job that is removed with all others, or because it is done, leaves nothing.
func TestNothingIsKeptOfAClearedGroup(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.submit(job.Job{Name: "gone", Schedule: "@hourly"})
		w.cancel("gone")
		cleared, err := w.c.Clear(w.Context(), ClearOptions{Jobs: 1})
		if err != nil || len(cleared.Left) > 0 {
			t.Errorf("cleared %+v, %v", cleared, err)
		}
		if names, err := w.c.children(w.Context(), w.c.tree.Canceled()); err != nil || len(names) > 0 {
			t.Errorf("%q are left, %v", names, err)
		}
	})
}

// The remains of canceled jobs are bounded, in number and in time.
func TestCanceledJobsArePruned(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		deed := zkrec.Deed{Kind: zkrec.DeedSet}
		note := zkconn.CreateSequentialOp(w.c.tree.NewDeed(deed), deed.Encode())
		retries := 0
		prune := func() { // the next change is one that does
			_, number, _ := zkrec.ParseDeedName(path.Base(w.multi(note)[0].Created))
			if n := int(63 - number%64); n > 0 {
				w.multi(slices.Repeat([]zkconn.Op{note}, n)...)
			}
			retries++
			_, err := w.edit("other", func(j *job.Job) { j.Retries = retries })
			w.must(err)
		}
		w.submit(job.Job{Name: "other", Schedule: "@hourly"})
		count := func() (jobs, pasts int) {
			names, err := w.c.children(w.Context(), w.c.tree.Canceled())
			w.must(err)
			for _, name := range names {
				if n, ok := zkrec.ParseCanceledName(name); ok && n.Past {
					pasts++
				} else if ok {
					jobs++
				}
			}
			return jobs, pasts
		}
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.cancel("job")
		w.multi(zkcreate(w.c.tree.Canceled()+"/manual", nil))
		const more = 100
		for i := range zkrec.MaxPasts/more + 1 {
			var ops []zkconn.Op
			for k := range more {
				canceled, past := w.c.tree.NewCanceled("x", int64(1+i*more+k))
				ops = append(ops, zkconn.CreateSequentialOp(canceled, []byte("{}")), zkconn.CreateSequentialOp(past, []byte("{}")))
			}
			w.multi(ops...)
		}
		prune()
		if jobs, pasts := count(); jobs != zkrec.MaxPasts+more+1 || pasts != zkrec.MaxPasts {
			t.Errorf("%d jobs, %d with what they did", jobs, pasts)
		}
		w.undelete("job", "") // without history, as it is the oldest
		w.server.SetClock(zkrec.CanceledKept + time.Second)
		w.cancel("job")
		for range 10 {
			prune()
		}
		if jobs, pasts := count(); jobs != 1 || pasts != 1 {
			t.Errorf("after seven days there are %d jobs, %d with what they did; want the last", jobs, pasts)
		}
	})
}

// A job without room for its remains is not canceled, and the error says so. Garbage in their place
// is no answer.
func TestWhatIsKeptMayBeWrong(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		stop := w.server.ControlKeep(zkdev.OpCreate, func(r *zkdev.Request) zkdev.Action {
			if r.Path == w.c.tree.Canceled() {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		if _, err := w.c.Cancel(w.Context(), "job"); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "below /billing/_canceled") {
			t.Errorf("cancel: %v", err)
		}
		stop()
		w.get("job")
		w.cancel("job")
		names, err := w.c.children(w.Context(), w.c.tree.Canceled())
		w.must(err)
		path := w.c.tree.Canceled() + "/" + names[0]
		for _, garbage := range []string{"", "x", `{"schema":2}`, `{"spec":5}`, `{"spec":""}`, `{"spec":"@hourly","switch":"x"}`, `{"spec":"@hourly","watermark":9e18}`} {
			w.put(path, []byte(garbage))
			if _, err := w.c.Get(w.Context(), "job"); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: show: %v", garbage, err)
			}
			if _, err := w.c.Undelete(w.Context(), "job", UndeleteOptions{}); !errors.Is(err, ErrUnreadable) {
				t.Errorf("%s: undelete: %v", garbage, err)
			}
		}
	})
}

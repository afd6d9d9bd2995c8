package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// requestsOf counts the requests to ZooKeeper of a call.
func (w *world) requestsOf(call func()) (n int) {
	count := func() (all int) {
		for _, n := range w.server.Traffic().Requests {
			all += n
		}
		return all
	}
	before := count()
	call()
	return count() - before
}

// One reading agrees with Get, History, Requests and Why.
func TestJobDetails(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.submit(job.Job{Name: "parts", Schedule: "@hourly", Shards: 40})
		w.claim(zkrec.Run{Tick: time.Now().UnixMilli(), Manual: w.trigger("job", "ann"), RunID: "r1", Token: token, Attempt: 1})
		w.trigger("job", "bob")
		w.trigger("parts[3]", "cid")
		for _, name := range []string{"job", "parts", "parts[3]"} {
			d, err := w.c.Job(w.Context(), name)
			w.must(err)
			past, err := w.c.History(w.Context(), name)
			w.must(err)
			why, err := w.c.Why(w.Context(), name, time.Time{})
			w.must(err)
			got, _ := json.Marshal([]any{d.Job, d.Entries, d.Requests, d.Why(time.Time{}).Fate})
			want, _ := json.Marshal([]any{w.get(name), past.Entries, w.asked(name), why.Fate})
			if string(got) != string(want) || len(d.Requests) == 0 {
				t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
			}
		}
		stop := w.c.tree.Request("job", "stop")
		w.multi(zkcreate(stop, zkrec.Request{Kind: zkrec.RequestStop, RunID: "r1"}.Encode()), zkcreate(w.c.tree.Stack("job"), zkrec.Stack{RunID: "r1", Text: "main.work"}.Encode()))
		if d, err := w.c.Job(w.Context(), "job"); err != nil || len(d.Requests) != 3 || d.Requests[2].Stack != "main.work" || d.Entries[0].State != history.StateRunning {
			t.Errorf("to be stopped: %+v, %v", d.Requests, err)
		}
	})
}

// However many shards a job has, and however many of them are asked for something, few requests
// read it.
func TestJobDetailsCost(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.submit(job.Job{Name: "parts", Schedule: "@hourly", Shards: 100})
		w.get("job") // the first reading learns the group's time
		read := func(name string) func() {
			return func() {
				_, err := w.c.Job(w.Context(), name)
				w.must(err)
			}
		}
		// The tick and the alarm, the owner, the history, the list of requests and a request.
		const records = 100 * (2 + 1 + zkrec.HistoryPages + 1 + 1)
		for pending := range 2 {
			if job, parts := w.requestsOf(read("job")), w.requestsOf(read("parts")); job != 3+pending || parts > 6+records/zkconn.MaxReads {
				t.Errorf("%d requests for a job, %d for one with a hundred shards", job, parts)
			}
			w.trigger("job", "ann")
			w.trigger("parts", "ann")
		}
	})
}

// A job that may be read is shown without its requests if those may not.
func TestJobDetailsOfWhatIsDenied(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.trigger("job", "ann")
		w.server.ControlKeep(zkdev.OpGetChildren2, func(r *zkdev.Request) zkdev.Action {
			if r.Path == w.c.tree.Requests("job") {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		if d, err := w.c.Job(w.Context(), "job"); err != nil || d.Job.State != StateOwned || len(d.Requests) > 0 {
			t.Errorf("%v, %+v", err, d)
		}
		for _, name := range []string{"none", "job[1]", "a/b"} {
			if _, err := w.c.Job(w.Context(), name); !errors.Is(err, map[string]error{"none": ErrNotFound, "job[1]": ErrNoShard}[name]) && name != "a/b" || err == nil {
				t.Error(fmt.Errorf("%s: %w", name, err))
			}
		}
	})
}

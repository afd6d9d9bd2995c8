package admin

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// What is read of many jobs at once is what is read of each.
func TestHistories(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "broken", Schedule: "@hourly"})
		w.put(w.c.tree.History("broken"), []byte("garbage"))
		w.submit(job.Job{Name: "new", Schedule: "@hourly"})
		w.submit(job.Job{Name: "parts", Schedule: "@hourly", Shards: 3})
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		run := zkrec.Run{Tick: noon.Add(-time.Hour).UnixMilli(), RunID: "one", Token: token, Attempt: 1, Started: noon.UnixMilli()}
		w.claim(run)
		run.State = history.StateFailed
		w.end(zkrec.Entry{Run: run})
		w.claim(zkrec.Run{Tick: noon.UnixMilli(), RunID: "two", Token: token, Attempt: 1, Started: noon.UnixMilli()})

		jobs, err := w.c.List(w.Context())
		w.must(err)
		before := reads(w.server)
		all, err := w.c.Histories(w.Context(), jobs)
		w.must(err)
		if n := reads(w.server) - before; n != 1 {
			t.Errorf("%d requests for %d jobs", n, len(jobs))
		}
		for i, status := range jobs {
			one, err := w.c.History(w.Context(), status.Name)
			w.must(err)
			if !reflect.DeepEqual(one.Entries, all[i]) {
				t.Errorf("%s: %+v, want %+v", status.Name, all[i], one.Entries)
			}
		}
		if len(all[1]) != 2 || len(all[0]) != 1 {
			t.Errorf("histories of %d and %d entries", len(all[0]), len(all[1]))
		}
		_, err = w.c.Cancel(w.Context(), "job")
		w.must(err)
		if all, err = w.c.Histories(w.Context(), jobs); err != nil || len(all[1]) != 1 {
			t.Errorf("of a job that was canceled: %+v, %v", all[1], err)
		}
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if _, err := w.c.Histories(ctx, jobs); err == nil {
			t.Error("read although the context was done")
		}
	})
}

// reads is how many requests a server has answered that read.
func reads(server *zkdev.Server) (n int) {
	for _, op := range []zkdev.Op{zkdev.OpGetData, zkdev.OpGetChildren, zkdev.OpGetChildren2, zkdev.OpExists, zkdev.OpMultiRead} {
		n += server.Traffic().Requests[op]
	}
	return n
}

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Many jobs are listed in few requests, and each as Get describes it.
func TestListIsBulkAndSaysWhatGetSays(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const jobs = 200
		w.owned(job.Job{Name: "failed", Schedule: "@hourly"})
		at := time.Now().Add(-time.Hour).Truncate(time.Hour)
		w.ticked("failed", at, history.StateFailed, nil)
		w.submit(job.Job{Name: "parts", Schedule: "@hourly", Shards: 3})
		for _, shard := range []string{"parts[0]", "parts[2]"} {
			w.multi(zkcreate(w.c.tree.Slot(shard), nil), zkcreate(w.c.tree.Alive(shard), nil), zkcreate(w.c.tree.Tick(shard), nil), zkcreate(w.c.tree.History(shard), nil))
			w.adopt("app-1", shard)
		}
		w.ticked("parts[2]", at, history.StateTimedOut, nil)
		w.submit(job.Job{Name: "late", Schedule: "@hourly"})
		w.multi(zkcreate(w.c.tree.Alarm("late"), zkrec.Alarm{Tick: at.UnixMilli(), SID: "app-1"}.Encode()))
		w.submit(job.Job{Name: "broken", Schedule: "@hourly"})
		w.put(w.c.tree.Tick("broken"), []byte("{"))
		for k := range jobs {
			w.submit(job.Job{Name: fmt.Sprintf("job-%03d", k), Schedule: "@hourly"})
		}
		var requests atomic.Int32
		stop := w.server.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
			if r.Op != zkdev.OpPing {
				requests.Add(1)
			}
			return zkdev.Pass()
		})
		list, err := w.c.List(w.Context())
		w.must(err)
		instances, err := w.c.Instances(w.Context())
		w.must(err)
		stop()
		if n := requests.Load(); n > 25 {
			t.Errorf("%d requests for %d jobs, want at most 25", n, len(list))
		}
		if len(list) != jobs+4 || len(instances) != 1 || instances[0].Owned != 3 {
			t.Errorf("%d jobs, instances %+v; want %d, and one that owns 3", len(list), instances, jobs+4)
		}
		for _, listed := range list {
			got, want := text(t, listed), text(t, w.get(listed.Name))
			if got != want {
				t.Errorf("listed\n%s, got\n%s", got, want)
			}
		}
	})
}

func text(t *testing.T, s JobStatus) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A caller that waits for a long list hears how far it is.
func TestOnRead(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Root()))
		for k := range 1000 {
			w.multi(zkcreate(w.c.tree.Job(fmt.Sprintf("job-%03d", k)), []byte("0 0 * * * ?")))
		}
		var heard []int
		c, err := Dial(w.Context(), Config{
			Servers: "zkdev:1", ServerType: "billing", Dial: w.server.Dial,
			OnRead: func(nodes int) { heard = append(heard, nodes) },
		})
		w.must(err)
		defer c.Close()
		list, err := c.List(w.Context())
		// The lists of instances and of two kinds of orders, four nodes of each job, the freeze, and
		// two more of each job.
		if want := []int{3, 2051, 4004, 6004}; err != nil || len(list) != 1000 || !slices.Equal(heard, want) {
			t.Errorf("%d jobs, %v; heard %d, want %d", len(list), err, heard, want)
		}
	})
}

// A run that ends, and begins elsewhere, while the jobs are read is not taken for one whose owner
// is dead.
func TestListReadsAgainWhatHasChanged(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		old := w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		at := time.Now().Add(-time.Hour).Truncate(time.Hour)
		w.claim(zkrec.Run{Tick: at.UnixMilli(), Started: at.UnixMilli(), RunID: "run", Token: old})
		bulks := 0
		w.server.ControlKeep(zkdev.OpMultiRead, func(r *zkdev.Request) zkdev.Action {
			for _, op := range r.Ops {
				if op.Path == w.c.tree.Alive("job") { // the tick was read before
					bulks++
					return zkdev.Delay(time.Second)
				}
			}
			return zkdev.Pass()
		})
		listed := make(chan []JobStatus, 1)
		go func() {
			list, err := w.c.List(w.Context())
			if err != nil {
				t.Error(err)
			}
			listed <- list
		}()
		time.Sleep(time.Second / 2)
		w.multi(
			zkconn.SetOp(w.c.tree.Tick("job"), zkrec.Tick{Watermark: at.UnixMilli(), Run: zkrec.Run{
				Tick: at.UnixMilli(), Started: at.UnixMilli(), Ended: at.UnixMilli() + 1, RunID: "run", Token: old, State: history.StateOK,
			}}.Encode(), zkconn.AnyVersion),
			zkconn.SetOp(w.c.tree.Alive("job"), zkrec.Owner{SID: "app-1", Incarnation: "app-1-1"}.Encode(), zkconn.AnyVersion),
		)
		list := <-listed
		if len(list) != 1 || list[0].LastRun == nil || list[0].LastRun.State != history.StateOK || bulks == 0 {
			t.Errorf("listed %+v, want a run that ended well", list)
		}
	})
}

// Without the right to read the jobs' parent nothing is listed, and lost connections are tried
// again.
func TestListRetries(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly"})
		w.server.Control(zkdev.OpMultiRead, func(*zkdev.Request) zkdev.Action { return zkdev.CutBefore() })
		if list, err := w.c.List(w.Context()); err != nil || len(list) != 1 {
			t.Errorf("after a lost connection: %+v, %v", list, err)
		}
		w.server.ControlKeep(zkdev.OpGetChildren2, func(r *zkdev.Request) zkdev.Action {
			if r.Path == w.c.tree.Root() {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		if list, err := w.c.List(w.Context()); !errors.Is(err, ErrDenied) {
			t.Errorf("List = %+v, %v; want ErrDenied", list, err)
		}
	})
}

// An instance registers before it owns: nobody reads of an owner that is not registered.
func TestOwnersAreRegistered(t *testing.T) {
	t.Parallel()
	reads := map[string]func(w *world) JobStatus{
		"get": func(w *world) JobStatus { return w.get("job") },
		"list": func(w *world) JobStatus {
			list, err := w.c.List(w.Context())
			w.must(err)
			return list[0]
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.submit(job.Job{Name: "job", Schedule: "@hourly"})
				w.server.Control(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
					registered := func(r zkdev.Request) bool { return r.Path == w.c.tree.Register("job") }
					if registered(*r) || slices.ContainsFunc(r.Ops, registered) {
						return zkdev.DelayReply(time.Second)
					}
					return zkdev.Pass()
				})
				time.AfterFunc(time.Second/2, func() {
					w.instance("app-1", "job")
					w.adopt("app-1", "job")
				})
				if s := read(w); s.Owner != nil && len(s.Registered) == 0 {
					t.Errorf("owned by %s, registered %q", s.Owner.InstanceID, s.Registered)
				}
				if s := read(w); s.Owner == nil || !slices.Equal(s.Registered, []string{"app-1"}) {
					t.Errorf("afterwards owned by %v, registered %q", s.Owner, s.Registered)
				}
			})
		})
	}
}

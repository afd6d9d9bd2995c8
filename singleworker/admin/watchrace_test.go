package admin

import (
	"context"
	"flag"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// ends writes that a run of a job has ended.
func (w *world) ends(name, run string) {
	w.Helper()
	entry := entryOfRun(run, zkrec.RunOK)
	w.multi(zkconn.SetOp(w.c.tree.Tick(name), zkrec.Tick{Watermark: entry.Tick, Run: entry.Run}.Encode(), zkconn.AnyVersion),
		zkconn.SetOp(w.c.tree.History(name), zkrec.History{}.Add(0, entry).Encode(), zkconn.AnyVersion))
}

// watchedBy is an operator whose requests the test can tell from others'.
func (w *world) watchedBy(name string) *Client {
	w.Helper()
	c, err := Dial(w.Context(), Config{Servers: "zkdev:1", ServerType: "billing", Dial: w.server.Client(name).Dial})
	w.must(err)
	w.Cleanup(c.Close)
	return c
}

// once decides about the next request of the operator "watch" that has an operation.
func (w *world) once(op zkdev.Op, action zkdev.Action) {
	w.server.Control(op, func(r *zkdev.Request) zkdev.Action {
		if r.Client != "watch" {
			return zkdev.Pass()
		}
		return action
	})
}

// until watches until an event of a run, and returns its cursor.
func (w *world) until(c *Client, cursor int64, run string) int64 {
	w.Helper()
	for ev, err := range c.Watch(w.Context(), WatchOptions{Since: cursor, Pause: time.Second}) {
		w.must(err)
		if ev.Kind == EventRunEnded && ev.Entry.RunID == run {
			return ev.Cursor
		}
	}
	return 0
}

// The cursor of an event does not skip others that were read with it, nor what changed while they were read.
func TestWatchCursorSkipsNothing(t *testing.T) {
	t.Parallel()
	for name, overtaken := range map[string]bool{"in a batch": false, "while it was read": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.submit(job.Job{Name: "a", Schedule: "@hourly"})
				w.submit(job.Job{Name: "b", Schedule: "@hourly"})
				c := w.watchedBy("watch")
				go func() {
					time.Sleep(2 * time.Second)
					if !overtaken {
						w.ends("b", "b1")
						w.ends("a", "a1")
						return
					}
					w.once(zkdev.OpMultiRead, zkdev.DelayReply(2*time.Second))
					w.ends("b", "b1")
					time.Sleep(2 * time.Second) // the tick record of b was read
					w.ends("a", "a1")
					w.put(w.c.tree.History("b"), zkrec.History{}.Add(0, entryOfRun("b1", zkrec.RunOK)).Encode())
				}()
				cursor := w.until(c, 0, "b1")
				if cursor == 0 {
					t.Fatal("no cursor")
				}
				time.Sleep(time.Minute)
				on := w.watch(c, WatchOptions{Since: cursor})
				settle()
				var texts []string
				for _, ev := range on.events {
					texts = append(texts, eventText(ev))
				}
				if text := strings.Join(texts, "\n"); !strings.Contains(text, "run_ended a a1 ok") {
					t.Errorf("after %d:\n%s", cursor, text)
				}
			})
		})
	}
}

// An answer that says nothing has everything read again, though the connection stays.
func TestWatchAfterAnUnclearAnswer(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "a", Schedule: "@hourly"})
		on := w.watch(w.watchedBy("watch"), WatchOptions{})
		on.want("at first", "watching")
		const operationTimeout = -7
		w.once(zkdev.OpMultiRead, zkdev.Refuse(operationTimeout))
		w.ends("a", "a1")
		time.Sleep(5 * time.Second)
		on.want("then", "run_begun a a1", "run_ended a a1 ok")
	})
}

// A job that is submitted again while the list is read did not come and go unseen.
func TestWatchCountsNoJobTwice(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "a", Schedule: "@hourly"})
		on := w.watch(w.watchedBy("watch"), WatchOptions{})
		on.want("at first", "watching")
		w.once(zkdev.OpGetChildren2, zkdev.Delay(time.Second))
		w.submit(job.Job{Name: "b", Schedule: "@hourly"})
		time.Sleep(time.Second)
		_, err := w.c.Cancel(w.Context(), "a")
		w.must(err)
		w.submit(job.Job{Name: "a", Schedule: "@hourly"})
		on.want("then", "job_submitted b", "job_canceled a", "job_submitted a")
	})
}

// In a group that never rests, a job that came and went is reported as well, a round later.
func TestWatchCountsWhileThingsChange(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "busy", Schedule: "@hourly"})
		on := w.watch(w.watchedBy("watch"), WatchOptions{})
		on.want("at first", "watching")
		defer w.server.ControlKeep(zkdev.OpMultiRead, func(r *zkdev.Request) zkdev.Action {
			if r.Client != "watch" {
				return zkdev.Pass()
			}
			return zkdev.DelayReply(200 * time.Millisecond)
		})()
		for i := range 200 {
			w.ends("busy", fmt.Sprint("run", i))
			time.Sleep(50 * time.Millisecond)
			if i == 100 {
				w.submit(job.Job{Name: "brief", Schedule: "@hourly"})
				_, err := w.c.Cancel(w.Context(), "brief")
				w.must(err)
			}
		}
		count := 0
		for _, ev := range on.events { // of which many say what has become of the busy one
			if ev.Gap != nil && ev.Gap.What == GapJobs {
				count += ev.Gap.Count
			}
		}
		if count != 1 {
			t.Errorf("%d jobs came and went, want 1", count)
		}
	})
}

// The history of a job that was submitted again is not read with the tick record of the one before.
func TestWatchMixesNoTwoJobs(t *testing.T) {
	t.Parallel()
	for name, ran := range map[string]bool{"the history was read before": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.submit(job.Job{Name: "a", Schedule: "@hourly"})
				on := w.watch(w.watchedBy("watch"), WatchOptions{})
				on.want("at first", "watching")
				if ran {
					w.ends("a", "a0")
					on.want("its first run", "run_begun a a0", "run_ended a a0 ok")
				}
				w.once(zkdev.OpMultiRead, zkdev.DelayReply(2*time.Second))
				w.ends("a", "a1")
				time.Sleep(time.Second) // the tick record was read
				_, err := w.c.Cancel(w.Context(), "a")
				w.must(err)
				w.submit(job.Job{Name: "a", Schedule: "@daily"})
				w.ends("a", "b1")
				settle()
				on.want("then", "job_canceled a", "job_submitted a", "run_begun a b1", "run_ended a b1 ok")
			})
		})
	}
}

// What a history says beyond the tick record that was read before it is new.
func TestFollowAfterARace(t *testing.T) {
	t.Parallel()
	entry := func(id string) zkrec.Entry {
		return zkrec.Entry{Run: zkrec.Run{Tick: 1, RunID: id, State: zkrec.RunOK}}
	}
	row := zkrec.Entry{Run: zkrec.Run{Tick: 10, State: zkrec.TickSkipped}, To: 12, Count: 3}
	var texts []string
	follow := func(t *watchedTicks, tick zkrec.Tick, entries ...zkrec.Entry) {
		events, last, gap := t.follow(tick, entries)
		for _, ev := range append(events, last...) {
			texts = append(texts, eventText(ev))
		}
		if gap {
			texts = append(texts, "gap")
		}
	}
	want := func(what, want string) {
		t.Helper()
		if got := strings.Join(texts, ", "); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
		texts = nil
	}
	open := zkrec.Tick{Run: zkrec.Run{Tick: 1, RunID: "b", State: zkrec.RunRunning}}
	var begun watchedTicks
	if !begun.begin(open) {
		t.Error("the history is not read")
	}
	begun.beginWith(zkrec.History{Entries: []zkrec.Entry{entry("a"), entry("b"), entry("c")}})
	follow(&begun, zkrec.Tick{Run: entry("c").Run}, entry("a"), entry("b"), entry("c"))
	want("the run had ended when the history was read", "run_ended b ok, run_begun c, run_ended c ok")

	var rows watchedTicks
	rows.begin(zkrec.Tick{Watermark: 1})
	follow(&rows, zkrec.Tick{Watermark: 12}, row)
	row.To, row.Count = 14, 5
	follow(&rows, zkrec.Tick{Watermark: 14}, row)
	want("a row grows", "ticks_skipped  x3, ticks_skipped  x2 continued")
}

var watchJobs = flag.Int("watch.jobs", 1000, "jobs of TestWatchCosts")

// counted counts what a connection carries.
type counted struct {
	net.Conn

	in, out *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.Add(int64(n))
	return n, err
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.out.Add(int64(n))
	return n, err
}

// Watching costs nothing at rest, and a fraction of a request for each change.
func TestWatchCosts(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		const perRequest = zkconn.MaxReads
		n := *watchJobs
		var history zkrec.History
		for i := range zkrec.MaxHistory {
			history.Entries = append(history.Entries, zkrec.Entry{Run: zkrec.Run{
				Tick: noon.UnixMilli(), RunID: fmt.Sprintf("0198c5e2-0000-7000-8000-%012d", i), SID: "app-1", Token: 4294967313, Attempt: 1, Started: noon.UnixMilli(), Ended: noon.UnixMilli(), State: zkrec.RunOK,
			}})
		}
		last := zkrec.Tick{Watermark: noon.UnixMilli(), Run: history.Entries[zkrec.MaxHistory-1].Run}
		w.submit(job.Job{Name: "first", Schedule: "@hourly"})
		for i := range n {
			name := fmt.Sprintf("job-%05d", i)
			var ops []zkconn.Op
			for _, node := range w.c.tree.NewJob(name, w.spec("first")) {
				ops = append(ops, zkcreate(node.Path, node.Data))
			}
			w.multi(ops...)
			w.put(w.c.tree.History(name), history.Encode())
			w.put(w.c.tree.Tick(name), last.Encode())
		}
		var in, out, requests atomic.Int64
		client := w.server.Client("watch")
		c, err := Dial(w.Context(), Config{Servers: "zkdev:1", ServerType: "billing", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := client.Dial(ctx, network, address)
			return counted{conn, &in, &out}, err
		}})
		w.must(err)
		w.Cleanup(c.Close)
		defer w.server.ControlKeep(zkdev.OpAny, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "watch" && r.Op != zkdev.OpPing {
				requests.Add(1)
			}
			return zkdev.Pass()
		})()
		measure := func(what string, most int) {
			t.Helper()
			time.Sleep(time.Minute)
			settle()
			r, i, o := requests.Swap(0), in.Swap(0), out.Swap(0)
			t.Logf("%d jobs, %s: %d requests, %d KB to the server, %d KB from it", n, what, r, o>>10, i>>10)
			if int(r) > most {
				t.Errorf("%s: more than %d requests", what, most)
			}
		}
		on := w.watch(c, WatchOptions{})
		full := 12 + 2*(4*n/perRequest+2*(n/watchAtOnce+1)) // each set of watches is a request, too
		measure("start", full)
		measure("a minute of rest", 0)
		change := func() {
			for i := range n {
				w.put(w.c.tree.Tick(fmt.Sprintf("job-%05d", i)), last.Encode())
				if i%100 == 0 {
					time.Sleep(time.Second)
				}
			}
		}
		change()
		measure("a write of each tick record, 100 a second", n/10)
		client.Disconnect()
		measure("a lost connection", full)
		on.stop()
		<-on.ended
	})
}

// TestWatchRunsThatFollowEachOther has a run begin in the same reading that shows the end of the one before.
func TestWatchRunsThatFollowEachOther(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.instance("app-1", "job")
		w.adopt("app-1", "job")
		on := w.watch(w.operator(), WatchOptions{})
		settle()
		on.events = nil
		w.claim(entryOfRun("a", "").Run)
		on.want("the first", "run_begun job a")
		for _, next := range []string{"b", "c"} {
			before := string(next[0] - 1)
			w.end(entryOfRun(before, zkrec.RunOK))
			w.claim(entryOfRun(next, "").Run)
			on.want("another", "run_ended job "+before+" ok", "run_begun job "+next)
		}
	})
}

// TestWatchSaysWhatIsSuperseded has results of interrupted runs come late: of the last run of a job, and of one before it.
func TestWatchSaysWhatIsSuperseded(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.instance("app-1", "job")
		w.adopt("app-1", "job")
		on := w.watch(w.operator(), WatchOptions{})
		w.end(entryOfRun("a", zkrec.RunInterrupted))
		settle()
		on.events = nil
		late := func(state string, entries ...zkrec.Entry) {
			entries[0].State = state
			w.put(w.c.tree.History("job"), zkrec.History{Entries: entries}.Encode())
		}
		a, b := entryOfRun("a", ""), entryOfRun("b", zkrec.RunOK)
		late(zkrec.RunLost, a)
		on.want("of the last run", "run_ended job a lost amended")
		w.claim(b.Run)
		on.want("the next attempt", "run_begun job b")
		late(zkrec.RunInterrupted, a)
		on.want("while the next one runs", "run_ended job a interrupted amended superseded")
		w.end(b)
		settle()
		on.events = nil
		late(zkrec.RunFailed, a, b)
		on.want("after the next one", "run_ended job a failed amended superseded")
	})
}

// TestWatchFromALostHistory resumes from a cursor that is beyond all there is: the ensemble was restored from a backup.
func TestWatchFromALostHistory(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.instance("app-1", "job")
		w.adopt("app-1", "job")
		w.end(entryOfRun("a", zkrec.RunOK))
		on := w.watch(w.operator(), WatchOptions{Since: w.server.Zxid() + 1000})
		settle()
		if cursor := on.events[len(on.events)-1].Cursor; cursor == 0 || cursor > w.server.Zxid() {
			t.Errorf("the cursor is %d, the server at %d", cursor, w.server.Zxid())
		}
		on.want("at first", "gap lost 0", "watching")
		w.end(entryOfRun("b", zkrec.RunOK))
		on.want("then", "run_begun job b", "run_ended job b ok")
	})
}

package admin

import (
	"context"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// ends writes that a run of a job has ended.
func (w *world) ends(name, run string) {
	w.Helper()
	entry := entryOfRun(run, history.StateOK)
	w.record(name, zkrec.Tick{Watermark: entry.Tick, Run: entry.Run}, w.log(name).Add(zkrec.MinHistory, 0, entry))
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

// The cursor of an event does not skip others that were read with it, nor what changed while they
// were read.
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
					w.multi(w.pagesOf("b", w.log("b"))...)
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

// The history of a job that was submitted again is not read with the tick record of the one before,
// nor taken for the history of that.
func TestWatchMixesNoTwoJobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ran   bool
		delay zkdev.Action
		state history.State // of the next one's first run
	}{
		{"the history was read before", true, zkdev.DelayReply(2 * time.Second), history.StateOK},
		{"it was not", false, zkdev.DelayReply(2 * time.Second), history.StateOK},
		{"both records are the next one's", true, zkdev.Delay(2 * time.Second), history.StateOK},
		{"both are, and none was read before", false, zkdev.Delay(2 * time.Second), history.StateOK},
		{"both are, and nothing has ended", false, zkdev.Delay(2 * time.Second), history.StateRunning},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.submit(job.Job{Name: "a", Schedule: "@hourly"})
				on := w.watch(w.watchedBy("watch"), WatchOptions{})
				on.want("at first", "watching")
				if c.ran {
					w.ends("a", "a0")
					on.want("its first run", "run_begun a a0", "run_ended a a0 ok")
				}
				w.once(zkdev.OpMultiRead, c.delay)
				w.ends("a", "a1")
				time.Sleep(time.Second) // the tick record is read
				_, err := w.c.Cancel(w.Context(), "a")
				w.must(err)
				w.submit(job.Job{Name: "a", Schedule: "@daily"})
				want := []string{"job_canceled a", "job_submitted a", "run_begun a b1", "run_ended a b1 ok"}
				if c.state == history.StateOK {
					w.ends("a", "b1")
				} else {
					w.put(w.c.tree.Tick("a"), zkrec.Tick{Run: entryOfRun("b1", c.state).Run}.Encode())
					want = want[:3]
				}
				settle()
				on.want("then", want...)
			})
		})
	}
}

// A shard that went and came back has a new history, and one that somebody has created again is
// continued.
func TestWatchNodesThatComeBack(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly", Shards: 2})
		w.makes("job[0]", "job[1]")
		on := w.watch(w.watchedBy("watch"), WatchOptions{})
		on.want("at first", "watching")
		w.ends("job[1]", "a")
		w.ends("job[1]", "b")
		on.want("runs", "run_begun job[1] a", "run_ended job[1] a ok", "run_begun job[1] b", "run_ended job[1] b ok")
		var gone []zkconn.Op
		for _, node := range slices.Backward(w.c.tree.NewShard("job[1]", 0)) {
			gone = append(gone, zkdelete(node.Path))
		}
		w.once(zkdev.OpMultiRead, zkdev.Delay(time.Second)) // until it is back
		w.multi(gone...)
		w.makes("job[1]")
		w.ends("job[1]", "c")
		settle()
		on.want("it is back", "run_begun job[1] c", "run_ended job[1] c ok")

		entries := w.c.tree.History("job[1]")
		w.multi(zkdelete(entries))
		w.put(w.c.tree.Tick("job[1]"), zkrec.Tick{Run: entryOfRun("x", history.StateRunning).Run, History: zkrec.Mark{Rev: 5, Number: 5}}.Encode())
		on.want("without a history")
		w.multi(zkcreate(entries, nil))
		w.ends("job[1]", "d")
		settle()
		cursor := on.events[len(on.events)-1].Cursor
		on.want("it is empty", "gap job[1] runs 0")
		w.ends("job[1]", "e")
		on.want("it continues", "run_begun job[1] e", "run_ended job[1] e ok")
		w.multi(zkdelete(entries), zkcreate(entries, nil))
		w.ends("job[1]", "f")
		on.want("another one is where it was", "gap job[1] runs 0")
		w.multi(zkdelete(entries))
		on = w.watch(w.watchedBy("watch"), WatchOptions{Since: cursor})
		on.want("resumed without a history", "watching")
		w.multi(zkcreate(entries, nil))
		w.ends("job[1]", "g")
		settle()
		created := on.events[len(on.events)-1].Created
		on.want("then", "run_begun job[1] g", "run_ended job[1] g ok")
		tick := w.c.tree.Tick("job[1]")
		data, stat, err := w.hand.conn.Get(w.Context(), tick)
		if w.must(err); created != stat.Czxid {
			t.Errorf("the run is of a slot that transaction %d created, want %d", created, stat.Czxid)
		}
		w.multi(zkdelete(tick), zkcreate(tick, data), zkconn.SetOp(tick, data, zkconn.AnyVersion))
		settle()
		on.want("the tick record is another one")
		w.ends("job[1]", "h")
		on.want("it continues there", "run_begun job[1] h", "run_ended job[1] h ok")
		next := entryOfRun("i", history.StateOK)
		w.multi(zkdelete(entries), zkcreate(entries, zkrec.Log{}.Add(zkrec.MinHistory, 0, next).Encode(0)))
		on = w.watch(w.watchedBy("watch"), WatchOptions{Since: cursor})
		on.want("resumed with another history", "run_begun job[1] i repeated", "run_ended job[1] i ok repeated", "watching")
		w.record("job[1]", zkrec.Tick{Run: next.Run}, zkrec.Log{}.From(zkrec.Mark{Rev: 9, Number: 9}).Add(zkrec.MinHistory, 0, next))
		on = w.watch(w.watchedBy("watch"), WatchOptions{Since: cursor})
		settle()
		if gap := on.events[0].Gap; gap == nil || gap.After != cursor {
			t.Errorf("at first there is %+v, want a gap after %d", on.events[0], cursor)
		}
		w.multi(zkdelete(entries))
		w.put(tick, zkrec.Tick{Run: entryOfRun("j", history.StateRunning).Run}.Encode())
		w.multi(zkcreate(entries, nil))
		on = w.watch(w.watchedBy("watch"), WatchOptions{Since: cursor})
		on.want("resumed, and the history is newer than the tick record", "run_begun job[1] j repeated", "watching")
	})
}

// A tick record that was emptied does not say where the history is: what that has is not new.
func TestWatchARecordThatWasEmptied(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "a", Schedule: "@hourly"})
		on := w.watch(w.operator(), WatchOptions{})
		on.want("at first", "watching")
		w.ends("a", "a1")
		on.want("a run", "run_begun a a1", "run_ended a a1 ok")
		w.put(w.c.tree.Tick("a"), nil)
		on.want("emptied")
		next := w.watch(w.operator(), WatchOptions{})
		next.want("of the next one", "watching")
		w.ends("a", "a2")
		for _, on := range []*watching{on, next} {
			on.want("then", "run_begun a a2", "run_ended a a2 ok")
		}
		log := w.log("a")
		w.put(w.c.tree.History("a"), []byte("zzz"))
		w.put(w.c.tree.Tick("a"), zkrec.Tick{Run: entryOfRun("a3", history.StateOK).Run, History: zkrec.Mark{Rev: 3, Number: 3}}.Encode())
		on.want("an unreadable history", "gap a record 0")
		w.put(w.c.tree.History("a"), log.Add(zkrec.MinHistory, 0, entryOfRun("a3", history.StateOK)).Encode(0))
		w.ends("a", "a4")
		on.want("of what was not there", "run_begun a a4", "run_ended a a4 ok")
	})
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
		var log zkrec.Log
		for i := range zkrec.MinHistory {
			log = log.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: zkrec.Run{
				Tick: noon.UnixMilli(), RunID: fmt.Sprintf("0198c5e2-0000-7000-8000-%012d", i), SID: "app-1", Token: 4294967313, Attempt: 1, Started: noon.UnixMilli(), Ended: noon.UnixMilli(), State: history.StateOK,
			}})
		}
		last := zkrec.Tick{Watermark: noon.UnixMilli(), Run: log.History().Entries[zkrec.MinHistory-1].Run}
		w.submit(job.Job{Name: "first", Schedule: "@hourly"})
		for i := range n {
			name := fmt.Sprintf("job-%05d", i)
			var ops []zkconn.Op
			for _, node := range w.c.tree.NewJob(name, w.spec("first")) {
				ops = append(ops, zkcreate(node.Path, node.Data))
			}
			w.multi(ops...)
			w.record(name, last, log)
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
		full := 12 + 2*(5*n/perRequest+2*(n/watchAtOnce+1)) // each set of watches is a request, too
		measure("start", full)
		measure("a minute of rest", 0)
		change := func(tick zkrec.Tick, log zkrec.Log) {
			for i := range n {
				w.record(fmt.Sprintf("job-%05d", i), tick, log)
				if i%100 == 0 {
					time.Sleep(time.Second)
				}
			}
		}
		begun := zkrec.Entry{Run: last.Run}
		begun.RunID, begun.State = "next", history.StateRunning
		change(zkrec.Tick{Watermark: noon.UnixMilli(), Run: begun.Run}, log)
		measure("a claim of each job, 100 a second", n/30)
		begun.State = history.StateOK
		change(zkrec.Tick{Watermark: noon.UnixMilli(), Run: begun.Run}, log.Add(zkrec.MinHistory, 0, begun))
		measure("a result of each job, 100 a second", n/10)
		client.Disconnect()
		measure("a lost connection", full)
		on.stop()
		<-on.ended
		_ = w.watch(c, WatchOptions{Trouble: true})
		measure("a start that looks for trouble", full+5*(4*n/perRequest+n/watchAtOnce+1))
		measure("a minute in which no trouble can begin", 0)
	})
}

// TestWatchRunsThatFollowEachOther has a run begin in the same reading that shows the end of the
// one before.
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
			w.end(entryOfRun(before, history.StateOK))
			w.claim(entryOfRun(next, "").Run)
			on.want("another", "run_ended job "+before+" ok", "run_begun job "+next)
		}
	})
}

// TestWatchSaysWhatIsSuperseded has results of interrupted runs come late: of the last run of a
// job, and of one before it.
func TestWatchSaysWhatIsSuperseded(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.instance("app-1", "job")
		w.adopt("app-1", "job")
		on := w.watch(w.operator(), WatchOptions{})
		w.end(entryOfRun("a", history.StateInterrupted))
		settle()
		on.events = nil
		b := entryOfRun("b", history.StateOK)
		w.late(entryOfRun("a", history.StateLost))
		on.want("of the last run", "run_ended job a lost amended")
		w.claim(b.Run)
		on.want("the next attempt", "run_begun job b")
		w.late(entryOfRun("a", history.StateInterrupted))
		on.want("while the next one runs", "run_ended job a interrupted amended superseded")
		w.end(b)
		settle()
		on.events = nil
		w.late(entryOfRun("a", history.StateFailed))
		on.want("after the next one", "run_ended job a failed amended superseded")
	})
}

// TestWatchFromALostHistory resumes from a cursor that is beyond all there is: the ensemble was
// restored from a backup.
func TestWatchFromALostHistory(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		w.instance("app-1", "job")
		w.adopt("app-1", "job")
		w.end(entryOfRun("a", history.StateOK))
		on := w.watch(w.operator(), WatchOptions{Since: w.server.Zxid() + 1000})
		settle()
		if cursor := on.events[len(on.events)-1].Cursor; cursor == 0 || cursor > w.server.Zxid() {
			t.Errorf("the cursor is %d, the server at %d", cursor, w.server.Zxid())
		}
		on.want("at first", "gap lost 0", "watching")
		w.end(entryOfRun("b", history.StateOK))
		on.want("then", "run_begun job b", "run_ended job b ok")
	})
}

// TestWatchFromBeforeARestore resumes from a cursor of before swctl serve restore, after which
// the numbers of transactions are higher. That is a gap, and nothing else is told. A cursor of
// afterwards is as good as any, and without a cursor there is nothing to miss.
func TestWatchFromBeforeARestore(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		backup, cursor := w.server.Snapshot(), w.server.Zxid()
		w.submit(job.Job{Name: "gone", Schedule: "@hourly"})
		w.must(w.server.Renew(backup))
		on := w.watch(w.operator(), WatchOptions{Since: cursor})
		settle()
		cursor = on.events[len(on.events)-1].Cursor
		on.want("at first", "gap lost 0", "watching")
		w.submit(job.Job{Name: "new", Schedule: "@hourly"})
		on = w.watch(w.operator(), WatchOptions{Since: cursor})
		on.want("of afterwards", "gap jobs 0", "job_submitted new", "watching")
		on = w.watch(w.operator(), WatchOptions{})
		on.want("of nothing", "watching")
	})
}

// TestWatchOutlivesARestore has the ensemble restored from a backup while a Watch runs: as a new
// leader does, who continues the numbers of transactions, as a server whose data was replaced,
// which uses them again, and by swctl serve restore, which has them leap. The cursors that follow
// are of what there is then.
func TestWatchOutlivesARestore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		restore func(s *zkdev.Server, n *zkdev.Snapshot) error
		want    []string
	}{
		"a new leader": {(*zkdev.Server).Restore, []string{"gap job runs 0", "job_canceled gone"}}, "replaced data": {(*zkdev.Server).Reset, []string{"gap job runs 0", "gap lost 0", "job_canceled gone"}},
		"swctl serve restore": {(*zkdev.Server).Renew, []string{"job_canceled gone", "job_changed job", "gap job runs 0", "gap lost 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				w.submit(job.Job{Name: "job", Schedule: "@hourly"})
				on := w.watch(w.operator(), WatchOptions{})
				on.want("at first", "watching")
				w.end(entryOfRun("a", history.StateOK))
				on.want("one run", "run_begun job a", "run_ended job a ok")
				backup := w.server.Snapshot()
				w.end(entryOfRun("b", history.StateOK))
				w.end(entryOfRun("c", history.StateOK))
				for range 100 {
					w.put(w.c.tree.Alive("job"), nil)
				}
				w.submit(job.Job{Name: "gone", Schedule: "@hourly"})
				settle()
				on.events = slices.DeleteFunc(on.events, func(ev Event) bool { return ev.Kind == EventJobUnowned })
				on.want("then", "run_begun job b", "run_ended job b ok", "run_begun job c", "run_ended job c ok", "job_submitted gone")
				if err := c.restore(w.server, backup); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				on.want("restored", c.want...)
				w.end(entryOfRun("d", history.StateOK))
				settle()
				last := on.events[len(on.events)-1]
				if last.Cursor > w.server.Zxid() {
					t.Errorf("the cursor is %d, the server at %d", last.Cursor, w.server.Zxid())
				}
				on.want("it continues", "run_begun job d", "run_ended job d ok")
				w.end(entryOfRun("e", history.StateOK))
				_, err := w.c.Pause(w.Context(), "job", PauseOptions{})
				w.must(err)
				next := w.watch(w.operator(), WatchOptions{Since: last.Cursor})
				settle()
				if !slices.ContainsFunc(next.events, func(ev Event) bool { return ev.Kind == EventRunEnded && ev.Entry.RunID == "e" }) {
					t.Errorf("resumed, it tells %+v", next.events)
				}
				on.want("and on", "run_begun job e", "run_ended job e ok", "job_changed job paused")
				w.submit(job.Job{Name: "brief", Schedule: "@hourly"})
				_, err = w.c.Cancel(w.Context(), "brief")
				w.must(err)
				on.want("a job came and went", "gap jobs 1")
			})
		})
	}
}

package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// readings is a WatchHistories whose readings a test reads.
type readings struct {
	*world

	heard []HistoryReading
	stop  func()
}

func (w *world) read(c *Client, o WatchHistoriesOptions) *readings {
	ctx, stop := context.WithCancel(w.Context())
	on := &readings{world: w, stop: stop}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for r, err := range c.WatchHistories(ctx, o) {
			if err != nil {
				return
			}
			on.heard = append(on.heard, r)
		}
	}()
	w.Cleanup(func() {
		stop()
		<-ended
	})
	return on
}

// want expects the readings since the last call.
func (on *readings) want(what string, want ...string) {
	on.Helper()
	settle()
	var got []string
	for _, r := range on.heard {
		var parts []string
		for _, h := range r.Slots {
			words := []string{h.Name}
			for _, e := range h.Entries {
				words = append(words, e.RunID+string(e.Reason)+":"+string(e.State))
			}
			parts = append(parts, strings.Join(words, " "))
		}
		slices.Sort(parts)
		for _, slot := range r.Gone {
			parts = append(parts, "gone "+slot)
		}
		for slot := range r.Unreadable {
			parts = append(parts, "unreadable "+slot)
		}
		if r.UnseenJobs {
			parts = append(parts, "unseen jobs")
		}
		if !r.Whole {
			parts = append(parts, "not whole")
		}
		got = append(got, strings.Join(parts, ", "))
	}
	on.heard = nil
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		on.Errorf("%s: got\n%s\nwant\n%s", what, a, b)
	}
}

func TestWatchHistories(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		on := w.read(w.operator(), WatchHistoriesOptions{})
		on.want("no group yet", "")
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		on.want("submit", "job")
		w.end(entryOfRun("a", history.StateInterrupted))
		on.want("end", "job a:interrupted")
		w.end(entryOfRun("b", history.StateOK))
		w.end(entryOfRun("c", history.StateOK))
		on.want("short runs", "job a:interrupted b:ok c:ok")
		w.submit(job.Job{Name: "wide", Schedule: "@hourly", Shards: 2})
		var ops []zkconn.Op
		for _, node := range w.c.tree.NewShard("wide[1]", 1) {
			ops = append(ops, zkcreate(node.Path, node.Data))
		}
		w.multi(ops...)
		w.ends("wide[1]", "d")
		on.want("a shard", "wide[1] d:ok")
		byHand := func(data []byte) { // the tick record, too, which is what is watched
			w.put(w.c.tree.History("wide[1]"), data)
			w.put(w.c.tree.Tick("wide[1]"), nil)
		}
		byHand([]byte("zzz"))
		on.want("garbage", "unreadable wide[1]")
		byHand(nil)
		on.want("emptied", "wide[1]")

		second := w.read(w.operator(), WatchHistoriesOptions{})
		second.want("from the beginning", "job a:interrupted b:ok c:ok, wide[1]")
		second.stop()
		w.put(w.c.tree.History("job"), zkrec.Log{}.Add(zkrec.MinHistory, 0, entryOfRun("x", history.StateOK)).Encode(0))
		third := w.read(w.operator(), WatchHistoriesOptions{})
		third.want("what may be torn is not left out of the whole", "wide[1], not whole", "job x:ok")
		third.stop()
		_, err := w.c.Cancel(w.Context(), "job")
		w.must(err)
		on.want("canceled", "gone job")
		w.submit(job.Job{Name: "brief", Schedule: "@hourly"})
		_, err = w.c.Cancel(w.Context(), "brief")
		w.must(err)
		on.want("came and went", "unseen jobs")
	})
}

// A claim says in the tick record that the history is as it was, so the history is not read for it.
// A tick record that cannot be read says nothing.
func TestWatchHistoriesReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		on := w.read(w.operator(), WatchHistoriesOptions{})
		on.want("submit", "job")
		var reads atomic.Int64
		w.server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Path == w.c.tree.History("job") {
				reads.Add(1)
			}
			return zkdev.Pass()
		})
		wantReads := func(what string, want int64, act func()) {
			act()
			reads.Store(0) // those of the act
			settle()
			if n := reads.Load(); n != want {
				t.Errorf("%s: the history is read %d times, want %d", what, n, want)
			}
		}
		run := entryOfRun("a", history.StateOK)
		wantReads("a claim", 0, func() { w.claim(run.Run) })
		on.want("a claim")
		wantReads("a result", 1, func() { w.end(run) })
		on.want("a result", "job a:ok")

		w.submit(job.Job{Name: "fresh", Schedule: "@hourly"})
		on.want("submit", "fresh")
		history := w.pagesOf("fresh", zkrec.Log{}.Add(zkrec.MinHistory, 0, entryOfRun("b", history.StateOK)))
		w.multi(append(history, zkconn.SetOp(w.c.tree.Tick("fresh"), []byte("zzz"), zkconn.AnyVersion))...)
		on.want("a tick record that cannot be read", "fresh b:ok")
	})
}

// Since says whether jobs may have come and gone.
func TestWatchHistoriesSince(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.submit(job.Job{Name: "job", Schedule: "@hourly"})
		on := w.read(w.operator(), WatchHistoriesOptions{})
		settle()
		cursor := on.heard[0].Cursor
		w.read(w.operator(), WatchHistoriesOptions{Since: cursor}).want("nothing happened", "job")
		w.submit(job.Job{Name: "brief", Schedule: "@hourly"})
		_, err := w.c.Cancel(w.Context(), "brief")
		w.must(err)
		w.read(w.operator(), WatchHistoriesOptions{Since: cursor}).want("one came and went", "job, unseen jobs")
		for _, o := range []WatchHistoriesOptions{{Since: -1}, {Pause: 2 * time.Hour}} {
			w.read(w.c, o).want("bad options")
		}
	})
}

// Whatever happens to its connection, who reads has the histories as they are in the end, and has
// seen each of their entries unless a history has forgotten it.
func TestWatchHistoriesOfRandomGroups(t *testing.T) {
	t.Parallel()
	for seed := range *watchSeeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				m := newMadeUp(w, uint64(seed))
				client := w.server.Client("read")
				c := w.dialBy(w.Context(), client.Dial)
				on := w.read(c, WatchHistoriesOptions{Pause: time.Duration(1+m.r.IntN(500)) * time.Millisecond})
				for range 200 {
					time.Sleep(time.Duration(m.r.IntN(300)) * time.Millisecond)
					m.act()
					m.harm(client)
				}
				client.Heal()
				time.Sleep(time.Minute)
				synctest.Wait()
				got := make(map[string]string)
				for _, r := range on.heard {
					for _, slot := range r.Gone {
						delete(got, slot)
					}
					for _, h := range r.Slots {
						got[h.Name] = fmt.Sprint(h.Entries)
					}
				}
				want := make(map[string]string)
				for r, err := range w.c.WatchHistories(w.Context(), WatchHistoriesOptions{}) {
					w.must(err)
					for _, h := range r.Slots {
						want[h.Name] = fmt.Sprint(h.Entries)
					}
					break
				}
				if a, b := fmt.Sprint(got), fmt.Sprint(want); a != b {
					t.Errorf("has\n%s\nwant\n%s", a, b)
				}
			})
		})
	}
}

// A history that is not where its tick record says is read again, once for each record.
func TestWatchReadsATornHistoryAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		watcher := newWatcher(w.c.members, WatchOptions{}, nil)
		p := slotRead{name: "a", slot: &watchedSlot{}, tick: zkrec.Tick{History: zkrec.Mark{Rev: 1, Number: 1}}, stat: zkconn.Stat{Mzxid: 7}}
		var got []bool
		for range 2 {
			for _, rev := range []int64{1, 2, 3} {
				got = append(got, watcher.isTorn(p, zkrec.History{Mark: zkrec.Mark{Rev: rev, Number: rev}}))
			}
			p.stat.Mzxid++
		}
		if want := []bool{false, true, false, false, true, false}; !slices.Equal(got, want) || watcher.ears.quiet() {
			t.Errorf("read again %v, want %v; and noted %v", got, want, !watcher.ears.quiet())
		}
		watcher.histories = &historyWatch{}
		log := zkrec.Log{}.From(zkrec.Mark{Rev: 3, Number: 3}).Add(zkrec.MinHistory, 0, entryOfRun("a", history.StateOK), entryOfRun("b", history.StateOK))
		pages := []zkconn.ReadResult{{Data: log.Encode(0), Stat: zkconn.Stat{Czxid: 1, Mzxid: 8}}, {Err: zkconn.ErrNoNode}}
		for i, want := range []int{0, 1, 1} { // torn, read again, and for another reason
			p.slot.ticks.mzxid = 9
			watcher.takeWhole(p, pages)
			if n := len(watcher.histories.reading.Slots); n != want || (p.slot.ticks.mzxid == 0) != (i == 0) {
				t.Errorf("reading %d: %d histories, of the record %d; want %d", i, n, p.slot.ticks.mzxid, want)
			}
		}
		if h := watcher.histories.reading.Slots[0]; h.Rev != 4 || h.Number != 5 || h.Dropped != 3 || len(h.Entries) != 2 {
			t.Errorf("the history is told as %+v", h)
		}
	})
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// large is the name of a job whose 1024 shards take more than a frame.
var large = strings.Repeat("x", job.MaxNameBytes)

// huge makes the job large, with all nodes of its shards, and an owner's
// heartbeats.
func (w *world) huge() {
	w.Helper()
	w.must(signals.Prepare(w.Context(), w.hand.conn, w.c.tree)) // as an instance does
	w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Canceled()))
	w.submit(job.Job{Name: large, Schedule: "@hourly", Shards: job.MaxShards})
	slots := zkrec.Sharding{Shards: job.MaxShards}.Slots(large)
	w.makes(slots...)
	w.multi(zkcreate(w.c.tree.Heartbeat(slots[0], "app-1"), nil), zkcreate(w.c.tree.Alarm(slots[7]), nil))
}

// multis counts the transactions, and calls f before each.
func (w *world) multis(f func(n int, r *zkdev.Request) zkdev.Action) *int {
	w.must(signals.Prepare(w.Context(), w.hand.conn, w.c.tree))
	w.must(w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Canceled()))
	count := new(int)
	w.Cleanup(w.server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		*count++
		return f(*count, r)
	}))
	return count
}

func (w *world) wantGone(what, name string) {
	w.Helper()
	paths, err := deletion.Below(w.Context(), w.hand.conn, w.c.tree.Job(name))
	if err != nil || len(paths) > 0 {
		w.Errorf("%s: %d nodes are left, %v", what, len(paths), err)
	}
}

func pass(int, *zkdev.Request) zkdev.Action { return zkdev.Pass() }

// What fits in one transaction is done in one.
func TestCancelShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.sharded(100)
		count := w.multis(pass)
		job, err := w.c.Cancel(w.Context(), "job")
		if err != nil || len(job.Slots) != 100 || *count != 1 {
			t.Errorf("%d shards in %d transactions, %v; want 100 in one", len(job.Slots), *count, err)
		}
		w.wantGone("canceled", "job")
	})
}

func TestCancelManyShards(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.huge()
		var sizes []int
		count := w.multis(func(n int, r *zkdev.Request) zkdev.Action {
			bytes := 0
			for _, op := range r.Ops {
				bytes += len(op.Path) + 21
			}
			if sizes = append(sizes, bytes); n == 1 && (len(r.Ops) != 5 || r.Ops[1].Op != zkdev.OpSetData) {
				t.Errorf("first comes %+v, want that the job is canceled", r.Ops)
			}
			return zkdev.Pass()
		})
		gone, err := w.c.Cancel(w.Context(), large)
		if err != nil || len(gone.Slots) != job.MaxShards || *count < 3 {
			t.Errorf("%d shards in %d transactions, %v", len(gone.Slots), *count, err)
		}
		total := 0
		for _, bytes := range sizes {
			if total += bytes; bytes > deletion.MaxTransaction {
				t.Errorf("a transaction of %d bytes", bytes)
			}
		}
		if total < 1<<20 {
			t.Errorf("%d bytes, which would have done in one frame", total)
		}
		w.wantGone("canceled", large)
		if _, err := w.c.Cancel(w.Context(), large); !errors.Is(err, ErrNotFound) {
			t.Errorf("again: %v", err)
		}
	})
}

// interrupted starts to cancel the job large, and stops after n
// transactions.
func (w *world) interrupted(n int) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	remove := w.server.ControlKeep(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action {
		if n--; n >= 0 {
			return zkdev.Pass()
		}
		cancel()
		return zkdev.CutBefore()
	})
	if _, err := w.operator().Cancel(ctx, large); !errors.Is(err, ErrUnavailable) {
		w.Errorf("interrupted: %v", err)
	}
	remove()
}

// A job whose cancellation was interrupted counts as gone, and canceling it again
// completes that.
func TestCancelInterrupted(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		inWorld(t, func(w *world) {
			w.huge()
			w.interrupted(n)
			status := w.get(large)
			if n == 0 {
				if status.State == StateCanceled || len(status.Slots) != job.MaxShards {
					t.Errorf("nothing was done: %s, %d shards", status.State, len(status.Slots))
				}
				return
			}
			if status.State != StateCanceled || !strings.HasPrefix(status.Reason.String(), "it is being canceled; if that was interrupted, cancel it again") || len(status.Slots) > 0 ||
				!status.NextRun.IsZero() || status.Owner != nil || !status.Overdue.IsZero() {
				t.Errorf("after %d: %+v", n, status)
			}
			if list, err := w.c.List(w.Context()); err != nil || len(list) != 1 || list[0].State != StateCanceled {
				t.Errorf("after %d: list %+v, %v", n, list, err)
			}
			_, get := w.c.Get(w.Context(), large+"[0]")
			_, edit := w.edit(large, func(j *job.Job) { j.Retries = 1 })
			_, pause := w.c.Pause(w.Context(), large, PauseOptions{})
			_, history := w.c.History(w.Context(), large)
			_, why := w.c.Why(w.Context(), large, time.Time{})
			_, trigger := w.c.Trigger(w.Context(), large, TriggerOptions{WaitForHandler: true})
			_, stop := w.c.StopRun(w.Context(), large, StopOptions{})
			for what, err := range map[string]error{"get": get, "edit": edit, "pause": pause, "history": history, "why": why, "trigger": trigger, "stop": stop} {
				if !errors.Is(err, ErrNotFound) {
					t.Errorf("after %d: %s: %v, want ErrNotFound", n, what, err)
				}
			}
			if _, err := w.c.Cancel(w.Context(), large); err != nil {
				t.Error(err)
			}
			w.wantGone(fmt.Sprintf("again after %d", n), large)
		})
	}
}

// Submit completes a cancellation, and one that is still in progress does the new job no
// harm.
func TestSubmitOverACancel(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.huge()
		w.interrupted(2)
		again := job.Job{Name: large, Schedule: "@daily", Shards: 2}
		dry, err := w.c.Submit(w.Context(), again, SubmitOptions{DryRun: true})
		if err != nil || dry.Outcome != OutcomeCreated || w.get(large).State != StateCanceled {
			t.Errorf("dry run: %s, %v", dry.Outcome, err)
		}
		slow := w.operator()
		stalled := make(chan error, 1)
		w.server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action { return zkdev.Delay(time.Hour) })
		go func() {
			_, err := slow.Cancel(w.Context(), large)
			stalled <- err
		}()
		time.Sleep(time.Minute)
		result, err := w.c.Submit(w.Context(), again, SubmitOptions{})
		if err != nil || result.Outcome != OutcomeCreated || len(w.get(large).Slots) != 2 || result.Version != 0 {
			t.Errorf("%+v, %v", result, err)
		}
		w.makes(large+"[0]", large+"[1]")
		if err := <-stalled; err != nil {
			t.Error(err)
		}
		if job := w.get(large); len(job.Slots) != 2 || job.State != StateUnowned {
			t.Errorf("what was left of the cancel: %s with %d shards", job.State, len(job.Slots))
		}
		if _, ok, err := w.c.conn.Exists(w.Context(), w.c.tree.Requests(large+"[1]")); !ok || err != nil {
			t.Error("it has deleted a shard of the new job")
		}
	})
}

// Lost replies make no difference.
func TestCancelWithoutReplies(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.huge()
		w.multis(func(n int, _ *zkdev.Request) zkdev.Action {
			return []zkdev.Action{zkdev.Pass(), zkdev.CutAfter(), zkdev.CutBefore()}[n%3]
		})
		if _, err := w.c.Cancel(w.Context(), large); err != nil {
			t.Error(err)
		}
		w.wantGone("canceled", large)
	})
}

// A heartbeat that comes in between is no obstacle.
func TestCancelWhileItsOwnerBeats(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.huge()
		w.interrupted(1)
		beat := w.c.tree.Heartbeat(large+"[1000]", "app-1")
		once := false
		w.server.ControlKeep(zkdev.OpGetChildren, func(r *zkdev.Request) zkdev.Action {
			if !once && strings.HasSuffix(r.Path, "/1000/alive") {
				once = true
				return zkdev.DelayReply(time.Minute)
			}
			return zkdev.Pass()
		})
		time.AfterFunc(30*time.Second, func() { w.multi(zkconn.CreateOp(beat, nil)) })
		if _, err := w.c.Cancel(w.Context(), large); err != nil {
			t.Error(err)
		}
		w.wantGone("canceled", large)
	})
}

// Whoever cancels a job that he has seen cancels that one as it was: not one that was edited since,
// nor another of its name, also if that comes between the reading and the deletion. Runs are no
// change.
func TestCancelSeen(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		meanwhile  func(w *world, token int64)
		want, late error // before it is read again, and after that
		stays      bool
	}{
		"nothing": {func(*world, int64) {}, nil, nil, false},
		"a run":   {func(w *world, token int64) { w.claim(zkrec.Run{Tick: 1, RunID: "r", Token: token, Attempt: 1}) }, nil, nil, false},
		"an edit": {func(w *world, _ int64) {
			_, err := w.hand.Edit(w.Context(), "job", func(j *job.Job) error { j.Schedule = "@daily"; return nil }, EditOptions{})
			w.must(err)
		}, ErrConflict, ErrConflict, true},
		"the next":  {func(w *world, _ int64) { w.replaceBySame() }, ErrConflict, nil, true}, // the one that was seen is gone
		"a cancel":  {func(w *world, _ int64) { _, err := w.hand.Cancel(w.Context(), "job"); w.must(err) }, ErrNotFound, nil, false},
		"its pause": {func(w *world, _ int64) { _, err := w.hand.Pause(w.Context(), "job", PauseOptions{}); w.must(err) }, nil, nil, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, late := range []bool{false, true} {
				inWorld(t, func(w *world) {
					token := w.owned(job.Job{Name: "job", Schedule: "@hourly", Handler: "work"})
					is, err := w.c.Get(w.Context(), "job")
					w.must(err)
					if late { // the reading for the deletion was made when it comes
						deletes, once := w.c.tree.Job("job"), false
						w.multis(func(_ int, r *zkdev.Request) zkdev.Action {
							is := func(op zkdev.Request) bool { return op.Op == zkdev.OpDelete && op.Path == deletes }
							if once || !slices.ContainsFunc(r.Ops, is) {
								return zkdev.Pass()
							}
							once = true
							return zkdev.Delay(2 * time.Second)
						})
						time.AfterFunc(time.Second, func() { test.meanwhile(w, token) })
					} else {
						test.meanwhile(w, token)
					}
					_, err = w.c.CancelSeen(w.Context(), "job", Seen{ID: is.ID, Version: is.Version})
					if want := map[bool]error{false: test.want, true: test.late}[late]; !errors.Is(err, want) {
						w.Errorf("late: %v: %v, want %v", late, err, want)
					}
					_, err = w.c.Get(w.Context(), "job")
					if errors.Is(err, ErrNotFound) == test.stays {
						w.Errorf("late: %v: then the job is read with %v", late, err)
					}
				})
			}
		})
	}
}

// replaceBySame cancels the job, and submits it as it was.
func (w *world) replaceBySame() {
	w.Helper()
	_, err := w.hand.Cancel(w.Context(), "job")
	w.must(err)
	_, err = w.hand.Submit(w.Context(), job.Job{Name: "job", Schedule: "@hourly", Handler: "work"}, SubmitOptions{})
	w.must(err)
}

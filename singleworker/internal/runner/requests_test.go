package runner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

func manual(id string) ticks.Request {
	return ticks.Request{ID: id, Request: zkrec.Request{
		Kind: zkrec.RequestRun, At: time.Now(), Args: map[string]string{"who": id}, Payload: []byte(`{"n":1}`),
	}}
}

// stopOf is a request to stop a run.
func stopOf(id, runID string) ticks.Request {
	return ticks.Request{ID: id, Request: zkrec.Request{
		Kind: zkrec.RequestStop, RunID: runID, By: "ops", Reason: "too slow",
	}}
}

func TestManualRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		opening := 0
		w.keeper.pull = func(c ticks.Commit) lever {
			if c.Plan.Record.Manual != "" && c.Plan.Opens {
				opening++
			}
			return lever{}
		}
		w.run(t.Context())
		var got []Run
		w.own(w.job("job", "0 * * * * ?", func(_ context.Context, r Run) error {
			got = append(got, r)
			time.Sleep(20 * time.Second)
			return nil
		}))
		pass(65 * time.Second)
		w.request(manual("r1"))
		pass(30 * time.Second)
		if left := w.keeper.read("job").requests; len(left) != 1 {
			t.Errorf("requests %q during the run, want one", left)
		}
		pass(10 * time.Second)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: ok", "r1 at 1m20s: ok")
		if left := w.keeper.read("job").requests; len(left) != 0 {
			t.Errorf("requests %q are left", left)
		}
		if opening != 1 {
			t.Errorf("tried %d times to open the run, want once: completed requests are forgotten", opening)
		}
		if len(got) != 2 || got[1].Request == nil {
			t.Fatalf("ran %+v, want the second to know its request", got)
		}
		if r := got[1]; !r.Tick.Equal(after(65*time.Second)) || r.Request.Args["who"] != "r1" || string(r.Request.Payload) != `{"n":1}` {
			t.Errorf("the manual run was given %+v, %+v", r, r.Request)
		}
	})
}

// Manual runs run one after the other, also during a pause, and do not affect ticks.
func TestManualRunsOfAPausedJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		job := w.job("job", "0 * * * * ?", working(10*time.Second))
		job.Paused = &zkrec.Pause{Since: midnight.UnixMilli(), Until: after(5 * time.Minute).UnixMilli()}
		w.own(job)
		pass(70 * time.Second)
		w.request(manual("r1"), manual("r2"))
		pass(4 * time.Minute)
		w.stop()
		w.wantHistory("job", "r1 at 1m10s: ok", "r2 at 1m20s: ok", "1m0s: skipped paused", "2m0s to 4m0s: 3 skipped paused", "5m0s at 5m0s: ok")
	})
}

// The list of requests may be older than their outcome.
func TestManualRunIsNotRunTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		job := w.job("job", "0 0 * * * ?", nil)
		w.own(job)
		pass(10 * time.Second)
		stale := []ticks.Request{manual("r1")}
		w.request(stale...)
		pass(time.Second)
		w.runner.Requested("job", stale)
		pass(time.Second)
		job.Requests = stale
		w.own(job) // a changed spec, with an older list of requests
		pass(time.Minute)
		w.stop()
		w.wantHistory("job", "r1 at 10s: ok")
	})
}

// A canceled request does not hold up others.
func TestCanceledManualRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 * * * * ?", working(20*time.Second)))
		pass(65 * time.Second)
		w.request(manual("r1"), manual("r2"))
		w.keeper.Drop("job", "r1") // by the operator
		pass(50 * time.Second)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: ok", "r2 at 1m20s: ok")
	})
}

func TestFailedManualRunIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(withPolicy(w.job("job", "0 0 * * * ?", func(context.Context, Run) error { return errors.New("boom") }),
			ticks.Policy{Retries: 3}))
		pass(time.Second)
		w.request(manual("r1"))
		pass(time.Minute)
		w.stop()
		w.wantHistory("job", "r1 at 1s: failed")
		if left := w.keeper.read("job").requests; len(left) != 0 {
			t.Errorf("requests %q are left", left)
		}
	})
}

// A manual run whose owner leaves is run by the next owner, which still finds the request.
func TestManualRunIsRunByTheNextOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 0 * * * ?", untilEnd))
		pass(10 * time.Second)
		request := manual("r1")
		w.request(request)
		pass(10 * time.Second)
		w.stop()
		if left := w.keeper.read("job").requests; !slices.Equal(left, []string{"r1"}) {
			t.Fatalf("requests %q, want r1: it is not done", left)
		}
		other := w.keeper.world("b", 8)
		other.run(t.Context())
		var got Run
		job := other.job("job", "0 0 * * * ?", func(_ context.Context, r Run) error {
			got = r
			return nil
		})
		job.Requests = []ticks.Request{request}
		other.own(job)
		pass(time.Second)
		other.stop()
		w.wantHistory("job", "r1 at 10s: interrupted", "r1 at 50s: ok, attempt 2")
		if got.Request == nil || got.Request.Args["who"] != "r1" {
			t.Errorf("the second attempt was given %+v", got)
		}
		if left := w.keeper.read("job").requests; len(left) != 0 {
			t.Errorf("requests %q are left", left)
		}
	})
}

// The interrupted owner still knows the request when its lease is renewed.
func TestManualRunIsRunAgainAfterALapse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 0 * * * ?", func(ctx context.Context, r Run) error {
			if r.Attempt == 1 {
				return untilEnd(ctx, r)
			}
			return nil
		}))
		pass(10 * time.Second)
		w.request(manual("r1"))
		pass(10 * time.Second)
		w.leases.Lapse()
		pass(5500 * time.Millisecond)
		w.leases.Renew("job", 1<<62)
		pass(10 * time.Second)
		w.stop()
		w.wantHistory("job", "r1 at 10s: interrupted", "r1 at 26s: ok, attempt 2")
		if r := w.started()[1]; r.Request == nil {
			t.Error("the second attempt does not know its request")
		}
	})
}

// A late result of an attempt that was given up does not complete the request: the next attempt is
// another owner's, which has lost the job as well.
func TestManualRunOutlivesALateResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		request := manual("r1")
		ends := map[int]chan struct{}{1: make(chan struct{}), 2: make(chan struct{}), 3: make(chan struct{})}
		close(ends[3])
		late := func(_ context.Context, r Run) error {
			<-ends[r.Attempt]
			return nil
		}
		w := newWorld(t)
		other := w.keeper.world("b", 8)
		for _, owner := range []*world{w, other} {
			owner.run(t.Context())
			job := owner.job("job", "0 0 * * * ?", late)
			job.Requests = []ticks.Request{request}
			w.keeper.change("job", func(k *kept) { k.requests = []string{"r1"} })
			owner.own(job)
			pass(10 * time.Second)
			owner.lose()
		}
		job := w.job("job", "0 0 * * * ?", late)
		job.Requests = []ticks.Request{request}
		w.own(job)
		synctest.Wait()
		close(ends[1])
		pass(time.Second)
		close(ends[2])
		w.stop()
		other.stop()
		w.wantHistory("job", "r1 at 0s: ok", "r1 at 10s: ok, attempt 2", "r1 at 20s: ok, attempt 3")
		if left := w.keeper.read("job").requests; len(left) != 0 {
			t.Errorf("requests %q are left", left)
		}
	})
}

func TestRunIsStoppedByAnOperator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		var seen []error
		w.adopt(ticks.Policy{Retries: 3}, func(ctx context.Context, _ Run) error {
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
			seen = append(seen, context.Cause(ctx))
			return ctx.Err()
		})
		pass(65 * time.Second)
		w.request(stopOf("s0", "another run"), stopOf("s1", w.started()[0].RunID))
		synctest.Wait()
		r := w.wantResult(history.StateInterrupted, ErrStopped)
		if text := "singleworker: stopped by an operator: ops: too slow"; !strings.HasPrefix(r.Err.Error(), text) {
			t.Errorf("the result is %q, want %q", r.Err, text)
		}
		if r.Ended.Sub(midnight) != 65*time.Second {
			t.Errorf("ended at %v, want at once", r.Ended)
		}
		pass(70 * time.Second)
		w.stop()
		w.wantHistory("job", "1m0s at 1m0s: interrupted", "2m0s at 2m0s: ok")
		if !errors.Is(seen[0], ErrStopped) {
			t.Errorf("the handler saw %v", seen[0])
		}
		if !slices.Equal(w.keeper.dropped, []string{"s0", "s1"}) {
			t.Errorf("dropped %q, want both", w.keeper.dropped)
		}
	})
}

// A request to stop a run stays until the run has ended, and its entry has who asked for both. Of
// long texts, it has the beginning.
func TestWhoAskedIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 0 * * * ?", working(30*time.Second))) // which ignores its context
		pass(time.Second)
		run := manual("r1")
		run.By, run.Reason = "alice@host", strings.Repeat("é", 200)
		w.request(run)
		pass(time.Second)
		stop := stopOf("s1", w.started()[0].RunID)
		w.request(stop)
		w.request(stop) // as when another one comes
		pass(20 * time.Second)
		w.keeper.mu.Lock()
		dropped, stacks := len(w.keeper.dropped), slices.Clone(w.keeper.stacks)
		w.keeper.mu.Unlock()
		if dropped > 0 {
			t.Errorf("dropped %d requests while the run is in progress", dropped)
		}
		if s := stacks; len(s) != 1 || s[0][0] != stop.RunID || !strings.Contains(s[0][1], ".working.1 ") || strings.Contains(s[0][1], "task.") {
			t.Errorf("the stack is %q, want the handler's alone", s)
		}
		pass(20 * time.Second)
		w.stop()
		entry := w.keeper.read("job").history[0]
		want := history.Asked{AskedBy: "alice@host", AskedReason: strings.Repeat("é", 50), StoppedBy: "ops", StoppedReason: "too slow"}
		if entry.Asked.Value() != want || entry.State != history.StateOK || !slices.Equal(w.keeper.dropped, []string{"s1"}) {
			t.Errorf("the entry is %+v, and %q dropped", entry, w.keeper.dropped)
		}
		if r := w.keeper.read("job").record; r.Asked.Value() != want {
			t.Errorf("the record is %+v", r)
		}
	})
}

// The owner dies whose run does not end when it is told to: the next one records who has asked.
func TestWhoStoppedOutlivesTheOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		w.own(w.job("job", "0 0 * * * ?", working(time.Minute)))
		pass(time.Second)
		run := manual("r1")
		run.By = "alice@host"
		w.request(run)
		pass(time.Second)
		stop := stopOf("s1", w.started()[0].RunID)
		w.request(run, stop)
		pass(time.Second)
		w.lose()
		other := w.keeper.world("b", 8)
		other.run(t.Context())
		job := other.job("job", "0 0 * * * ?", working(time.Second))
		job.Requests = []ticks.Request{run, stop}
		other.own(job)
		pass(10 * time.Second)
		other.stop()
		entries := w.keeper.read("job").history
		if len(entries) != 2 || entries[0].Asked.Value().StoppedBy != "ops" || entries[0].State != history.StateInterrupted || entries[1].Asked.Value().StoppedBy != "" || entries[1].Asked.Value().AskedBy != "alice@host" {
			t.Errorf("the entries are %+v", entries)
		}
		pass(time.Minute)
		w.stop()
	})
}

// An operator may stop a run that a stopping instance waits for; its tick is not run again. The
// request may arrive with a change of the job. A request for another run is left to the next owner.
func TestRunIsStoppedWhileItsInstanceStops(t *testing.T) {
	t.Parallel()
	for what, ask := range map[string]func(w *world, job Job, requests ...ticks.Request){
		"by itself": func(w *world, _ Job, requests ...ticks.Request) { w.request(requests...) },
		"with a change of the job": func(w *world, job Job, requests ...ticks.Request) {
			job.Requests = requests
			w.own(job)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.run(t.Context())
				job := w.job("job", "0 * * * * ?", untilEnd)
				w.own(job)
				pass(65 * time.Second)
				w.runner.Stop()
				synctest.Wait()
				ask(w, job, manual("r1"), stopOf("s0", "another run"), stopOf("s1", w.started()[0].RunID))
				if err := <-w.ended; err != nil || time.Since(midnight) != 65*time.Second {
					t.Errorf("Run = %v at %v, want nil at once", err, time.Since(midnight))
				}
				w.wantResult(history.StateInterrupted, ErrStopped)
				if again := w.keeper.read("job").record.NextAttempt; again != "" {
					t.Errorf("again = %q, want none", again)
				}
				if !slices.Equal(w.keeper.dropped, []string{"s1"}) {
					t.Errorf("dropped %q, want s1 alone", w.keeper.dropped)
				}
			})
		})
	}
}

// A run that is stopped between its claim and its start is not started.
func TestRunIsStoppedDuringItsClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var id string
		w.keeper.pull = func(c ticks.Commit) lever {
			if c.Plan.Opens && id == "" {
				id = c.Plan.Record.RunID
				return lever{reply: 5 * time.Second}
			}
			return lever{}
		}
		w.run(t.Context())
		w.adopt(ticks.Policy{}, nil)
		pass(61 * time.Second)
		w.request(stopOf("s1", id))
		pass(9 * time.Second)
		w.stop()
		w.wantOnTime() // nothing
		w.wantResult(history.StateInterrupted, ErrStopped)
	})
}

// The request may arrive with the ownership, while an earlier run is still in progress here.
func TestStopOfARunOfAFormerOwnership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(t.Context())
		stopped := make(chan struct{})
		w.adopt(ticks.Policy{}, func(context.Context, Run) error {
			<-stopped
			return nil
		})
		pass(65 * time.Second)
		w.lose()
		job := w.job("job", "0 0 * * * ?", nil)
		job.Requests = []ticks.Request{stopOf("s1", w.started()[0].RunID)}
		w.runner.Own(job)
		synctest.Wait()
		close(stopped)
		w.stop()
		if !slices.Equal(w.keeper.dropped, []string{"s1"}) {
			t.Errorf("dropped %q, want the request", w.keeper.dropped)
		}
		w.wantResult(history.StateOK, nil) // it ignored its context and finished
	})
}

package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// handle is a Plan.Handlers with one handler of the name "pay".
func handle(h func(w *swtest.World) singleworker.Handler) func(swtest.Process) map[string]singleworker.Handler {
	return func(p swtest.Process) map[string]singleworker.Handler {
		return map[string]singleworker.Handler{"pay": h(p.World)}
	}
}

// key is right for AppendOnce.
func key(run *singleworker.Run) string {
	return fmt.Sprintf("%s %s %s", run.Slot, run.Tick.UTC().Format(time.RFC3339), run.Request)
}

// pause works for so long.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// right is a handler without bugs: three effects per tick.
func right(w *swtest.World) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		for k := range 3 {
			if err := pause(ctx, 5*time.Second); err != nil {
				return err
			}
			if err := w.Effects.AppendOnce(ctx, run, fmt.Sprint(key(run), k)); err != nil && !errors.Is(err, swtest.ErrDone) {
				return err
			}
		}
		return nil
	}
}

// rights are plans whose handlers are right.
func rights() map[string]swtest.Plan {
	return map[string]swtest.Plan{
		"hourly":      {Jobs: []singleworker.Job{{Name: "pay", Schedule: "@hourly", Retries: 3}}, Handlers: handle(right), Check: complete},
		"each minute": {Jobs: []singleworker.Job{{Name: "pay", Schedule: "* * * * *", Misfire: "all"}}, Handlers: handle(right), Check: complete, For: 2 * time.Hour},
		"shards":      {Jobs: []singleworker.Job{{Name: "pay", Schedule: "0 */10 * * * ?", Shards: 3}}, Handlers: handle(right), Check: complete, For: 4 * time.Hour},
	}
}

// Explore raises no false alarm.
func TestRightHandlersPass(t *testing.T) {
	t.Parallel()
	for name, plan := range rights() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan.Seeds, plan.Seed = simkit.Seeds(20), simkit.Base()
			swtest.Explore(t, plan)
		})
	}
}

// Requests are slow, so that a write is on its way for longer than its slot's history is kept: no
// look at the slot was forgotten.
func TestSlowWriteKeepsItsHistory(t *testing.T) {
	t.Parallel()
	plan := rights()["hourly"]
	plan.Seed = 100000
	plan.Faults = []swtest.Fault{
		{Kind: swtest.Deploy, At: 32420 * time.Second, Slot: "pay"},
		{Kind: swtest.Kill, At: 50406 * time.Second, Slot: "pay", For: 3456 * time.Second},
		{Kind: swtest.Kill, Slot: "pay", Point: "begin", Nth: 15, For: 216 * time.Second},
		{Kind: swtest.Slow, Slot: "pay", Point: "appended", Nth: 59, For: 3456 * time.Second, By: 186 * time.Second},
	}
	swtest.Explore(t, plan)
}

// A handler that waits for something real is named, with the call.
func TestRealIOIsNamed(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // nobody answers
	if err != nil {
		t.Fatal(err)
	}
	plan := rights()["hourly"]
	plan.Handlers = handle(func(*swtest.World) singleworker.Handler {
		return func(context.Context, *singleworker.Run) error {
			conn, err := net.Dial("tcp", listener.Addr().String()) //nolint:noctx // it is a bad handler
			if err != nil {
				return err
			}
			_, err = conn.Read(make([]byte, 1))
			return err
		}
	})
	if err := swtest.Stuck(t, plan); err == nil || !strings.Contains(err.Error(), `"IO wait"`) || !strings.Contains(err.Error(), "net.(*conn).Read ") || !strings.Contains(err.Error(), "explore_test.go:") {
		t.Errorf("told %v", err)
	}
}

// A handler that never returns is named.
func TestHandlerThatNeverReturnsIsNamed(t *testing.T) {
	t.Parallel()
	plan := rights()["hourly"]
	plan.For = 2 * time.Hour
	plan.Handlers = handle(func(*swtest.World) singleworker.Handler {
		return func(context.Context, *singleworker.Run) error { select {} }
	})
	if err := swtest.Stuck(t, plan); err == nil || !strings.HasPrefix(err.Error(), "swtest: a run of pay has not returned ") {
		t.Errorf("told %v", err)
	}
}

// A slow process, a wrong clock and a deploy do to a process as they say.
func TestFaultsStrike(t *testing.T) {
	t.Parallel()
	plan := rights()["hourly"]
	var versions [3]atomic.Int64
	plan.Handlers = func(p swtest.Process) map[string]singleworker.Handler {
		versions[p.Version].Add(1)
		return map[string]singleworker.Handler{"pay": right(p.World)}
	}
	plan.NextJobs = []singleworker.Job{{Name: "pay", Schedule: "0 30 * * * ?"}}
	plan.Configure = func(cfg *singleworker.Config) { cfg.StopGrace = time.Minute }
	plan.Faults = []swtest.Fault{
		{Kind: swtest.Clock, Slot: "pay", Point: "begin", Nth: 1, For: time.Hour, By: 10 * time.Hour},
		{Kind: swtest.Slow, At: 5 * time.Hour, Slot: "pay", For: time.Hour, By: time.Minute},
		{Kind: swtest.Deploy, At: 6 * time.Hour, Slot: "pay"},
		{Kind: swtest.Refuse, At: 12 * time.Hour, For: 2 * time.Hour},
		{Kind: swtest.Restart, At: 18 * time.Hour, For: 2 * time.Hour},
	}
	var owners, half, none, failed int
	plan.Check = func(w *swtest.World) error {
		seen := make(map[string]bool)
		last := time.Time{}
		for _, r := range w.Runs("pay") {
			if seen[r.Instance] = true; r.Tick.Minute() == 30 {
				half++
			}
			if r.Started.Sub(last) > 2*time.Hour {
				none++
			}
			if last = r.Started; errors.Is(r.Err, swtest.ErrRefused) {
				failed++
			}
		}
		owners = len(seen)
		return nil
	}
	swtest.Explore(t, plan)
	if owners < 2 || half == 0 || none == 0 || failed == 0 || versions[1].Load() != 3 || versions[2].Load() != 1 {
		t.Errorf("%d owners, %d runs of the new schedule, %d gaps, %d runs refused, %d and %d starts of the versions", owners, half, none, failed, versions[1].Load(), versions[2].Load())
	}
}

// planned is a Plan that fails, by a name that a test can be printed with.
func planned() swtest.Plan {
	plan := rights()["hourly"]
	plan.Check = func(w *swtest.World) error {
		for _, r := range w.Runs("pay") {
			if r.Killed {
				return errors.New("killed")
			}
		}
		return nil
	}
	return plan
}

// A failure is printed as a test, with the Plan if it can be called.
func TestFailureAsATest(t *testing.T) {
	t.Parallel()
	f := swtest.Find(t, planned())
	if f == nil {
		t.Fatal("no failure")
	}
	want := fmt.Sprintf(`func TestFailureAsATestAgain(t *testing.T) {
	plan := planned()
	plan.Seed = %d
	plan.Faults = []swtest.Fault{
		%#v,
	}
	swtest.Explore(t, plan)
}
`, f.Seed, f.Faults[0])
	if f.Test != want || !strings.Contains(f.Error(), want) || !strings.Contains(want, "\t\t{Kind: swtest.Kill, ") {
		t.Errorf("%s\nwant %s", f.Test, want)
	}
	plan := planned()
	plan.Seed, plan.Faults = f.Seed, f.Faults
	if f := swtest.Find(t, plan); f == nil || f.Text != "killed" || !strings.Contains(f.Test, "var plan swtest.Plan // the Plan of TestFailureAsATest\n") {
		t.Errorf("again: %v", f)
	}
}

// Each bug is found, and the scenario shrunk to at most three faults, with which it fails again. By
// default that is tried with the quickest of them.
func TestBugsAreFound(t *testing.T) {
	t.Parallel()
	const quick = "two shards on one key, swallows errors"
	for name, plan := range bugs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(quick, name) {
				simkit.Slow(t)
			}
			plan.Seeds = 200
			f := swtest.Find(t, plan)
			if f == nil {
				t.Fatal("not found")
			}
			t.Log(f)
			if lines := strings.Count(f.Test, "\n"); len(f.Faults) > 3 || lines > 20 {
				t.Errorf("%d faults, and a test of %d lines", len(f.Faults), lines)
			}
			plan.Seed, plan.Faults = f.Seed, append([]swtest.Fault{}, f.Faults...)
			again, times := 0, simkit.Share(20)
			for range times {
				if swtest.Find(t, plan) != nil {
					again++
				}
			}
			if again*100 < 95*times {
				t.Errorf("it failed %d times of %d again", again, times)
			}
			t.Logf("failed again %d times of %d", again, times)
		})
	}
}

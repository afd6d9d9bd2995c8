package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/job"
)

// gated starts n instances with a divided job, and a function before each of its ticks.
func gated(
	t *testing.T, c *swtest.Cluster, n int, job singleworker.Job, before, h singleworker.Handler,
) *completions {
	t.Helper()
	cs := &completions{}
	job.BeforeTick = "prepare"
	setup := swtest.Setup{
		Handlers: map[string]singleworker.Handler{job.Name: h}, Before: map[string]singleworker.Handler{"prepare": before}, Configure: cs.hook,
	}
	if err := c.Submit(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	for k := range n {
		c.Start(fmt.Sprintf("i%d", k), setup)
	}
	time.Sleep(settled)
	return cs
}

// wantGated expects that no run of a tick began before a call of BeforeTick for it had returned
// nil, that no call was made after that, and that there was one at a time. It returns the number of
// calls for each tick.
func wantGated(t *testing.T, c *swtest.Cluster) map[time.Time]int {
	t.Helper()
	calls, passed := make(map[time.Time]int), make(map[time.Time]time.Time)
	var last time.Time
	for _, b := range c.Befores() {
		calls[b.Tick.UTC()]++
		if b.Shard.Index != 0 || b.Manual || !b.BeforeTick {
			t.Errorf("BeforeTick was called for shard %d, manual %v, %v", b.Shard.Index, b.Manual, b.BeforeTick)
		}
		if at, twice := passed[b.Tick]; twice {
			t.Errorf("tick %v: BeforeTick was called at %v, and had returned nil at %v", b.Tick, b.Started, at)
		}
		if b.Started.Before(last) {
			t.Errorf("tick %v: BeforeTick was called at %v, when another call lasted until %v", b.Tick, b.Started, last)
		}
		if last = b.End(); last.IsZero() {
			last = time.Now()
		} else if b.Err == nil {
			passed[b.Tick] = b.End()
		}
	}
	for _, r := range c.Runs() {
		if r.BeforeTick {
			t.Errorf("tick %v: the handler of shard %d was called as BeforeTick", r.Tick, r.Shard.Index)
		}
		if at, ok := passed[r.Tick]; !r.Manual && (!ok || r.Started.Before(at)) {
			t.Errorf("tick %v: shard %d began at %v, BeforeTick had returned nil at %v", r.Tick, r.Shard.Index, r.Started, at)
		}
	}
	return calls
}

// historyOf counts the outcomes of ticks in a shard's history.
func historyOf(t *testing.T, c *swtest.Cluster, slot string) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	if err := c.Operate(t.Context(), func(client *admin.Client) error {
		past, err := client.History(t.Context(), slot)
		for _, e := range past.Entries {
			key := string(e.State)
			if e.Reason != "" {
				key += " " + string(e.Reason)
			}
			counts[key] += e.Count
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return counts
}

// One instance calls BeforeTick once for each tick, and then every shard runs it once.
func TestBeforeTick(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		complete := gated(t, c, 3, singleworker.Job{Name: "rows", Schedule: "*/10 * * * * ?", Shards: 3}, working(2*time.Second), working(time.Second))
		from := time.Now()
		time.Sleep(2*time.Minute + 5*time.Second)
		for tick, n := range wantGated(t, c) {
			if n != 1 {
				t.Errorf("tick %v: BeforeTick was called %d times", tick, n)
			}
		}
		ticks := wantWholeTicks(t, c, complete, from)
		if len(ticks) < 12 {
			t.Errorf("%d ticks ran", len(ticks))
		}
		for _, r := range c.Runs() {
			if late := r.Started.Sub(r.Tick); late > 2*time.Second+100*time.Millisecond || r.Attempt != 1 {
				t.Errorf("tick %v: shard %d began %v late, attempt %d", r.Tick, r.Shard.Index, late, r.Attempt)
			}
		}
		pass(t, c)
	})
}

// A tick that BeforeTick refuses is run by no shard, and every history says so.
func TestBeforeTickRefuses(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		before := func(_ context.Context, run *singleworker.Run) error {
			if run.Tick.Second() >= 30 {
				return fmt.Errorf("no rows yet: %w", singleworker.ErrRefuseTick)
			}
			return nil
		}
		complete := gated(t, c, 3, singleworker.Job{Name: "rows", Schedule: "*/10 * * * * ?", Shards: 3}, before, working(time.Second))
		from := time.Now()
		time.Sleep(2*time.Minute + 3*time.Second)
		wantGated(t, c)
		for tick := range wantWholeTicks(t, c, complete, from) {
			if tick.Second() >= 30 {
				t.Errorf("tick %v ran, which was refused", tick)
			}
		}
		for _, r := range complete.list {
			if r.Tick.Second() >= 30 {
				t.Errorf("tick %v was reported as complete, which no shard has run", r.Tick)
			}
		}
		if h := historyOf(t, c, "rows[0]"); h["refused"] < 6 || h["ok"] < 6 || len(h) != 2 {
			t.Errorf("history of the first shard: %v", h)
		}
		for _, slot := range []string{"rows[1]", "rows[2]"} {
			if h := historyOf(t, c, slot); h["skipped refused"] < 6 || h["ok"] < 6 || len(h) != 2 {
				t.Errorf("history of %s: %v", slot, h)
			}
		}
		pass(t, c)
	})
}

// When the instance dies that calls BeforeTick, another one calls it again, and the shards wait.
func TestBeforeTickOfAnInstanceThatDies(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		complete := gated(t, c, 3, singleworker.Job{Name: "rows", Schedule: "0 * * * * ?", Shards: 3}, working(20*time.Second), working(time.Second))
		from := time.Now()
		next := from.UTC().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(next.Add(5 * time.Second)))
		for _, i := range c.Live() {
			if i.Name == c.Owners()["rows[0]"] {
				i.Kill()
			}
		}
		time.Sleep(time.Until(next.Add(55 * time.Second)))
		if calls := wantGated(t, c); calls[next] != 2 {
			t.Errorf("BeforeTick was called %d times, want 2", calls[next])
		}
		befores := c.Befores()
		if last := befores[len(befores)-1]; last.Attempt != 2 || last.Err != nil {
			t.Errorf("the last call: attempt %d, %v", last.Attempt, last.Err)
		}
		wantWholeTicks(t, c, complete, from)
		if n := len(c.Runs()); n != 3 {
			t.Errorf("%d runs, want 3", n)
		}
		pass(t, c)
	})
}

// The call is retried as a run is. If it never returns nil, no shard runs the tick.
func TestBeforeTickFails(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		before := func(_ context.Context, run *singleworker.Run) error {
			switch run.Tick.Second() {
			case 20:
				return errors.New("no")
			case 40:
				panic("no")
			}
			if run.Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		}
		gated(t, c, 3, singleworker.Job{Name: "rows", Schedule: "*/20 * * * * ?", Shards: 3, Retries: 1}, before, working(time.Second))
		time.Sleep(3 * time.Minute)
		// Between a tick's retry and the next tick.
		time.Sleep(time.Until(time.Now().Truncate(20 * time.Second).Add(32 * time.Second)))
		for tick, n := range wantGated(t, c) {
			if n != 2 {
				t.Errorf("tick %v: BeforeTick was called %d times, want 2", tick, n)
			}
		}
		for _, slot := range []string{"rows[1]", "rows[2]"} {
			if h := historyOf(t, c, slot); h["skipped not_begun"] < 6 || h["ok"] < 3 || len(h) != 2 {
				t.Errorf("history of %s: %v", slot, h)
			}
		}
		if h := historyOf(t, c, "rows[0]"); h["failed"] < 15 || h["ok"] < 3 || len(h) != 2 {
			t.Errorf("history of the first shard: %v", h)
		}
		pass(t, c)
	})
}

// An attempt of the first shard after BeforeTick has returned nil does not call it again. Others
// begin meanwhile.
func TestBeforeTickIsNotCalledAgain(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		h := func(_ context.Context, run *singleworker.Run) error {
			if run.Shard.Index == 0 && run.Attempt < 3 {
				return errors.New("not yet")
			}
			return nil
		}
		gated(t, c, 2, singleworker.Job{Name: "rows", Schedule: "*/20 * * * * ?", Shards: 2, Retries: 2}, working(time.Second), h)
		time.Sleep(time.Minute)
		for tick, n := range wantGated(t, c) {
			if n != 1 {
				t.Errorf("tick %v: BeforeTick was called %d times", tick, n)
			}
		}
		if h := historyOf(t, c, "rows[0]"); h["ok"] < 3 || h["failed"] != 2*h["ok"] {
			t.Errorf("history of the first shard: %v", h)
		}
	})
}

// Requests for manual runs do not call BeforeTick, and do not wait for it.
func TestBeforeTickAndManualRuns(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		gated(t, c, 2, singleworker.Job{Name: "rows", Schedule: "@daily", Shards: 2}, working(time.Second), working(time.Second))
		if err := c.Operate(t.Context(), func(client *admin.Client) error {
			_, err := client.Trigger(t.Context(), "rows", admin.TriggerOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if runs, calls := len(c.Runs()), len(c.Befores()); runs != 2 || calls != 0 {
			t.Errorf("%d runs and %d calls, want 2 and none", runs, calls)
		}
		pass(t, c)
	})
}

// BeforeTick is added to a job, changed and removed between two ticks, as shards are.
func TestBeforeTickIsAddedAndRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		cs := &completions{}
		setup := swtest.Setup{
			Handlers:  map[string]singleworker.Handler{"rows": working(3 * time.Second)},
			Before:    map[string]singleworker.Handler{"prepare": working(2 * time.Second), "clear": working(time.Second)},
			Configure: cs.hook,
		}
		if err := c.Submit(t.Context(), singleworker.Job{Name: "rows", Schedule: "*/10 * * * * ?", Shards: 3}); err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			c.Start(fmt.Sprintf("i%d", k), setup)
		}
		time.Sleep(settled)
		begin := time.Now()
		edit := func(before string, shards int) (since time.Time) {
			time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(11 * time.Second))) // all run, or wait
			if err := c.Operate(t.Context(), func(client *admin.Client) error {
				_, err := client.Edit(t.Context(), "rows", func(j *job.Job) error {
					j.BeforeTick, j.Shards = before, shards
					return nil
				}, admin.EditOptions{})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			since = time.Now()
			time.Sleep(57 * time.Second)
			return since
		}
		added := edit("prepare", 3)
		removed := edit("", 3) // when BeforeTick is in progress
		again := edit("clear", 5)
		changed := edit("prepare", 5)
		gone := edit("", 2)
		called := make(map[time.Time]time.Time)
		for _, b := range c.Befores() {
			called[b.Tick] = b.End()
		}
		totals := wantWholeTicks(t, c, cs, begin)
		for _, r := range c.Runs() {
			at, ok := called[r.Tick]
			want := r.Tick.After(added) && r.Tick.Before(removed) || r.Tick.After(again) && r.Tick.Before(gone)
			if ok != want || r.Started.Before(at) {
				t.Errorf("tick %v: shard %d began at %v; BeforeTick was called: %v, until %v", r.Tick, r.Shard.Index, r.Started, ok, at)
			}
		}
		for tick, total := range totals {
			want := 5
			if tick.Before(again) {
				want = 3
			}
			if tick.Before(gone) && total != want {
				t.Errorf("tick %v: %d shards, want %d", tick, total, want)
			}
			if takes := map[bool]time.Duration{true: time.Second, false: 2 * time.Second}[tick.Before(changed)]; tick.After(again) && tick.Before(gone) &&
				called[tick].Sub(tick).Round(100*time.Millisecond) != takes {
				t.Errorf("tick %v: BeforeTick ended %v after it, want %v", tick, called[tick].Sub(tick), takes)
			}
		}
		if len(totals) < 30 || len(called) < 18 {
			t.Errorf("%d ticks ran, %d of them with BeforeTick", len(totals), len(called))
		}
		pass(t, c)
	})
}

// Instances without the function own no shards.
func TestInstanceWithoutBeforeTick(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		c.Start("old", swtest.Setup{Handlers: map[string]singleworker.Handler{"rows": working(time.Second)}})
		gated(t, c, 2, singleworker.Job{Name: "rows", Schedule: "*/10 * * * * ?", Shards: 4}, working(time.Second), working(time.Second))
		time.Sleep(30 * time.Second)
		if shares := c.Shares(); shares["old"] != 0 || shares["i0"] != 2 || shares["i1"] != 2 {
			t.Errorf("shares %v", shares)
		}
		wantGated(t, c)
		pass(t, c)
	})
}

// explained returns the explanation of the last tick of a job, or a shard: the fate, and the
// sentences.
func explained(t *testing.T, c *swtest.Cluster, name string) (x admin.Explanation, text string) {
	t.Helper()
	if err := c.Operate(t.Context(), func(client *admin.Client) (err error) {
		x, err = client.Why(t.Context(), name, time.Time{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return x, strings.Join(words.Why(x), "\n")
}

// Operators see that shards wait, which is no alarm, and why they did not run.
func TestBeforeTickIsExplained(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		before := func(ctx context.Context, run *singleworker.Run) error {
			if err := working(30*time.Second)(ctx, run); err != nil || run.Tick.Minute()%2 == 0 {
				return err
			}
			return fmt.Errorf("no rows: %w", singleworker.ErrRefuseTick)
		}
		var missed atomic.Int64
		setup := swtest.Setup{
			Handlers: map[string]singleworker.Handler{"rows": working(time.Second)}, Before: map[string]singleworker.Handler{"prepare": before},
			Configure: func(cfg *singleworker.Config) { cfg.Hooks.OnTickMissed = func(singleworker.Missed) { missed.Add(1) } },
		}
		if err := c.Submit(t.Context(), singleworker.Job{
			Name: "rows", Schedule: "0 * * * * ?", Shards: 3, BeforeTick: "prepare", AlarmAfter: 5 * time.Second, Misfire: job.MisfireSkip,
		}); err != nil {
			t.Fatal(err)
		}
		c.Start("i0", setup)
		c.Start("i1", setup)
		time.Sleep(settled)
		even := time.Now().Truncate(2 * time.Minute).Add(2 * time.Minute)
		wants := func(name string, fate history.State, says string) {
			t.Helper()
			if x, text := explained(t, c, name); x.Fate != fate || !strings.Contains(text, says) {
				t.Errorf("%s at %s: %s\n%s\nwant %s, %q", name, time.Now().UTC().Format(time.TimeOnly), x.Fate, text, fate, says)
			}
		}
		time.Sleep(time.Until(even.Add(20 * time.Second)))
		wants("rows", admin.FateWaiting, "waits for BeforeTick")
		wants("rows[0]", history.StateRunning, `waits for BeforeTick (handler "prepare"), which has been running on i`)
		wants("rows[2]", admin.FateWaiting, "waits for BeforeTick (handler \"prepare\"), which the first shard calls")
		if status, _ := explained(t, c, "rows"); !status.Job.Waiting.Equal(even) || !status.Job.Overdue.IsZero() {
			t.Errorf("waiting since %v, overdue %v", status.Job.Waiting, status.Job.Overdue)
		}
		time.Sleep(time.Until(even.Add(40 * time.Second)))
		wants("rows", history.StateOK, "3 ok")
		wants("rows[2]", history.StateOK, "It waited for BeforeTick until")
		time.Sleep(time.Until(even.Add(100 * time.Second)))
		wants("rows[0]", history.StateRefused, "was refused by BeforeTick, so no shard runs it: before the tick: no rows")
		wants("rows[1]", history.StateSkipped, "BeforeTick (handler \"prepare\") refused it")
		if n := missed.Load(); n > 0 {
			t.Errorf("%d ticks are said to be missing", n)
		}
		pass(t, c)
	})
}

// A shard whose owner dies while it waits is run by another instance, when BeforeTick has returned
// nil.
func TestBeforeTickAndAWaitingShardWhoseOwnerDies(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		complete := gated(t, c, 3, singleworker.Job{Name: "rows", Schedule: "0 * * * * ?", Shards: 3}, working(2*time.Second), working(time.Second))
		from := time.Now()
		next := from.Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(next.Add(time.Second)))
		for _, i := range c.Live() {
			if i.Name == c.Owners()["rows[2]"] {
				i.Kill()
			}
		}
		time.Sleep(time.Until(next.Add(8 * time.Second))) // the session of the dead one lives
		if calls := wantGated(t, c); len(calls) != 1 {
			t.Errorf("BeforeTick was called for %d ticks", len(calls))
		}
		wantWholeTicks(t, c, complete, from)
		runs := c.Runs()
		if len(runs) != 3 {
			t.Fatalf("%d runs, want 3", len(runs))
		}
		if late := runs[2].Started.Sub(next); runs[2].Shard.Index != 2 || late > 5*time.Second {
			t.Errorf("shard %d ran last, %v late", runs[2].Shard.Index, late)
		}
		pass(t, c)
	})
}

// A one-shot is done when BeforeTick has refused its tick. With one run at a time the shards of an
// instance take turns.
func TestBeforeTickOfAOneShot(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		at := time.Now().Add(time.Minute).UTC()
		var refuses atomic.Bool
		setup := swtest.Setup{
			Handlers: map[string]singleworker.Handler{"one": working(time.Second), "two": working(time.Second)},
			Before: map[string]singleworker.Handler{"prepare": func(_ context.Context, run *singleworker.Run) error {
				if run.Job == "two" {
					refuses.Store(true)
					return singleworker.ErrRefuseTick
				}
				return nil
			}},
			Configure: func(cfg *singleworker.Config) { cfg.MaxRunning = 1 },
		}
		for _, name := range []string{"one", "two"} {
			if err := c.Submit(t.Context(), singleworker.Job{Name: name, Schedule: "@at " + at.Format(time.RFC3339), Shards: 3, BeforeTick: "prepare"}); err != nil {
				t.Fatal(err)
			}
		}
		c.Start("i0", setup)
		time.Sleep(time.Until(at.Add(2 * settled))) // what is refused is tried again in the next sync period
		jobs, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if j.State != admin.StateDone {
				t.Errorf("%s is %s: %s", j.Name, j.State, j.Reason)
			}
		}
		if n := len(c.Runs()); n != 3 || !refuses.Load() {
			t.Errorf("%d runs, want 3 of the one", n)
		}
		pass(t, c)
	})
}

// A shard that has waited is late by its own clock alone, whatever the others' clocks say.
func TestBeforeTickWithOtherClocks(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) {
		t.Helper()
		if err := c.Submit(t.Context(), singleworker.Job{
			Name: "rows", Schedule: "0 * * * * ?", Shards: 6, BeforeTick: "prepare", Misfire: job.MisfireSkip,
		}); err != nil {
			t.Fatal(err)
		}
		for k, ahead := range []time.Duration{0, 5 * time.Second, -5 * time.Second} {
			c.Start(fmt.Sprintf("i%d", k), swtest.Setup{
				Handlers: map[string]singleworker.Handler{"rows": working(time.Second)},
				Before:   map[string]singleworker.Handler{"prepare": working(20 * time.Second)}, Wall: func() time.Duration { return ahead },
			})
		}
		time.Sleep(settled)
		time.Sleep(5*time.Minute + 20*time.Second)
		wantGated(t, c)
		if n := len(c.Runs()); n != 30 {
			t.Errorf("%d runs, want 30", n)
		}
		pass(t, c)
	})
}

package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/job"
)

// completions collects the calls of OnTickComplete, in the whole group.
type completions struct {
	mu   sync.Mutex
	list []singleworker.TickResult
}

func (cs *completions) hook(c *singleworker.Config) {
	c.Hooks.OnTickComplete = func(r singleworker.TickResult) {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		cs.list = append(cs.list, r)
	}
}

// of returns how a tick was reported; it fails unless that was once.
func (cs *completions) of(t *testing.T, tick time.Time) singleworker.TickResult {
	t.Helper()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var found []singleworker.TickResult
	for _, r := range cs.list {
		if r.Tick.Equal(tick) {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("tick %v was reported as complete %d times, want once", tick, len(found))
	}
	return found[0]
}

// sharded starts n instances with one divided job.
func sharded(t *testing.T, c *swtest.Cluster, n int, job singleworker.Job, h singleworker.Handler) ([]*swtest.Instance, *completions) {
	t.Helper()
	cs := &completions{}
	setup := swtest.Setup{Handlers: map[string]singleworker.Handler{job.Name: h}, Configure: cs.hook}
	if err := c.Submit(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	var instances []*swtest.Instance
	for k := range n {
		instances = append(instances, c.Start(fmt.Sprintf("i%d", k), setup))
	}
	time.Sleep(settled)
	return instances, cs
}

// reshard changes the shards of a job, as an operator does.
func reshard(t *testing.T, c *swtest.Cluster, name string, shards int) {
	t.Helper()
	if err := c.Operate(t.Context(), func(client *admin.Client) error {
		_, err := client.Edit(t.Context(), name, func(j *job.Job) error {
			j.Shards = shards
			return nil
		}, admin.EditOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// wantWholeTicks verifies of a divided job's runs that each tick was run under one number of
// shards, by every shard, successfully once, or not at all for one of the reasons given; and that
// no two runs overlapped that had different numbers. It returns the numbers that there were, by
// tick.
func wantWholeTicks(t *testing.T, c *swtest.Cluster, complete *completions, from time.Time, skipped ...history.Reason) map[time.Time]int {
	t.Helper()
	totals := make(map[time.Time]int)
	ok := make(map[time.Time]map[int]int)
	runs := c.Runs()
	for i, r := range runs {
		if r.Manual {
			continue
		}
		if total, seen := totals[r.Tick]; seen && total != r.Shard.Total {
			t.Errorf("tick %v was run with %d shards and with %d", r.Tick, total, r.Shard.Total)
		}
		totals[r.Tick] = r.Shard.Total
		if ok[r.Tick] == nil {
			ok[r.Tick] = make(map[int]int)
		}
		if r.Err == nil && !r.Ended.IsZero() {
			ok[r.Tick][r.Shard.Index]++
		}
		for _, other := range runs[:i] {
			if other.Shard.Total != r.Shard.Total && other.End().After(r.Started) {
				t.Errorf("a run with %d shards lasts from %v to %v, and one with %d begins at %v",
					other.Shard.Total, other.Started, other.End(), r.Shard.Total, r.Started)
			}
		}
	}
	for tick, total := range totals {
		for shard := range total {
			n := ok[tick][shard]
			if n == 0 && len(skipped) > 0 && total > 1 && slices.Contains(skipped, complete.of(t, tick).Shards[shard].Reason) {
				continue
			}
			if n != 1 && tick.After(from) {
				t.Errorf("tick %v: shard %d of %d succeeded %d times", tick, shard, total, n)
			}
		}
		if tick.After(from) && total > 1 {
			if result := complete.of(t, tick); len(result.Shards) != total {
				t.Errorf("tick %v with %d shards was reported with %d", tick, total, len(result.Shards))
			}
		}
	}
	return totals
}

func TestEveryShardRunsEachTickOnce(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		start := time.Now()
		_, complete := sharded(t, c, 3, singleworker.Job{
			Name: "rows", Schedule: "*/5 * * * * ?", Shards: 6, ShardParameters: map[int]string{0: "Beijing", 5: "Shanghai"},
		}, working(time.Second))
		if got, want := c.Shares(), map[string]int{"i0": 2, "i1": 2, "i2": 2}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		time.Sleep(time.Minute)
		if ticks := wantWholeTicks(t, c, complete, start); len(ticks) < 12 {
			t.Errorf("%d ticks were run", len(ticks))
		}
		for _, r := range c.Runs() {
			if want := map[int]string{0: "Beijing", 5: "Shanghai"}[r.Shard.Index]; r.Job != "rows" || r.Shard.Total != 6 || r.Shard.Parameter != want {
				t.Errorf("a run of %s with %+v", r.Job, r.Shard)
			}
		}
		last := complete.list[len(complete.list)-1]
		for i, e := range last.Shards {
			if e.State != history.StateOK || e.InstanceID == "" {
				t.Errorf("outcome of shard %d: %+v", i, e)
			}
		}
	})
}

// An instance is killed in mid-tick: its shards, and no others, are run again elsewhere, and the
// tick is complete when they are done.
func TestShardsOfAKilledInstanceAreRunAgain(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		instances, complete := sharded(t, c, 3, singleworker.Job{Name: "rows", Schedule: "0 * * * * ?", Shards: 6}, working(20*time.Second))
		tick := time.Now().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(tick) + 10*time.Second)
		var lost []string
		for slot, sid := range c.Owners() {
			if sid == "i1" {
				lost = append(lost, slot)
			}
		}
		instances[1].Kill()
		time.Sleep(45 * time.Second)
		result := complete.of(t, tick)
		for i, e := range result.Shards {
			attempt := 1
			if slices.Contains(lost, fmt.Sprintf("rows[%d]", i)) {
				attempt = 2
			}
			if e.State != history.StateOK || e.Attempt != attempt || attempt == 2 && e.InstanceID == "i1" {
				t.Errorf("shard %d: %+v, want attempt %d", i, e, attempt)
			}
		}
		wantWholeTicks(t, c, complete, tick.Add(-time.Second))
	})
}

// One shard fails: it is retried alone.
func TestFailedShardIsRetriedAlone(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		_, complete := sharded(t, c, 2, singleworker.Job{
			Name: "rows", Schedule: "0 * * * * ?", Shards: 4, Retries: 1,
		}, func(_ context.Context, run *singleworker.Run) error {
			if run.Shard.Index == 2 && run.Attempt == 1 {
				return errors.New("boom")
			}
			return nil
		})
		time.Sleep(2 * time.Minute)
		for tick := range wantWholeTicks(t, c, complete, time.Time{}) {
			for i, e := range complete.of(t, tick).Shards {
				if want := 1 + i/2%2*(1-i%2); e.Attempt != want || e.State != history.StateOK {
					t.Errorf("tick %v, shard %d: %+v, want attempt %d", tick, i, e, want)
				}
			}
		}
	})
}

// The number of shards changes in mid-tick, again and again: a tick is run under one number by all,
// and no two numbers at once; removed shards leave nothing behind.
func TestShardsChangeInMidTick(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		start := time.Now()
		_, complete := sharded(t, c, 3, singleworker.Job{Name: "rows", Schedule: "*/10 * * * * ?", Shards: 3}, working(4*time.Second))
		for _, n := range []int{5, 2, 1, 7} {
			time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(12 * time.Second))) // in mid-run
			reshard(t, c, "rows", n)
			time.Sleep(20 * time.Second)
			if got := len(c.Owners()); got != n {
				t.Errorf("20 s after the change to %d shards %d are owned", n, got)
			}
			c.View(func(m *swtest.Model) {
				if got := len(m.Shards("rows")); got != n {
					t.Errorf("the nodes of %d shards are there, want %d", got, n)
				}
			})
		}
		time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(15 * time.Second))) // no run is in progress
		numbers := make(map[int]bool)
		for _, n := range wantWholeTicks(t, c, complete, start) {
			numbers[n] = true
		}
		if len(numbers) != 5 {
			t.Errorf("ticks were run with %v shards", numbers)
		}
		for tick := start.Truncate(10 * time.Second).Add(20 * time.Second); time.Since(tick) > 0; tick = tick.Add(10 * time.Second) {
			if !slices.ContainsFunc(c.Runs(), func(r swtest.Run) bool { return r.Tick.Equal(tick) }) {
				t.Errorf("the tick %v was not run", tick)
			}
		}
	})
}

// As many shards as there may be.
func TestOneThousandShards(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		each := simkit.Share(256)
		start := time.Now()
		_, complete := sharded(t, c, 4, singleworker.Job{Name: "rows", Schedule: "0 * * * * ?", Shards: 4 * each}, working(10*time.Second))
		if got, want := c.Shares(), map[string]int{"i0": each, "i1": each, "i2": each, "i3": each}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		time.Sleep(time.Until(start.Truncate(time.Minute).Add(75 * time.Second)))
		if ticks := wantWholeTicks(t, c, complete, start); len(ticks) != 1 {
			t.Errorf("ticks %v, want one", ticks)
		}
	})
}

// Two instances whose code declares different numbers: the one that joined last is right, and no
// tick is run half in one way and half in the other.
func TestDeclarationsThatDiffer(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		start := time.Now()
		complete := &completions{}
		declares := func(shards int) swtest.Setup {
			return swtest.Setup{
				Handlers:  map[string]singleworker.Handler{"rows": working(3 * time.Second)},
				Jobs:      []singleworker.Job{{Name: "rows", Schedule: "*/10 * * * * ?", Shards: shards}},
				Configure: complete.hook,
			}
		}
		c.Start("a", declares(3))
		for _, other := range []struct {
			sid    string
			shards int
		}{{"b", 5}, {"c", 0}, {"d", 2}} {
			time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(21 * time.Second)))
			c.Start(other.sid, declares(other.shards))
			time.Sleep(20 * time.Second)
			if got := len(c.Owners()); got != max(1, other.shards) {
				t.Errorf("%s declared %d shards, %d slots are owned", other.sid, other.shards, got)
			}
		}
		time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(15 * time.Second)))
		numbers := make(map[int]bool)
		for _, n := range wantWholeTicks(t, c, complete, start) {
			numbers[n] = true
		}
		if want := map[int]bool{3: true, 5: true, 1: true, 2: true}; !maps.Equal(numbers, want) {
			t.Errorf("ticks were run with %v shards, want %v", numbers, want)
		}
		// A job that is not divided is a slot itself, and none when it is divided again.
		c.View(func(m *swtest.Model) {
			if j := m.Jobs["rows"]; j.Owner.SID != "" || len(j.Beats) != 0 {
				t.Errorf("the job's own slot is left: %+v", j)
			}
		})
	})
}

// Ticks that came while no instance was running belong to the number of shards that there is when
// one starts.
func TestShardsChangeWithoutInstances(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		start := time.Now()
		instances, complete := sharded(t, c, 2, singleworker.Job{Name: "rows", Schedule: "0 * * * * ?", Shards: 2}, working(time.Second))
		time.Sleep(2 * time.Minute)
		setup := instances[0].Setup()
		for _, i := range instances {
			if err := i.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(90 * time.Second)
		reshard(t, c, "rows", 4)
		time.Sleep(5 * time.Minute)
		c.Start("late", setup)
		time.Sleep(time.Minute)
		ticks := wantWholeTicks(t, c, complete, start)
		missed := time.Now().UTC().Truncate(time.Minute).Add(-time.Minute)
		if ticks[missed] != 4 {
			t.Errorf("the latest tick that was missed, %v, was run with %d shards, want 4; all: %v", missed, ticks[missed], ticks)
		}
	})
}

// A job is made undivided: nothing is left of its shards. A node that a request has left where the
// job is to be a slot does not stop that.
func TestUndividedJobLeavesNoShards(t *testing.T) {
	slow(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		rows := singleworker.Job{Name: "rows", Schedule: "*/10 * * * * ?", Shards: 3}
		_, complete := sharded(t, c, 2, rows, working(time.Second))
		conn, err := zkconn.Open(zkconn.Config{
			Servers: "zkdev:2181", SessionTimeout: 10 * time.Second, Dial: c.Server.Dial, Logger: slog.New(slog.DiscardHandler),
		}, func(zkconn.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Multi(t.Context(), zkconn.CreateOp(c.Tree().Requests("rows"), nil)); err != nil {
			t.Fatal(err)
		}
		if err := c.Operate(t.Context(), func(client *admin.Client) error {
			_, err := client.Submit(t.Context(), job.Job{Name: "rows", Schedule: rows.Schedule}, admin.SubmitOptions{Replace: true})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Second)
		c.View(func(m *swtest.Model) {
			if owner, left := m.LiveOwner("rows"), m.Shards("rows"); owner == "" || len(left) > 0 {
				t.Errorf("it is owned by %q, and the nodes of %d shards are left", owner, len(left))
			}
		})
		wantWholeTicks(t, c, complete, time.Now())
	})
}

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// shardOwners counts the shards that each instance owns; there must be n, and no resharding in
// progress.
func (c *cluster) shardOwners(job string, shards int) (map[string]int, error) {
	ctx, cancel := contextFor(c.t, patience)
	defer cancel()
	status, err := c.admin.Get(ctx, job)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int)
	for _, s := range status.Slots {
		if s.State == admin.StateOwned {
			counts[s.Owner.InstanceID]++
		}
	}
	if len(status.Slots) != shards || status.State != admin.StateOwned || status.Resizing != nil {
		return counts, fmt.Errorf("%d shards, owned by %v, %s, resizing: %v", len(status.Slots), counts, status.State, status.Resizing)
	}
	return counts, nil
}

func (c *cluster) awaitShards(job string, shards, instances int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%d shards on %d instances", shards, instances), func() error {
		counts, err := c.shardOwners(job, shards)
		for sid, n := range counts {
			if err == nil && (len(counts) != min(shards, instances) || n > (shards+instances-1)/instances) {
				err = fmt.Errorf("%s owns %d of %v", sid, n, counts)
			}
		}
		return err
	})
}

// A job with shards on three processes: the shards spread, one process is killed, and the job is
// resharded up and down during runs. Every tick runs with one number of shards, in all of them, and
// is reported once when they are done.
func TestShards(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	ctl := c.swctl(buildSwctl(t))
	ctl.run(exitOK, "submit", "rows", everySecond, "--handler", work, "--arg", "for=300ms", "--shards", "6", "--shard-param", "0=Beijing")
	children := []*child{c.spawn(options{}), c.spawn(options{}), c.spawn(options{})}
	c.awaitShards("rows", 6, 3)
	if show := ctl.run(exitOK, "show", "rows[0]"); !strings.Contains(show.stdout, "Beijing") {
		t.Errorf("show rows[0] says nothing of its parameter:\n%s", show.stdout)
	}

	at := children[1].kill()
	c.awaitShards("rows", 6, 2)
	t.Logf("FIGURE kill -9 to all shards of a job owned elsewhere: %v (session %v)", time.Since(at).Round(time.Millisecond), session)
	for _, shards := range []int{4, 9, 1} {
		at := time.Now()
		args := []string{"set", "rows", "--shards", strconv.Itoa(shards)}
		if shards == 4 {
			args = append(args, "--shard-param", "3=Shanghai")
		}
		if shards == 1 {
			args = append(args, "--shard-param", "3=")
		}
		ctl.run(exitOK, args...)
		c.awaitShards("rows", shards, 2)
		t.Logf("FIGURE a job of runs of 300 ms, to %d shards: %v", shards, time.Since(at).Round(time.Millisecond))
		begun := time.Now()
		c.eventually("two complete ticks", func() error {
			n := 0
			for _, e := range c.entries() {
				if e.Event == tickComplete && e.At.After(begun) && e.Shards == shards {
					n++
				}
			}
			if n < 2 {
				return fmt.Errorf("%d ticks of %d shards are complete", n, shards)
			}
			return nil
		})
	}
	ctl.run(exitOK, "trigger", "rows", "--wait")
	ctl.run(exitNotFound, "show", "rows[1]")
	c.stopAll()
	wholeTicks(t, c.entries())
}

// wholeTicks checks that each tick ran with one number of shards, that runs with different numbers
// did not overlap, and that a tick was reported at most once, after each shard had run it.
func wholeTicks(t *testing.T, entries []entry) {
	t.Helper()
	numbers := make(map[int64]int)
	ran := make(map[string]bool)
	runs := runsOf(entries)
	for i, r := range runs {
		tick := r.Tick.UnixMilli()
		if n, seen := numbers[tick]; seen && n != r.Shards && !r.Manual {
			t.Errorf("a tick with %d shards: %v", n, r)
		}
		if !r.Manual {
			numbers[tick] = r.Shards
			ran[fmt.Sprint(r.Job, tick)] = true
		}
		for _, other := range runs[:i] {
			if other.Shards != r.Shards && workEnd(other, entries).After(r.At) {
				t.Errorf("%v, with %d shards, and %v, with %d", other, other.Shards, r, r.Shards)
			}
		}
	}
	told := make(map[int64]bool)
	for _, e := range entries {
		if e.Event != tickComplete {
			continue
		}
		tick := e.Tick.UnixMilli()
		if told[tick] || numbers[tick] != e.Shards {
			t.Errorf("tick %s was told of as complete with %d shards, again: %v; it has %d", clock(e.Tick), e.Shards, told[tick], numbers[tick])
		}
		told[tick] = true
	}
	if len(told) < 6 {
		t.Errorf("%d ticks were told of as complete", len(told))
	}
	t.Logf("FIGURE %d ticks in %d runs; %d complete", len(numbers), len(ran), len(told))
}

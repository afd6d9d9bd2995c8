package lease_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// spread is the final distribution of slots: the shards of job x are x0, x1 and so on.
type spread struct {
	name  string
	slots string // one word per job with shards: "3x 2y 4" means x0 x1 x2, y0 y1, and 4 jobs
	story func(c *company)
	syncs int
	want  string
	takes int // changes of owner
}

// TestSpread: how the shards of a job are distributed.
func TestSpread(t *testing.T) {
	t.Parallel()
	for _, tt := range []spread{
		{"3 at once: a shard each", "3x", func(c *company) { c.joinAll("a", "b", "c") }, 0, "a: x1; b: x1; c: x1; free 0", 3},
		{"more shards than instances", "5x", func(c *company) { c.joinAll("a", "b", "c") }, 0, "a: x1; b: x2; c: x2; free 0", 5},
		{"shards first, then what is alone", "2x 2y 2", func(c *company) { c.joinAll("a", "b") }, 0, "a: x1 y1 -1; b: x1 y1 -1; free 0", 6},
		{"a newcomer gets a shard of each job, and no more", "2x 2y 2z", func(c *company) {
			c.joinAll("a")
			c.settle(2)
			c.joinAll("b")
		}, 3, "a: x1 y1 z1; b: x1 y1 z1; free 0", 3},
		{"what is alone makes up for the shards", "2x 2y 4", func(c *company) {
			c.joinAll("a", "b")
			c.ownAll("a", "x0 x1 y0 y1")
			c.ownAll("b", "job0 job1 job2 job3")
		}, 3, "a: x1 y1 -2; b: x1 y1 -2; free 0", 4},
		{"a job for which there are too few shards moves for the sake of all", "2x 2y 2z", func(c *company) {
			c.joinAll("a", "b", "c")
			c.ownAll("a", "x0 y0 z0")
			c.ownAll("b", "x1 y1 z1")
		}, 3, "a: y1 z1; b: x1 z1; c: x1 y1; free 0", 2},
		{"by weight", "4x 4", func(c *company) {
			c.weights["a"] = 3
			c.joinAll("a", "b")
		}, 3, "a: x3 -3; b: x1 -1; free 0", 8},
		{"by weight, of those that can", "4x 4", func(c *company) {
			c.weights["c"] = 3
			c.joinAll("a", "b")
			c.join("c", 0, 4, 5, 6, 7)
		}, 3, "a: x2; b: x2; c: -4; free 0", -1},
		{"only two can", "4x 4", func(c *company) {
			c.joinAll("a", "b")
			c.join("c", 0, 4, 5, 6, 7)
		}, 3, "a: x2 -1; b: x2 -1; c: -2; free 0", -1},
		{"MaxSlots: the others have more", "6x", func(c *company) {
			c.joinAll("a", "b")
			c.join("c", 1)
		}, 3, "a: x3; b: x2; c: x1; free 0", -1},
		{"MaxSlots: who is full of others gets no shard", "2x 2", func(c *company) {
			c.joinAll("a")
			c.join("b", 2)
			c.ownAll("a", "x0 x1")
			c.ownAll("b", "job0 job1")
		}, 3, "a: x2; b: -2; free 0", 0},
		{"MaxSlots: no job waits for the shards of another", "9x 2", func(c *company) { c.join("a", 3) }, 3, "a: x1 -2; free 8", 3},
		{"one dies: its shards move to instances without any", "2x 2y 2z", func(c *company) {
			c.joinAll("a", "b", "c")
			c.ownAll("a", "x0 y0")
			c.ownAll("b", "x1 z0")
			c.ownAll("c", "y1 z1")
			c.settle(1)
			c.die("b")
		}, 0, "a: x1 y1 z1; c: x1 y1 z1; free 0", 2},
		{"one drains: to whom has no shard of the job, however many others", "2x 3", func(c *company) {
			c.joinAll("a", "b", "c")
			c.ownAll("a", "x0")
			c.ownAll("b", "x1")
			c.ownAll("c", "job0 job1 job2")
			c.setBusy("job0", true)
			c.setBusy("job1", true)
			c.setBusy("job2", true)
			c.settle(1)
			c.drain("a")
		}, 1, "a: ; b: x1; c: x1 -3; free 0", 1},
		{"a shard that runs stays, and another moves", "3x", func(c *company) {
			c.joinAll("a", "b")
			c.ownAll("a", "x0 x1 x2")
			c.setBusy("x0", true)
			c.setBusy("x1", true)
		}, 3, "a: x2; b: x1; free 0", 1},
		{"all that run stay, also when one is due", "3x", func(c *company) {
			c.joinAll("a", "b")
			c.ownAll("a", "x0 x1 x2")
			c.setBusy("x0", true)
			c.setBusy("x1", true)
			c.soon["x2"] = true
		}, 3, "a: x3; b: ; free 0", 0},
		{"a job becomes a sharded one", "0x 4", func(c *company) {
			c.joinAll("a", "b")
			c.ownAll("a", "job0 job1")
			c.ownAll("b", "job2 job3")
			c.settle(1)
			c.group["job0"], c.group["job1"] = "x", "x"
			for _, sid := range c.sids {
				for _, slot := range c.names[:2] {
					c.send(sid, lease.SlotSet{Slot: slot, Eligible: true, Able: c.able[slot], Group: "x"})
				}
			}
		}, 3, "a: x1 -1; b: x1 -1; free 0", 2},
	} {
		t.Run(tt.name, func(t *testing.T) { t.Parallel(); tt.run(t) })
	}
}

func (tt spread) run(t *testing.T) {
	t.Helper()
	c := newCompany(0)
	for word := range strings.FieldsSeq(tt.slots) {
		n, job := 0, ""
		_, _ = fmt.Sscanf(word, "%d%s", &n, &job)
		for k := range n {
			slot := lease.Slot(fmt.Sprintf("%s%d", job, k))
			if job == "" {
				slot = lease.Slot(fmt.Sprintf("job%d", k))
			} else {
				c.group[slot] = job
			}
			c.names = append(c.names, slot)
			c.slots[slot] = lease.Record{Exists: true}
		}
	}
	tt.story(c)
	before := c.takes
	c.settle(tt.syncs)
	if got := c.spread(); got != tt.want {
		t.Errorf("got %s, want %s", got, tt.want)
	}
	if got := c.takes - before; got != tt.takes && tt.takes >= 0 {
		t.Errorf("%d changes of owner, want %d", got, tt.takes)
	}
	settled := c.takes
	if c.settle(20); c.takes != settled || c.broken != "" {
		t.Errorf("%d more changes of owner afterwards: %s %s", c.takes-settled, c.spread(), c.broken)
	}
}

func (c *company) joinAll(sids ...string) {
	for _, sid := range sids {
		c.join(sid, 0)
	}
}

func (c *company) ownAll(sid, slots string) {
	for slot := range strings.FieldsSeq(slots) {
		c.own(lease.Slot(slot), sid)
	}
}

// spread returns how many shards of each job each instance owns, and how many slots without a
// group.
func (c *company) spread() string {
	var out strings.Builder
	free := len(c.names)
	jobs := []string{}
	for _, slot := range c.names {
		jobs = append(jobs, c.group[slot])
	}
	slices.Sort(jobs)
	jobs = slices.Compact(jobs)
	slices.SortStableFunc(jobs, func(a, b string) int { return one(a == "") - one(b == "") })
	for _, sid := range c.sids {
		fmt.Fprintf(&out, "%s:", sid)
		for _, job := range jobs {
			n := 0
			for _, slot := range c.names {
				n += one(c.group[slot] == job && c.slots[slot].Owner.SID == sid)
			}
			free -= n
			if n > 0 && job == "" {
				job = "-"
			}
			if n > 0 {
				fmt.Fprintf(&out, " %s%d", job, n)
			}
		}
		out.WriteString("; ")
	}
	return strings.ReplaceAll(out.String(), ":;", ": ;") + fmt.Sprintf("free %d", free)
}

// TestShardedAvalanche: five of six instances with shards die at once, and the last one takes slots
// of every job, up to its limit.
func TestShardedAvalanche(t *testing.T) {
	t.Parallel()
	c := newCompany(60)
	for k, slot := range c.names {
		c.group[slot] = fmt.Sprintf("g%d", k%10)
	}
	for k := range 6 {
		c.join(fmt.Sprintf("i%d", k), 25)
	}
	c.settle(3)
	for k := range 5 {
		c.die(fmt.Sprintf("i%d", k))
	}
	c.settle(5)
	if got := c.counts(); got != "i5=25 free=35" {
		t.Errorf("%s, want its limit of 25", got)
	}
	for job, slots := range c.shards() {
		n := 0
		for _, slot := range slots {
			n += one(c.slots[slot].Owner.SID == "i5")
		}
		if n < 2 || n > 3 {
			t.Errorf("%d shards of %s, want 2 or 3 of each job", n, job)
		}
	}
}

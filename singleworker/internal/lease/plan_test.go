package lease_test

import (
	"fmt"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// TestPatience: a slot on offer to somebody else is left alone for as long as that one may need.
func TestPatience(t *testing.T) {
	t.Parallel()
	for name, sc := range map[string]script{
		"somebody else's: left alone for a sync period": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, offered("b", record(3, 90, "")), "group"},
			{0, 0, group("b"), ""},
			{sec(10), 0, lookAll, "read s"},
			{sec(10), 0, offered("b", record(3, 90, "")), "group"},
			{sec(10), 0, group("b"), ""},
			{sec(10.1), 0, lookAll, "read s"},
			{sec(10.1), 0, offered("b", record(3, 90, "")), "group"},
			{sec(10.1), 0, group("b"), "lives b"}, // late?
			{sec(10.1), 0, gave("b", 97), "group"},
			{sec(10.1), 0, group("b"), ""},
			{sec(20.2), 0, lookAll, "read s"},
			{sec(20.2), 0, offered("b", record(3, 90, "")), "group"},
			{sec(20.2), 0, group("b"), "lives b"},
			{sec(20.2), 0, gave("b", 97), "group"}, // no other one since: it hangs
			{sec(20.2), 0, group("b"), "read s"},
			{sec(20.2), 0, offered("b", record(3, 90, "")), "group"},
			{sec(20.2), 0, group("b"), "take s v3"},
		}},
		"somebody else's who is late: left alone for eight sync periods": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, offered("b", record(3, 90, "")), "group"},
			{0, 0, group("b"), ""},
			{sec(80), 0, lookAll, "read s"},
			{sec(80), 0, offered("b", record(3, 90, "")), "group"},
			{sec(80), 0, group("b"), "lives b"},
			{sec(80), 0, gave("b", 97), "group"},
			{sec(80), 0, group("b"), ""},
			{sec(80.1), 0, lookAll, "read s"},
			{sec(80.1), 0, offered("b", record(3, 90, "")), "group"},
			{sec(80.1), 0, group("b"), "take s v3; lives b"},
		}},
		"somebody else's who gives no signs of life: left alone for a sync period": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, offered("b", record(3, 90, "")), "group"},
			{0, 0, group("b"), ""},
			{sec(10.1), 0, lookAll, "read s"},
			{sec(10.1), 0, offered("b", record(3, 90, "")), "group"},
			{sec(10.1), 0, group("b"), "lives b"},
			{sec(10.1), 0, gave("b", 0), "group"},
			{sec(10.1), 0, group("b"), "read s"}, // once more, because it is taken as it was read in the same round
			{sec(10.1), 0, offered("b", record(3, 90, "")), "group"},
			{sec(10.1), 0, group("b"), "take s v3"},
		}},
		"somebody else's, and the session is shorter than the sync period": {able: []string{"b"}, lines: []line{
			{0, 0, lease.Opened{Session: sec(4), SyncPeriod: sec(4)}, "read s"},
			{0, 0, offered("b", record(3, 90, "")), "group"},
			{0, 0, group("b"), ""},
			{sec(4.1), 0, lookAll, "read s"},
			{sec(4.1), 0, offered("b", record(3, 90, "")), "group"},
			{sec(4.1), 0, group("b"), "lives b"},
			{sec(4.1), 0, gave("b", 0), "group"},
			{sec(4.1), 0, group("b"), "read s"},
			{sec(4.1), 0, offered("b", record(3, 90, "")), "group"},
			{sec(4.1), 0, group("b"), "take s v3"},
		}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestOffers: which instance offers slots, and which takes them.
func TestOffers(t *testing.T) {
	t.Parallel()
	for name, sc := range map[string]script{
		"somebody else's who is gone: taken at once": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, offered("b", record(3, 90, "")), "group"},
			{0, 0, group(), "take s v3"},
		}},
		"somebody else's who has no handler: taken at once": {lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, offered("b", record(3, 90, "")), "group"},
			{0, 0, group("b"), "take s v3"},
		}},
		"drain: offered to who can run it, and left": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Drain{}, "lost s: given; release s v4 to b; group"},
			line{sec(0.6), 0, group("b", "c"), ""},
			line{sec(0.7), 0, lease.ReleaseDone{Slot: s, Outcome: lease.Done}, "read s"},
			line{sec(0.8), 0, offered("b", record(5, 110, "")), "group"},
			line{sec(0.8), 0, group("b"), ""},
		)},
		// Refused while the group is being read: without a reading it would be refused forever.
		"drain: what is refused is read before it is tried again": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Drain{}, "lost s: given; release s v4 to b; group"},
			line{sec(0.7), 0, lease.ReleaseDone{Slot: s, Outcome: lease.Refused}, ""},
			line{sec(0.7), 0, group("b"), "read s"},
			line{sec(0.8), 0, record(5, 110, "b", beat("b", 0)), "group"},
			line{sec(0.8), 0, group("b"), ""},
		)},
		"drain: what had no answer, likewise": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Drain{}, "lost s: given; release s v4 to b; group"},
			line{sec(0.7), 0, lease.ReleaseDone{Slot: s}, ""},
			line{sec(0.7), 0, group("b"), "read s"},
			line{sec(0.8), 0, record(4, 100, "me", beat("me", 0)), "group"},
			line{sec(0.8), 0, group("b"), "release s v4 to b"},
		)},
		"drain: a busy slot waits for its run to end": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Busy{Slot: s, Busy: true}, ""},
			line{sec(0.6), 0, lease.Drain{}, "group"},
			line{sec(0.6), 0, group("b"), ""},
			line{sec(1), 0, tick, "beat s:0"},
			line{sec(1.2), 0, lease.Busy{Slot: s}, "lost s: given; release s v4 to b"},
		)},
		"drain: nobody to offer it to": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.LookGroup{}, "group"},
			line{sec(0.6), 0, group("c"), ""},
			line{sec(0.6), 0, lease.Drain{}, "lost s: given; release s v4; group"},
			line{sec(0.6), 0, group("c"), ""},
		)},
		"drain, and then no more: what is free is taken": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.LookGroup{}, "group"},
			line{sec(0.6), 0, group("c"), ""},
			line{sec(0.6), 0, lease.Drain{}, "lost s: given; release s v4; group"},
			line{sec(0.6), 0, group("c"), ""},
			line{sec(0.7), 0, lease.ReleaseDone{Slot: s, Outcome: lease.Done}, "read s"},
			line{sec(0.8), 0, record(5, 110, ""), "group"},
			line{sec(0.8), 0, group("c"), ""},
			line{sec(9), 0, lease.Undrain{}, "group"},
			line{sec(9), 0, group("c"), "read s"},
			line{sec(9), 0, record(5, 110, ""), "group"},
			line{sec(9), 0, group("c"), "take s v5"},
		)},
		"drain, and then no more, while a busy slot waits: it is kept": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Busy{Slot: s, Busy: true}, ""},
			line{sec(0.6), 0, lease.Drain{}, "group"},
			line{sec(0.6), 0, group("b"), ""},
			line{sec(0.7), 0, lease.Undrain{}, "group"},
			line{sec(0.7), 0, group("b"), ""},
			line{sec(0.8), 0, lease.Busy{Slot: s}, ""},
		)},
		"drain: what a late take brought is given back too": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, ""), "group"},
			{0, 0, group("b"), "take s v3"},
			{0, 0, lease.Drain{}, "group"},
			{0, 0, group("b"), ""},
			{0, 0, took(4, 100, 0), "gained s #100 v4 until 3s; group"},
			{0, 0, group("b"), "lost s: given; release s v4 to b"},
		}},
		"unknown release, applied": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Drain{}, "lost s: given; release s v4 to b; group"},
			line{sec(0.6), 0, group("b"), ""},
			line{sec(0.7), 0, lease.ReleaseDone{Slot: s}, "read s"},
			line{sec(0.8), 0, offered("b", record(5, 110, "")), "group"},
		)},
		"unknown release, not applied: released again, never run again": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Drain{}, "lost s: given; release s v4 to b; group"},
			line{sec(0.6), 0, group("b"), ""},
			line{sec(0.7), 0, lease.ReleaseDone{Slot: s}, "read s"},
			line{sec(0.8), 0, record(4, 100, "me", beat("me", 0)), "group"},
			line{sec(0.8), 0, group("b"), "release s v4 to b"},
		)},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestWhoCanRun: what follows when an instance can run a slot, or no longer can.
func TestWhoCanRun(t *testing.T) {
	t.Parallel()
	for name, sc := range map[string]script{
		"the handler is gone: given back when idle": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Busy{Slot: s, Busy: true}, ""},
			line{sec(0.6), 0, slotSet("b"), "group"},
			line{sec(0.6), 0, group("b"), ""},
			line{sec(0.7), 0, lease.Busy{Slot: s}, "group"},
			line{sec(0.7), 0, group("b"), "lost s: given; release s v4"},
		)},
		"no handler: never taken": {able: []string{"b"}, lines: []line{
			{0, 0, slotSet("b"), ""},
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, ""), "group"},
			{0, 0, group(), ""},
		}},
		"another instance registers: the shares may have changed": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, slotSet("me", "b", "c"), "group"},
		)},
		"the handler is gone: given back, although the registrations are unchanged": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.SlotSet{Slot: s, Able: []string{"me", "b"}}, "group"},
			line{sec(0.6), 0, group("b"), "lost s: given; release s v4"},
		)},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestOffersToMe: slots offered to this instance.
func TestOffersToMe(t *testing.T) {
	t.Parallel()
	for name, sc := range map[string]script{
		"mine: taken beyond the share, without a look at the others": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, offered("me", record(3, 90, "")), "take s v3; group"},
			{sec(0.1), 0, group("b"), ""},
			{sec(0.2), 0, took(4, 100, 0), "gained s #100 v4 until 3s"},
		}},
		"mine, and somebody's heartbeat is there: he is respected": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, offered("me", record(3, 90, "", beat("x", 0))), "group"},
			{0, 0, group("b"), ""},
		}},
		"mine, no longer connected: taken when it is again": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, lease.Suspended{}, ""},
			{0, 0, offered("me", record(3, 90, "")), ""},
			{sec(1), 0, opened, "read s"},
			{sec(1), 0, offered("me", record(3, 90, "")), "take s v3; group"},
		}},
		"mine, but I drain: left": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, lease.Drain{}, ""},
			{0, 0, offered("me", record(3, 90, "")), "group"},
			{0, 0, group("b"), "group"}, // for the drain, which started after the round
			{0, 0, group("b"), ""},
		}},
		"mine, and I have no room: left": {able: []string{"b"}, config: lease.Config{MaxSlots: 1}, lines: []line{
			{0, 0, lease.SlotSet{Slot: "t", Eligible: true, Able: []string{"me"}}, ""},
			{0, 0, opened, "read s; read t"},
			{0, 0, lease.SlotRead{Slot: "t", Outcome: lease.Done, Record: lease.Record{Exists: true}}, ""},
			{0, 0, record(3, 90, "b", beat("b", 0)), "group"},
			{0, 0, group("b"), "take t v0"},
			{0, 0, lease.Look{Slot: s}, "read s"},
			{0, 0, offered("me", record(4, 95, "")), "group"},
			{0, 0, group("b"), ""},
		}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestShares: how many slots each instance finally owns, and how many changes of
// owner that took: as few as possible.
func TestShares(t *testing.T) {
	t.Parallel()
	join := func(c *company, sids ...string) {
		for _, sid := range sids {
			c.join(sid, 0)
		}
	}
	for _, tt := range []share{
		{"9 jobs, 3 at once: 9 / 3 = 3 each", 9, func(c *company) { join(c, "a", "b", "c") }, 0, "a=3 b=3 c=3 free=0", 9},
		{"10 jobs, 3 at once: one of them takes 4", 10, func(c *company) { join(c, "a", "b", "c") }, 0, "a=3 b=3 c=4 free=0", 10},
		{"alone: all", 9, func(c *company) { join(c, "a") }, 0, "a=9 free=0", 9},
		{"more instances than jobs", 2, func(c *company) { join(c, "a", "b", "c") }, 0, "a=1 b=0 c=1 free=0", 2},
		{"2 join 1 with 9: 6 moves", 9, func(c *company) {
			join(c, "a")
			c.settle(2)
			join(c, "b", "c")
		}, 3, "a=3 b=3 c=3 free=0", 6},
		{"2 join 1 with 9, one after the other: 4 and 3 moves", 9, func(c *company) {
			join(c, "a")
			c.settle(2)
			join(c, "b")
			c.settle(3)
			join(c, "c")
		}, 3, "a=3 b=3 c=3 free=0", 3},
		{"1 joins 2 with 9: 3 moves", 9, func(c *company) {
			join(c, "a", "b")
			c.settle(2)
			join(c, "c")
		}, 3, "a=3 b=3 c=3 free=0", 3},
		{"1 joins 3 with 9: 2 moves", 9, func(c *company) {
			join(c, "a", "b", "c")
			c.settle(2)
			join(c, "d")
		}, 3, "a=2 b=2 c=3 d=2 free=0", 2},
		{"1 joins 4 with 4: no move", 4, func(c *company) {
			join(c, "a", "b", "c", "d")
			c.settle(2)
			join(c, "e")
		}, 3, "a=1 b=1 c=1 d=1 e=0 free=0", 0},
		{"1 of 3 with 9 dies: its 3 are taken, nothing else moves", 9, func(c *company) {
			join(c, "a", "b", "c")
			c.settle(2)
			c.die("b")
		}, 0, "a=4 c=5 free=0", 3},
		{"20 join 1 with 40: 38 moves", 40, func(c *company) {
			join(c, "a")
			c.settle(2)
			for k := range 19 {
				c.join(fmt.Sprintf("b%02d", k), 0)
			}
		}, 6, "", 38},
		{"MaxSlots: better a job waits", 9, func(c *company) {
			c.join("a", 2)
			c.join("b", 3)
		}, 5, "a=2 b=3 free=4", 5},
		{"MaxSlots: beyond the share what the other may not", 9, func(c *company) {
			c.join("a", 2)
			c.join("b", 0)
		}, 3, "a=2 b=7 free=0", 9},
		{"handlers differ: beyond the share what only one can run", 6, func(c *company) {
			c.join("a", 0, 0, 1)
			c.join("b", 0)
		}, 3, "a=2 b=4 free=0", -1},
		{"what an earlier incarnation left, and nobody can run, is not b's load", 3, func(c *company) {
			c.slots["job2"] = lease.Record{Exists: true, Version: 1, Owner: lease.Member{SID: "b", Incarnation: "b0"}}
			c.join("a", 0, 0, 1)
			c.settle(2)
			c.join("b", 0, 0, 1)
		}, 3, "a=1 b=2 free=0", 1},
		{"what was offered to b, and nobody can run any more, is not b's load", 6, func(c *company) {
			for _, slot := range []lease.Slot{"job4", "job5"} {
				c.slots[slot] = lease.Record{Exists: true, Version: 1, Offer: "b"}
			}
			c.join("a", 0, 0, 1, 2, 3)
			c.settle(2)
			c.join("b", 0, 0, 1, 2, 3)
		}, 3, "a=2 b=2 free=2", 2},
		{"handlers differ: no common one", 6, func(c *company) {
			c.join("a", 0, 0, 1, 2, 3)
			c.join("b", 0, 4, 5)
		}, 0, "a=4 b=2 free=0", 6},
	} {
		t.Run(tt.name, func(t *testing.T) { t.Parallel(); tt.run(t) })
	}
}

// TestDrains is TestShares for drains and undrains.
func TestDrains(t *testing.T) {
	t.Parallel()
	joined := func(c *company, sids ...string) {
		for _, sid := range sids {
			c.join(sid, 0)
		}
		c.settle(2)
	}
	for _, tt := range []share{
		{"1 of 3 with 9 drains: its 3 are handed over", 9, func(c *company) {
			joined(c, "a", "b", "c")
			c.drain("b")
		}, 0, "a=5 b=0 c=4 free=0", 3},
		{"1 of 3 with 9 drains, and then no more: it gets 3 back", 9, func(c *company) {
			joined(c, "a", "b", "c")
			c.drain("b")
			c.settle(2)
			c.undrain("b")
		}, 0, "a=3 b=3 c=3 free=0", 3},
		{"all drain: what nobody may have is free", 4, func(c *company) {
			joined(c, "a", "b")
			c.drain("a")
			c.drain("b")
		}, 0, "a=0 b=0 free=4", -1},
		{"all drain, and one no more", 4, func(c *company) {
			joined(c, "a", "b")
			c.drain("a")
			c.drain("b")
			c.settle(2)
			c.undrain("a")
		}, 0, "a=4 b=0 free=0", 4},
	} {
		t.Run(tt.name, func(t *testing.T) { t.Parallel(); tt.run(t) })
	}
}

// share is a sequence of events and its result.
type share struct {
	name  string
	jobs  int
	story func(c *company)
	syncs int // sync periods that it may take
	want  string
	takes int // changes of owner; -1: any number
}

func (tt share) run(t *testing.T) {
	t.Helper()
	c := newCompany(tt.jobs)
	tt.story(c)
	before := c.takes
	c.settle(tt.syncs)
	if got := c.counts(); got != tt.want && tt.want != "" {
		t.Errorf("got %s, want %s", got, tt.want)
	}
	if got := c.takes - before; got != tt.takes && tt.takes >= 0 {
		t.Errorf("%d changes of owner, want %d", got, tt.takes)
	}
	settled := c.takes
	if c.settle(20); c.takes != settled {
		t.Errorf("%d more changes of owner afterwards: %s", c.takes-settled, c.counts())
	}
}

// TestOrder shows that instances do not take the same slots first.
func TestOrder(t *testing.T) {
	t.Parallel()
	orders := make(map[string]string)
	for _, sid := range []string{"a", "b", "c"} {
		c := newCompany(9)
		c.join(sid, 0)
		var order []lease.Slot
		c.onTake = func(slot lease.Slot) { order = append(order, slot) }
		c.settle(0)
		if len(order) != 9 {
			t.Fatalf("%s took %d of 9", sid, len(order))
		}
		if twin, same := orders[fmt.Sprint(order)]; same {
			t.Errorf("%s and %s take in the same order %v", sid, twin, order)
		}
		orders[fmt.Sprint(order)] = sid
	}
}

// TestHungPeer shows that an instance that hangs while its session is alive is not
// offered slots repeatedly, each of which would wait for it.
func TestHungPeer(t *testing.T) {
	t.Parallel()
	c := newCompany(6)
	c.join("a", 0)
	c.join("b", 0)
	c.settle(2)
	c.hung = "b"
	c.settle(5)
	if got := c.counts(); got != "a=6 b=0 free=0" && got != "a=3 b=0 free=3" {
		t.Errorf("5 sync periods after b hung: %s", got)
	}
	before := c.takes
	c.settle(40)
	if moves := c.takes - before; moves > 6*40/8 {
		t.Errorf("%d changes of owner in 40 sync periods", moves)
	}
	c.hung = ""
	c.settle(12)
	if got := c.counts(); got != "a=3 b=3 free=0" {
		t.Errorf("12 sync periods after b resumed: %s", got)
	}
}

// TestSlotsOnOfferWillBeGiven: an instance that has not taken its offers yet will give from them as
// the others do, who therefore give no more than their part. In a group that starts under load each
// of them gave enough for all.
func TestSlotsOnOfferWillBeGiven(t *testing.T) {
	t.Parallel()
	c := newCompany(12)
	c.join("a", 0)
	c.settle(2)
	c.onOffer = func(_ lease.Slot, _, to string) {
		if to == "b" {
			c.hung = "b"
		}
	}
	c.join("b", 0)
	c.settle(0)
	c.join("c", 0)
	c.settle(0)
	if got, want := c.counts(), "a=4 b=0 c=2 free=6"; got != want {
		t.Errorf("before b takes its 6: %s, want %s", got, want)
	}
}

// TestOfferThatStood: an instance is offered nothing more when it has left an offer standing for
// half a sync period, also if two changes followed at once, and who made the first of them is not
// known.
func TestOfferThatStood(t *testing.T) {
	t.Parallel()
	back := func(stood float64, released string) script {
		look := lease.Look{Slot: s}
		standing := func() lease.SlotRead { return offered("b", record(5, 110, "")) }
		return script{able: []string{"b", "c"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, standing(), "group"},
			{0, 0, group("b", "c"), ""},
			{sec(stood), 0, look, "read s"},
			{sec(stood), 0, standing(), "group"},
			{sec(stood), 0, group("b", "c"), ""},
			{sec(9), 0, look, "read s"},
			{sec(9), 0, offered("me", record(7, 130, "")), "take s v7; group"},
			{sec(9), 0, group("b", "c"), ""},
			{sec(9), 0, took(8, 140, sec(9)), "gained s #140 v8 until 12s"},
			{sec(9), 0, lease.Drain{}, "lost s: given; release s v8 to " + released + "; group"},
		}}
	}
	for name, sc := range map[string]script{
		"seen standing after half a sync period":    back(6, "c"),
		"seen standing before, it may have been it": back(4, "b"),
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

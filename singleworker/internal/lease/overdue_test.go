package lease_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

var overdue = lease.Overdue{Slot: s}

// watched is the sequence in which "me" sees that b owns s, and lives.
func watched(more ...line) []line {
	return append([]line{
		{0, 0, opened, "read s"},
		{0, 0, record(3, 90, "b", beat("b", 0)), "group"},
		{0, 0, group("b"), ""},
	}, more...)
}

// read is the sequence in which s, which b owns, becomes overdue while "me" reads it.
func read(more ...line) []line {
	return watched(append([]line{
		{sec(1), 0, lease.Look{Slot: s}, "read s"},
		{sec(1), 0, overdue, ""},
	}, more...)...)
}

// relieved is the sequence in which "me" takes s from b because a run is overdue.
func relieved(more ...line) []line {
	return watched(append([]line{
		{sec(1), 0, overdue, "take s v3 relieving b overdue #90"},
		{sec(1.5), 0, took(4, 100, sec(1)), "gained s #100 v4 until 4s from b"},
	}, more...)...)
}

// seen is the sequence in which "me" joins after c has relieved an instance of s, and gets s from
// c.
func seen(relieved string, more ...line) []line {
	return append([]line{
		{sec(2), 0, opened, "read s"},
		{sec(2.1), 0, relieving(relieved, record(4, 100, "c", beat("c", 0))), "group"},
		{sec(2.1), 0, group("b", "c"), "lives " + relieved},
		{sec(2.1), 0, gave(relieved, 95), "group"},
		{sec(2.1), 0, group("b", "c"), ""},
		{sec(3), 0, lease.Look{Slot: s}, "read s"},
		{sec(3), 0, offered("me", record(5, 110, "")), "take s v5; group"},
		{sec(3), 0, group("b", "c"), ""},
		{sec(80), 0, took(6, 120, sec(80)), "gained s #120 v6 until 1m23s; beat s:0"},
	}, more...)
}

// TestOverdue: when an owner that lives is relieved of a slot, rule (c).
func TestOverdue(t *testing.T) {
	t.Parallel()
	owned := func() lease.SlotRead { return record(3, 90, "b", beat("b", 1)) }
	// tried is a Take that is refused.
	tried := func(at float64) []line {
		return []line{
			{sec(at), 0, overdue, "take s v3 relieving b overdue #90"},
			{sec(at), 0, lease.TakeDone{Slot: s, Outcome: lease.Refused}, ""},
		}
	}
	for name, sc := range map[string]script{
		"taken without a round":        {able: []string{"b"}, lines: relieved()},
		"told once, tried once":        {able: []string{"b"}, lines: watched(tried(1)...)},
		"tried as often as it is told": {able: []string{"b"}, lines: watched(slices.Concat(tried(1), tried(2), tried(3), tried(4))...)},
		"refused, and its owner has gone meanwhile: read for rule (a)": {able: []string{"b"}, lines: watched(
			line{sec(1), 0, overdue, "take s v3 relieving b overdue #90"},
			line{sec(1), 0, lease.LookGroup{}, "group"},
			line{sec(1), 0, group(), ""},
			line{sec(1.1), 0, lease.TakeDone{Slot: s, Outcome: lease.Refused}, "read s"},
		)},
		"unknown, applied": {able: []string{"b"}, lines: watched(
			line{sec(1), 0, overdue, "take s v3 relieving b overdue #90"},
			line{sec(1.5), 0, lease.TakeDone{Slot: s}, "read s"},
			line{sec(1.5), 0, record(4, 100, "me", beat("me", 0)), "beat s:0; group"},
			line{sec(1.6), 0, beaten(1, sec(1.5)), "gained s #100 v4 until 4.5s"},
		)},
		"ours: nothing to do": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, overdue, ""},
		)},
		"ours before long: not taken back when it is lost": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, ""), "group"},
			{0, 0, group("b"), "take s v3"},
			{0, 0, overdue, ""},
			{sec(0.5), 0, took(4, 100, 0), "gained s #100 v4 until 3s"},
			{sec(1), 0, tick, "beat s:0"},
			{sec(1), 0, lease.BeatDone{Slot: s, Outcome: lease.Refused}, "lost s: taken; read s"},
			{sec(1), 0, record(5, 110, "b", beat("b", 0)), "group"},
		}},
		"relieved ourselves: it comes to rest": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, tick, "beat s:0"},
			line{sec(1), 0, lease.BeatDone{Slot: s, Outcome: lease.Refused}, "lost s: taken; read s"},
			line{sec(1), 0, relieving("me", record(5, 110, "b", beat("b", 0))), "group"},
			line{sec(1), 0, group("b"), ""},
			line{sec(2), 0, lookAll, ""},
		)},
		"gone": {able: []string{"b"}, lines: watched(
			line{sec(1), 0, lease.SlotGone{Slot: s}, ""},
			line{sec(1), 0, overdue, ""},
		)},
		"while it is being read": {able: []string{"b"}, lines: read(
			line{sec(1.1), 0, owned(), "take s v3 relieving b overdue #90; group"},
		)},
		"while it is being read, and somebody else was first": {able: []string{"b", "c"}, lines: read(
			line{sec(1.1), 0, record(4, 95, "c", beat("c", 0)), "group"},
			line{sec(1.1), 0, group("b", "c"), ""},
		)},
		"while it is being read, in vain": {able: []string{"b"}, lines: read(
			line{sec(1.1), 0, lease.SlotRead{Slot: s, Outcome: lease.Refused}, "group"},
			line{sec(1.1), 0, group("b"), ""},
			line{sec(2), 0, lease.Look{Slot: s}, "read s"},
			line{sec(2), 0, owned(), "group"},
		)},
		"nobody has it": {able: []string{"b"}, lines: watched(
			line{sec(1), 0, lease.Look{Slot: s}, "read s"},
			line{sec(1), 0, offered("b", record(4, 95, "")), "group"},
			line{sec(1), 0, group("b"), ""},
			line{sec(1), 0, overdue, ""},
		)},
		"without the handler": {able: []string{"b"}, lines: watched(
			line{sec(1), 0, slotSet("b"), "group"},
			line{sec(1), 0, group("b"), ""},
			line{sec(1), 0, overdue, ""},
		)},
		"draining": {able: []string{"b"}, lines: watched(
			line{sec(1), 0, lease.Drain{}, "group"},
			line{sec(1), 0, group("b"), ""},
			line{sec(1), 0, overdue, ""},
		)},
		"no connection": {able: []string{"b"}, lines: watched(
			line{sec(1), 0, suspended, ""},
			line{sec(1), 0, overdue, ""},
		)},
		"the next session: a heartbeat first": {able: []string{"b"}, lines: watched(
			line{sec(1), 0, overdue, "take s v3 relieving b overdue #90"},
			line{sec(1.1), 0, expired, ""},
			line{sec(1.2), 0, opened, "group"},
			line{sec(1.2), 0, group("b"), ""},
			line{sec(1.5), 0, took(4, 100, sec(1)), "beat s:0"},
			line{sec(1.6), 0, beaten(1, sec(1.5)), "gained s #100 v4 until 4.5s from b"},
		)},
		"in a later session: a lease at once": {able: []string{"b"}, lines: watched(
			line{sec(1), 0, expired, ""},
			line{sec(1), 0, opened, "read s"},
			line{sec(1), 0, owned(), "group"},
			line{sec(1), 0, group("b"), ""},
			line{sec(2), 0, overdue, "take s v3 relieving b overdue #90"},
			line{sec(2.5), 0, took(4, 100, sec(2)), "gained s #100 v4 until 5s from b"},
		)},
		"refused, and then it is free: taken from nobody": {able: []string{"b"}, lines: watched(append(tried(1),
			line{sec(2), 0, lease.Look{Slot: s}, "read s"},
			line{sec(2), 0, record(4, 95, ""), "group"},
			line{sec(2), 0, group(), "take s v4"},
			line{sec(2.5), 0, took(5, 100, sec(2)), "gained s #100 v5 until 5s"},
		)...)},
		"refused, and then its owner has gone: taken by rule (a)": {able: []string{"b"}, lines: watched(append(tried(1),
			line{sec(2), 0, lease.Look{Slot: s}, "read s"},
			line{sec(2), 0, owned(), "group"},
			line{sec(2), 0, group(), "take s v3 -b:1"},
			line{sec(2.5), 0, took(4, 100, sec(2)), "gained s #100 v4 until 5s"},
		)...)},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestOffersAfterARelief: the offers to an owner that lives and was relieved, by this instance
// or before it joined.
func TestOffersAfterARelief(t *testing.T) {
	t.Parallel()
	// long is relieved, of an owner whose session lasts a minute.
	long := func(more ...line) []line {
		peers := map[string]lease.Peer{"b": {Incarnation: "b1", Session: time.Minute}}
		return watched(append([]line{
			{sec(1), 0, lease.LookGroup{}, "group"},
			{sec(1), 0, lease.GroupRead{Outcome: lease.Done, Peers: peers}, ""},
			{sec(1), 0, overdue, "take s v3 relieving b overdue #90"},
			{sec(1.5), 0, took(4, 100, sec(1)), "gained s #100 v4 until 4s from b"},
			{sec(2), 0, tick, "beat s:0"},
		}, more...)...)
	}
	restarted := lease.GroupRead{Outcome: lease.Done, Peers: map[string]lease.Peer{"b": {Incarnation: "b2"}}}
	for name, sc := range map[string]script{
		"nothing is offered to an owner that was relieved": {able: []string{"b"}, lines: relieved(
			line{sec(2), 0, lease.Drain{}, "lost s: given; release s v4; group"},
		)},
		"nor within eight sync periods": {able: []string{"b"}, lines: relieved(
			line{sec(2), 0, tick, "beat s:0"},
			line{sec(81), 0, lease.Drain{}, "lost s: given; release s v4; group"},
		)},
		"but after": {able: []string{"b"}, lines: relieved(
			line{sec(2), 0, tick, "beat s:0"},
			line{sec(81.6), 0, lease.Drain{}, "lost s: given; release s v4 to b; group"},
		)},
		"but not while its session may last, which it may have left": {able: []string{"b"}, lines: long(
			line{sec(90.9), 0, lease.Drain{}, "lost s: given; release s v4; group"},
		)},
		"and after that": {able: []string{"b"}, lines: long(
			line{sec(91.6), 0, lease.Drain{}, "lost s: given; release s v4 to b; group"},
		)},
		"and to its next process": {able: []string{"b"}, lines: watched(
			line{sec(1), 0, overdue, "take s v3 relieving b overdue #90"},
			line{sec(1), 0, lease.LookGroup{}, "group"},
			line{sec(1), 0, restarted, ""},
			line{sec(1.5), 0, took(4, 100, sec(1)), "gained s #100 v4 until 4s from b"},
			line{sec(2), 0, lease.Drain{}, "lost s: given; release s v4 to b; group"},
		)},
		"nothing is offered to one that was relieved before we joined": {able: []string{"b", "c"}, lines: seen("b",
			line{sec(82), 0, lease.Drain{}, "lost s: given; release s v6 to c; group"},
		)},
		"but after eight sync periods": {able: []string{"b", "c"}, lines: seen("b",
			line{sec(82.1), 0, lease.Drain{}, "lost s: given; release s v6 to b; group"},
		)},
		"and to one that is not the one that was relieved": {able: []string{"b", "c"}, lines: seen("a",
			line{sec(82), 0, lease.Drain{}, "lost s: given; release s v6 to b; group"},
		)},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestOverdueWithLimit: an instance that owns as many slots as it may takes none from others.
func TestOverdueWithLimit(t *testing.T) {
	t.Parallel()
	c := newCompany(2)
	c.join("a", 0)
	c.settle(2)
	c.join("b", 1)
	c.settle(2)
	slot := c.slotsOf("a")[0]
	c.send("b", lease.Overdue{Slot: slot})
	c.settle(1)
	if got := c.counts(); got != "a=1 b=1 free=0" || c.slots[slot].Owner.SID != "a" {
		t.Errorf("%s", got)
	}
}

func (c *company) slotsOf(sid string) (owned []lease.Slot) {
	for _, slot := range c.names {
		if c.slots[slot].Owner.SID == sid {
			owned = append(owned, slot)
		}
	}
	return owned
}

// deputies are the deputies of a slot among some instances, in their order.
func (c *company) deputies(t *testing.T, slot lease.Slot, sids ...string) []string {
	t.Helper()
	at := make(map[int]string)
	for _, sid := range sids {
		rank, is := c.machines[sid].Deputy(instant(c.now, 0), slot)
		if !is {
			continue
		}
		if at[rank] != "" {
			t.Fatalf("%s: %s and %s both are deputy number %d", slot, at[rank], sid, rank)
		}
		at[rank] = sid
	}
	var order []string
	for rank := range len(at) {
		order = append(order, at[rank])
	}
	if slices.Contains(order, "") {
		t.Fatalf("%s: nobody is the first deputy, or the next one: %v", slot, at)
	}
	return order
}

// TestOwnerRelievedAgain: an owner that has to be relieved again, soon after it has got its share
// back, gets nothing for twice as long each time, up to a bound. One that was well for as long is
// treated like any other.
func TestOwnerRelievedAgain(t *testing.T) {
	t.Parallel()
	c := newCompany(12)
	for _, sid := range []string{"a", "b", "c", "d"} {
		c.join(sid, 0)
	}
	c.settle(3)
	relieve := func() (after time.Duration) {
		start, offered := c.now, false
		c.onOffer = func(_ lease.Slot, _, to string) {
			if to == "a" && !offered {
				offered, after = true, c.now-start
			}
		}
		for _, slot := range c.slotsOf("a") {
			c.send("b", lease.Overdue{Slot: slot})
		}
		for n := 0; !offered && n < 200; n++ {
			c.settle(1)
		}
		c.settle(3)
		return after
	}
	check := func(want time.Duration) {
		t.Helper()
		if got := relieve(); got < want || got > want+sec(20) {
			t.Errorf("offered something after %v, want %v and a look", got, want)
		}
	}
	for _, periods := range []float64{8, 16, 32, 32} {
		check(sec(10 * periods))
	}
	c.settle(130)
	check(sec(80))
}

// TestDeputies: every other instance that can take a slot is a deputy of it, and all agree on their
// order, which differs from slot to slot.
func TestDeputies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		prepare func(c *company)
		others  string // the instances that are deputies, in the order of their names
	}{
		{"all", func(c *company) { c.join("d", 0) }, "abcd"},
		{"one cannot run it", func(c *company) { c.join("d", 0, 0) }, "abc"},
		{"one owns as many as it may", func(c *company) { c.join("d", 1) }, "abc"},
		{"one owns almost as many as it may", func(c *company) { c.join("d", 60) }, "abcd"},
		{"one drains", func(c *company) { c.join("d", 0); c.settle(3); c.drain("d") }, "abc"},
		{"one is dead", func(c *company) { c.join("d", 0); c.settle(3); c.die("d") }, "abc"},
		{"one was relieved", func(c *company) {
			c.join("d", 0)
			c.settle(5)
			c.hung = "d" // from here on it says nothing
			c.send("a", lease.Overdue{Slot: c.slotsOf("d")[0]})
		}, "abc"},
		{"one was relieved long ago", func(c *company) {
			c.join("d", 0)
			c.settle(5)
			c.send("a", lease.Overdue{Slot: c.slotsOf("d")[0]})
			c.settle(9)
		}, "abcd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCompany(60)
			for _, sid := range []string{"a", "b", "c"} {
				c.join(sid, 0)
			}
			c.settle(2)
			tt.prepare(c)
			if c.deliver(); c.hung == "" {
				c.settle(3)
			}
			all := []string{"a", "b", "c", "d"}
			all = slices.DeleteFunc(all, func(sid string) bool { return c.machines[sid] == nil || sid == c.hung })
			firsts := make(map[string]int)
			for _, slot := range c.names[1:] {
				owner := c.slots[slot].Owner.SID
				order := c.deputies(t, slot, all...)
				want := slices.DeleteFunc([]byte(tt.others), func(sid byte) bool { return string(sid) == owner })
				if got := slices.Sorted(slices.Values(order)); fmt.Sprint(got) != fmt.Sprintf("%s", spaced(want)) {
					t.Fatalf("%s of %s: deputies %v, want %s", slot, owner, order, want)
				}
				firsts[order[0]]++
			}
			for _, sid := range tt.others {
				if firsts[string(sid)] < 5 {
					t.Errorf("%c is the first deputy of %d of %d slots", sid, firsts[string(sid)], len(c.names))
				}
			}
		})
	}
}

func spaced(sids []byte) []string {
	out := make([]string, len(sids))
	for k, sid := range sids {
		out[k] = string(sid)
	}
	return out
}

// TestNoDeputy: who is no deputy of a slot.
func TestNoDeputy(t *testing.T) {
	t.Parallel()
	for name, events := range map[string][]lease.Event{
		"of a slot that it does not know": {lease.SlotGone{Slot: s}},
		"without a connection":            {suspended},
		"while it drains":                 {lease.Drain{}},
		"without the handler":             {slotSet("b")},
		"of a slot that it has":           {lease.Look{Slot: s}, record(4, 100, "me", beat("me", 0))},
		"of a slot that it is taking":     {overdue},
		"of a slot that nobody has":       {lease.Look{Slot: s}, offered("b", record(4, 100, ""))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := lease.New(lease.Config{Self: me, SyncPeriod: sec(10)})
			step := func(ev lease.Event) {
				for _, a := range m.Step(instant(0, 0), ev) {
					if read, is := a.(lease.ReadGroup); is {
						answer := group("b")
						answer.Asked = read.Asked
						m.Step(instant(0, 0), answer)
					}
				}
			}
			for _, ev := range []lease.Event{slotSet("me", "b"), opened, record(3, 90, "b", beat("b", 0))} {
				step(ev)
			}
			if rank, is := m.Deputy(instant(0, 0), s); !is || rank != 0 || m.Owner(s) != "b" {
				t.Fatalf("at first: %d, %v, owner %q", rank, is, m.Owner(s))
			}
			for _, ev := range events {
				step(ev)
			}
			if rank, is := m.Deputy(instant(0, 0), s); is {
				t.Errorf("it is a deputy, of rank %d", rank)
			}
		})
	}
	if m := lease.New(lease.Config{Self: me}); m.Owner("unknown") != "" {
		t.Error("an unknown slot has an owner")
	}
}

// TestRelievedOwner: an owner that was relieved of its slots and lives gets none back for eight
// sync periods, neither from the instance that took them nor from those that saw it; then it gets
// its share, once.
func TestRelievedOwner(t *testing.T) {
	t.Parallel()
	c := newCompany(12)
	for _, sid := range []string{"a", "b", "c", "d"} {
		c.join(sid, 0)
	}
	c.settle(3)
	start := c.now
	for _, slot := range c.slotsOf("a") {
		c.send("b", lease.Overdue{Slot: slot})
	}
	first := make(map[string]time.Duration) // offer to a, by who made it
	offers := 0
	c.onOffer = func(_ lease.Slot, from, to string) {
		if to != "a" {
			return
		}
		offers++
		if _, known := first[from]; !known {
			first[from] = c.now - start
		}
	}
	c.settle(1)
	if got := c.counts(); got != "a=0 b=4 c=4 d=4 free=0" {
		t.Errorf("at first %s", got)
	}
	c.settle(12)
	if got := c.counts(); got != "a=3 b=3 c=3 d=3 free=0" || offers != 3 || len(first) != 3 {
		t.Errorf("finally %s, with %d offers by %v", got, offers, first)
	}
	for sid, at := range first {
		if at < sec(80) || at > sec(100) {
			t.Errorf("%s offers it a slot after %v, want 80s and a look", sid, at)
		}
	}
}

// TestJoinAfterARelief: an instance that joins when another one has been relieved counts on it as
// little as those that have seen it; and as much, when that one has taken slots since, although
// some records still say that it was relieved.
func TestJoinAfterARelief(t *testing.T) {
	t.Parallel()
	c := newCompany(12)
	for _, sid := range []string{"a", "b", "c"} {
		c.join(sid, 0)
	}
	c.settle(3)
	c.hung = "a"
	for k, slot := range c.slotsOf("a") {
		c.send([]string{"b", "c"}[k%2], lease.Overdue{Slot: slot})
	}
	c.settle(1)
	c.onOffer = func(slot lease.Slot, from, to string) {
		if to == "a" {
			t.Errorf("%s offers it %s", from, slot)
		}
	}
	c.join("d", 0)
	c.settle(5)
	if got := c.counts(); got != "a=0 b=4 c=4 d=4 free=0" {
		t.Errorf("while it hangs %s", got)
	}
	for _, slot := range c.names {
		c.deputies(t, slot, "b", "c", "d")
	}
	c.hung, c.onOffer = "", nil
	c.settle(10)
	if got := c.counts(); got != "a=3 b=3 c=3 d=3 free=0" {
		t.Errorf("when it is back %s", got)
	}
	if !slices.ContainsFunc(c.names, func(slot lease.Slot) bool { return c.slots[slot].Relieved.SID == "a" }) {
		t.Error("no record says that it was relieved")
	}
	c.join("e", 0)
	c.settle(1)
	for _, slot := range c.names {
		c.deputies(t, slot, "a", "b", "c", "d", "e")
	}
}

// TestDeputiesHearOfARelief: who was relieved is nobody's deputy, so what Deputy says may have
// changed.
func TestDeputiesHearOfARelief(t *testing.T) {
	t.Parallel()
	m := lease.New(lease.Config{Self: me, SyncPeriod: sec(10)})
	for _, ev := range []lease.Event{slotSet("me", "b", "c"), opened, record(3, 90, "b", beat("b", 0)), lease.Look{Slot: s}} {
		m.Step(instant(0, 0), ev)
	}
	m.Step(instant(0, 0), lease.GroupRead{Asked: 3, Outcome: lease.Done, Peers: group("b", "c").Peers})
	before := m.Changes()
	m.Step(instant(0, 0), relieving("c", record(5, 110, "b", beat("b", 0)))) // it had taken s meanwhile
	if m.Changes() == before {
		t.Error("nothing has changed")
	}
}

// TestTakesBeforeARelief: a take shows that an instance is back only if it came after the instance
// was relieved, whenever it is read.
func TestTakesBeforeARelief(t *testing.T) {
	t.Parallel()
	m := lease.New(lease.Config{Self: me, SyncPeriod: sec(10)})
	records := make(map[lease.Slot]lease.SlotRead)
	var step func(ev lease.Event)
	step = func(ev lease.Event) {
		for _, a := range m.Step(instant(sec(1), 0), ev) {
			switch a := a.(type) {
			case lease.ReadSlot:
				step(records[a.Slot])
			case lease.ReadGroup:
				step(lease.GroupRead{Asked: a.Asked, Outcome: lease.Done, Peers: group("b", "c").Peers})
			case lease.ReadLives:
				step(gave("b", 95))
			}
		}
	}
	is := func(slot lease.Slot, read lease.SlotRead) {
		read.Slot = slot
		records[slot] = read
		step(lease.Look{Slot: slot})
	}
	rest := []lease.Slot{"0", "1", "2", "3", "4", "5", "6", "7"}
	slots := append([]lease.Slot{"relieved", "before", "since"}, rest...)
	for _, slot := range slots {
		read := record(3, 90, "c", beat("c", 0))
		read.Slot = slot
		records[slot] = read
		step(lease.SlotSet{Slot: slot, Eligible: true, Able: []string{"me", "b", "c"}})
	}
	step(opened)
	precedes := func() (n int) { // b, as a deputy of the slots that c owns
		for _, slot := range rest {
			rank, is := m.Deputy(instant(sec(1), 0), slot)
			if !is {
				t.Errorf("no deputy of %s", slot)
			}
			n += rank
		}
		return n
	}
	all := precedes()
	if all == 0 {
		t.Fatal("b is no deputy")
	}
	is("relieved", relieving("b", record(5, 110, "c", beat("c", 0))))
	if n := precedes(); n != 0 {
		t.Errorf("b was relieved, and is the first deputy of %d slots", n)
	}
	is("before", record(4, 105, "b", beat("b", 0)))
	if n := precedes(); n != 0 {
		t.Errorf("b took a slot before it was relieved, and is the first deputy of %d slots", n)
	}
	is("since", record(4, 115, "b", beat("b", 0)))
	if n := precedes(); n != all {
		t.Errorf("b is back, and the first deputy of %d slots, want %d", n, all)
	}
}

package lease_test

import (
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// A lease that was counted with a longer session does not last into a shorter one.
func TestSessionGrantedShorter(t *testing.T) {
	t.Parallel()
	run(t, script{able: []string{"b"}, lines: adopted(
		line{sec(0.6), 0, expired, ""},
		line{sec(0.7), 0, lease.Opened{Session: sec(1)}, "beat s:0; read s"},
		line{sec(0.8), 0, beaten(1, sec(0.7)), "renewed s until 1.45s"},
	)})
}

// TestOwning: how a slot is taken, kept and lost.
func TestOwning(t *testing.T) {
	t.Parallel()
	refused, unknown := lease.BeatDone{Slot: s, Outcome: lease.Refused}, lease.BeatDone{Slot: s}
	for name, sc := range map[string]script{
		"a lease counts from before the request was sent": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, tick, "beat s:0"},
			line{sec(1.8), 0, beaten(1, sec(1)), "renewed s until 4s"},
			line{sec(2), 0, tick, "beat s:1"},
		)},
		"one heartbeat under way": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, tick, "beat s:0"},
			line{sec(2), 0, tick, ""},
			line{sec(2.5), 0, beaten(1, sec(1)), "renewed s until 4s"},
			line{sec(3), 0, tick, "beat s:1"},
		)},
		"a new connection begins with a heartbeat": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, suspended, ""},
			line{sec(0.7), 0, opened, "beat s:0; read s"},
		)},
		"the clock leaps: a heartbeat at once": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, tick, "beat s:0"},
			line{sec(1.1), 0, beaten(1, sec(1)), "renewed s until 4s"},
			line{sec(1.2), sec(20), lease.Leapt{}, "beat s:1"},
			line{sec(1.3), sec(20), lease.BeatDone{Slot: s, Outcome: lease.Done, Version: 2, SentAt: instant(sec(1.2), sec(20))}, "renewed s until 24.2s"},
			line{sec(1.4), sec(20), tick, ""},
		)},
		"the clock leaps when a heartbeat is under way: another one": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, tick, "beat s:0"},
			line{sec(1.2), sec(20), lease.Leapt{}, ""},
			line{sec(1.3), sec(20), beaten(1, sec(1)), "renewed s until 4s; beat s:1"},
		)},
		"refused: somebody was faster, read again": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, ""), "group"},
			{0, 0, group("b"), "take s v3"},
			{0, 0, lease.TakeDone{Slot: s, Outcome: lease.Refused}, "read s"},
			{0, 0, record(4, 100, "b", beat("b", 0)), "group"},
			{0, 0, group("b"), ""},
		}},
		"refused heartbeat: stop at once": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, tick, "beat s:0"},
			line{sec(1.1), 0, refused, "lost s: taken; read s"},
			line{sec(1.2), 0, record(5, 110, "b", beat("b", 0)), "group"},
		)},
		"unknown take, applied: owned, a lease once a heartbeat is acknowledged": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, ""), "group"},
			{0, 0, group("b"), "take s v3"},
			{sec(0.5), 0, lease.TakeDone{Slot: s}, "read s"},
			{sec(0.6), 0, record(4, 100, "me", beat("me", 0)), "beat s:0; group"},
			{sec(0.7), 0, beaten(1, sec(0.6)), "gained s #100 v4 until 3.6s"},
		}},
		"unknown take, not applied: taken again": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, ""), "group"},
			{0, 0, group("b"), "take s v3"},
			{sec(0.5), 0, lease.TakeDone{Slot: s}, "read s"},
			{sec(0.6), 0, record(3, 90, ""), "group"},
			{sec(0.7), 0, group("b"), "take s v3"},
		}},
		"unknown heartbeat: its version must be read, and again if a server that is behind did not show it": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, tick, "beat s:0"},
			line{sec(1.5), 0, unknown, "read s"},
			line{sec(1.5), 0, tick, ""},
			line{sec(1.6), 0, record(4, 100, "me", beat("me", 0)), "beat s:0; group"},
			line{sec(1.7), 0, group("b"), ""},
			line{sec(1.8), 0, refused, "read s"},
			line{sec(1.9), 0, record(4, 100, "me", beat("me", 1)), "beat s:1; group"},
			line{sec(2), 0, beaten(2, sec(1.9)), "renewed s until 4.9s"},
		)},
		"another name in the record: stop, and remove what is left of us": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Look{Slot: s}, "read s"},
			line{sec(0.7), 0, record(5, 110, "b", beat("b", 0), beat("me", 0)), "lost s: taken; yield s -me:0; group"},
			line{sec(0.8), 0, group("b"), ""},
			line{sec(0.8), 0, lease.YieldDone{Slot: s}, "read s"},
			line{sec(0.8), 0, record(5, 110, "b", beat("b", 0)), "group"},
		)},
		"the job is canceled": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.SlotGone{Slot: s}, "lost s: vanished"},
			line{sec(1), 0, tick, ""},
		)},
		"the record is gone": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Look{Slot: s}, "read s"},
			line{sec(0.7), 0, lease.SlotRead{Slot: s, Outcome: lease.Done}, "lost s: vanished; group"},
		)},
		"our heartbeat was deleted manually: release, take again": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Look{Slot: s}, "read s"},
			line{sec(0.7), 0, record(4, 100, "me"), "lost s: given; release s v4 without heartbeat; group"},
			line{sec(0.8), 0, lease.ReleaseDone{Slot: s, Outcome: lease.Done}, ""},
			line{sec(0.8), 0, group("b"), "read s"},
			line{sec(0.9), 0, record(5, 110, ""), "group"},
			line{sec(0.9), 0, group("b"), "take s v5"},
		)},
		"a reading older than our adoption is put aside": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Look{Slot: s}, "read s"},
			line{sec(0.7), 0, record(3, 90, ""), "group"},
			line{sec(1), 0, tick, "beat s:0"},
		)},
		"older than our adoption, and still so after a sync: the ensemble was restored": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Look{Slot: s}, "read s"},
			line{sec(0.7), 0, record(3, 90, ""), "group"},
			line{sec(0.7), 0, group("b"), "sync and read s"},
			line{sec(0.8), 0, record(3, 90, ""), "lost s: taken; group"},
			line{sec(0.8), 0, group("b"), "take s v3"},
		)},
		"a server lagged, the next reading is of our adoption": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, lease.Look{Slot: s}, "read s"},
			line{sec(0.7), 0, record(3, 90, ""), "group"},
			line{sec(0.7), 0, group("b"), "sync and read s"},
			line{sec(0.8), 0, record(4, 100, "me", beat("me", 0)), "group"},
			line{sec(0.8), 0, group("b"), ""},
			line{sec(0.9), 0, lease.Look{Slot: s}, "read s"},
			line{sec(0.9), 0, record(3, 90, ""), "group"},
		)},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestTakeover: when a slot may be taken from its owner: (a) its ephemeral node is gone.
func TestTakeover(t *testing.T) {
	t.Parallel()
	owned := func(version int32) lease.SlotRead { return record(3, 90, "b", beat("b", version)) }
	for name, sc := range map[string]script{
		"(a) at once, if the owner's node is gone": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(1), 0, lease.LookGroup{}, "group"},
			{sec(1), 0, group(), "read s"},
			{sec(1), 0, owned(8), "group"},
			{sec(1), 0, group(), "take s v3 -b:8"},
		}},
		"(a) also if the same sid lives in another incarnation": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, lease.GroupRead{Outcome: lease.Done, Peers: map[string]lease.Peer{"b": {Incarnation: "b2"}}}, "take s v3 -b:7"},
		}},
		"(a) not if its node cannot be read": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, lease.GroupRead{Outcome: lease.Done, Peers: map[string]lease.Peer{"b": {Opaque: true}}}, ""},
		}},
		"(a) not by a reading of an earlier round": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(1), 0, lease.LookGroup{}, "group"},
			{sec(1), 0, group(), "read s"},
			{sec(1), 0, noAnswer, "group"},
			{sec(1), 0, group(), "read s"},
			{sec(1), 0, owned(7), "group"},
			{sec(1), 0, group(), "take s v3 -b:7"},
		}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestTakeoverFromTheSilent: or (b) it is silent.
func TestTakeoverFromTheSilent(t *testing.T) {
	t.Parallel()
	owned := func(version int32) lease.SlotRead { return record(3, 90, "b", beat("b", version)) }
	patient := lease.GroupRead{Outcome: lease.Done, Peers: map[string]lease.Peer{"b": {Incarnation: "b1", Session: sec(20)}}}
	for name, sc := range map[string]script{
		"(b) not if its node cannot be read: its session may be longer": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, lease.GroupRead{Outcome: lease.Done, Peers: map[string]lease.Peer{"b": {Opaque: true}}}, ""},
			{sec(60), 0, lookAll, "lives b; read s"},
			{sec(60), 0, gave("b", 97), ""},
			{sec(60), 0, owned(7), "group"},
			{sec(60), 0, lease.GroupRead{Outcome: lease.Done, Asked: 6, Peers: map[string]lease.Peer{"b": {Opaque: true}}}, ""},
		}},
		"(b) after 1.5 sessions at one version": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(6), 0, lookAll, "lives b; read s"},
			{sec(6), 0, gave("b", 97), ""},
			{sec(6), 0, owned(7), "group"},
			{sec(6), 0, group("b"), ""},
			{sec(6.1), 0, lookAll, "lives b"}, // late: each time
			{sec(6.1), 0, gave("b", 97), "group"},
			{sec(6.1), 0, group("b"), "lives b; read s"},
			{sec(6.1), 0, gave("b", 97), ""},
			{sec(6.1), 0, owned(7), "group"},
			{sec(6.1), 0, group("b"), "take s v3 -b:7 relieving b"},
			{sec(6.2), 0, took(4, 100, sec(6.1)), "gained s #100 v4 until 9.1s"},
			{sec(6.3), 0, lease.Drain{}, "lost s: given; release s v4; group"}, // not to b
		}},
		"(b) after 1.5 of the owner's sessions, if they are longer": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, patient, ""},
			{sec(29), 0, lookAll, "lives b; read s"},
			{sec(29), 0, gave("b", 97), ""},
			{sec(29), 0, owned(7), "group"},
			{sec(29), 0, patient, ""},
			{sec(30.1), 0, lookAll, "lives b"},
			{sec(30.1), 0, gave("b", 97), "group"},
			{sec(30.1), 0, patient, "lives b; read s"},
			{sec(30.1), 0, gave("b", 97), ""},
			{sec(30.1), 0, owned(7), "group"},
			{sec(30.1), 0, patient, "take s v3 -b:7 relieving b"},
		}},
		"(b) not after 1.5 sessions without a sign of life: a slot without a run has a heartbeat once a minute": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(66), 0, lookAll, "lives b; read s"},
			{sec(66), 0, gave("b", 0), ""},
			{sec(66), 0, owned(7), "group"},
			{sec(66), 0, group("b"), ""},
		}},
		"(b) but a minute later": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(66.1), 0, lookAll, "lives b; read s"},
			{sec(66.1), 0, gave("b", 0), ""},
			{sec(66.1), 0, owned(7), "group"},
			{sec(66.1), 0, group("b"), "take s v3 -b:7 relieving b"},
		}},
		"(b) not by the time without a connection": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(1), 0, suspended, ""},
			{sec(8), 0, opened, "read s"},
			{sec(8), 0, owned(7), "group"},
			{sec(8), 0, group("b"), ""},
			{sec(14.1), 0, lookAll, "lives b; read s"},
			{sec(14.1), 0, gave("b", 97), ""},
			{sec(14.1), 0, owned(7), "group"},
			{sec(14.1), 0, group("b"), "take s v3 -b:7 relieving b"},
		}},
		"(b) not if it beat meanwhile": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(5), 0, lookAll, "lives b; read s"},
			{sec(5), 0, gave("b", 97), ""},
			{sec(5), 0, owned(8), "group"},
			{sec(5), 0, group("b"), ""},
			{sec(8), 0, lookAll, "lives b; read s"},
			{sec(8), 0, gave("b", 97), ""},
			{sec(8), 0, owned(8), "group"},
			{sec(8), 0, group("b"), ""},
		}},
		"(b) not by time alone, without a second reading": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{sec(7), 0, group("b"), ""},
		}},
		"(b) not by the time that this machine slept": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(3), sec(100), lookAll, "lives b; read s"},
			{sec(3), sec(100), gave("b", 97), ""},
			{sec(3), sec(100), owned(7), "group"},
			{sec(3), sec(100), group("b"), ""},
		}},
		"(b) not across a change of owner": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(7), 0, lookAll, "lives b; read s"},
			{sec(7), 0, gave("b", 97), ""},
			{sec(7), 0, record(3, 190, "b", beat("b", 7)), "group"},
			{sec(7), 0, group("b"), ""},
		}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestTakeoverBySignsOfLife: an owner with an old heartbeat is silent if it gives no sign of life,
// either.
func TestTakeoverBySignsOfLife(t *testing.T) {
	t.Parallel()
	owned := func(version int32) lease.SlotRead { return record(3, 90, "b", beat("b", version)) }
	for name, sc := range map[string]script{
		"(b) not while the owner gives signs of life": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(6.1), 0, lookAll, "lives b; read s"},
			{sec(6.1), 0, gave("b", 150), ""},
			{sec(6.1), 0, owned(7), "group"},
			{sec(6.1), 0, group("b"), ""},
			{sec(60), 0, lookAll, "lives b; read s"},
			{sec(60), 0, owned(7), ""},
			{sec(60), 0, gave("b", 190), "group"},
			{sec(60), 0, group("b"), ""},
		}},
		"(b) not if its sign of life could not be read": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, owned(7), "group"},
			{0, 0, group("b"), ""},
			{sec(6.1), 0, lookAll, "lives b; read s"},
			{sec(6.1), 0, lease.LivesRead{}, ""},
			{sec(6.1), 0, owned(7), "group"},
			{sec(6.1), 0, group("b"), "lives b"},
		}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestPeriodicLook: which slots the periodic look reads; a lease is 3 s.
func TestPeriodicLook(t *testing.T) {
	t.Parallel()
	owned := func(beats int32) lease.Event { return record(3, 90, "b", beat("b", beats)) }
	seen := func(first lease.Event, more ...line) []line {
		return append([]line{{0, 0, opened, "read s"}, {0, 0, first, "group"}, {0, 0, group("b"), ""}}, more...)
	}
	for name, sc := range map[string]script{
		"the only one of a live instance, after a lease's length": {able: []string{"b"}, lines: seen(owned(7),
			line{sec(2.9), 0, lookAll, ""},
			line{sec(3), 0, lookAll, "lives b; read s"},
			line{sec(3), 0, gave("b", 98), ""},
			line{sec(3), 0, owned(8), "group"},
			line{sec(3), 0, group("b"), ""},
			line{sec(5.9), 0, lookAll, ""},
		)},
		"none of an owner whose sign of life is late: that, each time": {able: []string{"b"}, lines: seen(owned(7),
			line{sec(3), 0, lookAll, "lives b; read s"},
			line{sec(3), 0, gave("b", 97), ""},
			line{sec(3), 0, owned(7), "group"},
			line{sec(3), 0, group("b"), ""},
			line{sec(3.5), 0, lookAll, "lives b"},
		)},
		"one whose owner is gone, with a stranger, each time": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, "b", beat("b", 7), beat("java", 2)), "group"},
			{0, 0, group(), ""}, // the foreign heartbeat is respected
			{sec(0.5), 0, lookAll, "read s"},
		}},
		"one that is offered, each time": {able: []string{"b"}, lines: seen(offered("b", record(3, 90, "")),
			line{sec(0.5), 0, lookAll, "read s"},
		)},
		"one with a stranger, each time": {able: []string{"b"}, lines: seen(record(3, 90, "b", beat("b", 7), beat("java", 2)),
			line{sec(0.5), 0, lookAll, "read s"},
		)},
		"our only one, after a lease's length": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(4, 100, "me", beat("me", 3)), "beat s:3; group"},
			{0, 0, beaten(4, 0), "gained s #100 v4 until 3s"},
			{0, 0, group("b"), ""},
			{sec(0.5), 0, lookAll, ""},
			{sec(3), 0, lookAll, "beat s:4; read s"},
		}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestDenied: a slot that may not be read holds up nothing, and is asked for once in each periodic
// look.
func TestDenied(t *testing.T) {
	t.Parallel()
	denied := lease.SlotRead{Slot: s, Outcome: lease.Refused}
	run(t, script{able: []string{"b"}, lines: []line{
		{0, 0, opened, "read s"},
		{0, 0, record(3, 90, ""), "group"},
		{0, 0, group("b"), "take s v3"},
		{0, 0, lease.TakeDone{Slot: s, Outcome: lease.Refused}, "read s"},
		{0, 0, denied, "group"},
		{0, 0, group("b"), ""}, // an old reading is not taken for the present
		{sec(1), 0, lookAll, "read s"},
		{sec(1), 0, denied, "group"},
		{sec(1), 0, group("b"), ""},
		{sec(2), 0, lookAll, "read s"},
		{sec(2), 0, record(3, 90, ""), "group"},
		{sec(2), 0, group("b"), "take s v3"},
	}})
}

// TestStrangers: heartbeats of instances that are not the owner.
func TestStrangers(t *testing.T) {
	t.Parallel()
	java := beat("java", 5)
	for name, sc := range map[string]script{
		"a fresh one is respected, a silent one is taken over": {lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, "", java), "group"},
			{0, 0, group(), ""},
			{sec(7), 0, lookAll, "read s"},
			{sec(7), 0, record(3, 90, "", java), "group"},
			{sec(7), 0, group(), "take s v3 -java:5"},
		}},
		"several, one of them fresh": {lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, "", java, beat("old", 6)), "group"},
			{0, 0, group(), ""},
			{sec(7), 0, lookAll, "read s"},
			{sec(7), 0, record(3, 90, "", java, beat("old", 7)), "group"},
			{sec(7), 0, group(), ""},
			{sec(14), 0, lookAll, "read s"},
			{sec(14), 0, record(3, 90, "", java, beat("old", 7)), "group"},
			{sec(14), 0, group(), "take s v3 -java:5 -old:7"},
		}},
		"of several all yield: our own goes first": {lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, "", java, beat("me", 2)), "yield s -me:2; group"},
			{0, 0, group(), ""},
			{0, 0, lease.YieldDone{Slot: s}, "read s"},
			{0, 0, record(3, 90, "", java), "group"},
			{0, 0, group(), ""},
		}},
		"the owner removes a silent one": {able: []string{"b"}, lines: adopted(
			line{sec(3), 0, lease.Look{Slot: s}, "beat s:0; read s"},
			line{sec(3), 0, beaten(1, sec(3)), "renewed s until 6s"},
			line{sec(3), 0, record(4, 100, "me", beat("me", 1), java), "group"},
			line{sec(3), 0, group("b"), ""},
			line{sec(9.5), 0, lookAll, "beat s:1; read s"},
			line{sec(9.5), 0, beaten(2, sec(9.5)), "renewed s until 12.5s"},
			line{sec(9.5), 0, record(4, 100, "me", beat("me", 2), java), "yield s -java:5; group"},
		)},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

// TestSessions: effects of lost connections and expired sessions on owned slots, and
// of late replies.
func TestSessions(t *testing.T) {
	t.Parallel()
	for name, sc := range map[string]script{
		"same session: heartbeats continue": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, suspended, ""},
			line{sec(2), 0, tick, ""},
			line{sec(2), 0, opened, "beat s:0; read s"},
			line{sec(2.1), 0, beaten(1, sec(2)), "renewed s until 5s"},
		)},
		"new session: owned still, if a heartbeat of it is acknowledged": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, suspended, ""},
			line{sec(6), 0, expired, ""},
			line{sec(6), 0, opened, "beat s:0; read s"},
			line{sec(6.1), 0, beaten(1, sec(6)), "renewed s until 9s"},
		)},
		"new session: taken by another": {able: []string{"b"}, lines: adopted(
			line{sec(6), 0, expired, ""},
			line{sec(6), 0, opened, "beat s:0; read s"},
			line{sec(6.1), 0, lease.BeatDone{Slot: s, Outcome: lease.Refused}, "lost s: taken"},
			line{sec(6.1), 0, record(5, 110, "b", beat("b", 0)), "group"},
		)},
		"a heartbeat of the old session renews nothing": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, tick, "beat s:0"},
			line{sec(6), 0, expired, ""},
			line{sec(6), 0, opened, "read s"},
			line{sec(6.1), 0, beaten(1, sec(1)), ""},
			line{sec(6.2), 0, record(4, 100, "me", beat("me", 1)), "beat s:1; group"},
			line{sec(6.3), 0, beaten(2, sec(6.2)), "renewed s until 9.2s"},
		)},
		"a take of the old session gives no lease": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, ""), "group"},
			{0, 0, group("b"), "take s v3"},
			{sec(1), 0, suspended, ""},
			{sec(2), 0, expired, ""},
			{sec(2), 0, opened, "group"},
			{sec(2.1), 0, took(4, 100, 0), "beat s:0"},
			{sec(2.2), 0, beaten(1, sec(2.1)), "gained s #100 v4 until 5.1s"},
		}},
		"a group asked for before the connection broke decides nothing": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, "b", beat("b", 7)), "group"},
			{sec(1), 0, suspended, ""},
			{sec(1), 0, opened, "read s"},
			{sec(1), 0, lease.GroupRead{Asked: 3, Outcome: lease.Done}, ""},
			{sec(1), 0, record(3, 90, "b", beat("b", 7)), "group"},
			{sec(1), 0, group("b"), ""},
		}},
		"the answer to a take of a job deleted and submitted again": {able: []string{"b"}, lines: []line{
			{0, 0, opened, "read s"},
			{0, 0, record(3, 90, ""), "group"},
			{0, 0, group("b"), "take s v3"},
			{sec(1), 0, lease.SlotGone{Slot: s}, ""},
			{sec(1), 0, slotSet("b", "me"), "group"}, // one request in flight: it waits
			{sec(1), 0, took(4, 100, 0), ""},
			{sec(1), 0, group("b"), "read s"},
			{sec(1), 0, record(1, 120, "b", beat("b", 0)), "group"},
			{sec(1), 0, group("b"), ""},
		}},
		"the answer to a heartbeat of a job deleted and submitted again": {able: []string{"b"}, lines: adopted(
			line{sec(1), 0, tick, "beat s:0"},
			line{sec(1), 0, lease.SlotGone{Slot: s}, "lost s: vanished"},
			line{sec(1), 0, slotSet("b", "me"), "read s"},
			line{sec(1), 0, record(1, 120, "me", beat("me", 0)), "group"},
			line{sec(2), 0, tick, ""},
			line{sec(2), 0, beaten(1, sec(1)), ""},
			line{sec(3), 0, tick, "beat s:0"},
			line{sec(3.1), 0, beaten(1, sec(3)), "gained s #120 v1 until 6s"},
		)},
		"a second answer to one take": {able: []string{"b"}, lines: adopted(
			line{sec(0.6), 0, took(4, 100, sec(0.5)), "read s"},
		)},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, sc) })
	}
}

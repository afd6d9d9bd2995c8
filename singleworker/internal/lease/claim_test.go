package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// TestClaimChecksOwnHeartbeat shows why a claim also checks that the claimant's
// heartbeat node exists. All versions restart when a job is deleted and submitted
// again: an owner that has not noticed would claim ticks of the new job, which now
// belongs to another instance.
func TestClaimChecksOwnHeartbeat(t *testing.T) {
	t.Parallel()
	a, b := lease.Member{SID: "a", Incarnation: "a1"}, lease.Member{SID: "b", Incarnation: "b1"}
	for name, tt := range map[string]struct {
		mutant mutant
		want   lease.Outcome
	}{
		"with that check":              {sound, lease.Refused},
		"with the check of alive only": {claimsWithoutBeat, lease.Done},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(1, tt.mutant)
			w.zk = newServer(w)
			j := w.zk.add(s)
			w.zk.create(j)
			_, old := w.zk.take(a, lease.Take{Slot: s, Version: 0})
			w.zk.remove(j)
			w.zk.create(j)
			w.zk.take(b, lease.Take{Slot: s, Version: 0})
			got := w.zk.claim(claim{slot: s, member: a, token: old.Mzxid, version: old.Version, tick: 7})
			if got.Outcome != tt.want {
				t.Errorf("the old owner's claim: %v, want %v", got, tt.want)
			}
			if noticed := w.Failure() != ""; noticed != (got.Outcome == lease.Done) {
				t.Errorf("the checker says %q", w.Failure())
			}
		})
	}
}

// TestClaimIsAHeartbeat: a claim renews the lease, and goes with the heartbeats beside it.
func TestClaimIsAHeartbeat(t *testing.T) {
	t.Parallel()
	claiming := lease.Claiming{Slot: s}
	claimed := func(version int32, sent time.Duration) lease.Claimed {
		return lease.Claimed{Slot: s, Outcome: lease.Done, Version: version, Mzxid: 100 + int64(version), SentAt: instant(sent, 0)}
	}
	refused := lease.BeatDone{Slot: s, Outcome: lease.Refused}
	ours := func(version int32) lease.SlotRead { return record(4, 100, "me", beat("me", version)) }
	for name, tt := range map[string]struct {
		idle  time.Duration
		lines []line
	}{
		"it renews a lease that has lapsed": {-1, []line{
			{sec(4), 0, tick, ""},
			{sec(5), 0, claiming, ""},
			{sec(5.2), 0, claimed(1, sec(5)), "renewed s until 8s"},
			{sec(5.2), 0, lease.Busy{Slot: s, Busy: true}, ""},
			{sec(6), 0, tick, "beat s:1"},
		}},
		// A heartbeat that was refused together with others was sent again after the claim: after a
		// restore, its version may fit by then.
		"before a heartbeat that was sent first": {0, []line{
			{sec(1), 0, lease.Busy{Slot: s, Busy: true}, "beat s:0"},
			{sec(1.1), 0, claiming, ""},
			{sec(1.2), 0, claimed(1, sec(1.1)), "renewed s until 4.1s"},
			{sec(1.3), 0, lease.BeatDone{Slot: s, Outcome: lease.Done, Version: 2, Mzxid: 102, SentAt: instant(sec(1.2), 0)}, ""},
			{sec(2), 0, tick, "beat s:2"},
		}},
		"after the servers have lost heartbeats: its version is the one that it left": {0, []line{
			{sec(1), 0, lease.Busy{Slot: s, Busy: true}, "beat s:0"},
			{sec(1.1), 0, lease.BeatDone{Slot: s, Outcome: lease.Done, Version: 3, Mzxid: 103, SentAt: instant(sec(1), 0)}, "renewed s until 4s"},
			{sec(1.2), 0, claiming, ""},
			{sec(1.3), 0, claimed(2, sec(1.2)), "renewed s until 4.2s"},
			{sec(2), 0, tick, "beat s:2"},
		}},
		"no heartbeat beside it": {0, []line{
			{sec(0.9), 0, claiming, ""},
			{sec(1), 0, tick, ""},
			{sec(1.1), 0, claimed(1, sec(0.9)), "renewed s until 3.9s"},
			{sec(2), 0, tick, "beat s:1"},
		}},
		"sent before our node exists: it renews nothing": {-1, []line{
			{sec(1), 0, suspended, ""},
			{sec(1.5), 0, claiming, ""},
			{sec(2), 0, opened, "read s"},
			{sec(2.1), 0, claimed(1, sec(1.5)), ""},
			{sec(2.2), 0, ours(1), "group"},
			{sec(2.3), 0, group("b"), "read s"},
		}},
		"sent in an earlier session: it renews nothing": {-1, []line{
			{sec(1), 0, claiming, ""},
			{sec(1.1), 0, suspended, ""},
			{sec(1.2), 0, expired, ""},
			{sec(1.3), 0, opened, "read s"},
			{sec(1.4), 0, claimed(1, sec(1)), ""},
			{sec(1.5), 0, ours(1), "group"},
		}},
		"of an earlier ownership: it renews nothing": {-1, []line{
			{sec(0.6), 0, claiming, ""},
			{sec(0.7), 0, lease.Look{Slot: s}, "read s"},
			{sec(0.8), 0, record(5, 110, "b", beat("b", 0)), "lost s: taken; group"},
			{sec(0.8), 0, group("b"), ""},
			{sec(0.9), 0, lease.Look{Slot: s}, "read s"},
			{sec(0.9), 0, record(6, 120, "me", beat("me", 0)), "group"},
			{sec(0.9), 0, claimed(1, sec(0.6)), ""},
		}},
		"refused: the next heartbeat tells": {0, []line{
			{sec(0.6), 0, claiming, ""},
			{sec(0.7), 0, lease.Claimed{Slot: s, Outcome: lease.Refused}, ""},
			{sec(1), 0, tick, "beat s:0"},
			{sec(1.1), 0, refused, "lost s: taken; read s"},
		}},
		"a heartbeat that it has overtaken loses nothing": {0, []line{
			{sec(1), 0, tick, "beat s:0"},
			{sec(1.1), 0, claiming, ""},
			{sec(1.2), 0, refused, "read s"},
			{sec(1.3), 0, claimed(1, sec(1.1)), "renewed s until 4.1s"},
			{sec(1.4), 0, ours(0), "group"}, // read before the claim
			{sec(2), 0, tick, "beat s:1"},
		}},
		"nor if it is answered later": {0, []line{
			{sec(1), 0, tick, "beat s:0"},
			{sec(1.1), 0, claiming, ""},
			{sec(1.2), 0, claimed(1, sec(1.1)), "renewed s until 4.1s"},
			{sec(1.3), 0, refused, ""},
			{sec(2), 0, tick, "beat s:1"},
		}},
		"without an answer it may come late: a refused heartbeat is read, until the next claim": {0, []line{
			{sec(0.6), 0, claiming, ""},
			{sec(0.7), 0, lease.Claimed{Slot: s}, "read s"},
			{sec(0.8), 0, ours(0), "beat s:0; group"},
			{sec(0.9), 0, refused, ""},
			{sec(0.9), 0, group("b"), "read s"},
			{sec(1), 0, ours(1), "beat s:1; group"},
			{sec(1.1), 0, beaten(2, sec(1)), "renewed s until 4s"},
			{sec(1.2), 0, group("b"), ""},
			{sec(1.3), 0, claiming, ""},
			{sec(1.4), 0, claimed(3, sec(1.3)), "renewed s until 4.3s"},
			{sec(2), 0, tick, "beat s:3"},
			{sec(2.1), 0, refused, "lost s: taken; read s"},
		}},
		"the job was deleted meanwhile": {-1, []line{
			{sec(0.6), 0, claiming, ""},
			{sec(0.7), 0, lease.SlotGone{Slot: s}, "lost s: vanished"},
			{sec(0.8), 0, claimed(1, sec(0.6)), ""},
			{sec(0.9), 0, slotSet("me", "b"), "read s"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, script{config: lease.Config{IdleBeat: tt.idle}, able: []string{"b"}, lines: adopted(tt.lines...)})
		})
	}
}

// TestIdleSlotsTakeTurns: slots without a run get heartbeats in turn, each at least every IdleBeat;
// a busy one in each round.
func TestIdleSlotsTakeTurns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		slots, perRound, within int // rounds are a second apart
	}{{3, 3, 1}, {10, 4, 3}, {240, 4, 60}, {300, 5, 60}, {900, 15, 60}} {
		m := lease.New(lease.Config{Self: me, SyncPeriod: sec(1000)})
		name := func(k int) lease.Slot { return lease.Slot(fmt.Sprintf("s%03d", k)) }
		busy, version := name(tt.slots), make(map[lease.Slot]int32)
		step := func(at time.Duration, ev lease.Event) (beats map[lease.Slot]int32) {
			for _, a := range m.Step(instant(at, 0), ev) {
				if a, is := a.(lease.SendBeats); is {
					beats = a.Beats
				}
			}
			return beats
		}
		answer := func(at time.Duration, beats map[lease.Slot]int32) {
			for slot := range beats {
				version[slot]++
				step(at, lease.BeatDone{Slot: slot, Outcome: lease.Done, Version: version[slot], SentAt: instant(at, 0)})
			}
		}
		for k := range tt.slots + 1 {
			step(0, lease.SlotSet{Slot: name(k), Eligible: true, Able: []string{"me"}})
		}
		step(0, opened)
		for k := range tt.slots + 1 {
			read := record(3, 90, "me", beat("me", 0))
			read.Slot = name(k)
			answer(0, step(0, read))
		}
		for at := range 3 { // until all are known to be ours
			answer(sec(float64(at+1)), step(sec(float64(at+1)), tick))
		}
		step(sec(3), lease.Busy{Slot: busy, Busy: true})
		last := make(map[lease.Slot]int)
		for round := 1; round <= 200; round++ {
			at := sec(float64(3 + round))
			beats := step(at, tick)
			answer(at, beats)
			_, is := beats[busy]
			if more := len(beats) - 1 - tt.perRound; !is || more < 0 || more > 1 {
				t.Fatalf("%d slots: %d heartbeats in round %d, of the busy slot: %v; want %d and that", tt.slots, len(beats), round, is, tt.perRound)
			}
			for slot := range beats {
				last[slot] = round
			}
			for k := range tt.slots {
				if round-last[name(k)] > tt.within {
					t.Fatalf("%d slots: %s has had no heartbeat for %d rounds, want at most %d", tt.slots, name(k), round-last[name(k)], tt.within)
				}
			}
		}
	}
}

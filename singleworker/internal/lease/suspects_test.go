package lease

import (
	"fmt"
	"testing"
	"time"
)

// The slots of a silent owner are looked for once, after the last reading of the round: with tens
// of thousands of slots, a walk through all of them for each reading would hold the loop for
// seconds.
func TestSuspectsAreLookedForOncePerRound(t *testing.T) {
	t.Parallel()
	const slots, read = 100, 10
	session := 4 * time.Second
	peers := map[string]Peer{"b": {Incarnation: "b1", Session: session}}
	m := New(Config{Self: Member{SID: "a", Incarnation: "a1"}, SyncPeriod: time.Second})
	at := func(mono time.Duration) Instant { return Instant{Mono: mono, Elapsed: mono} }
	name := func(k int) Slot { return Slot(fmt.Sprintf("s%03d", k)) }
	reading := func(k int) SlotRead {
		owner := Member{SID: "b", Incarnation: "b1"}
		return SlotRead{Slot: name(k), Outcome: Done, Record: Record{Exists: true, Version: 1, Mzxid: 1, Owner: owner, Beats: []Beat{{SID: "b", Mzxid: 2}}}}
	}
	group := func(now time.Duration) {
		m.Step(at(now), GroupRead{Asked: m.peers.groupAsked, Outcome: Done, Peers: peers})
	}
	for k := range slots {
		m.Step(at(0), SlotSet{Slot: name(k), Able: []string{"b"}})
	}
	m.Step(at(0), Opened{Session: session})
	for k := range slots {
		m.Step(at(0), reading(k))
	}
	lives := func(now time.Duration) {
		m.Step(at(now), LivesRead{Outcome: Done, Lives: map[Member]Life{{SID: "b", Incarnation: "b1"}: {Exists: true, Mzxid: 2}}})
	}
	group(0)
	now := 2 * session // since then no heartbeat has come
	for k := range read {
		m.markDirty(m.slots[name(k)])
	}
	m.peers.ask(Member{SID: "b", Incarnation: "b1"})
	m.Step(at(now), LookGroup{})
	lives(now)
	for k := range read {
		if m.reads != read-k || len(m.dirty) > 0 {
			t.Fatalf("before reading %d, %d are missing and %d slots are marked; want none before the last", k, m.reads, len(m.dirty))
		}
		m.Step(at(now), reading(k))
	}
	if len(m.dirty) != slots-read || len(m.peers.suspects) > 0 {
		t.Errorf("%d slots are marked after the last reading, want the other %d; suspects %v", len(m.dirty), slots-read, m.peers.suspects)
	}
	group(now)
	if m.reads != 1+slots-read {
		t.Errorf("the next round reads %d slots beside the sign of life, want %d", m.reads-1, slots-read)
	}
}

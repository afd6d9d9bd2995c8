package lease

import (
	"fmt"
	"testing"
	"time"
)

// walks is a machine whose requests are answered at once: the first slots are its own or b's, which
// lives.
type walks struct {
	*Machine

	t       *testing.T
	records map[Slot]Record
	refuses int  // each such Take is refused, if it is not 0
	late    bool // the group is not read until that is over
	steps   int
	counts  map[string]int // of actions
}

const walkSlots = 2000

func walkSlot(k int) Slot { return Slot(fmt.Sprintf("s%05d", k)) }

// newWalks has slots of an owner, and no session yet; set says the rest of each.
func newWalks(t *testing.T, slots, maxSlots int, owner string, set func(k int) SlotSet) *walks {
	t.Helper()
	cfg := Config{Self: Member{SID: "a", Incarnation: "a1"}, SyncPeriod: time.Second, MaxSlots: maxSlots}
	w := &walks{Machine: New(cfg), t: t, records: make(map[Slot]Record), counts: make(map[string]int)}
	for k := range slots {
		w.add(k, owner, set(k))
	}
	return w
}

// add adds a slot that the instance owns.
func (w *walks) add(k int, owner string, ev SlotSet) {
	w.t.Helper()
	ev.Slot, ev.Eligible = walkSlot(k), true
	mzxid := int64(k + 1)
	w.records[ev.Slot] = Record{Exists: true, Version: 1, Mzxid: mzxid, Owner: Member{owner, owner + "1"}, Beats: []Beat{{SID: owner, Mzxid: mzxid}}}
	w.step(ev)
}

// step applies events, answers the machine's requests and counts its actions by kind.
func (w *walks) step(events ...Event) {
	w.t.Helper()
	for len(events) > 0 {
		ev := events[0]
		events = events[1:]
		for _, a := range w.Step(Instant{}, ev) {
			w.counts[fmt.Sprintf("%T", a)]++
			switch a := a.(type) {
			case ReadSlot:
				events = append(events, SlotRead{Slot: a.Slot, Outcome: Done, Record: w.records[a.Slot]})
			case ReadGroup:
				if !w.late {
					events = append(events, GroupRead{Asked: a.Asked, Outcome: Done, Peers: map[string]Peer{"b": {Incarnation: "b1", Session: 4 * time.Second}}})
				}
			case SendBeats:
				for slot := range a.Beats {
					events = append(events, BeatDone{Slot: slot, Outcome: Done, Version: 1, Mzxid: w.records[slot].Mzxid})
				}
			case Take:
				done := TakeDone{Slot: a.Slot, Outcome: Done, Version: a.Version + 1, Mzxid: a.Mzxid + walkSlots}
				if w.refuses > 0 && w.counts["lease.Take"]%w.refuses == 0 {
					done = TakeDone{Slot: a.Slot, Outcome: Refused}
				}
				events = append(events, done)
			}
		}
		if w.steps++; w.steps%101 == 0 {
			walked, counted := w.walked, w.Owned()
			w.counted = false
			if n := w.Owned(); n != counted {
				w.t.Fatalf("after %T %+v, %d slots are counted, want %d", ev, ev, counted, n)
			}
			w.walked = walked
		}
	}
}

// Of many slots that are overdue at a moment, each is taken while there is room, and it is not
// counted for each how many there are.
func TestRoomIsNotCountedForEachSlot(t *testing.T) {
	t.Parallel()
	const room = 1500
	w := newWalks(t, walkSlots, room, "b", func(int) SlotSet { return SlotSet{Able: []string{"a", "b"}} })
	w.step(Opened{Session: 4 * time.Second})
	w.walked, w.refuses = 0, 11
	for k := range walkSlots {
		w.step(Overdue{walkSlot(k)})
		ours := w.slots[walkSlot(k)].mine != nil
		if _, is := w.Deputy(Instant{}, walkSlot(k)); is != (!ours && w.Owned() < room) {
			t.Errorf("slot %d has this instance for a deputy: %v; it is its own: %v, as are %d", k, is, ours, w.Owned())
		}
	}
	if n := w.Owned(); n != room || w.walked > 3*walkSlots {
		t.Errorf("%d slots were taken, want %d; %d were looked at for that, want %d at most", n, room, w.walked, 3*walkSlots)
	}
}

// When many runs end of an instance that drains, it does not look at all slots for each.
func TestDrainLooksAtFewSlotsForARun(t *testing.T) {
	t.Parallel()
	w := newWalks(t, walkSlots, 0, "a", func(int) SlotSet { return SlotSet{Able: []string{"a", "b"}} })
	for k := range walkSlots {
		w.step(Busy{Slot: walkSlot(k), Busy: true})
	}
	w.step(Opened{Session: 4 * time.Second}, Drain{})
	w.walked, w.late = 0, true
	for k := range walkSlots {
		w.step(Busy{Slot: walkSlot(k)})
	}
	w.step(GroupRead{Asked: w.peers.groupAsked, Outcome: Done, Peers: w.peers.live})
	if n, most := w.counts["lease.Release"], 2*slotsPerStep*walkSlots; n != walkSlots || w.walked > most {
		t.Errorf("%d slots were released, want %d; %d were looked at for that, want %d at most", n, walkSlots, w.walked, most)
	}
}

// What cannot be moved is not looked at again for each slot that can.
func TestBalanceLooksOnceAtWhatStays(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]func(k int) SlotSet{
		"what no other instance can run":    func(int) SlotSet { return SlotSet{Able: []string{"a"}} },
		"what was moved before, behind one": func(k int) SlotSet { return SlotSet{Able: []string{"a", "b"}, Always: k == 0} },
	} {
		w := newWalks(t, walkSlots, 0, "a", func(k int) SlotSet {
			if k < walkSlots/2 {
				return stays(k)
			}
			return SlotSet{Able: []string{"a", "b"}}
		})
		w.step(Busy{Slot: walkSlot(0), Busy: true}, Opened{Session: 4 * time.Second})
		if n, most := w.counts["lease.Release"], 3*walkSlots; n < maxOffers || w.walked > most {
			t.Errorf("%s: %d slots were offered; %d were looked at for that, want %d at most", name, n, w.walked, most)
		}
		if w.counts["lease.Evict"] > 0 {
			t.Errorf("%s: a run was ended, and idle slots could be moved", name)
		}
	}
}

// A slot whose run is being ended moves before one whose run would have to be ended, too.
func TestEvictedSlotMovesFirst(t *testing.T) {
	t.Parallel()
	always := SlotSet{Able: []string{"a", "b"}, Always: true}
	w := newWalks(t, 0, 0, "a", nil)
	for k := 1; k <= 2; k++ {
		w.add(k, "a", always)
		w.step(Busy{Slot: walkSlot(k), Busy: true})
	}
	w.step(Opened{Session: 4 * time.Second})
	if n := w.counts["lease.Evict"]; n != 1 || !w.slots[walkSlot(1)].evicted {
		t.Fatalf("%d runs are ended, want that of the first slot, of which b gets one", n)
	}
	w.late = true // until the new slot has a run
	w.add(0, "a", always)
	w.step(Busy{Slot: walkSlot(0), Busy: true})
	w.step(GroupRead{Asked: w.peers.groupAsked, Outcome: Done, Peers: w.peers.live})
	if n := w.counts["lease.Evict"]; n != 1 {
		t.Errorf("%d runs are ended for one slot that is to move", n)
	}
}

// Heartbeats of thousands of slots without a run, some in each period, cost one walk through all of
// them. Each slot has its turn.
func TestHeartbeatsAreOneWalk(t *testing.T) {
	t.Parallel()
	w := newWalks(t, walkSlots, 0, "a", func(int) SlotSet { return SlotSet{Able: []string{"a"}} })
	w.step(Opened{Session: 4 * time.Second})
	walked := w.walked
	w.late, w.walked = true, 0
	const periods = 70 // of a second each: some more than IdleBeat
	beaten := make(map[Slot]bool)
	for k := range periods {
		at := Instant{Mono: time.Duration(k+1) * time.Second, Elapsed: time.Duration(k+1) * time.Second}
		for _, a := range w.Step(at, Tick{}) {
			if a, sends := a.(SendBeats); sends {
				for slot := range a.Beats {
					beaten[slot] = true
					w.Step(at, BeatDone{Slot: slot, Outcome: Done, Version: a.Beats[slot] + 1, Mzxid: walkSlots + int64(k), SentAt: at})
				}
			}
		}
	}
	if most := (periods + 1) * walkSlots; len(beaten) != walkSlots || w.walked > most {
		t.Errorf("%d slots had a heartbeat, want %d; %d were looked at for that, want %d at most", len(beaten), walkSlots, w.walked, most)
	}
	if most := 6 * walkSlots; walked > most { // when all were found to be its own
		t.Errorf("%d slots were looked at in the first round, want %d at most", walked, most)
	}
}

package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// stepper drives one machine, instance "me". It answers readings and releases at once, and nothing
// else.
type stepper struct {
	*lease.Machine

	now     time.Duration
	asked   int
	records map[lease.Slot]lease.Record
}

// newStepper returns a machine that has read some slots of an owner, or free ones.
func newStepper(slots int, owner string) *stepper {
	m := &stepper{
		Machine: lease.New(lease.Config{Self: me, SyncPeriod: sec(10)}), records: make(map[lease.Slot]lease.Record),
	}
	for k := range slots {
		slot := lease.Slot(fmt.Sprintf("s%02d", k))
		m.write(slot, 90, owner)
		m.step(lease.SlotSet{Slot: slot, Eligible: owner == "", Able: []string{"b", "c", "me"}})
	}
	m.step(opened)
	return m
}

// write changes the record of a slot.
func (m *stepper) write(slot lease.Slot, token int64, owner string) {
	read := record(3, token, owner)
	if owner != "" {
		read.Record.Beats = []lease.Beat{{SID: owner, Mzxid: token}}
	}
	m.records[slot] = read.Record
}

// step applies an event, and returns the machine's requests then and after the answers.
func (m *stepper) step(ev lease.Event) []lease.Action {
	if g, is := ev.(lease.GroupRead); is {
		g.Asked = m.asked
		ev = g
	}
	actions := m.Step(instant(m.now, 0), ev)
	for _, a := range actions {
		switch a := a.(type) {
		case lease.ReadGroup:
			m.asked = a.Asked
		case lease.ReadSlot:
			actions = append(actions, m.step(lease.SlotRead{Slot: a.Slot, Outcome: lease.Done, Record: m.records[a.Slot]})...)
		case lease.ReadLives: // each is given now
			read := lease.LivesRead{Outcome: lease.Done, Lives: make(map[lease.Member]lease.Life)}
			for _, who := range a.Who {
				read.Lives[who] = lease.Life{Exists: true, Mzxid: 90 + int64(m.now)}
			}
			actions = append(actions, m.step(read)...)
		case lease.Release:
			m.write(a.Slot, 110, a.Offer)
			actions = append(actions, m.step(lease.ReleaseDone{Slot: a.Slot, Outcome: lease.Done})...)
		}
	}
	return actions
}

// only returns the actions of one kind.
func only[A lease.Action](actions []lease.Action) (some []A) {
	for _, a := range actions {
		if a, is := a.(A); is {
			some = append(some, a)
		}
	}
	return some
}

// A newcomer is offered its share at once, in rounds of one transaction each.
func TestOffersOfARoundAreBounded(t *testing.T) {
	t.Parallel()
	m := newStepper(2100, "")
	for _, take := range only[lease.Take](m.step(group())) {
		m.step(lease.TakeDone{Slot: take.Slot, Outcome: lease.Done, Version: 4, Mzxid: 100})
	}
	m.step(lease.LookGroup{})
	var rounds []int
	for range 4 {
		rounds = append(rounds, len(only[lease.Release](m.step(group("b")))))
		m.step(lease.LookGroup{})
	}
	if got, want := fmt.Sprint(rounds), "[500 500 50 0]"; got != want {
		t.Errorf("%s slots of 2100 are offered to b in each round, want %s", got, want)
	}
}

// A take that is refused again and again waits for the next sync period, whether the slot is free
// or offered to us.
func TestRefusedTakesAreBounded(t *testing.T) {
	t.Parallel()
	for what, read := range map[string]lease.SlotRead{"free": record(3, 90, ""), "offered": offered("me", record(3, 90, ""))} {
		m := newStepper(0, "")
		m.records[s] = read.Record
		takes := len(only[lease.Take](m.step(slotSet("me"))))
		for range 10 {
			takes += len(only[lease.Take](m.step(group())))
			takes += len(only[lease.Take](m.step(lease.TakeDone{Slot: s, Outcome: lease.Refused})))
		}
		if takes != 3 {
			t.Errorf("%s: taken %d times in a row, want 3", what, takes)
		}
		m.now = sec(10)
		if again := only[lease.Take](append(m.step(lookAll), m.step(group())...)); len(again) != 1 {
			t.Errorf("%s: taken %d times after a sync period, want once", what, len(again))
		}
	}
}

// A take that may have been applied counts: an instance that drains is not done before it knows.
func TestTakeWithoutAnAnswerCounts(t *testing.T) {
	t.Parallel()
	m := newStepper(1, "")
	if m.step(group()); m.Owned() != 1 {
		t.Errorf("%d slots while one is being taken, want 1", m.Owned())
	}
	// The reading that would tell is still under way.
	if m.Step(instant(0, 0), lease.TakeDone{Slot: "s00"}); m.Owned() != 1 {
		t.Errorf("%d slots when one may have been taken, want 1", m.Owned())
	}
	m.step(lease.SlotRead{Slot: "s00", Outcome: lease.Done, Record: m.records["s00"]})
	if m.Owned() != 0 {
		t.Errorf("%d slots when the record names nobody, want 0", m.Owned())
	}
}

// While slots have to move, every periodic look decides again, by what watches have told: it reads
// the group and no slot. When nothing has to move it reads nothing, until something changes.
func TestUnevennessIsLookedFor(t *testing.T) {
	t.Parallel()
	m := newStepper(6, "b")
	at := func(now time.Duration, sids ...string) string {
		m.now = now
		for slot := range m.records {
			m.write(slot, 90, "b")
			m.records[slot].Beats[0].Mzxid += int64(now) // b lives
		}
		actions := m.step(lookAll)
		m.step(group(sids...))
		return fmt.Sprintf("%d slots, %d groups", len(only[lease.ReadSlot](actions)), len(only[lease.ReadGroup](actions)))
	}
	m.step(group("b"))
	at(sec(3), "b") // a sample
	if got, want := at(sec(4), "b"), "0 slots, 0 groups"; got != want {
		t.Errorf("reads %s while nothing has to move, want %s", got, want)
	}
	m.step(lease.LookGroup{})
	m.step(group("b", "c"))
	for _, now := range []float64{5, 5.5} {
		if got, want := at(sec(now), "b", "c"), "0 slots, 1 groups"; got != want {
			t.Errorf("reads %s when c has joined, want %s", got, want)
		}
	}
}

// An owner without a heartbeat is silent when its record has stayed as it is for long enough: a
// record that was written again begins another reign.
func TestSilenceBeginsWithTheReign(t *testing.T) {
	t.Parallel()
	look := lease.Look{Slot: s}
	run(t, script{able: []string{"b"}, lines: []line{
		{0, 0, opened, "read s"},
		{0, 0, record(3, 90, "b"), "group"},
		{0, 0, group("b"), ""},
		{sec(5), 0, look, "read s"},
		{sec(5), 0, record(4, 100, "b"), "group"},
		{sec(5), 0, group("b"), ""},
		{sec(7), 0, look, "read s"},
		{sec(7), 0, record(4, 100, "b"), "group"},
		{sec(7), 0, group("b"), ""},
		{sec(11.5), 0, look, "read s"},
		{sec(11.5), 0, record(4, 100, "b"), "group"},
		{sec(11.5), 0, group("b"), "lives b"},
		{sec(11.5), 0, gave("b", 0), "group"},
		{sec(11.5), 0, group("b"), ""},
		{sec(70.9), 0, look, "read s"}, // 1.5 sessions and a minute after the first reading of the record
		{sec(70.9), 0, record(4, 100, "b"), "group"},
		{sec(70.9), 0, group("b"), ""},
		{sec(71.1), 0, look, "read s"},
		{sec(71.1), 0, record(4, 100, "b"), "group"},
		{sec(71.1), 0, group("b"), "take s v4 relieving b"},
	}})
}

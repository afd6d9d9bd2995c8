package lease

import "slices"

// Owned counts the slots whose record names this incarnation, as far as this instance knows,
// including those that are being taken or may have been taken, but not those that are bound to it.
func (m *Machine) Owned() int {
	if !m.counted {
		m.owned, m.counted = 0, true
		m.walked += len(m.slots)
		for _, s := range m.slots {
			m.count(s, 1)
		}
	}
	return m.owned
}

// count adds s to Owned, or takes it from there, so that what asks for one slot after the other
// walks through all once. During a step the slot that it changes is not among them.
func (m *Machine) count(s *slot, times int) {
	if s != nil && s.isOwned() {
		m.owned += times * s.counts()
	}
}

// changes is the only slot that an event may change in what Owned counts, if there is one.
func changes(ev Event) Slot {
	switch ev := ev.(type) {
	case SlotSet:
		return ev.Slot
	case SlotGone:
		return ev.Slot
	case Overdue:
		return ev.Slot
	case SlotRead:
		return ev.Slot
	case TakeDone:
		return ev.Slot
	case BeatDone:
		return ev.Slot
	case ReleaseDone:
		return ev.Slot
	}
	return ""
}

// Idle reports whether no record names this incarnation, as far as this instance knows.
func (m *Machine) Idle() bool {
	return !slices.ContainsFunc(m.sorted(), (*slot).isOwned)
}

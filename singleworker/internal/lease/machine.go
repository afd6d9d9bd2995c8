package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/preference"
)

// Machine is one instance's view of all slots. Not safe for concurrent use.
type Machine struct {
	cfg Config

	peers     *peers
	connected bool
	slots     map[Slot]*slot
	crowds    crowds
	byName    []*slot       // the slots sorted by name; nil if they must be sorted again
	held      bool          // a slot was found to be ours: its lease begins with a heartbeat
	nextBeat  time.Duration // Mono
	leaptAt   time.Duration // Elapsed: a heartbeat from before shows nothing of the time since
	beaten    Slot          // of the slots without a run, the one whose heartbeat was sent last; see sendBeats
	due       time.Duration // heartbeats of such slots, each IdleBeat long

	sampledAt time.Duration // Mono
	step      int           // counts events: orders readings
	looks     int           // counts periodic looks, from one on
	changes   int           // see Changes
	epoch     int           // counts expired sessions: replies of older ones renew nothing
	phase     phase
	look      bool              // start a round even if no slot is dirty
	dirty     map[Slot]struct{} // to be read in the next round
	reads     int               // ReadSlots and ReadLives in flight
	heldUp    bool              // a slot of ours would move, but for its run or its tick
	even      bool              // at the latest round no slot had to move, and nothing has changed since
	owned     int               // see Owned
	counted   bool              // owned is known
	drainedAt int               // step of the latest drain
	walked    int               // at how many slots those have looked that may look at all, for each of many

	out []Action
}

type phase int

const (
	resting phase = iota
	readingSlots
	readingGroup
)

// New returns a machine without slots and without a session.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg, peers: newPeers(cfg), looks: 1, slots: make(map[Slot]*slot), crowds: make(crowds), dirty: make(map[Slot]struct{})}
}

// Step applies one event and returns the actions to carry out, in order. The
// Instants of successive calls must not decrease.
func (m *Machine) Step(now Instant, ev Event) []Action {
	m.step++
	m.out = nil
	id := changes(ev)
	if id != "" {
		m.Owned()
	}
	m.count(m.slots[id], -1)
	m.apply(now, ev)
	m.count(m.slots[id], 1)
	if m.connected {
		m.sendBeats(now)
		m.advanceRound(now)
	}
	return m.out
}

// NextBeat returns when, on the Mono clock, the machine needs a Tick.
func (m *Machine) NextBeat() time.Duration { return m.nextBeat }

func (m *Machine) apply(now Instant, ev Event) {
	switch ev.(type) {
	case LookAll, Tick, Leapt, Busy, BeatDone, Claiming, Claimed, LivesRead: // frequent, and they move nothing
	case SlotRead, GroupRead:
		m.even = false
	default:
		m.even = false
		m.changes++
	}
	switch ev := ev.(type) {
	case Opened:
		m.opened(now, ev)
	case Suspended:
		m.connected = false
	case Expired:
		m.expired()
	case SlotSet:
		m.slotSet(ev)
	case SlotGone:
		m.slotGone(ev.Slot)
	case Busy:
		m.setBusy(now, ev)
	case Claiming:
		m.claimSent(m.slots[ev.Slot])
	case Claimed:
		m.claimDone(now, ev)
	case Overdue:
		m.relieve(m.slots[ev.Slot])
	case Look:
		m.markDirty(m.slots[ev.Slot])
	case LookGroup:
		m.look = true
	case LookAll:
		m.lookAgain(now)
	case Tick:
	case Leapt:
		m.nextBeat, m.leaptAt = now.Mono, now.Elapsed
	case Drain:
		m.peers.own.Closed, m.look = true, true
		if m.connected && m.peers.live != nil {
			m.drain(now) // by the latest reading of the group: others skip an instance that ignores its offer
		}
	case Undrain:
		m.peers.own.Closed, m.look = false, true
	default:
		m.applyAnswer(now, ev)
	}
}

func (m *Machine) do(a Action) { m.out = append(m.out, a) }

// sorted returns the slots by name: a step must not depend on map order.
func (m *Machine) sorted() []*slot {
	if m.byName == nil {
		m.byName = slices.SortedFunc(maps.Values(m.slots), func(a, b *slot) int { return cmp.Compare(a.id, b.id) })
	}
	return m.byName
}

func (m *Machine) opened(now Instant, ev Opened) {
	m.connected, m.nextBeat, m.phase = true, now.Mono, resting
	m.peers.opened(ev, m.cfg.SyncPeriod)
	m.look = true // and at everything: readings of an earlier connection are outdated
	for _, s := range m.slots {
		s.beatSince, s.refusals = beatTimes{}, 0
		m.markDirty(s)
	}
}

// expired ends every lease at once: others may take the slots from now on. The
// holdings stay; a heartbeat verifies them in the next session.
func (m *Machine) expired() {
	m.connected = false
	m.epoch++
	for _, s := range m.slots {
		if s.mine != nil {
			s.mine.until = 0
		}
	}
}

func (m *Machine) slotSet(ev SlotSet) {
	s := m.slots[ev.Slot]
	if s == nil {
		s = &slot{id: ev.Slot, hash: preference.Hash(string(ev.Slot)), freeSince: never}
		m.slots[ev.Slot], m.byName = s, nil
		m.markDirty(s)
	}
	if s.gone {
		s.gone = false
		m.markDirty(s)
	}
	able := m.crowds.of(ev.Able, m.slots)
	if s.eligible != ev.Eligible || s.able != able || s.group != ev.Group {
		m.look = true
	}
	s.eligible, s.able, s.group, s.always, s.bound = ev.Eligible, able, ev.Group, ev.Always, ev.Bound
}

func (m *Machine) slotGone(id Slot) {
	s := m.slots[id]
	if s == nil {
		return
	}
	m.lose(s, Vanished)
	if s.op == reading && !s.opVoid {
		m.reads--
	}
	// The slot stays until its requests are answered. Otherwise the answers would be taken for a job's
	// that was submitted again under this name, and two instances could hold a lease on it.
	*s = slot{
		id: id, hash: s.hash, able: s.able, gone: true, op: s.op, opVoid: s.op != idle,
		beating: s.beating, beatToken: s.beatToken, claiming: s.claiming, freeSince: never,
	}
	m.forget(s)
	delete(m.dirty, id)
}

// forget removes a deleted slot when no request of it is in flight.
func (m *Machine) forget(s *slot) {
	if s.gone && s.op == idle && !s.beating && !s.claiming {
		delete(m.slots, s.id)
		m.byName = nil
	}
}

// answered ends the request in flight for a slot. It returns nil if the job was
// deleted after the request was sent.
func (m *Machine) answered(id Slot, op operation) *slot {
	s := m.slots[id]
	if s == nil || s.op != op {
		m.markDirty(s) // an unexpected answer: read the slot
		return nil
	}
	if s.op == reading && !s.opVoid {
		m.reads--
	}
	void := s.opVoid
	s.op, s.opVoid = idle, false
	if !void {
		return s
	}
	if s.gone {
		m.forget(s)
	} else {
		m.markDirty(s)
	}
	return nil
}

package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// The protocol's durations, as parts of the granted session timeout. The
// distance between leaseParts and 1 is the margin that makes a takeover after
// a session's end safe; a heartbeat may be lost twice before a lease lapses.
const (
	leaseNum, leaseDen = 3, 4 // a lease lasts 0.75 sessions
	staleNum, staleDen = 3, 2 // an owner is silent after 1.5 sessions
	beatsPerSession    = 4
)

// Length is how long a lease lasts after its heartbeat was sent.
func Length(session time.Duration) time.Duration { return session * leaseNum / leaseDen }

// Config is fixed for the life of a Machine.
type Config struct {
	Self Member
	// SyncPeriod is how long a slot that is offered to somebody, or free and
	// beyond this instance's share, is left to others.
	SyncPeriod time.Duration
	// MaxSlots is how many slots this instance owns at the most; 0: no limit.
	MaxSlots int
	// Weight is how large this instance's share is beside those of the others;
	// 0: 1.
	Weight int
	// Soon reports that a tick of a slot of ours is so near that the slot is not
	// to be moved to even the shares out. It is asked within Step, and must not
	// call back. Nil: never. It holds up no release for another reason.
	Soon func(Slot) bool
}

// Machine is one instance's view of all slots. Not safe for concurrent use.
type Machine struct {
	cfg Config

	session    time.Duration
	syncPeriod time.Duration // Config's, or this session's
	connected  bool
	draining   bool
	slots      map[Slot]*slot
	byName     []*slot       // the same, sorted; nil: to be sorted anew
	nextBeat   time.Duration // Mono

	past       past
	sampledAt  time.Duration // Mono
	step       int           // counts events: orders what was read
	epoch      int           // counts expired sessions: an answer to an older one renews nothing
	phase      phase
	look       bool              // a round is wanted even if no slot is dirty
	dirty      map[Slot]struct{} // to be read in the next round
	reads      int               // ReadSlots under way
	roundAt    int               // step at which the round began
	groupAsked int               // step at which the latest ReadGroup was asked for
	peers      map[string]Peer
	deaf       map[string]deafness // instances that let an offer run out
	heldUp     bool                // a slot of ours was to move, but for its run or its tick
	even       bool                // at the latest look no slot was to move, and nothing has happened since

	out []Action
}

type phase int

const (
	resting phase = iota
	readingSlots
	readingGroup
)

type operation int

const (
	idle operation = iota
	reading
	taking
	releasing
	yielding
)

// slot is what the machine knows of one slot.
type slot struct {
	id       Slot
	eligible bool
	able     []string
	group    string
	busy     bool

	gone      bool      // deleted, and kept only until what is under way is answered
	op        operation // the one request under way
	opVoid    bool      // it was sent before the job was deleted: its answer means nothing
	takeEpoch int       // of the latest Take
	unsure    bool      // the latest Take may have been applied: to be read
	kept      bool      // the latest Release was refused, or may not have been applied: to be read
	beating   bool      // a heartbeat is under way
	beatToken int64     // of the ownership that it was sent for
	beatEpoch int

	known     bool // rec was read
	rec       Record
	readAt    int                      // step of that reading
	readMono  time.Duration            // and its time
	beatSince map[string]time.Duration // Mono before which a heartbeat was written
	freeSince time.Duration            // Mono since when the slot is free, or never
	refusals  int                      // Takes refused since the last LookAll
	behind    bool                     // the latest reading was older than our own adoption

	mine *holding
}

const never time.Duration = -1

// isOurs reports whether s may be given back now.
func (s *slot) isOurs() bool { return s.mine != nil && s.op == idle && !s.kept }

func (s *slot) isTaking() bool { return s.op == taking && !s.opVoid }

// isOwned reports whether s is ours, was asked for, or may have been got.
func (s *slot) isOwned() bool { return s.mine != nil || s.isTaking() || s.unsure }

// holding is a slot whose record names this incarnation.
type holding struct {
	token   int64
	version int32
	beat    int32         // version of our heartbeat; noBeat: must be read first
	until   time.Duration // Elapsed; 0: no lease yet
	gained  bool          // Gained was reported
	leaving bool          // being given back
	offer   string        // to whom, or "" for anybody
}

// New returns a machine that knows no slot and has no session.
func New(cfg Config) *Machine {
	return &Machine{
		cfg: cfg, slots: make(map[Slot]*slot), dirty: make(map[Slot]struct{}), deaf: make(map[string]deafness),
	}
}

// Step tells the machine one fact and returns what to do, in order. The
// Instants of successive calls must not go back.
func (m *Machine) Step(now Instant, ev Event) []Action {
	m.step++
	m.out = nil
	m.apply(now, ev)
	if m.connected {
		m.sendBeats(now)
		m.advanceRound()
	}
	return m.out
}

// NextBeat is when, on the Mono clock, the machine wants a Tick.
func (m *Machine) NextBeat() time.Duration { return m.nextBeat }

// Owned counts the slots whose record names this incarnation, as far as this
// instance knows, together with those it has asked for or may have got.
func (m *Machine) Owned() int {
	n := 0
	for _, s := range m.slots {
		if s.isOwned() {
			n++
		}
	}
	return n
}

func (m *Machine) apply(now Instant, ev Event) {
	switch ev.(type) {
	case LookAll, Tick, Busy, BeatDone: // these happen all the time, and move nothing
	default:
		m.even = false
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
	case Look:
		m.markDirty(m.slots[ev.Slot])
	case LookAround:
		m.lookAround()
	case LookGroup:
		m.look = true
	case LookAll:
		m.lookAgain(now)
	case Tick:
	case Drain:
		m.draining, m.look = true, true
		if m.connected && m.peers != nil {
			m.drain(now) // by the group as last read: whom it offers in vain to, the others pass over
		}
	case Undrain:
		m.draining, m.look = false, true
	case SlotRead:
		m.slotRead(now, ev)
	case GroupRead:
		m.groupRead(now, ev)
	case TakeDone:
		m.takeDone(now, ev)
	case BeatDone:
		m.beatDone(now, ev)
	case ReleaseDone:
		m.releaseDone(ev)
	case YieldDone:
		if s := m.answered(ev.Slot, yielding); s != nil {
			m.markDirty(s)
		}
	}
}

func (m *Machine) do(a Action) { m.out = append(m.out, a) }

// markDirty has s read in the next round.
func (m *Machine) markDirty(s *slot) {
	if s != nil && !s.gone {
		m.dirty[s.id] = struct{}{}
	}
}

// sorted returns the slots by name: a step must not depend on map order.
func (m *Machine) sorted() []*slot {
	if m.byName == nil {
		m.byName = slices.SortedFunc(maps.Values(m.slots), func(a, b *slot) int { return cmp.Compare(a.id, b.id) })
	}
	return m.byName
}

func (m *Machine) opened(now Instant, ev Opened) {
	m.connected, m.session, m.syncPeriod = true, ev.Session, cmp.Or(ev.SyncPeriod, m.cfg.SyncPeriod)
	m.nextBeat = now.Mono
	m.phase = resting
	m.past.forget()
	for _, s := range m.slots {
		clear(s.beatSince)
	}
	m.lookAll()
}

// expired ends every lease at once: others may take the slots from now on.
// The holdings stay, to be verified by a heartbeat in the next session.
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
		s = &slot{id: ev.Slot, freeSince: never}
		m.slots[ev.Slot], m.byName = s, nil
		m.markDirty(s)
	}
	if s.gone {
		s.gone = false
		m.markDirty(s)
	}
	if s.eligible != ev.Eligible || !slices.Equal(s.able, ev.Able) || s.group != ev.Group {
		m.look = true
	}
	s.eligible, s.able, s.group = ev.Eligible, slices.Clone(ev.Able), ev.Group
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
	// The slot stays until its requests are answered. Forgotten, the answers
	// would pass for those of a job submitted again under this name: two
	// instances would hold a lease on it.
	*s = slot{
		id: id, gone: true, op: s.op, opVoid: s.op != idle,
		beating: s.beating, beatToken: s.beatToken, freeSince: never,
	}
	m.forget(s)
	delete(m.dirty, id)
}

// forget drops a deleted slot when nothing of it is under way any more.
func (m *Machine) forget(s *slot) {
	if s.gone && s.op == idle && !s.beating {
		delete(m.slots, s.id)
		m.byName = nil
	}
}

// answered takes the answer of the request that is under way for a slot. It
// returns nil when the answer is one to a job that was deleted meanwhile.
func (m *Machine) answered(id Slot, op operation) *slot {
	s := m.slots[id]
	if s == nil || s.op != op {
		m.markDirty(s) // an answer given before: only a reading tells
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

func (m *Machine) setBusy(now Instant, ev Busy) {
	s := m.slots[ev.Slot]
	if s == nil {
		return
	}
	s.busy = ev.Busy
	switch {
	case s.busy || s.mine == nil:
	case m.draining && m.connected:
		m.drain(now)
	case !s.eligible, m.heldUp:
		m.look = true // to give it back, or away, now that it is idle
	}
}

// advanceRound starts a round when one is wanted, and asks for the group when
// all its slots are read. A slot with a request under way waits for the next
// round: its answer marks it again.
func (m *Machine) advanceRound() {
	if m.phase == resting && (m.look || len(m.dirty) > 0) {
		m.phase, m.look, m.roundAt = readingSlots, false, m.step
		for _, id := range slices.Sorted(maps.Keys(m.dirty)) {
			if s := m.slots[id]; s.op == idle {
				s.op = reading
				m.reads++
				m.do(ReadSlot{id})
			}
		}
		clear(m.dirty)
	}
	if m.phase == readingSlots && m.reads == 0 {
		m.phase, m.groupAsked = readingGroup, m.step
		m.do(ReadGroup{Asked: m.step})
	}
}

func (m *Machine) groupRead(now Instant, ev GroupRead) {
	if m.phase != readingGroup || ev.Asked != m.groupAsked {
		return // asked for before the connection broke
	}
	m.phase = resting
	if ev.Outcome != Done {
		m.look = true
		return
	}
	m.peers = ev.Peers
	maps.DeleteFunc(m.deaf, func(sid string, _ deafness) bool { return m.listens(now, sid) })
	if m.connected {
		m.plan(now)
	}
}

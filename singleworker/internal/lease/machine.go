package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/preference"
)

// The protocol's durations, as fractions of the granted session timeout. The
// difference between a lease and a session is the margin that makes a takeover
// after the end of a session safe. A lease survives two lost heartbeats.
const (
	leaseNum, leaseDen = 3, 4 // a lease lasts 0.75 session timeouts
	staleNum, staleDen = 3, 2 // an owner is silent after 1.5 session timeouts
	beatsPerSession    = 4
)

// Length is the duration of a lease from when its heartbeat was sent.
func Length(session time.Duration) time.Duration { return session * leaseNum / leaseDen }

// Config is fixed for the life of a Machine.
type Config struct {
	Self Member
	// SyncPeriod is how long this instance leaves a slot to others that is offered
	// to another instance, or that is free and beyond this instance's share; eight
	// times that, while the other one gives signs of life.
	SyncPeriod time.Duration
	// IdleBeat is how often, at least, the heartbeat of a slot without a run is written; 0 means a
	// minute, and less never.
	IdleBeat time.Duration
	// MaxSlots limits how many slots this instance owns; 0 means no limit.
	MaxSlots int
	// Weight is this instance's share relative to the others; 0 means 1.
	Weight int
	// Soon reports whether a tick of one of our slots is so near that the slot
	// must not be moved for evenness. Releases for other reasons do not ask it. It
	// is called within Step and must not call back. Nil means never.
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
	crowds     map[string]*crowd // by names
	byName     []*slot           // the slots sorted by name; nil if they must be sorted again
	held       bool              // a slot was found to be ours: its lease begins with a heartbeat
	nextBeat   time.Duration     // Mono
	leaptAt    time.Duration     // Elapsed: what was sent before shows nothing of the time since
	beaten     Slot              // of the slots without a run, the one whose heartbeat was sent last; see sendBeats
	due        time.Duration     // heartbeats of such slots, each IdleBeat long

	past       past
	sampledAt  time.Duration // Mono
	step       int           // counts events: orders readings
	looks      int           // counts periodic looks, from one on
	changes    int           // see Changes
	epoch      int           // counts expired sessions: replies of older ones renew nothing
	phase      phase
	look       bool                // start a round even if no slot is dirty
	dirty      map[Slot]struct{}   // to be read in the next round
	suspects   map[Member]int64    // owners whose slots are to be read in the next round, and when they were relieved; see suspect
	signs      map[Member]*life    // of other owners
	asked      map[Member]struct{} // whose sign of life is to be read in the next round
	reads      int                 // ReadSlots and ReadLives in flight
	roundAt    int                 // step at which the round began
	groupAsked int                 // step of the latest ReadGroup
	peers      map[string]Peer
	skipped    map[Member]skipped // instances that ignored an offer, or had to be relieved
	full       map[string]bool    // instances that own as many slots as they may, at the latest round
	heldUp     bool               // a slot of ours would move, but for its run or its tick
	even       bool               // at the latest round no slot had to move, and nothing has changed since
	owned      int                // see Owned
	counted    bool               // owned is known
	drainedAt  int                // step of the latest drain
	walked     int                // at how many slots those have looked that may look at all, for each of many

	out []Action
}

type phase int

const (
	resting phase = iota
	readingSlots
	readingGroup
)

type operation uint8

const (
	idle operation = iota
	reading
	taking
	releasing
	yielding
)

// slot is the machine's view of one slot. There are thousands, so what is small stands together.
type slot struct {
	id    Slot
	hash  uint64 // see Machine.rank
	able  *crowd
	group string

	eligible  bool
	busy      bool
	always    bool
	bound     bool
	evicted   bool      // since it is busy
	gone      bool      // deleted, and kept only until requests in flight are answered
	op        operation // the request in flight
	opVoid    bool      // it was sent before the job was deleted: ignore the answer
	overdue   bool      // the latest Take is one by rule (c)
	late      bool      // a run has become overdue while the slot is being read
	unsure    bool      // the latest Take may have been applied: must be read
	kept      bool      // the latest Release was refused, or may not have been applied: must be read
	beating   bool      // a heartbeat is in flight
	claiming  bool      // a claim is in flight
	crossed   bool      // a claim may overtake the heartbeat in flight
	overtaken bool      // a claim has been acknowledged since the heartbeat in flight was sent
	known     bool      // rec was read
	behind    bool      // the latest reading was older than our take: the next one must not lag

	takeEpoch int   // of the latest Take
	beatToken int64 // of the ownership that the heartbeat in flight was sent for
	beatEpoch int

	claimToken int64 // as beatToken, of the claim in flight
	claimEpoch int

	rec       Record
	readAt    int           // step of that reading
	readMono  time.Duration // time of that reading
	beatSince beatTimes     // Mono before which a heartbeat was written
	freeSince time.Duration // Mono since when the slot is free, or never
	refusals  int           // Takes refused since the latest LookAll

	mine *holding
}

const never time.Duration = -1

// isOurs reports whether s is ours and can be released now.
func (s *slot) isOurs() bool { return s.mine != nil && s.op == idle && !s.kept }

func (s *slot) isTaking() bool { return s.op == taking && !s.opVoid }

// isOwned reports whether s is ours, is being taken, or may have been taken.
func (s *slot) isOwned() bool { return s.mine != nil || s.isTaking() || s.unsure }

// holding is a slot whose record names this incarnation.
type holding struct {
	token    int64
	version  int32
	beat     int32         // version of our heartbeat; noBeat means that it must be read first
	until    time.Duration // Elapsed; 0 means no lease yet
	gained   bool          // Gained was reported
	leaving  bool          // being released
	doubtful bool          // a claim without an answer may yet raise the heartbeat's version
	offer    string        // instance it is released to, or "" for any
	from     string        // the owner that was relieved, if one was
}

// New returns a machine without slots and without a session.
func New(cfg Config) *Machine {
	return &Machine{
		cfg: cfg, looks: 1, slots: make(map[Slot]*slot), crowds: make(map[string]*crowd), dirty: make(map[Slot]struct{}), skipped: make(map[Member]skipped),
		suspects: make(map[Member]int64), signs: make(map[Member]*life), asked: make(map[Member]struct{}),
	}
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
		m.draining, m.look = true, true
		if m.connected && m.peers != nil {
			m.drain(now) // by the latest reading of the group: others skip an instance that ignores its offer
		}
	case Undrain:
		m.draining, m.look = false, true
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
	m.connected, m.session, m.syncPeriod = true, ev.Session, cmp.Or(ev.SyncPeriod, m.cfg.SyncPeriod)
	m.nextBeat = now.Mono
	m.phase = resting
	m.past.forget()
	clear(m.signs)
	for _, s := range m.slots {
		s.beatSince = beatTimes{}
	}
	m.lookAll()
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
	able := m.crowd(ev.Able)
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
	// The slot stays until its requests are answered. Otherwise the answers would
	// be taken for those of a job that was submitted again under this name, and
	// two instances could hold a lease on it.
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

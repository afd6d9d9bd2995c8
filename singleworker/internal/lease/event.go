package lease

import "time"

// Slot names a unit of ownership.
type Slot string

// Instant is one reading of this instance's clocks; see the package comment.
type Instant struct {
	Mono    time.Duration
	Elapsed time.Duration
}

// Member is one start of one instance.
type Member struct{ SID, Incarnation string }

// Beat is a heartbeat node: a child of a slot's alive node.
type Beat struct {
	SID     string
	Version int32
	Mzxid   int64 // of the transaction that wrote it last
}

// Record is what was read of a slot.
type Record struct {
	Exists  bool // the alive node is there
	Version int32
	Mzxid   int64
	Owner   Member // zero when nobody is named
	Offer   string // the instance that the slot was handed to
	Beats   []Beat
}

// beat returns the version of sid's heartbeat node, or noBeat.
func (r Record) beat(sid string) int32 {
	for _, b := range r.Beats {
		if b.SID == sid {
			return b.Version
		}
	}
	return noBeat
}

const noBeat int32 = -1

// Peer is a live instance.
type Peer struct {
	Incarnation string
	Opaque      bool // its record is not readable: it lives, whatever its incarnation
	Closed      bool // takes no further slots: stopping or disabled
	MaxSlots    int  // 0: no limit
	Weight      int  // of its share; 0: 1
	// Session is the session timeout that it was granted; 0: not known, taken for ours.
	Session time.Duration
}

// Outcome is what became of a request.
type Outcome int

// The outcomes of a request.
const (
	Unknown Outcome = iota // no reply: it may have been applied, or may yet be
	Done                   // applied
	Refused                // not applied: a version or a node was not as the request said
)

// Event is a fact that the machine is told.
type Event interface{ event() }

// The events.
type (
	// Opened: a session is connected, this instance's ephemeral node exists.
	Opened struct {
		Session    time.Duration
		SyncPeriod time.Duration // 0: Config's; shorter where the session was granted shorter
	}
	// Suspended: the connection is lost, the session may live on.
	Suspended struct{}
	// Expired: the session is over, the ephemeral node is gone with it.
	Expired struct{}

	// SlotSet: the slot exists. Eligible says that this instance can run it;
	// Able lists all instances that registered for it. The slots of one Group are
	// spread over the instances; empty: the slot is alone.
	SlotSet struct {
		Slot     Slot
		Eligible bool
		Able     []string
		Group    string
	}
	// SlotGone: the job was deleted.
	SlotGone struct{ Slot Slot }
	// Busy: a run of the slot began or ended.
	Busy struct {
		Slot Slot
		Busy bool
	}

	// Look: the slot may have changed.
	Look struct{ Slot Slot }
	// LookAround: the instances have changed.
	LookAround struct{}
	// LookGroup: nobody came or went, but who takes slots may have changed.
	LookGroup struct{}
	// LookAll: the sync period is over. Look at whatever watches do not tell.
	LookAll struct{}
	// Tick: the time given by NextBeat has come.
	Tick struct{}
	// Drain: take nothing more and hand every slot back as soon as it is idle.
	Drain struct{}
	// Undrain: take slots again.
	Undrain struct{}

	// SlotRead answers ReadSlot. Outcome is Done or Unknown.
	SlotRead struct {
		Slot    Slot
		Outcome Outcome
		Record  Record
	}
	// GroupRead answers the ReadGroup of the same Asked with the live
	// instances by sid.
	GroupRead struct {
		Asked   int
		Outcome Outcome
		Peers   map[string]Peer
	}
	// TakeDone answers Take. SentAt was read before it was sent.
	TakeDone struct {
		Slot    Slot
		Outcome Outcome
		Version int32 // of the alive node now
		Mzxid   int64 // of the alive node now: the token
		SentAt  Instant
	}
	// BeatDone answers one slot of a SendBeats.
	BeatDone struct {
		Slot    Slot
		Outcome Outcome
		Version int32 // of the heartbeat node now
		Mzxid   int64 // likewise
		SentAt  Instant
	}
	// ReleaseDone answers Release.
	ReleaseDone struct {
		Slot    Slot
		Outcome Outcome
	}
	// YieldDone answers Yield, whatever its outcome.
	YieldDone struct{ Slot Slot }
)

func (Opened) event()      {}
func (Suspended) event()   {}
func (Expired) event()     {}
func (SlotSet) event()     {}
func (SlotGone) event()    {}
func (Busy) event()        {}
func (Look) event()        {}
func (LookAround) event()  {}
func (LookGroup) event()   {}
func (LookAll) event()     {}
func (Tick) event()        {}
func (Drain) event()       {}
func (Undrain) event()     {}
func (SlotRead) event()    {}
func (GroupRead) event()   {}
func (TakeDone) event()    {}
func (BeatDone) event()    {}
func (ReleaseDone) event() {}
func (YieldDone) event()   {}

// Action is something to do. Each request is answered exactly once, however
// late, by the event named with it; the machine has at most one request and one
// heartbeat of a slot under way. Replies may overtake each other, but no reply
// of a session is told before the Expired of the session before it.
type Action interface{ action() }

// The actions.
type (
	// ReadSlot: read the alive node and its children. Answer: SlotRead.
	ReadSlot struct{ Slot Slot }
	// ReadGroup: read the live instances. Answer: GroupRead.
	ReadGroup struct{ Asked int }
	// Take: in one transaction set alive to this incarnation if its version
	// is Version, delete each heartbeat in Remove if its version still is the
	// one given, create this instance's heartbeat. Answer: TakeDone.
	Take struct {
		Slot    Slot
		Version int32
		Remove  []Beat
	}
	// SendBeats: set each heartbeat if its version is the one given; a
	// refused one must not keep the others back. Answer: a BeatDone for each.
	SendBeats struct{ Beats map[Slot]int32 }
	// Release: in one transaction set alive to empty (with an offer, if one is
	// named) if its version is Version, and delete this instance's heartbeat
	// if Beat says there is one. Answer: ReleaseDone.
	Release struct {
		Slot    Slot
		Version int32
		Beat    bool
		Offer   string
	}
	// Yield: delete a heartbeat that no record backs, if its version is
	// still the one given. Answer: YieldDone.
	Yield struct {
		Slot Slot
		Beat Beat
	}

	// Gained: the slot is owned, runs may start until the lease ends.
	Gained struct {
		Slot    Slot
		Token   int64
		Version int32 // of the alive node: what a claim checks
		Until   time.Duration
	}
	// Renewed: the lease of an owned slot ends at Until, on the Elapsed clock.
	Renewed struct {
		Slot  Slot
		Until time.Duration
	}
	// Lost: the slot is not ours any more. Start no run; end running ones.
	Lost struct {
		Slot   Slot
		Reason Reason
	}
)

func (ReadSlot) action()  {}
func (ReadGroup) action() {}
func (Take) action()      {}
func (SendBeats) action() {}
func (Release) action()   {}
func (Yield) action()     {}
func (Gained) action()    {}
func (Renewed) action()   {}
func (Lost) action()      {}

// Reason says why a slot was lost.
type Reason int

// The reasons.
const (
	Taken    Reason = iota // the record names another, or a heartbeat was refused
	Vanished               // the record is gone: the job was cancelled
	Given                  // released or offered by this instance
)

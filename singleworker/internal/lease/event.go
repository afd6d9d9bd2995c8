package lease

import "time"

// Slot names a unit of ownership.
type Slot string

// Instant is a reading of this instance's clocks; see the package comment.
type Instant struct {
	Mono    time.Duration
	Elapsed time.Duration
}

// Member is one incarnation (start) of an instance.
type Member struct{ SID, Incarnation string }

// Beat is a heartbeat node: a child of a slot's alive node.
type Beat struct {
	SID     string
	Version int32
	At      uint32 // when it was last written, by ZooKeeper's clock, in milliseconds modulo 2^32; only passed on
	Mzxid   int64  // of the transaction that last wrote it
}

// Record is the state of a slot as it was read.
type Record struct {
	Exists  bool // the alive node exists
	Version int32
	Mzxid   int64
	Owner   Member // zero if the record names none
	Offer   string // the instance that the slot is offered to
	// Relieved is whom Owner took the slot from although it was alive; zero if nobody.
	Relieved Member
	Beats    []Beat
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

// Life is the sign of life of an incarnation, as it was read. It says whether an owner hangs, and
// nothing rests on it.
type Life struct {
	Exists bool
	Mzxid  int64 // of the transaction that last wrote it
}

// Peer is a live instance.
type Peer struct {
	Incarnation string
	Opaque      bool // its record is unreadable: it counts as alive with any incarnation
	Closed      bool // takes no further slots: stopping or disabled
	MaxSlots    int  // 0: no limit
	Weight      int  // of its share; 0 means 1
	// Session is the session timeout that it was granted; 0 means unknown, assumed to be ours.
	Session time.Duration
}

// Outcome is the outcome of a request.
type Outcome int

// The outcomes of a request.
const (
	Unknown Outcome = iota // no reply: it may have been applied, or may still be
	Done                   // applied
	Refused                // not applied: a check of a version or node failed
)

// Event is an input of the machine.
type Event interface{ event() }

// The events.
type (
	// Opened: a session is connected, and this instance's ephemeral node exists.
	Opened struct {
		Session    time.Duration
		SyncPeriod time.Duration // 0 means Config.SyncPeriod; shorter if the session was granted shorter
	}
	// Suspended: the connection is lost; the session may still be alive.
	Suspended struct{}
	// Expired: the session has expired, and the ephemeral node is gone with it.
	Expired struct{}

	// SlotSet: the slot exists. Eligible means that this instance can run it;
	// Able lists all instances that have registered for it. The slots of a Group
	// are spread over the instances; "" means that the slot has no group.
	SlotSet struct {
		Slot     Slot
		Eligible bool
		Able     []string
		Group    string
		Always   bool // a run of it does not end by itself: it is evicted for the slot to move
		// Bound means that nobody but this instance ever has it: it counts in no share and not in
		// MaxSlots.
		Bound bool
	}
	// SlotGone: the job was deleted.
	SlotGone struct{ Slot Slot }
	// Busy: a run of the slot began or ended.
	Busy struct {
		Slot Slot
		Busy bool
	}

	// Claiming: a transaction is about to be sent that opens a run of the slot, and is a heartbeat of
	// it as well.
	Claiming struct{ Slot Slot }

	// Overdue: a run of the slot is due that its owner has not claimed, and none is open; see rule
	// (c).
	Overdue struct{ Slot Slot }

	// Look: the slot may have changed.
	Look struct{ Slot Slot }
	// LookGroup: an instance has joined or left, or its willingness to take slots may have changed.
	LookGroup struct{}
	// LookAll: a sync period has passed. Look at what watches do not report.
	LookAll struct{}
	// Tick: the time returned by NextBeat has come.
	Tick struct{}
	// Leapt: the wall clock has leapt. It was set, or the machine was suspended: only ZooKeeper can
	// tell whether leases hold.
	Leapt struct{}
	// Drain: take no more slots, and release every slot as soon as it is idle.
	Drain struct{}
	// Undrain: take slots again.
	Undrain struct{}

	// SlotRead answers ReadSlot. Refused means that the slot may not be read.
	SlotRead struct {
		Slot    Slot
		Outcome Outcome
		Record  Record
	}
	// GroupRead answers the ReadGroup with the same Asked. Peers are the live
	// instances by sid.
	GroupRead struct {
		Asked   int
		Outcome Outcome
		Peers   map[string]Peer
	}
	// TakeDone answers Take. SentAt is an instant before it was sent.
	TakeDone struct {
		Slot    Slot
		Outcome Outcome
		Version int32 // of the alive node after it
		Mzxid   int64 // of the alive node after it: the token
		SentAt  Instant
	}
	// BeatDone answers one slot of a SendBeats.
	BeatDone struct {
		Slot    Slot
		Outcome Outcome
		Version int32 // of the heartbeat node after it
		Mzxid   int64 // of the heartbeat node after it
		SentAt  Instant
	}
	// Claimed follows Claiming. Refused means that the heartbeat was not written, for whatever reason.
	Claimed struct {
		Slot    Slot
		Outcome Outcome
		Version int32 // of the heartbeat node after it
		Mzxid   int64 // of the heartbeat node after it
		SentAt  Instant
	}
	// LivesRead answers ReadLives.
	LivesRead struct {
		Outcome Outcome
		Lives   map[Member]Life // of those that were asked for
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
func (Claiming) event()    {}
func (Overdue) event()     {}
func (Look) event()        {}
func (LookGroup) event()   {}
func (LookAll) event()     {}
func (Tick) event()        {}
func (Leapt) event()       {}
func (Drain) event()       {}
func (Undrain) event()     {}
func (SlotRead) event()    {}
func (GroupRead) event()   {}
func (TakeDone) event()    {}
func (BeatDone) event()    {}
func (Claimed) event()     {}
func (LivesRead) event()   {}
func (ReleaseDone) event() {}
func (YieldDone) event()   {}

// Action is an output of the machine. Each request must be answered exactly
// once, however late, by the event named with it. The machine has at most one
// request and one heartbeat per slot in flight. Replies may overtake each other,
// but no reply of a session may precede the Expired of the session before it.
type Action interface{ action() }

// The actions.
type (
	// ReadSlot: read the alive node and its children, with Sync as they are once the server has caught
	// up with the leader. Owner had the slot at the latest reading: probably the only heartbeat is
	// its. Answer: SlotRead.
	ReadSlot struct {
		Slot  Slot
		Owner string
		Sync  bool
	}
	// ReadLives: read the signs of life of these incarnations. Answer: LivesRead.
	ReadLives struct{ Who []Member }
	// ReadGroup: read the live instances. Answer: GroupRead.
	ReadGroup struct{ Asked int }
	// Take: in one transaction, set alive to this incarnation if its version is
	// Version, delete each heartbeat in Remove if its version is unchanged, and
	// create this instance's heartbeat. Answer: TakeDone.
	//
	// Relieves is the owner if it is alive, by rule (b) or (c). The record that is set names it as
	// Relieved, until the next change.
	//
	// If Overdue is set, the owner may be alive, and the request must prove rule (c): that alive, last
	// changed by the transaction Mzxid, still is the record that was read; that a run is due; and, in
	// the same transaction, that none is open. It removes the owner's heartbeat as it then reads it.
	// Otherwise it is refused.
	Take struct {
		Slot     Slot
		Version  int32
		Remove   []Beat
		Relieves Member
		Overdue  bool
		Mzxid    int64
	}
	// SendBeats: write this instance's sign of life, and set each heartbeat if its version is the one
	// given. A refused one must not affect the others. Answer: a BeatDone for each heartbeat; there
	// may be none.
	SendBeats struct{ Beats map[Slot]int32 }
	// Release: in one transaction, set alive to empty (or to the Offer) if its
	// version is Version, and delete this instance's heartbeat if Beat is set.
	// Answer: ReleaseDone.
	Release struct {
		Slot    Slot
		Version int32
		Beat    bool
		Offer   string
	}
	// Evict: end the run of the slot, which is Always and busy. It is released when that has ended.
	Evict struct{ Slot Slot }
	// Yield: delete a heartbeat of an instance that is not the owner, if its
	// version is unchanged. Answer: YieldDone.
	Yield struct {
		Slot Slot
		Beat Beat
	}

	// Gained: the slot is owned, and runs may start until the lease ends at
	// Until, on the Elapsed clock.
	Gained struct {
		Slot    Slot
		Token   int64
		Version int32 // of the alive node; claims check it
		Until   time.Duration
		From    string // the instance that had not claimed a run in time, if rule (c) was applied
	}
	// Renewed: the lease of an owned slot now ends at Until, on the Elapsed clock.
	Renewed struct {
		Slot  Slot
		Until time.Duration
	}
	// Lost: the slot is no longer ours. Start no runs; cancel running ones.
	Lost struct {
		Slot   Slot
		Reason Reason
	}
)

func (ReadSlot) action()  {}
func (ReadLives) action() {}
func (ReadGroup) action() {}
func (Take) action()      {}
func (SendBeats) action() {}
func (Release) action()   {}
func (Evict) action()     {}
func (Yield) action()     {}
func (Gained) action()    {}
func (Renewed) action()   {}
func (Lost) action()      {}

// Reason is why a slot was lost.
type Reason int

// The reasons.
const (
	Taken    Reason = iota // the record names another owner, or a heartbeat was refused
	Vanished               // the record is gone: the job was canceled
	Given                  // released or offered by this instance
)

package lease

import "time"

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

func stale(session time.Duration) time.Duration { return session * staleNum / staleDen }

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

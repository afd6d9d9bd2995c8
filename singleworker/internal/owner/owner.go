package owner

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Why a slot was lost, besides leases.ErrLost: the cause in which its runs' contexts end.
var (
	// ErrCanceled is the cause when the job was deleted.
	ErrCanceled = errors.New("singleworker: job canceled")
	// ErrHandedOver is the cause when this instance gave the slot to another one.
	ErrHandedOver = errors.New("singleworker: job handed over")
	// ErrRetired is the cause when the job was resharded and no longer has the slot.
	ErrRetired = errors.New("singleworker: shard retired")
)

// The notices of this room.
type (
	// Gained tells that this instance owns a slot.
	Gained struct{ Slot string }
	// Lost tells that it no longer does.
	Lost struct {
		Slot  string
		Cause error
	}
	// Confirmed tells that the record of an owned slot was read in a new session.
	Confirmed struct{ Slot string }
	// TakenOver tells that this instance has taken a slot from an owner that had died, or had not
	// claimed a run in time, and for how long that had sent no heartbeat for it, by ZooKeeper's clock.
	TakenOver struct{ Silent time.Duration }
	// Moving tells that the run of a slot, of a job that always runs, is to end, for the slot to move.
	Moving struct{ Slot string }
)

// Config has the settings of an Owner.
type Config struct {
	SyncPeriod time.Duration
	IdleBeat   time.Duration // how often the heartbeat of a slot without a run is written at least
	MaxSlots   int           // 0: no limit
	Weight     int           // 0: 1
	// Grace is how long a run of an idle slot may be due, by ZooKeeper's clock, before this instance
	// takes the slot from its owner.
	Grace  time.Duration
	Leases *leases.Table
}

// Owner owns slots.
type Owner struct {
	Pulse    *Pulse
	Sessions *Sessions

	loop    *session.Loop
	member  *member.Member
	catalog *catalog.Catalog
	leases  *leases.Table
	machine *lease.Machine
	grace   time.Duration

	owned    map[string]*Ownership
	origins  map[lease.Slot]Origin // of slots that were taken, until that is told
	draining bool
}

// Origin is how a slot came to be owned.
type Origin string

// The origins.
const (
	Unsure  Origin = "unknown" // the answer to the request that took it was lost
	Free    Origin = "free"    // nobody owned it
	Offered Origin = "offered" // its owner handed it over to this instance
	Died    Origin = "died"    // its owner has died, or has sent no heartbeats for too long
	Overdue Origin = "overdue" // its owner had not claimed a run in time
)

// Ownership is a slot that this instance owns.
type Ownership struct {
	Token  int64
	Lease  *leases.Lease
	Since  time.Time // on this instance's clock
	From   string    // the instance that was relieved because it had not claimed a run in time, or ""
	Origin Origin

	version int32 // of the alive node: what guards check
	epoch   int   // the session in which the alive node was seen to be so
	looked  int   // the session in which Sessions has asked for a look
}

// New returns an owner of nothing.
func New(loop *session.Loop, m *member.Member, c *catalog.Catalog, cfg Config) *Owner {
	o := &Owner{
		loop: loop, member: m, catalog: c, leases: cfg.Leases, grace: cfg.Grace, owned: make(map[string]*Ownership), origins: make(map[lease.Slot]Origin),
		machine: lease.New(lease.Config{
			Self: m.Self(), SyncPeriod: cfg.SyncPeriod, IdleBeat: cfg.IdleBeat, MaxSlots: cfg.MaxSlots, Weight: cfg.Weight, Soon: c.Soon,
		}),
	}
	o.Sessions = &Sessions{owner: o}
	o.Pulse = &Pulse{owner: o, claims: make(map[string]int), takes: make(map[string]lease.Take)}
	return o
}

// Owned is a slot's ownership, or nil.
func (o *Owner) Owned(slot string) *Ownership { return o.owned[slot] }

// Slots calls f for every slot that this instance owns.
func (o *Owner) Slots(f func(slot string)) {
	for slot := range o.owned {
		f(slot)
	}
}

// Count is how many slots this instance owns.
func (o *Owner) Count() int { return len(o.owned) }

// Idle reports whether the protocol owns nothing, and nothing of it is under way.
func (o *Owner) Idle() bool { return o.machine.Idle() }

// NextBeat is when Beat is due, on Mono.
func (o *Owner) NextBeat() time.Duration { return o.machine.NextBeat() }

// Changes counts possible changes of who owns which slot, and who can.
func (o *Owner) Changes() int { return o.machine.Changes() }

// Draining reports whether the instance is handing back its slots.
func (o *Owner) Draining() bool { return o.draining }

// Step tells the protocol a fact. The resulting actions are carried out later in this turn, in
// their order.
func (o *Owner) Step(ev lease.Event) {
	switch ev.(type) {
	case lease.Drain:
		o.draining = true
	case lease.Undrain:
		o.draining = false
	case lease.Expired:
		// The others take over from now on: runs end at once, whatever their lease says.
		o.Lapse()
		o.Sessions.epoch++
	}
	var slots []*reading
	var lives []lease.Member
	for _, action := range o.machine.Step(o.loop.Clock.Now(), ev) {
		switch a := action.(type) {
		case lease.ReadSlot:
			slots = append(slots, &reading{slot: string(a.Slot), owner: a.Owner, sync: a.Sync})
			continue
		case lease.ReadLives:
			lives = a.Who
			continue
		case lease.Renewed:
			o.leases.Renew(a.Slot, a.Until) // at once: a run may be about to begin
			continue
		}
		o.loop.Defer(func() { o.do(action) })
	}
	if len(slots)+len(lives) > 0 {
		o.loop.Defer(func() { o.readSlots(slots, lives) })
	}
}

// Lapse ends every lease now.
func (o *Owner) Lapse() { o.leases.Lapse() }

// Look has the protocol look at a slot that may have changed.
func (o *Owner) Look(slot string) { o.Step(lease.Look{Slot: lease.Slot(slot)}) }

// SetBusy says whether a slot's record is being changed or its run is under way: it is not handed
// over then.
func (o *Owner) SetBusy(slot string, busy bool) {
	o.Step(lease.Busy{Slot: lease.Slot(slot), Busy: busy})
}

// do carries out one action of the protocol.
func (o *Owner) do(action lease.Action) {
	switch a := action.(type) {
	case lease.ReadGroup:
		o.readGroup(a)
	case lease.Take:
		o.Pulse.take(a)
	case lease.SendBeats:
		o.Pulse.send(a)
	case lease.Release:
		o.release(a)
	case lease.Evict:
		o.loop.Tell(Moving{string(a.Slot)})
	case lease.Yield:
		o.yield(a)
	case lease.Gained:
		o.gained(a)
	case lease.Lost:
		o.lost(a)
	}
}

func (o *Owner) gained(a lease.Gained) {
	slot := string(a.Slot)
	o.owned[slot] = &Ownership{
		Token: a.Token, Lease: o.leases.Open(a.Slot, a.Token, a.Until), Since: o.loop.Clock.Wall(), From: a.From,
		Origin: cmp.Or(o.origins[a.Slot], Unsure), version: a.Version, epoch: o.Sessions.epoch,
	}
	delete(o.origins, a.Slot)
	if a.From == "" {
		o.loop.Log.Info("job owned", "job", slot, "token", a.Token)
	} else {
		o.loop.Log.Warn("job taken over: its owner had not claimed a run in time", "job", slot, "token", a.Token, "owner", a.From)
	}
	o.loop.Tell(Gained{slot})
}

func (o *Owner) lost(a lease.Lost) {
	slot := string(a.Slot)
	cause := o.causeOf(a)
	o.loop.Log.Info("job no longer owned", "job", slot, "reason", cause)
	o.leases.Close(a.Slot, cause)
	delete(o.owned, slot)
	o.loop.Tell(Lost{slot, cause})
}

func (o *Owner) causeOf(a lease.Lost) error {
	switch a.Reason {
	case lease.Given:
		return ErrHandedOver
	case lease.Vanished:
		if j := o.catalog.JobOf(string(a.Slot)); j != nil && !j.Has(string(a.Slot)) {
			return ErrRetired
		}
		return ErrCanceled
	default:
		return leases.ErrLost
	}
}

// outcomeOf translates a request's error for the protocol.
func outcomeOf(err error) lease.Outcome {
	switch {
	case err == nil:
		return lease.Done
	case zkconn.IsUnknown(err):
		return lease.Unknown
	default:
		return lease.Refused
	}
}

func (o *Owner) readGroup(a lease.ReadGroup) {
	fetch := o.member.Roster.Fetch()
	o.loop.Async("read group", func(ctx context.Context) func() {
		group, err := fetch(ctx)
		if err != nil && !zkconn.IsUnknown(err) {
			o.loop.WaitToAskAgain(ctx)
		}
		return func() {
			read := lease.GroupRead{Asked: a.Asked, Outcome: lease.Done, Peers: group.Peers}
			if err != nil {
				o.member.LogUnreadable(o.loop.Tree.Instances(), err)
				read.Outcome = lease.Unknown
			} else if o.member.Follow(group) {
				o.Step(lease.Expired{})
			}
			// After the notices of Follow, and their consequences: an order found there drains first, and
			// slots are set for who can run them now.
			o.loop.Defer(func() { o.loop.Defer(func() { o.Step(read) }) })
		}
	})
}

package roomtest

import (
	"context"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Foreign is a job that no instance can run.
const Foreign = "foreign"

// Handlers has the handler of every job but Without.
type Handlers struct{ Without []string }

// Has reports whether there is a handler of that name.
func (h Handlers) Has(name string) bool { return !slices.Contains(h.Without, name) }

// Room is how one room takes part in its instance, in place of a coordinator. Its funcs are called
// on the loop; nil ones do nothing.
type Room struct {
	Event   func(ev zkconn.Event)  // of the session
	Joined  func()                 // the instance has joined
	Changed func(path string)      // a watched node has changed
	Handle  func(n session.Notice) // a room has told something
	Sync    func()                 // once per sync period, also while not joined
	Turn    func()                 // at each wake-up
}

// Rooms are the rooms of one instance, up to the one that its constructor names. They join, follow
// watches, sync and send heartbeats; nothing leaves.
type Rooms struct {
	*Loop
	*Runner
	Member  *member.Member
	Entry   *member.Entry
	Catalog *catalog.Catalog
	Owner   *owner.Owner
	Leases  *leases.Table
	Journal *journal.Journal

	// Prepare, if set, is called beside the loop in each connection before the instance appears.
	Prepare func(ctx context.Context, attempt int) error

	rooms    []Room
	reading  session.OnePerTime
	nextSync time.Duration
}

// NewMember returns the rooms up to the member. Start runs them.
func (g *Group) NewMember(cfg member.Config) *Rooms {
	if cfg.Instance.Incarnation == "" {
		cfg.Instance.Incarnation = cfg.ID + "-1"
	}
	r := &Rooms{Loop: g.NewLoop(cfg.ID)}
	r.Member = member.New(r.Loop.Loop, cfg)
	r.Entry = r.Member.Entry
	r.OnEvent, r.OnTurn = r.event, r.wakeUp
	r.OnNotice = func(n session.Notice) {
		for _, room := range r.rooms {
			if room.Handle != nil {
				room.Handle(n)
			}
		}
	}
	return r
}

// NewCatalog returns the rooms up to the catalog, which can run every job but those named.
func (g *Group) NewCatalog(cfg member.Config, without ...string) *Rooms {
	r := g.NewMember(cfg)
	r.Catalog = catalog.New(r.Loop.Loop, r.Member, Handlers{without})
	r.Catalog.Agenda.Strict = true
	able := func(n session.Notice) {
		if _, changed := n.(member.AbleChanged); changed {
			r.Catalog.AbleChanged()
		}
	}
	joined := func() {
		r.readGroup()
		r.Catalog.Joined()
	}
	r.Add(Room{Joined: joined, Sync: r.Catalog.Sync, Handle: able, Changed: func(path string) {
		if path == r.Tree.Instances() || r.Tree.IsInstance(path) || r.Tree.IsOrders(path) {
			r.readGroup()
		} else if path == r.Tree.Root() {
			r.Catalog.List()
		} else if n, ok := r.Tree.SignalAt(path); ok {
			r.Catalog.Signals.Hear(n)
		} else if slot, ok := r.Tree.Watched(path); ok {
			r.Catalog.RefreshJob(slot)
		}
	}})
	return r
}

// NewOwner returns the rooms up to the owner, which can run every job but those named.
func (g *Group) NewOwner(cfg member.Config, without ...string) *Rooms {
	r := g.NewCatalog(cfg, without...)
	r.Leases = leases.NewTable(r.Clock)
	r.Owner = owner.New(r.Loop.Loop, r.Member, r.Catalog, owner.Config{SyncPeriod: SyncPeriod, Grace: g.Grace, Leases: r.Leases})
	r.Add(Room{
		Event: r.tellOwner, Changed: r.lookAgain, Handle: r.routeToOwner,
		Joined: func() {
			r.Owner.Step(lease.Opened{Session: r.Conn.SessionTimeout(), SyncPeriod: r.SyncPeriod()})
		},
		Sync: func() {
			if r.Joined() {
				r.Owner.Step(lease.LookAll{})
			}
		},
		Turn: func() {
			if r.Joined() && r.Now() >= r.Owner.NextBeat() {
				r.Owner.Step(lease.Tick{})
			}
		},
	})
	return r
}

// NewJournal returns the rooms up to the journal, with a runner of the owned slots.
func (g *Group) NewJournal(sid string, without ...string) *Rooms {
	r := g.NewOwner(member.Config{ID: sid}, without...)
	r.Runner = NewRunner(g)
	r.Journal = journal.New(r.Loop.Loop, r.Member, r.Catalog, r.Owner, r.Runner, zkrec.MinHistory)
	r.Journal.Agenda.Strict = true
	r.CommitTo(r.Journal)
	r.OnEnded = r.Journal.Ended
	r.Add(Room{
		Joined: r.Journal.Joined, Handle: r.routeToJournal,
		Changed: func(path string) {
			switch slot, _ := r.Tree.Watched(path); path {
			case r.Tree.AskedOf(r.Member.Self().Incarnation):
				r.Journal.Signal.Hear()
			case r.Tree.Tick(slot):
				r.Journal.Gates.Changed(slot)
			}
		},
		Sync: func() {
			r.Journal.AdvanceAll()
			r.Journal.Sync()
		},
	})
	return r
}

// readGroup reads the group, unless there is an owner, who does. One reading at a time: an earlier
// one must not be followed after a later one.
func (r *Rooms) readGroup() {
	if r.Owner != nil || !r.reading.Begin() {
		return
	}
	fetch := r.Member.Roster.Fetch()
	r.Async("read group", func(ctx context.Context) func() {
		group, err := fetch(ctx)
		return func() {
			again := r.reading.End()
			if err == nil {
				r.Member.Follow(group)
			}
			if again {
				r.readGroup()
			}
		}
	})
}

// Add adds a room above the others. It is called before Start.
func (r *Rooms) Add(room Room) { r.rooms = append(r.rooms, room) }

func (r *Rooms) event(ev zkconn.Event) {
	r.Member.Event(ev)
	if ev.Kind == zkconn.NodeChanged && (r.Tree.IsOrders(ev.Path) || r.Tree.IsInstance(ev.Path)) {
		r.Member.Roster.Changed(ev.Path)
	}
	if ev.Kind == zkconn.Connected {
		r.join()
	}
	for _, room := range r.rooms {
		if room.Event != nil {
			room.Event(ev)
		}
		if ev.Kind == zkconn.NodeChanged && room.Changed != nil {
			room.Changed(ev.Path)
		}
	}
}

// join joins in the connection, as an instance that has joined before.
func (r *Rooms) join() {
	attempt, self := r.BeginAttempt(), r.Member.Record()
	r.Async("join", func(ctx context.Context) func() {
		var mine zkrec.Instance
		var err error
		if r.Prepare != nil {
			err = r.Prepare(ctx, attempt)
		}
		if err == nil {
			mine, err = r.Entry.Appear(ctx, self)
		}
		return func() {
			if err != nil || attempt != r.Attempt() {
				return
			}
			r.SetJoined(true)
			r.Member.Joined(mine)
			for _, room := range r.rooms {
				if room.Joined != nil {
					room.Joined()
				}
			}
			r.nextSync = r.Now()
		}
	})
}

func (r *Rooms) wakeUp() {
	if r.Now() >= r.nextSync {
		r.nextSync = r.Now() + SyncPeriod
		r.Sync()
	}
	for _, room := range r.rooms {
		if room.Turn != nil {
			room.Turn()
		}
	}
}

// Sync looks for changes that the watches may have missed. It is called on the loop.
func (r *Rooms) Sync() {
	for _, room := range r.rooms {
		if room.Sync != nil {
			room.Sync()
		}
	}
}

func (r *Rooms) tellOwner(ev zkconn.Event) {
	switch ev.Kind {
	case zkconn.Disconnected:
		r.Owner.Step(lease.Suspended{})
	case zkconn.Expired:
		r.Owner.Step(lease.Expired{})
	case zkconn.Connected, zkconn.NodeChanged:
	}
}

func (r *Rooms) lookAgain(path string) {
	slot, _ := r.Tree.Watched(path)
	switch {
	case path == r.Tree.Instances():
		r.Owner.Step(lease.LookGroup{})
	case r.Tree.IsOrders(path), r.Tree.IsInstance(path):
		r.Owner.Step(lease.LookGroup{})
	case path == r.Tree.Alive(slot):
		r.Owner.Look(slot)
	}
}

func (r *Rooms) routeToOwner(n session.Notice) {
	switch n := n.(type) {
	case member.Draining:
		if n.On {
			r.Owner.Step(lease.Drain{})
		} else {
			r.Owner.Step(lease.Undrain{})
		}
	case catalog.SlotSet:
		r.Owner.Step(n.SlotSet)
	case catalog.SlotGone:
		r.Owner.Step(lease.SlotGone{Slot: n.Slot})
	case catalog.Repaired:
		r.Owner.Look(n.Slot)
	}
}

func (r *Rooms) routeToJournal(n session.Notice) {
	switch n := n.(type) {
	case catalog.Unrunnable:
		r.Journal.Withhold(n.Job, n.Err)
	case catalog.Repaired:
		r.Journal.Advance(n.Slot)
	case catalog.Changed:
		if n.Spec {
			r.Journal.SpecChanged(n.Job)
		}
	case owner.Gained:
		r.Journal.Gained(n.Slot)
	case owner.Confirmed:
		r.Journal.Advance(n.Slot)
	case owner.Lost:
		r.Journal.Lost(n.Slot, n.Cause)
	}
}

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

// Handlers are those of every job but Without.
type Handlers struct{ Without []string }

// Has reports whether there is a handler of that name.
func (h Handlers) Has(name string) bool { return !slices.Contains(h.Without, name) }

// Rooms are those of one instance, up to the journal. Without a coordinator they join, follow watches,
// sync and beat; nothing drains or leaves.
type Rooms struct {
	*Loop
	*Runner
	Member  *member.Member
	Catalog *catalog.Catalog
	Owner   *owner.Owner
	Journal *journal.Journal // nil without Runner

	entry    *member.Entry
	nextSync time.Duration
}

// NewRooms returns the rooms up to the owner, which Start runs; they can run every job but those named.
func (g *Group) NewRooms(sid string, without ...string) *Rooms {
	cfg := member.Config{ID: sid, Instance: zkrec.Instance{Incarnation: sid + "-1"}}
	r := &Rooms{Loop: g.NewLoop(sid)}
	r.entry, r.Member = member.NewEntry(r.Loop.Loop, cfg), member.New(r.Loop.Loop, cfg)
	r.Catalog = catalog.New(r.Loop.Loop, r.Member, Handlers{without})
	r.Owner = owner.New(r.Loop.Loop, r.Member, r.Catalog, owner.Config{
		SyncPeriod: SyncPeriod, Leases: leases.NewTable(r.Clock),
	})
	r.OnEvent, r.OnNotice, r.OnTurn = r.event, r.route, r.beatAndSync
	return r
}

// NewJournal returns the rooms up to the journal, and a runner of what is owned.
func (g *Group) NewJournal(sid string, without ...string) *Rooms {
	r := g.NewRooms(sid, without...)
	r.Runner = NewRunner(g)
	r.Journal = journal.New(r.Loop.Loop, r.Catalog, r.Owner, r.Runner)
	r.CommitTo(r.Journal.Commit)
	return r
}

func (r *Rooms) event(ev zkconn.Event) {
	switch ev.Kind {
	case zkconn.Connected:
		r.join()
	case zkconn.Disconnected:
		r.Owner.Step(lease.Suspended{})
	case zkconn.Expired:
		r.Owner.Step(lease.Expired{})
	case zkconn.NodeChanged:
		r.changed(ev.Path)
	}
}

func (r *Rooms) changed(path string) {
	slot, _ := r.Tree.Watched(path)
	switch {
	case path == r.Tree.Root():
		r.Catalog.List()
	case path == r.Tree.Instances():
		r.Owner.Step(lease.LookAround{})
	case r.Tree.IsOrders(path):
		r.Owner.Step(lease.LookGroup{})
	case path == r.Tree.Alive(slot):
		r.Owner.Look(slot)
	case path == r.Tree.Requests(slot) && r.Journal != nil:
		r.Journal.ReadRequests(slot)
	default:
		r.Catalog.RefreshJob(slot)
	}
}

// join joins once per connection, as an instance whose incarnation joined before.
func (r *Rooms) join() {
	attempt, self := r.BeginAttempt(), r.Member.Record()
	r.Async("join", func(ctx context.Context) func() {
		mine, err := r.entry.Appear(ctx, self)
		return func() {
			if err != nil || attempt != r.Attempt() {
				return
			}
			r.SetJoined(true)
			r.Owner.Step(lease.Opened{Session: r.Conn.SessionTimeout(), SyncPeriod: r.SyncPeriod()})
			r.Member.Joined(mine)
			r.Catalog.Joined()
			if r.Journal != nil {
				r.Journal.Joined()
			}
			r.nextSync = r.Now()
		}
	})
}

func (r *Rooms) beatAndSync() {
	if r.Now() >= r.nextSync {
		r.nextSync = r.Now() + SyncPeriod
		r.Sync()
	}
	if r.Joined() && r.Now() >= r.Owner.NextBeat() {
		r.Owner.Step(lease.Tick{})
	}
}

// Sync looks again at what the watches may have missed. It is called on the loop.
func (r *Rooms) Sync() {
	if r.Journal != nil {
		r.Journal.AdvanceAll()
	}
	if !r.Joined() {
		return
	}
	r.Catalog.Sync()
	if r.Journal != nil {
		r.Journal.Sync()
	}
	r.Owner.Step(lease.LookAll{})
}

// route passes on what the rooms up to the journal tell one another.
func (r *Rooms) route(n session.Notice) {
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
	if r.Journal != nil {
		r.tellJournal(n)
	}
}

func (r *Rooms) tellJournal(n session.Notice) {
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
	case owner.Lost:
		r.Journal.Lost(n.Slot, n.Cause)
	}
}

package deputy_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/deputy"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const grace = 250 * time.Millisecond

// never is how late a run is claimed that is not claimed.
const never = 1000 * time.Hour

// instance has the rooms up to the deputy. It claims the runs of its slots, each so late as the
// test wants, and writes their results at once.
type instance struct {
	*roomtest.Rooms

	name    string
	deputy  *deputy.Deputy
	late    func(slot string) time.Duration // nil: it claims in time. Called on the loop
	records map[string]ticks.Record         // by slot, while it is owned
	busy    map[string]bool
	refused map[string]time.Duration // Mono: when a claim of the slot was refused
	plans   int                      // made: runs of one moment have different IDs
}

// start starts an instance.
func start(g *roomtest.Group, name string, late func(slot string) time.Duration) *instance {
	g.T.Helper()
	i := newInstance(g, name, late)
	i.Start()
	return i
}

func newInstance(g *roomtest.Group, name string, late func(slot string) time.Duration) *instance {
	i := &instance{Rooms: g.NewJournal(name), name: name, late: late, records: make(map[string]ticks.Record), busy: make(map[string]bool), refused: make(map[string]time.Duration)}
	i.deputy = deputy.New(i.Loop.Loop, i.Member, i.Catalog, i.Owner, i.Journal, g.Grace)
	i.Add(roomtest.Room{
		Joined: i.deputy.Joined, Sync: i.deputy.Sync,
		Turn: func() {
			i.claim()
			if i.Joined() {
				i.deputy.Look()
			}
		},
		Handle: func(n session.Notice) {
			switch n := n.(type) {
			case catalog.Changed:
				i.deputy.Changed(n.Job, n.Spec)
			case journal.Asked:
				i.deputy.Asked(n.Slots)
			case journal.Claimed:
				i.deputy.Claimed(n.Late)
			case owner.Gained:
				delete(i.records, n.Slot)
				delete(i.busy, n.Slot)
				delete(i.refused, n.Slot)
				i.deputy.Watch(n.Slot)
			case owner.Lost:
				i.deputy.Watch(n.Slot)
			}
		},
	})
	i.OnNext = func(other time.Duration) time.Duration {
		now := time.Now()
		other = min(other, i.Now()+now.Truncate(time.Second).Add(time.Second).Sub(now)) // ticks are due
		if !i.Joined() {
			return other
		}
		return i.deputy.Next(other)
	}
	return i
}

// claim claims the runs that are due.
func (i *instance) claim() {
	for _, slot := range i.Slots() {
		i.Lock()
		o := i.Owned[slot]
		i.Unlock()
		if _, known := i.records[slot]; !known {
			i.records[slot] = *o.Record
		}
		now := i.Clock.Wall()
		if i.late != nil {
			late := i.late(slot)
			if late == never {
				continue
			}
			now = now.Add(-late)
		}
		i.plans++
		plan := ticks.Next(ticks.View{
			Job: *o.Job, Record: i.records[slot], Now: now, SID: i.name, Token: o.Lease.Token, OwnedSince: o.Since, TakenFrom: o.From,
			RunID: fmt.Sprint(slot, " by ", i.name, ", ", i.plans), Requests: o.Requests,
		})
		if at, refused := i.refused[slot]; i.busy[slot] || !plan.Change || refused && i.Now() < at+100*time.Millisecond {
			continue
		}
		i.busy[slot] = true
		if plan.Opens {
			plan.Record.Started = i.Clock.Wall().UnixMilli()
		}
		i.commit(slot, o, ticks.Commit{Slot: slot, Token: o.Lease.Token, Version: o.Job.Version, From: i.records[slot], Plan: plan})
	}
}

// commit writes a decision, and after a claim the result.
func (i *instance) commit(slot string, o journal.Ownership, c ticks.Commit) {
	i.Journal.Commit([]*ticks.Commit{&c}, func(_ int, current *zkrec.Tick, err error) {
		i.Post(func() {
			if current != nil {
				i.records[slot] = *current
			}
			if i.busy[slot] = false; err != nil {
				i.refused[slot] = i.Now()
				return
			}
			i.Forget(slot, c.Plan.Request)
			if c.Plan.Opens {
				i.busy[slot] = true
				end := ticks.End(*o.Job, *current, ticks.Outcome{State: history.StateOK, Ended: i.Clock.Wall()})
				i.commit(slot, o, ticks.Commit{Slot: slot, From: *current, Plan: end})
			}
		})
	})
}

// die ends an instance, as the others see it, at once: its session lives on.
func (i *instance) die() { i.Client.Partition() }

// submit submits jobs of that schedule.
func submit(g *roomtest.Group, n int, schedule string) {
	g.T.Helper()
	for k := range n {
		spec := zkrec.Spec{Job: jobs.Job{Schedule: schedule}, Since: time.Now().UnixMilli()}
		g.SubmitSpec(fmt.Sprintf("job%02d", k), spec)
	}
}

// until passes the time until then, after midnight.
func until(then time.Duration) { roomtest.Pass(time.Until(roomtest.Midnight.Add(then))) }

// taken is a slot that an instance took from its owner.
type taken struct {
	slot, by, from string
	at             time.Duration // after midnight
}

// takes lists the takes since zxid in the server's log.
func takes(g *roomtest.Group, zxid int64) (found []taken) {
	type deletion struct {
		zxid int64
		slot string
	}
	proven := make(map[deletion]bool) // of a proof; a transaction may also accept other slots, which were offered
	for _, txn := range g.Server.LogAfter(zxid) {
		if slot, _, is := strings.Cut(txn.Path, "/tick/"); is && txn.Code == zkdev.OK && txn.Op == zkdev.OpDelete {
			proven[deletion{txn.Zxid, strings.TrimPrefix(slot, g.Tree.Root()+"/")}] = true
		}
	}
	owners := make(map[string]string)
	for _, txn := range g.Server.Log() {
		slot, alive := strings.CutSuffix(txn.Path, "/alive")
		if txn.Code != zkdev.OK || txn.Op != zkdev.OpSetData || !alive {
			continue
		}
		slot = strings.TrimPrefix(slot, g.Tree.Root()+"/")
		record, err := zkrec.ParseOwner(txn.Data)
		if err != nil {
			g.T.Error(err)
		}
		if txn.Zxid > zxid && proven[deletion{txn.Zxid, slot}] {
			found = append(found, taken{slot, record.SID, owners[slot], txn.Time.Sub(roomtest.Midnight)})
		}
		owners[slot] = record.SID
	}
	return found
}

// wantTakes expects takes by rule (c), and no other.
func wantTakes(g *roomtest.Group, zxid int64, want ...taken) {
	g.T.Helper()
	if got := takes(g, zxid); !slices.Equal(got, want) {
		g.T.Errorf("taken %+v, want %+v", got, want)
	}
}

// reads counts the readings of tick nodes by instance, slot and second.
type reads struct {
	by       map[string]map[string]map[int64]int
	requests map[string]map[int64]int // that had such readings
	largest  int
}

// countReads counts from now on.
func countReads(g *roomtest.Group) *reads {
	r := &reads{by: make(map[string]map[string]map[int64]int), requests: make(map[string]map[int64]int)}
	g.Server.ControlKeep(zkdev.OpMultiRead, func(req *zkdev.Request) zkdev.Action {
		n := 0
		for _, op := range req.Ops {
			if slot, is := strings.CutSuffix(op.Path, "/tick"); is {
				n++
				r.note(req.Client, strings.TrimPrefix(slot, g.Tree.Root()+"/"))
			}
		}
		if n > 0 {
			if r.requests[req.Client] == nil {
				r.requests[req.Client] = make(map[int64]int)
			}
			r.requests[req.Client][time.Now().Unix()]++
		}
		r.largest = max(r.largest, n)
		return zkdev.Pass()
	})
	g.Server.ControlKeep(zkdev.OpGetData, func(req *zkdev.Request) zkdev.Action {
		if slot, is := strings.CutSuffix(req.Path, "/tick"); is && req.Xid != 0 {
			r.note(req.Client, strings.TrimPrefix(slot, g.Tree.Root()+"/"))
		}
		return zkdev.Pass()
	})
	return r
}

func (r *reads) note(client, slot string) {
	if r.by[client] == nil {
		r.by[client] = make(map[string]map[int64]int)
	}
	if r.by[client][slot] == nil {
		r.by[client][slot] = make(map[int64]int)
	}
	r.by[client][slot][time.Now().Unix()]++
}

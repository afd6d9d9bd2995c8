package journal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// requests is operators' requests of a slot's owner.
type requests struct {
	known bool
	list  []ticks.Request // in the order in which they were made; one that cannot be read has no Kind
	done  map[string]bool // removed, although a pending read may still show them
	// taken is the request that this owner has taken off a backfill last, although a pending read may
	// not show it yet.
	taken   *ticks.Request
	reading session.OnePerTime
	crowded bool // more wait than are read at a time, which was logged
	// nextLook is, on Mono, when the sync reads them although nothing says so.
	nextLook time.Duration
}

// readable lists the requests that this version understands.
func (r *requests) readable() []ticks.Request {
	return slices.DeleteFunc(slices.Clone(r.list), func(r ticks.Request) bool { return !r.IsRun() && !r.IsStop() })
}

func (r *requests) remove(id string) {
	r.list = slices.DeleteFunc(slices.Clone(r.list), func(r ticks.Request) bool { return r.ID == id })
}

// take notes that a claim has taken the next request off a backfill. The rest is to be read.
func (r *requests) take(backfill *ticks.Request) {
	r.remove(backfill.ID)
	next, _ := backfill.Next()
	r.taken = &next
	r.list = append(r.list, next)
}

// Asked tells that requests for the owners of slots may have changed: of all slots, if none is
// named.
type Asked struct{ Slots []string }

// Signal tells of requests, to this instance alone. So nodes of requests are not watched.
type Signal struct {
	*session.Listener

	journal *Journal
}

func newSignal(j *Journal, incarnation string) *Signal {
	s := &Signal{journal: j}
	s.Listener = session.Listen(j.loop, zkconn.CreateEphemeralOp(j.loop.Tree.AskedOf(incarnation), nil), s.told)
	return s
}

// told reads the requests of which the signal tells.
func (s *Signal) told(about string) {
	slots := signals.Slots(about)
	for _, slot := range slots {
		s.journal.ReadRequests(slot)
	}
	if slots == nil {
		for _, slot := range slices.Sorted(maps.Keys(s.journal.nodes.bySlot)) {
			s.journal.ReadRequests(slot)
		}
	}
	s.journal.loop.Tell(Asked{slots})
}

// ReadRequests reads operators' requests of an owned slot.
func (j *Journal) ReadRequests(slot string) {
	own := j.nodes.owned(slot)
	if own == nil || !j.loop.Joined() || !own.requests.reading.Begin() {
		return
	}
	r := requestsReading{j, slot, own}
	list := zkconn.Read{Path: j.loop.Tree.Requests(slot), Children: true}
	j.loop.Read([]zkconn.Read{list}, func(results []zkconn.ReadResult) {
		if err := results[0].Err; err != nil {
			r.done(nil, err)
			return
		}
		r.listed(results[0].Names)
	})
}

// requestsReading is one reading of operators' requests of a slot.
type requestsReading struct {
	*Journal

	slot string
	own  *owned
}

// listed reads the oldest requests, except those that are known: only a backfill changes.
func (r requestsReading) listed(ids []string) {
	slices.Sort(ids) // they begin with the time
	known := make(map[string]ticks.Request, len(r.own.requests.list))
	for _, request := range r.own.requests.list {
		if !request.IsBackfill() {
			known[request.ID] = request
		}
	}
	oldest := ids[:min(len(ids), zkrec.MaxReadRequests)]
	var reads []zkconn.Read
	for _, id := range oldest {
		if _, ok := known[id]; !ok {
			reads = append(reads, zkconn.Read{Path: r.loop.Tree.Request(r.slot, id)})
		}
	}
	r.loop.Read(reads, func(results []zkconn.ReadResult) {
		var list []ticks.Request
		for _, id := range oldest {
			request, ok := known[id]
			if !ok {
				result := results[0]
				results = results[1:]
				switch {
				case errors.Is(result.Err, zkconn.ErrNoNode):
					continue
				case result.Err != nil && !errors.Is(result.Err, zkconn.ErrDenied):
					r.done(nil, result.Err)
					return
				}
				request = r.parse(id, result)
			}
			list = append(list, request)
		}
		r.warnIfCrowded(len(ids))
		r.done(list, nil)
	})
}

// parse reads a request. One that cannot be read is kept, so that it is read, and logged, once.
func (r requestsReading) parse(id string, result zkconn.ReadResult) ticks.Request {
	request, err := zkrec.Request{}, result.Err
	if err == nil {
		request, err = zkrec.ParseRequest(result.Data)
	}
	if err != nil {
		r.loop.Log.Warn("request ignored: it cannot be read", "job", r.slot, "path", r.loop.Tree.Request(r.slot, id), "err", err)
		request.Kind = ""
	}
	return ticks.Request{ID: id, Version: result.Stat.Version, Request: request}
}

// warnIfCrowded says, once, that more requests wait than are read.
func (r requestsReading) warnIfCrowded(waiting int) {
	crowded := waiting > zkrec.MaxReadRequests
	if crowded && !r.own.requests.crowded {
		r.loop.Log.Warn("too many requests: the oldest are read, the others wait for them", "job", r.slot,
			"path", r.loop.Tree.Requests(r.slot), "waiting", waiting, "read", zkrec.MaxReadRequests)
	}
	r.own.requests.crowded = crowded
}

// done takes in the list of requests, or why it was not read.
func (r requestsReading) done(list []ticks.Request, err error) {
	again := r.own.requests.reading.End()
	if r.nodes.owned(r.slot) != r.own {
		return
	}
	r.own.requests.nextLook = 0
	r.nodes.agenda.Wake(r.nodes.bySlot[r.slot])
	switch {
	case err == nil:
		r.requested(r.slot, r.own, list)
		r.own.requests.nextLook = r.loop.NextLook()
	case errors.Is(err, zkconn.ErrNoNode):
		r.requested(r.slot, r.own, nil)
		r.catalog.Repair(r.slot)
	case errors.Is(err, zkconn.ErrDenied):
		if !r.own.requests.known {
			r.loop.Log.Warn("requests cannot be read: the job runs without them", "job", r.slot, "err", err)
		}
		r.requested(r.slot, r.own, r.own.requests.list)
	default:
		r.loop.Log.Debug("requests not read", "job", r.slot, "err", err)
	}
	if again {
		r.ReadRequests(r.slot)
	}
}

func (j *Journal) requested(slot string, own *owned, list []ticks.Request) {
	isDone := func(r ticks.Request) bool { return own.requests.done[r.ID] }
	if !slices.ContainsFunc(list, isDone) {
		own.requests.done = nil
	}
	list = slices.DeleteFunc(list, isDone)
	if taken := own.requests.taken; taken != nil && !slices.ContainsFunc(list, func(r ticks.Request) bool { return r.ID == taken.ID }) {
		list = append(list, *taken)
	}
	same := func(a, b ticks.Request) bool { return a.ID == b.ID && a.Version == b.Version }
	changed := !slices.EqualFunc(own.requests.list, list, same)
	own.requests.list = list
	if !own.requests.known {
		own.requests.known = true
		j.announce(slot)
	} else if changed && own.told {
		j.runner.Requested(slot, own.requests.readable())
	}
}

// requestDone notes that a request was removed.
func (j *Journal) requestDone(slot, id string) {
	own := j.nodes.owned(slot)
	if own == nil || id == "" {
		return
	}
	own.requests.remove(id)
	if taken := own.requests.taken; taken != nil && taken.ID == id {
		own.requests.taken = nil
	}
	if own.requests.done == nil {
		own.requests.done = make(map[string]bool)
	}
	own.requests.done[id] = true
	if own.requests.crowded {
		j.ReadRequests(slot) // others have waited to be read
	}
}

// Drop removes a request that is done, or pointless. It may be called by anybody and does not
// block.
func (j *Journal) Drop(slot, id string) {
	j.loop.Post(func() {
		j.loop.Async("drop request", func(ctx context.Context) func() {
			_, err := j.loop.Conn.Multi(ctx, zkconn.DeleteOp(j.loop.Tree.Request(slot, id), zkconn.AnyVersion))
			return func() {
				if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
					j.loop.Log.Debug("request not removed", "job", slot, "request", id, "err", err)
					if own := j.nodes.owned(slot); own != nil {
						own.requests.remove(id) // so that it is read, and dropped, again
						own.requests.nextLook = 0
						j.nodes.agenda.Wake(j.nodes.bySlot[slot])
					}
					return
				}
				j.requestDone(slot, id)
			}
		})
	})
}

// KeepStack writes where the handler of a run is that does not end although it was told to. It may
// be called by anybody and does not block. Nothing depends on it.
func KeepStack(l *session.Loop, slot string, s zkrec.Stack) {
	path := l.Tree.Stack(slot)
	l.Post(func() {
		l.Async("keep stack", func(ctx context.Context) func() {
			_, err := l.Conn.Multi(ctx, zkconn.CreateOp(path, s.Encode()))
			if errors.Is(err, zkconn.ErrNodeExists) {
				_, err = l.Conn.Multi(ctx, zkconn.SetOp(path, s.Encode(), zkconn.AnyVersion))
			}
			return func() {
				if err != nil {
					l.Log.Debug("stack not written", "path", path, "err", err)
				}
			}
		})
	})
}

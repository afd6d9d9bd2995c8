package journal

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// requests is what operators request of a slot's owner.
type requests struct {
	known   bool
	list    []ticks.Request // in the order in which they were made; one that cannot be read has no Kind
	done    map[string]bool // removed, although a pending read may still show them
	reading session.OnePerTime
	crowded bool // more wait than are read at a time, which was logged
	// nextLook is, on Mono, when the sync reads them although no watch says so.
	nextLook time.Duration
}

// readable lists the requests that this version understands.
func (r *requests) readable() []ticks.Request {
	return slices.DeleteFunc(slices.Clone(r.list), func(r ticks.Request) bool { return !r.IsRun() && !r.IsStop() })
}

func (r *requests) remove(id string) {
	r.list = slices.DeleteFunc(slices.Clone(r.list), func(r ticks.Request) bool { return r.ID == id })
}

// ReadRequests finds out what operators request of an owned slot.
func (j *Journal) ReadRequests(slot string) {
	own := j.owned[slot]
	if own == nil || !j.loop.Joined() || !own.requests.reading.Begin() {
		return
	}
	known := own.requests.list
	j.loop.Async("read requests", func(ctx context.Context) func() {
		list, waiting, err := fetchRequests(ctx, j.loop, slot, known)
		return func() {
			again := own.requests.reading.End()
			if j.owned[slot] != own {
				return
			}
			own.requests.nextLook = 0
			switch {
			case err == nil:
				crowded := waiting > zkrec.MaxReadRequests
				if crowded && !own.requests.crowded {
					j.loop.Log.Warn("too many requests: the oldest are read, the others wait for them", "job", slot,
						"path", j.loop.Tree.Requests(slot), "waiting", waiting, "read", zkrec.MaxReadRequests)
				}
				own.requests.crowded = crowded
				j.requested(slot, own, list)
				own.requests.nextLook = j.loop.NextLook()
			case errors.Is(err, zkconn.ErrNoNode):
				j.requested(slot, own, nil)
				j.catalog.Repair(slot) // the next sync then sets a watch
			case errors.Is(err, zkconn.ErrDenied):
				if !own.requests.known {
					j.loop.Log.Warn("requests cannot be read: the job runs without them", "job", slot, "err", err)
				}
				j.requested(slot, own, own.requests.list)
			default:
				j.loop.Log.Debug("requests not read", "job", slot, "err", err)
			}
			if again {
				j.ReadRequests(slot)
			}
		}
	})
}

// fetchRequests reads those of the oldest requests that are not known yet: a request never changes. It
// returns how many there are.
func fetchRequests(
	ctx context.Context, l *session.Loop, slot string, known []ticks.Request,
) (list []ticks.Request, waiting int, err error) {
	ids, _, err := l.Conn.ChildrenW(ctx, l.Tree.Requests(slot))
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(ids) // they begin with the time
	for _, id := range ids[:min(len(ids), zkrec.MaxReadRequests)] {
		if i := slices.IndexFunc(known, func(r ticks.Request) bool { return r.ID == id }); i >= 0 {
			list = append(list, known[i])
			continue
		}
		data, _, err := l.Conn.Get(ctx, l.Tree.Request(slot, id))
		if errors.Is(err, zkconn.ErrNoNode) {
			continue
		}
		if err != nil && !errors.Is(err, zkconn.ErrDenied) {
			return nil, 0, err
		}
		var request zkrec.Request
		if err == nil {
			request, err = zkrec.ParseRequest(data)
		}
		if err != nil {
			l.Log.Warn("request ignored: it cannot be read", "job", slot, "path", l.Tree.Request(slot, id), "err", err)
			request.Kind = "" // kept, so that it is read, and logged, once
		}
		list = append(list, ticks.Request{ID: id, Request: request})
	}
	return list, len(ids), nil
}

func (j *Journal) requested(slot string, own *owned, list []ticks.Request) {
	isDone := func(r ticks.Request) bool { return own.requests.done[r.ID] }
	if !slices.ContainsFunc(list, isDone) {
		own.requests.done = nil
	}
	list = slices.DeleteFunc(list, isDone)
	sameID := func(a, b ticks.Request) bool { return a.ID == b.ID }
	changed := !slices.EqualFunc(own.requests.list, list, sameID)
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
	own := j.owned[slot]
	if own == nil || id == "" {
		return
	}
	own.requests.remove(id)
	if own.requests.done == nil {
		own.requests.done = make(map[string]bool)
	}
	own.requests.done[id] = true
}

// Drop removes a request that is done, or pointless. It may be called by anybody and does not block.
func (j *Journal) Drop(slot, id string) {
	j.loop.Post(func() {
		j.loop.Async("drop request", func(ctx context.Context) func() {
			_, err := j.loop.Conn.Multi(ctx, zkconn.DeleteOp(j.loop.Tree.Request(slot, id), zkconn.AnyVersion))
			return func() {
				if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
					j.loop.Log.Debug("request not removed", "job", slot, "request", id, "err", err)
					if own := j.owned[slot]; own != nil {
						own.requests.remove(id) // so that it is read, and dropped, again
						own.requests.nextLook = 0
					}
					return
				}
				j.requestDone(slot, id)
			}
		})
	})
}

package coord

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Request is what an operator asks the owner of a slot for.
type Request struct {
	ID string
	zkrec.Request
}

// requests is the loop's view of what operators ask the owner of a slot for.
type requests struct {
	known   bool
	list    []Request       // in the order in which they were made; Kind is "" of one that is not readable
	done    map[string]bool // removed, although a reading under way may still show them
	reading onePerTime
	// nextLook is, on Mono, when the sync reads them although no watch says so.
	nextLook time.Duration
}

// readable lists those that mean something.
func (r *requests) readable() []Request {
	return slices.DeleteFunc(slices.Clone(r.list), func(r Request) bool { return r.Kind == "" })
}

func (r *requests) remove(id string) {
	r.list = slices.DeleteFunc(slices.Clone(r.list), func(r Request) bool { return r.ID == id })
}

// readRequests finds out what is asked for of an owned slot.
func (c *Coordinator) readRequests(slot string) {
	own := c.owned[slot]
	if own == nil || !c.session.joined || !own.requests.reading.begin() {
		return
	}
	known := own.requests.list
	c.async("read requests", func(ctx context.Context) func() {
		list, err := c.fetchRequests(ctx, slot, known)
		return func() {
			again := own.requests.reading.end()
			if c.owned[slot] != own {
				return
			}
			own.requests.nextLook = 0
			switch {
			case err == nil:
				c.requested(slot, own, list)
				own.requests.nextLook = c.nextLook()
			case errors.Is(err, zkconn.ErrNoNode):
				c.requested(slot, own, nil)
				c.repair(slot) // then the next sync sets a watch
			case errors.Is(err, zkconn.ErrDenied):
				if !own.requests.known {
					c.log.Warn("requests are not readable: the job runs without", "job", slot, "err", err)
				}
				c.requested(slot, own, own.requests.list)
			default:
				c.log.Debug("requests not read", "job", slot, "err", err)
			}
			if again {
				c.readRequests(slot)
			}
		}
	})
}

// fetchRequests reads those that are not known yet: a request never changes.
func (c *Coordinator) fetchRequests(ctx context.Context, slot string, known []Request) ([]Request, error) {
	ids, _, err := c.conn.ChildrenW(ctx, c.tree.Requests(slot))
	if err != nil {
		return nil, err
	}
	slices.Sort(ids) // they begin with the time
	var list []Request
	for _, id := range ids {
		if i := slices.IndexFunc(known, func(r Request) bool { return r.ID == id }); i >= 0 {
			list = append(list, known[i])
			continue
		}
		data, _, err := c.conn.Get(ctx, c.tree.Request(slot, id))
		if errors.Is(err, zkconn.ErrNoNode) {
			continue
		}
		if err != nil && !errors.Is(err, zkconn.ErrDenied) {
			return nil, err
		}
		var request zkrec.Request
		if err == nil {
			request, err = zkrec.ParseRequest(data)
		}
		if err != nil {
			c.log.Warn("request is not readable and is ignored", "job", slot, "request", id, "err", err)
			request.Kind = "" // known, so that it is read, and complained of, once
		}
		list = append(list, Request{ID: id, Request: request})
	}
	return list, nil
}

func (c *Coordinator) requested(slot string, own *ownership, list []Request) {
	isDone := func(r Request) bool { return own.requests.done[r.ID] }
	if !slices.ContainsFunc(list, isDone) {
		own.requests.done = nil
	}
	list = slices.DeleteFunc(list, isDone)
	sameID := func(a, b Request) bool { return a.ID == b.ID }
	changed := !slices.EqualFunc(own.requests.list, list, sameID)
	own.requests.list = list
	if !own.requests.known {
		own.requests.known = true
		c.tellRunner(slot)
	} else if changed && own.told {
		c.cfg.Runner.Requested(slot, own.requests.readable())
	}
}

// requestDone: the request was removed.
func (c *Coordinator) requestDone(slot, id string) {
	own := c.owned[slot]
	if own == nil || id == "" {
		return
	}
	own.requests.remove(id)
	if own.requests.done == nil {
		own.requests.done = make(map[string]bool)
	}
	own.requests.done[id] = true
}

// Drop removes a request that is done with, or means nothing.
func (c *Coordinator) Drop(slot, id string) {
	c.box.Post(func() {
		c.async("drop request", func(ctx context.Context) func() {
			_, err := c.conn.Multi(ctx, zkconn.DeleteOp(c.tree.Request(slot, id), zkconn.AnyVersion))
			return func() {
				if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
					c.log.Debug("request not removed", "job", slot, "request", id, "err", err)
					if own := c.owned[slot]; own != nil {
						own.requests.remove(id) // so that it is news, and dropped again
						own.requests.nextLook = 0
					}
					return
				}
				c.requestDone(slot, id)
			}
		})
	})
}

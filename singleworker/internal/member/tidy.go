package member

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/preference"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// TidyAfter is after how many session timeouts survivors clean up after a dead instance.
const TidyAfter = 10

// Cleanup removes the nodes of dead instances.
//
// An instance that was killed leaves its registrations, and its heartbeats at jobs that no other
// instance can run. Survivors remove them once the instance has been gone for TidyAfter session
// timeouts, on their own monotonic clocks. Each survivor has a rank for each dead instance, and
// waits a session timeout longer than the one before it, so that mostly one does the work.
//
// An owner record that names a dead instance is cleared like a takeover, with the heartbeat's
// version read before the group was. The other removals check that no instance has joined since: it
// may have found its registrations, of an earlier start, and rely on them.
type Cleanup struct {
	loop *session.Loop
	id   string // this instance's

	peers     map[string]lease.Peer    // the live instances, as last read
	orders    map[string]order         // likewise
	groupRead int                      // the connection in which they were read
	missing   map[string]bool          // that were live, or are registered, and may have left traces
	since     map[string]time.Duration // Mono: since when one that left traces has been gone
	removing  bool
}

// follow takes in a reading of the group.
func (c *Cleanup) follow(peers map[string]lease.Peer, orders map[string]order, attempt int) {
	was := c.peers
	c.peers, c.orders, c.groupRead = peers, orders, attempt
	c.Registered(slices.Collect(maps.Keys(was)))
	for sid := range peers {
		delete(c.missing, sid)
	}
}

// Registered notes which instances are registered somewhere: those that nobody saw die left traces,
// too.
func (c *Cleanup) Registered(sids []string) {
	for _, sid := range sids {
		if _, live := c.peers[sid]; !live && sid != c.id {
			c.missing[sid] = true
		}
	}
}

// Open reports whether an instance lives, and takes jobs, as far as is known.
func (c *Cleanup) Open(sid string) bool {
	peer, lives := c.peers[sid]
	return lives && !peer.Closed
}

// Members is how many instances live, as far as is known.
func (c *Cleanup) Members() int { return len(c.peers) }

// First reports whether this instance is the one that looks for traces that nobody noticed.
func (c *Cleanup) First() bool { return c.groupRead == c.loop.Attempt() && c.Rank("") == 0 }

// left reports whether sid left anything behind that should go with it.
func (c *Cleanup) left(sid string) bool {
	o, ordered := c.orders[sid]
	return c.missing[sid] || ordered && o.Incarnation != ""
}

// noteGone notes which instances left traces and are not in the group.
func (c *Cleanup) noteGone(now time.Duration) {
	if c.since == nil {
		c.since = make(map[string]time.Duration)
	}
	lives := func(sid string) bool {
		_, found := c.peers[sid]
		return found || sid == c.id
	}
	maps.DeleteFunc(c.since, func(sid string, _ time.Duration) bool { return lives(sid) || !c.left(sid) })
	note := func(sid string) {
		if _, noted := c.since[sid]; !noted && c.left(sid) && !lives(sid) {
			c.since[sid] = now
		}
	}
	for sid := range c.missing {
		note(sid)
	}
	for sid := range c.orders {
		note(sid)
	}
}

// Gone lists the dead instances after which this one should clean up now.
func (c *Cleanup) Gone() []string {
	if c.groupRead != c.loop.Attempt() {
		return nil // in this connection the group was not read yet
	}
	now := c.loop.Now()
	c.noteGone(now)
	if c.removing {
		return nil
	}
	var gone []string
	for sid, since := range c.since {
		if now-since > time.Duration(TidyAfter+c.Rank(sid))*c.loop.Conn.SessionTimeout() {
			gone = append(gone, sid)
		}
	}
	slices.Sort(gone)
	return gone
}

// Traced is a job at which dead instances may have left traces.
type Traced struct {
	Job   string
	Slots []string
}

// Tidy removes the nodes that dead instances left at the given jobs, and their orders.
func (c *Cleanup) Tidy(gone []string, jobs []Traced) {
	c.removing = true
	orders := maps.Clone(c.orders)
	c.loop.Async("tidy up", func(ctx context.Context) func() {
		removed, err := c.removeTraces(ctx, gone, jobs, orders)
		return func() {
			c.removing = false
			if zkconn.IsUnknown(err) {
				c.loop.Log.Debug("cleanup after dead instances is incomplete", "err", err)
				return // the next sync starts over
			}
			for _, sid := range gone {
				delete(c.since, sid) // what could not be removed counts from now again
				if err == nil {
					delete(c.missing, sid)
				}
			}
			if removed > 0 || err != nil {
				c.loop.Log.Info("cleaned up after dead instances", "instance_ids", gone, "err", err)
			}
		}
	})
}

// Rank is how many live members come before this one in something that not all need do:
// cleaning up after an instance of that id, or removing a job of that name.
func (c *Cleanup) Rank(of string) int { return rank(c.id, maps.Keys(c.peers), of) }

// rank is how many of some members are preferred to one for something.
func rank(id string, members iter.Seq[string], of string) (n int) {
	about := preference.Hash(of)
	mine := preference.Of(preference.Hash(id), about)
	for peer := range members {
		if preference.Of(preference.Hash(peer), about) > mine {
			n++
		}
	}
	return n
}

// removeTraces removes the nodes that some instances left, except for instances that are back, and
// counts the nodes that there were.
func (c *Cleanup) removeTraces(
	ctx context.Context, gone []string, jobs []Traced, orders map[string]order,
) (removed int, err error) {
	disowned, err := c.disowning(ctx, gone, jobs)
	if err != nil {
		return 0, err
	}
	lists := make([]zkconn.Read, len(jobs))
	for i, j := range jobs {
		lists[i] = zkconn.Read{Path: c.loop.Tree.Register(j.Job), Children: true}
	}
	registered := c.loop.Conn.ReadMany(ctx, lists)
	live, parent, err := c.loop.Conn.Children(ctx, c.loop.Tree.Instances())
	if err != nil {
		return 0, err
	}
	isGone := func(sid string) bool { return slices.Contains(gone, sid) && !slices.Contains(live, sid) }
	nobodyJoined := zkconn.CheckOp(c.loop.Tree.Instances(), parent.Version)
	var owners, registrations, rest [][]zkconn.Op
	for _, d := range disowned {
		if isGone(d.sid) {
			owners = append(owners, d.ops)
		}
	}
	for i, list := range registered {
		if zkconn.IsUnknown(list.Err) {
			return 0, list.Err
		}
		for _, sid := range list.Names {
			if isGone(sid) {
				path := c.loop.Tree.Registration(jobs[i].Job, sid)
				registrations = append(registrations, []zkconn.Op{nobodyJoined, zkconn.DeleteOp(path, zkconn.AnyVersion)})
			}
		}
	}
	for _, sid := range slices.Sorted(maps.Keys(orders)) {
		if o := orders[sid]; isGone(sid) && o.Incarnation != "" {
			rest = append(rest, []zkconn.Op{zkconn.DeleteOp(c.loop.Tree.Order(sid), o.version)})
		}
	}
	for _, step := range []struct {
		groups  [][]zkconn.Op
		guarded bool
	}{{owners, false}, {registrations, true}, {rest, false}} {
		if err := c.applyAll(ctx, step.groups, step.guarded); err != nil {
			return removed, err
		}
		removed += len(step.groups)
	}
	return removed, nil
}

// errJoined is why a removal is tried again.
var errJoined = fmt.Errorf("an instance has joined: %w", zkconn.ErrLost)

// applyAll applies groups of operations. A refusal is as good as success: another instance was
// faster. But if the guard, which is the first operation, has refused it, errJoined is returned.
func (c *Cleanup) applyAll(ctx context.Context, groups [][]zkconn.Op, guarded bool) error {
	for _, r := range c.loop.Apply(ctx, groups) {
		switch {
		case zkconn.IsUnknown(r.Err), errors.Is(r.Err, zkconn.ErrDenied):
			return r.Err
		case guarded && r.Err != nil && r.Refused == 0:
			return errJoined
		}
	}
	return nil
}

// disowned has the operations that clear the ownership of a slot by an instance, and its heartbeat.
type disowned struct {
	sid string
	ops []zkconn.Op
}

// disowning finds the nodes that dead instances left at slots.
func (c *Cleanup) disowning(ctx context.Context, gone []string, jobs []Traced) (found []disowned, err error) {
	tree, conn := c.loop.Tree, c.loop.Conn
	var slots []string
	var records, lists []zkconn.Read
	for _, j := range jobs {
		for _, slot := range j.Slots {
			slots = append(slots, slot)
			records = append(records, zkconn.Read{Path: tree.Alive(slot)})
			lists = append(lists, zkconn.Read{Path: tree.Alive(slot), Children: true})
		}
	}
	owners, beats := conn.ReadMany(ctx, records), conn.ReadMany(ctx, lists)
	for i, slot := range slots {
		if err := errors.Join(owners[i].Err, beats[i].Err); err != nil {
			if zkconn.IsUnknown(owners[i].Err) || zkconn.IsUnknown(beats[i].Err) {
				return nil, err
			}
			continue // the slot is gone, too, or is nobody's business
		}
		owner, _ := zkrec.ParseOwner(owners[i].Data) // an unreadable record names nobody
		for _, sid := range gone {
			d := disowned{sid: sid}
			if owner.SID == sid {
				d.ops = append(d.ops, zkconn.SetOp(tree.Alive(slot), nil, owners[i].Stat.Version))
			}
			if slices.Contains(beats[i].Names, sid) {
				beat, there, err := conn.Exists(ctx, tree.Heartbeat(slot, sid))
				if err != nil {
					return nil, err
				}
				if there {
					d.ops = append(d.ops, zkconn.DeleteOp(tree.Heartbeat(slot, sid), beat.Version))
				}
			}
			if len(d.ops) > 0 {
				found = append(found, d)
			}
		}
	}
	return found, nil
}

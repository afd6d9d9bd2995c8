package member

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// TidyAfter is after how many session timeouts survivors clean up after a dead instance.
const TidyAfter = 10

// Cleanup removes what dead instances left.
//
// An instance that was killed leaves its registrations, and its heartbeats at jobs that no other
// instance can run. Survivors remove them once the instance has been gone for TidyAfter session timeouts,
// on their own monotonic clocks. Each survivor has a rank for each dead instance, and waits a session
// timeout longer than the one before it, so that mostly one does the work.
//
// An owner record that names a dead instance is cleared like a takeover, with the heartbeat's version
// read before the group was. A registration needs no such care: an instance that comes back at that
// moment is told of the change and registers again.
type Cleanup struct {
	loop *session.Loop
	id   string // this instance's

	peers      map[string]lease.Peer    // the live instances, as last read
	orders     map[string]order         // likewise
	groupRead  int                      // the connection in which they were read
	registered map[string]int           // how many jobs an instance is registered at
	since      map[string]time.Duration // Mono: since when one that left traces has been gone
	removing   bool
}

// RegistrationsChanged notes that the list of a job's registrations changed.
func (c *Cleanup) RegistrationsChanged(before, now []string) {
	for _, sid := range now {
		c.registered[sid]++
	}
	for _, sid := range before {
		if c.registered[sid]--; c.registered[sid] == 0 {
			delete(c.registered, sid)
		}
	}
}

// left reports whether sid left anything behind that should go with it.
func (c *Cleanup) left(sid string) bool {
	o, ordered := c.orders[sid]
	return c.registered[sid] > 0 || ordered && o.Incarnation != ""
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
	for sid := range c.registered {
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
		if now-since > time.Duration(TidyAfter+c.rank(sid))*c.loop.Conn.SessionTimeout() {
			gone = append(gone, sid)
		}
	}
	slices.Sort(gone)
	return gone
}

// Traced is a job at which dead instances may have left traces.
type Traced struct {
	Job        string
	Registered []string
	Slots      []string
}

// Tidy removes what dead instances left at the given jobs, and their orders.
func (c *Cleanup) Tidy(gone []string, jobs []Traced) {
	c.removing = true
	orders := maps.Clone(c.orders)
	c.loop.Async("tidy up", func(ctx context.Context) func() {
		err := c.removeTraces(ctx, gone, jobs, orders)
		return func() {
			c.removing = false
			if zkconn.IsUnknown(err) {
				c.loop.Log.Debug("cleanup after dead instances is incomplete", "err", err)
				return // the next sync starts over
			}
			for _, sid := range gone {
				delete(c.since, sid) // what could not be removed counts from now again
			}
			c.loop.Log.Info("cleaned up after dead instances", "instance_ids", gone, "err", err)
		}
	})
}

// rank is how many members come before this one in cleaning up after sid.
func (c *Cleanup) rank(sid string) int {
	order := func(peer string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(peer + "\x00" + sid))
		return h.Sum64()
	}
	mine, n := order(c.id), 0
	for peer := range c.peers {
		if order(peer) < mine {
			n++
		}
	}
	return n
}

// removeTraces removes what some instances left, except for those that are back. The registrations go
// last: as long as one exists, the instance counts as not cleaned up.
func (c *Cleanup) removeTraces(
	ctx context.Context, gone []string, jobs []Traced, orders map[string]order,
) error {
	var slots []string
	for _, j := range jobs {
		slots = append(slots, j.Slots...)
	}
	changes := make([]map[string][]zkconn.Op, len(slots))
	errs := make([]error, len(slots))
	c.loop.Together(ctx, len(slots), func(ctx context.Context, i int) {
		changes[i], errs[i] = c.disowning(ctx, slots[i], gone)
	})
	live, _, err := c.loop.Conn.Children(ctx, c.loop.Tree.Instances())
	if err = errors.Join(err, errors.Join(errs...)); err != nil {
		return err
	}
	gone = slices.DeleteFunc(gone, func(sid string) bool { return slices.Contains(live, sid) })
	var owners, rest [][]zkconn.Op
	for _, sid := range gone {
		for _, change := range changes {
			if ops := change[sid]; len(ops) > 0 {
				owners = append(owners, ops)
			}
		}
		for _, j := range jobs {
			if slices.Contains(j.Registered, sid) {
				rest = append(rest, []zkconn.Op{zkconn.DeleteOp(c.loop.Tree.Registration(j.Job, sid), zkconn.AnyVersion)})
			}
		}
		if o, found := orders[sid]; found && o.Incarnation != "" {
			rest = append(rest, []zkconn.Op{zkconn.DeleteOp(c.loop.Tree.Order(sid), o.version)})
		}
	}
	if err := c.applyAll(ctx, owners); err != nil {
		return err
	}
	return c.applyAll(ctx, rest)
}

// applyAll applies groups of operations. A refusal is as good as success: another instance was faster.
func (c *Cleanup) applyAll(ctx context.Context, groups [][]zkconn.Op) error {
	for _, r := range c.loop.Apply(ctx, groups) {
		if zkconn.IsUnknown(r.Err) || errors.Is(r.Err, zkconn.ErrDenied) {
			return r.Err
		}
	}
	return nil
}

// disowning returns, per dead instance, the operations that clear its ownership of a slot and its
// heartbeat.
func (c *Cleanup) disowning(ctx context.Context, slot string, gone []string) (map[string][]zkconn.Op, error) {
	data, stat, err := c.loop.Conn.Get(ctx, c.loop.Tree.Alive(slot))
	ops := make(map[string][]zkconn.Op)
	if errors.Is(err, zkconn.ErrNoNode) || errors.Is(err, zkconn.ErrDenied) {
		return ops, nil // the slot is gone, too, or is nobody's business
	}
	if err != nil {
		return nil, err
	}
	owner, _ := zkrec.ParseOwner(data) // an unreadable record names nobody
	if slices.Contains(gone, owner.SID) {
		ops[owner.SID] = []zkconn.Op{zkconn.SetOp(c.loop.Tree.Alive(slot), nil, stat.Version)}
	}
	if stat.NumChildren == 0 {
		return ops, nil
	}
	sids, _, err := c.loop.Conn.Children(ctx, c.loop.Tree.Alive(slot))
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return nil, err
	}
	for _, sid := range sids {
		if !slices.Contains(gone, sid) {
			continue
		}
		beat, found, err := c.loop.Conn.Exists(ctx, c.loop.Tree.Heartbeat(slot, sid))
		if err != nil {
			return nil, err
		}
		if found {
			ops[sid] = append(ops[sid], zkconn.DeleteOp(c.loop.Tree.Heartbeat(slot, sid), beat.Version))
		}
	}
	return ops, nil
}

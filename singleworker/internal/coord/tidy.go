package coord

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// An instance that was killed leaves its registrations, and its heartbeats at jobs that nobody
// else can run. Whoever lives removes them when it has missed the instance for tidyAfter
// sessions, by its own monotonic clock. Each has a rank for each that is gone, and waits
// a session longer than the one before: mostly one does it.
//
// An owner record that names who is gone is emptied as it would be taken over, with the
// heartbeat's version read before the group was. A registration needs no such care: an instance that
// comes back at that moment hears of the change and registers again.
const tidyAfter = 10

// traces is what the loop knows of instances that are gone.
type traces struct {
	registered map[string]int           // how many jobs an instance is registered at
	orders     map[string]order         // as last read
	since      map[string]time.Duration // Mono, since when one that left traces is missed
	removing   bool
}

// registeredAt notes that the list of a job's registrations changed.
func (tr *traces) registeredAt(before, now []string) {
	if tr.registered == nil {
		tr.registered = make(map[string]int)
	}
	for _, sid := range now {
		tr.registered[sid]++
	}
	for _, sid := range before {
		if tr.registered[sid]--; tr.registered[sid] == 0 {
			delete(tr.registered, sid)
		}
	}
}

// left reports whether there is anything of sid that does not outlive it.
func (tr *traces) left(sid string) bool {
	o, ordered := tr.orders[sid]
	return tr.registered[sid] > 0 || ordered && o.Incarnation != ""
}

// miss notes who left traces and is not in the group.
func (c *Coordinator) miss(now time.Duration) {
	tr := &c.traces
	if tr.since == nil {
		tr.since = make(map[string]time.Duration)
	}
	lives := func(sid string) bool {
		_, found := c.peers[sid]
		return found || sid == c.cfg.SID
	}
	maps.DeleteFunc(tr.since, func(sid string, _ time.Duration) bool { return lives(sid) || !tr.left(sid) })
	note := func(sid string) {
		if _, missed := tr.since[sid]; !missed && tr.left(sid) && !lives(sid) {
			tr.since[sid] = now
		}
	}
	for sid := range tr.registered {
		note(sid)
	}
	for sid := range tr.orders {
		note(sid)
	}
}

// tidy removes what those left who are gone for long.
func (c *Coordinator) tidy() {
	if c.session.groupRead != c.session.attempt {
		return // who is there is not known in this connection
	}
	now := c.cfg.Clock.Now().Mono
	c.miss(now)
	session := c.conn.SessionTimeout()
	var gone []string
	for sid, since := range c.traces.since {
		if now-since > time.Duration(tidyAfter+c.rank(sid))*session {
			gone = append(gone, sid)
		}
	}
	if len(gone) == 0 || c.traces.removing {
		return
	}
	slices.Sort(gone)
	c.traces.removing = true
	var jobs []traced
	for _, name := range slices.Sorted(maps.Keys(c.jobs)) {
		j := c.jobs[name]
		jobs = append(jobs, traced{name, j.able, j.slots})
	}
	orders := maps.Clone(c.traces.orders)
	c.async("tidy up", func(ctx context.Context) func() {
		err := c.removeTraces(ctx, gone, jobs, orders)
		return func() {
			c.traces.removing = false
			if zkconn.IsUnknown(err) {
				c.log.Debug("what instances left that are gone is not all removed", "err", err)
				return // the next sync begins anew
			}
			for _, sid := range gone {
				delete(c.traces.since, sid) // what is left in spite of all is missed anew
			}
			c.log.Info("removed what instances left that are gone", "instance_ids", gone, "err", err)
		}
	})
}

// rank is how many of those in the group come before this instance when it is
// about sid.
func (c *Coordinator) rank(sid string) int {
	order := func(peer string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(peer + "\x00" + sid))
		return h.Sum64()
	}
	mine, n := order(c.cfg.SID), 0
	for peer := range c.peers {
		if order(peer) < mine {
			n++
		}
	}
	return n
}

// traced is a job at which some instances that are gone may have left traces.
type traced struct {
	name  string
	able  []string
	slots []string
}

// removeTraces removes what is left of some instances, but for those that are
// back. The registrations go last: as long as one is there, somebody comes back
// to it.
func (c *Coordinator) removeTraces(
	ctx context.Context, gone []string, jobs []traced, orders map[string]order,
) error {
	var slots []string
	for _, j := range jobs {
		slots = append(slots, j.slots...)
	}
	changes := make([]map[string][]zkconn.Op, len(slots))
	errs := make([]error, len(slots))
	c.together(ctx, len(slots), func(ctx context.Context, i int) {
		changes[i], errs[i] = c.disowning(ctx, slots[i], gone)
	})
	live, _, err := c.conn.Children(ctx, c.tree.Instances())
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
			if slices.Contains(j.able, sid) {
				rest = append(rest, []zkconn.Op{zkconn.DeleteOp(c.tree.Registration(j.name, sid), zkconn.AnyVersion)})
			}
		}
		if o, found := orders[sid]; found && o.Incarnation != "" {
			rest = append(rest, []zkconn.Op{zkconn.DeleteOp(c.tree.Order(sid), o.version)})
		}
	}
	if err := c.applyAll(ctx, owners); err != nil {
		return err
	}
	return c.applyAll(ctx, rest)
}

// applyAll applies groups of operations. Refusals are as good as success:
// somebody was faster.
func (c *Coordinator) applyAll(ctx context.Context, groups [][]zkconn.Op) error {
	for _, chunk := range chunks(groups) {
		for _, r := range c.applyBatch(ctx, chunk) {
			if zkconn.IsUnknown(r.err) || errors.Is(r.err, zkconn.ErrDenied) {
				return r.err
			}
		}
	}
	return nil
}

// disowning says, for each of those that are gone, what takes a slot from it, or
// its heartbeat away.
func (c *Coordinator) disowning(ctx context.Context, slot string, gone []string) (map[string][]zkconn.Op, error) {
	data, stat, err := c.conn.Get(ctx, c.tree.Alive(slot))
	ops := make(map[string][]zkconn.Op)
	if errors.Is(err, zkconn.ErrNoNode) {
		return ops, nil // the slot is gone, too
	}
	if err != nil {
		return nil, err
	}
	owner, _ := zkrec.ParseOwner(data) // what is no record names nobody
	if slices.Contains(gone, owner.SID) {
		ops[owner.SID] = []zkconn.Op{zkconn.SetOp(c.tree.Alive(slot), nil, stat.Version)}
	}
	if stat.NumChildren == 0 {
		return ops, nil
	}
	sids, _, err := c.conn.Children(ctx, c.tree.Alive(slot))
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return nil, err
	}
	for _, sid := range sids {
		if !slices.Contains(gone, sid) {
			continue
		}
		beat, found, err := c.conn.Exists(ctx, c.tree.Heartbeat(slot, sid))
		if err != nil {
			return nil, err
		}
		if found {
			ops[sid] = append(ops[sid], zkconn.DeleteOp(c.tree.Heartbeat(slot, sid), beat.Version))
		}
	}
	return ops, nil
}

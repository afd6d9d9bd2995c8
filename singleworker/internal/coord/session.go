package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// session is the loop's view of the connection.
type session struct {
	connected  bool
	joining    bool          // a join is under way
	joined     bool          // the ephemeral node is there: the protocol may act
	lostAt     time.Duration // Mono: since when that is over
	complained time.Duration // Mono: when it was last said that there is no connection
	everJoined bool
	leaving    bool // the leaving transaction is under way
	left       bool
	attempt    int                // counts connections: an answer to an older one is void
	cancelJoin context.CancelFunc // of the attempt under way

	groupRead int            // the connection in which the group was read last
	published zkrec.Instance // what the ephemeral node says
	told      string         // the state that was last told, or tried to be
	publish   onePerTime
}

// onEvent queues the session's and the watches' events, in their order.
func (c *Coordinator) onEvent(ev zkconn.Event) {
	c.box.Post(func() {
		if c.latch.contender != nil {
			c.latch.contender.OnEvent(ev)
		}
		switch ev.Kind {
		case zkconn.Connected:
			c.connected()
		case zkconn.Disconnected:
			c.disconnected()
		case zkconn.Expired:
			c.expired()
		case zkconn.NodeChanged:
			c.nodeChanged(ev.Path)
		}
	})
}

func (c *Coordinator) connected() {
	c.session.connected = true
	c.session.attempt++
	if c.session.cancelJoin != nil {
		c.session.cancelJoin()
	}
	attempt, again, self := c.session.attempt, c.session.everJoined, c.self()
	ctx, cancel := context.WithCancel(context.Background())
	c.session.cancelJoin, c.session.joining = cancel, true
	c.async("join", func(tasks context.Context) func() {
		stop := context.AfterFunc(tasks, cancel)
		defer stop()
		mine, err := c.join(ctx, self, again)
		return func() { c.joinEnded(attempt, mine, err) }
	})
}

func (c *Coordinator) disconnected() {
	if !c.session.connected {
		return // a further failed attempt to connect
	}
	c.log.Warn("connection to ZooKeeper lost", "session_id", c.sessionID())
	c.session.connected, c.session.joining, c.session.joined = false, false, false
	c.session.lostAt = c.cfg.Clock.Now().Mono
	c.session.cancelJoin()
	c.traces.since = nil // who comes back meanwhile is not seen
	c.step(lease.Suspended{})
}

// complain says, once per session timeout, that ZooKeeper cannot be reached, and
// why: somebody may have to do something about it.
func (c *Coordinator) complain(now time.Duration) {
	if c.session.connected || now-max(c.session.lostAt, c.session.complained) < c.conn.SessionTimeout() {
		return
	}
	c.session.complained = now
	err := c.conn.Trouble()
	if err == nil {
		err = errors.New("a server accepts connections, and does not answer")
	}
	c.log.Warn("ZooKeeper cannot be reached", "for", (now - c.session.lostAt).Round(time.Second),
		"servers", c.cfg.Conn.Servers, "err", err)
}

// expired: from now on the others take over what we owned. Runs end at once,
// whatever their lease said.
func (c *Coordinator) expired() {
	c.log.Warn("ZooKeeper session expired; joining again", "owned", len(c.owned))
	c.step(lease.Expired{})
	c.cfg.Book.Lapse()
}

// ephemeralLost: a hand has deleted, or spoilt, our instance node: we are dead to
// the others although our session lives.
func (c *Coordinator) ephemeralLost() {
	c.log.Error("this instance's node was deleted or overwritten; joining again", "path", c.tree.Instance(c.cfg.SID))
	c.session.joined, c.session.lostAt = false, c.cfg.Clock.Now().Mono
	c.step(lease.Expired{})
	c.cfg.Book.Lapse()
	c.connected()
}

func (c *Coordinator) sessionID() string { return fmt.Sprintf("0x%x", c.conn.SessionID()) }

func (c *Coordinator) nodeChanged(path string) {
	switch path {
	case c.tree.Root():
		c.listJobs()
		return
	case c.tree.Instances():
		c.step(lease.LookAround{})
		return
	}
	if c.tree.IsOrders(path) {
		c.step(lease.LookGroup{})
		return
	}
	slot, ok := c.tree.Watched(path)
	if !ok {
		return
	}
	switch path {
	case c.tree.Alive(slot):
		c.step(lease.Look{Slot: lease.Slot(slot)})
	case c.tree.Requests(slot):
		c.readRequests(slot)
	case c.tree.Tick(slot):
		c.readKept(slot)
	default: // its spec or its registrations
		if j := c.jobs[slot]; j != nil {
			c.refresh(j)
		}
	}
}

// join makes this instance part of the group: the roots, the declared jobs,
// the registrations, the ephemeral node. It tries until it succeeds, ctx ends,
// or it must fail: a refusal is final at the start, for the configuration is
// wrong; after that somebody changed an ACL, and may change it back.
func (c *Coordinator) join(ctx context.Context, self zkrec.Instance, again bool) (zkrec.Instance, error) {
	retry := task.Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second}
	for {
		mine, err := c.tryJoin(ctx, self, again)
		final := errors.Is(err, ErrDuplicate) || errors.Is(err, ErrMode) || !again && !zkconn.IsUnknown(err)
		if err == nil || final || ctx.Err() != nil {
			return mine, err
		}
		c.log.Warn("joining the group failed, trying again", "err", err)
		if err := retry.Wait(ctx); err != nil {
			return zkrec.Instance{}, err
		}
	}
}

func (c *Coordinator) tryJoin(ctx context.Context, self zkrec.Instance, again bool) (zkrec.Instance, error) {
	if again {
		// What comes before the ephemeral node outlives a session, unless a hand
		// has deleted it: every moment without heartbeats counts.
		if mine, err := c.appear(ctx, self); !errors.Is(err, zkconn.ErrNoNode) {
			return mine, err
		}
	}
	if err := c.conn.EnsureRoot(ctx, c.tree.Instances()); err != nil {
		return zkrec.Instance{}, err
	}
	for _, d := range c.cfg.Declarations {
		err := c.declare(ctx, d)
		if errors.As(err, new(*zkrec.SchemaError)) {
			// A newer version of the application has declared it: that one runs it.
			c.log.Error("declaration ignored", "job", d.Job, "err", err)
			continue
		}
		if err != nil {
			return zkrec.Instance{}, fmt.Errorf("declare job %q: %w", d.Job, err)
		}
	}
	if err := c.registerAll(ctx); err != nil {
		return zkrec.Instance{}, err
	}
	return c.appear(ctx, self)
}

// appear makes this instance one of the group, if it fits in. Instances of the
// other mode may have died a moment ago: their sessions are given the time to
// end. Meanwhile this one has no node, or the others would count on it.
func (c *Coordinator) appear(ctx context.Context, self zkrec.Instance) (mine zkrec.Instance, err error) {
	started := c.cfg.Clock.Now().Mono
	retry := task.Backoff{Min: 100 * time.Millisecond, Max: 500 * time.Millisecond}
	for waiting := false; ; {
		if !waiting {
			if mine, err = c.createEphemeral(ctx, self); err != nil {
				return mine, err
			}
		}
		other, err := c.otherMode(ctx)
		switch {
		case err != nil:
			return mine, err
		case other == nil && !waiting:
			return mine, nil
		case other == nil:
			waiting = false
			continue
		case !waiting:
			_, err := c.conn.Multi(ctx, zkconn.DeleteOp(c.tree.Instance(c.cfg.SID), zkconn.AnyVersion))
			if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
				return mine, err
			}
			c.log.Warn("an instance is in the other mode; waiting for its session to end", "instance_id", other.sid)
			waiting = true
		case c.cfg.Clock.Now().Mono-started > c.patience(other.Instance):
			return mine, fmt.Errorf("%w: %s is in %s mode, this one in %s mode", ErrMode, other.sid,
				modeName(other.Mode), modeName(c.cfg.Instance.Mode))
		}
		if err := retry.Wait(ctx); err != nil {
			return mine, err
		}
	}
}

// patience is how long an instance may be there still that has died.
func (c *Coordinator) patience(other zkrec.Instance) time.Duration {
	return max(c.conn.SessionTimeout(), time.Duration(other.SessionTimeout)) * 3 / 2
}

// createEphemeral publishes this incarnation under its sid. A node of another
// incarnation belongs to a live instance, or to one that died a moment ago:
// its session is given the time to end.
func (c *Coordinator) createEphemeral(ctx context.Context, mine zkrec.Instance) (zkrec.Instance, error) {
	path := c.tree.Instance(c.cfg.SID)
	started := c.cfg.Clock.Now().Mono
	retry := task.Backoff{Min: 100 * time.Millisecond, Max: 500 * time.Millisecond}
	for {
		err := c.enlist(ctx, path, mine)
		if !errors.Is(err, zkconn.ErrNodeExists) {
			return mine, err
		}
		other, stat, err := c.readInstance(ctx, path)
		switch {
		case errors.Is(err, zkconn.ErrNoNode):
			continue
		case err != nil && stat.EphemeralOwner == c.conn.SessionID():
			// Ours, and a hand has spoilt it.
			_, err := c.conn.Multi(ctx, zkconn.SetOp(path, mine.Encode(), stat.Version))
			return mine, err
		case err != nil:
			return mine, err
		case other.Incarnation == mine.Incarnation && stat.EphemeralOwner == c.conn.SessionID():
			return other, nil
		case other.Incarnation == mine.Incarnation:
			// Of an earlier session of ours, which would take it along when it ends.
			_, err := c.conn.Multi(ctx, zkconn.DeleteOp(path, stat.Version))
			if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
				return mine, err
			}
			continue
		}
		if c.cfg.Clock.Now().Mono-started > c.patience(other) {
			return mine, fmt.Errorf("%w: %q runs on host %s as pid %d since %s", ErrDuplicate,
				c.cfg.SID, other.Host, other.PID, other.StartedAt.Format(time.RFC3339))
		}
		c.log.Warn("another instance has this id; waiting for its session to end",
			"instance_id", c.cfg.SID, "host", other.Host, "pid", other.PID)
		if err := retry.Wait(ctx); err != nil {
			return mine, err
		}
	}
}

// enlist creates the ephemeral node. The version of the nodes' parent counts
// how often that was done: who removes the node of a dead incarnation checks it,
// since the node of the next one has the same path and counts from 0 again.
// Where an ACL keeps us from writing there, it is done without.
func (c *Coordinator) enlist(ctx context.Context, path string, mine zkrec.Instance) error {
	create := zkconn.CreateEphemeralOp(path, mine.Encode())
	_, err := c.conn.Multi(ctx, zkconn.SetOp(c.tree.Instances(), nil, zkconn.AnyVersion), create)
	if refused := new(zkconn.MultiError); errors.As(err, &refused) && refused.Index == 0 && errors.Is(err, zkconn.ErrDenied) {
		_, err = c.conn.Multi(ctx, create)
	}
	return err
}

func (c *Coordinator) readInstance(ctx context.Context, path string) (zkrec.Instance, zkconn.Stat, error) {
	data, stat, err := c.conn.Get(ctx, path)
	if err != nil {
		return zkrec.Instance{}, stat, err
	}
	record, err := zkrec.ParseInstance(data)
	return record, stat, err
}

// instanceRead is what was read of an instance.
type instanceRead struct {
	sid string
	zkrec.Instance
	stat zkconn.Stat
	err  error
}

// readInstances reads the records of some instances, at the cost of one round trip.
func (c *Coordinator) readInstances(ctx context.Context, sids []string) []instanceRead {
	all := make([]instanceRead, len(sids))
	c.together(ctx, len(sids), func(ctx context.Context, i int) {
		all[i].sid = sids[i]
		all[i].Instance, all[i].stat, all[i].err = c.readInstance(ctx, c.tree.Instance(sids[i]))
	})
	return all
}

func (c *Coordinator) joinEnded(attempt int, mine zkrec.Instance, err error) {
	if attempt != c.session.attempt || !c.session.connected {
		return
	}
	c.session.joining = false
	if err != nil {
		if c.session.everJoined || !c.closing.leaving {
			c.failure = err
		}
		return
	}
	c.session.joined, c.session.everJoined = true, true
	c.session.published, c.session.told = mine, mine.State
	c.log.Info("joined the group", "server_type", c.cfg.ServerType, "instance_id", c.cfg.SID,
		"session_id", c.sessionID(), "session_timeout", c.conn.SessionTimeout())
	c.step(lease.Opened{Session: c.conn.SessionTimeout(), SyncPeriod: c.syncPeriod()})
	c.contend()
	c.nextSync = c.cfg.Clock.Now().Mono
	c.nextList = 0 // what was heard while not joined was not followed
	for _, j := range c.jobs {
		j.nextLook = 0
		if j.keeper != nil {
			j.keeper.nextLook = 0
		}
	}
	for _, own := range c.owned {
		own.requests.nextLook = 0
	}
	for _, t := range c.ticks {
		t.known = false // the job may have been deleted and submitted again
		c.advance(t)
	}
}

// publish brings the ephemeral node up to date.
func (c *Coordinator) publish() {
	want := c.self()
	if !c.session.joined || want == c.session.published || !c.session.publish.begin() {
		return
	}
	path := c.tree.Instance(c.cfg.SID)
	c.async("publish", func(ctx context.Context) func() {
		_, err := c.conn.Multi(ctx, zkconn.SetOp(path, want.Encode(), zkconn.AnyVersion))
		return func() {
			if err == nil {
				c.session.published = want
			} else {
				c.log.Debug("instance record not updated", "err", err)
			}
			if c.session.publish.end() {
				c.publish()
			}
			if !c.session.publish.running {
				c.heed()
			}
		}
	})
}

// hasLeft reports whether the instance is out of the group, and takes the last
// step when everything before it is done.
func (c *Coordinator) hasLeft() bool {
	switch {
	case !c.closing.leaving || c.session.left || c.session.leaving:
		return c.session.left
	case !c.session.everJoined:
		if c.session.joining {
			c.session.cancelJoin() // then joinEnded: what it has registered is known
			return false
		}
		if !c.session.connected || len(c.present) == 0 {
			return true // nothing of ours is there, as far as anybody can do
		}
	case !c.session.joined:
		if c.cfg.Clock.Now().Mono-c.session.lostAt >= c.conn.SessionTimeout() {
			c.failure = ErrNotHandedBack
		}
		return false
	case !c.isDrained():
		return false
	}
	c.leave()
	return false
}

// leave deletes the instance's node and its registrations.
func (c *Coordinator) leave() {
	c.session.leaving = true
	var names []string // of the jobs; the last groups are others
	var groups [][]zkconn.Op
	for name := range c.present {
		names = append(names, name)
		groups = append(groups, []zkconn.Op{zkconn.DeleteOp(c.tree.Registration(name, c.cfg.SID), zkconn.AnyVersion)})
	}
	if c.session.joined { // else the node may be another's, of the same id
		groups = append(groups, []zkconn.Op{zkconn.DeleteOp(c.tree.Instance(c.cfg.SID), zkconn.AnyVersion)})
	}
	if o := c.closing.order; o != nil && o.Incarnation != "" { // it binds nobody else
		groups = append(groups, []zkconn.Op{zkconn.DeleteOp(c.tree.Order(c.cfg.SID), o.version)})
	}
	open, unknown := len(groups), 0
	c.applyBatches(groups, func(i int, r result) {
		open--
		if zkconn.IsUnknown(r.err) {
			unknown++
		} else if i < len(names) {
			delete(c.present, names[i])
		}
		if open == 0 {
			c.session.leaving, c.session.left = false, unknown == 0 // else once more
		}
	})
}

package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
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
	c.cfg.Leases.Lapse()
}

// ephemeralLost: a hand has deleted, or spoilt, our instance node: we are dead to
// the others although our session lives.
func (c *Coordinator) ephemeralLost() {
	c.log.Error("this instance's node was deleted or overwritten; joining again", "path", c.tree.Instance(c.cfg.SID))
	c.session.joined, c.session.lostAt = false, c.cfg.Clock.Now().Mono
	c.step(lease.Expired{})
	c.cfg.Leases.Lapse()
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

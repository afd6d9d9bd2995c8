package coord

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// In latch mode one instance of the group, which an election finds, owns every
// job; the others stand by: they are closed. Everything else is as it is
// without: who leads adopts what it finds, by the same transactions, and who
// does not lead any more hands over what it owns. So an election that went wrong
// could not have a job run twice. Besides, claims check that the leader's node
// exists.

// latch is an instance's part in the election. Its fields are the loop's.
type latch struct {
	contender *election.Contender // nil as long as this instance is closed for another reason
	withdraw  context.CancelFunc  // of contender
	node      string              // of the term that goes on, or empty
	lostAt    time.Duration       // Mono: when the last one ended
}

// leads reports whether ticks may be claimed.
func (c *Coordinator) leads() bool { return !c.cfg.Latch || c.latch.node != "" }

// contend takes part in the election, or leaves it, as the case may be: an
// instance that must not own anything does not lead.
func (c *Coordinator) contend() {
	cl := &c.closing
	may := c.cfg.Latch && c.session.everJoined && !cl.leaving && !cl.withdrawn && cl.order == nil
	switch {
	case may && c.latch.contender == nil:
		c.enter()
	case !may && c.latch.contender != nil:
		c.latch.withdraw()
		c.latch.contender = nil
	}
}

func (c *Coordinator) enter() {
	contender := election.New(election.Config{
		Path: c.tree.Leader(), ID: c.cfg.SID, Clock: c.cfg.Clock, Logger: c.log, Serve: c.serve,
	})
	if c.session.connected {
		contender.OnEvent(zkconn.Event{Kind: zkconn.Connected})
	}
	ctx, withdraw := context.WithCancel(context.Background())
	c.latch.contender, c.latch.withdraw = contender, withdraw
	c.tasks.Go("election", func(tasks context.Context) error {
		defer withdraw()
		defer context.AfterFunc(tasks, withdraw)()
		err := contender.Run(ctx, c.conn)
		if ctx.Err() != nil && errors.Is(err, election.ErrNotReleased) {
			return nil // its node goes with the session, as our others do
		}
		return err
	})
}

// serve is a term of leadership.
func (c *Coordinator) serve(ctx context.Context, term election.Term) {
	c.box.Post(func() {
		c.latch.node = term.Node
		c.closing.standby = false
		c.announce()
		for _, t := range c.ticks {
			c.advance(t)
		}
	})
	<-ctx.Done()
	c.box.Post(func() {
		if c.latch.node != term.Node {
			return // the next term has begun
		}
		c.latch.node, c.latch.lostAt = "", c.cfg.Clock.Now().Mono
		cause := context.Cause(ctx)
		if !errors.Is(cause, election.ErrSuspended) && !errors.Is(cause, election.ErrLapsed) {
			c.standBy()
		}
	})
}

// standBy hands over what is owned: somebody else leads, or soon will.
func (c *Coordinator) standBy() {
	if !c.closing.standby {
		c.closing.standby = true
		c.announce()
	}
}

// checkLatch is for a term that was interrupted: it mostly goes on when the
// connection is back.
func (c *Coordinator) checkLatch() {
	if c.cfg.Latch && !c.leads() && c.cfg.Clock.Now().Mono-c.latch.lostAt > c.syncPeriod() {
		c.standBy()
	}
}

// otherMode finds an instance that runs in another mode, and was there before
// this one: who leads would find jobs owned by others, and never own them. One
// that has no node yet comes after all others.
func (c *Coordinator) otherMode(ctx context.Context) (other instanceRead, found bool, err error) {
	sids, _, err := c.conn.Children(ctx, c.tree.Instances())
	if err != nil {
		return other, false, err
	}
	instances := c.readInstances(ctx, sids)
	born := int64(math.MaxInt64)
	for _, i := range instances {
		if i.Incarnation == c.cfg.Instance.Incarnation {
			born = i.stat.Czxid
		}
	}
	for _, i := range instances {
		if zkconn.IsUnknown(i.err) {
			return other, false, i.err
		}
		if i.err == nil && i.stat.Czxid < born && i.Mode != c.cfg.Instance.Mode {
			return i, true, nil
		}
	}
	return other, false, nil
}

func modeName(mode string) string {
	if mode == "" {
		return "lease"
	}
	return mode
}

package election

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

const (
	// leavePatience is how long a change, and leaving as a whole, may take when the
	// contender is to stop. If ZooKeeper is away for longer, the session's end
	// does what is left.
	leavePatience = 3 * time.Second
	// lookAgain is after how long a contender that waits looks at the queue although
	// nothing was reported: a watch that is lost costs that, not for ever.
	lookAgain = 30 * time.Second
)

// attempt is what the loop does over one connection. Requests are made one after the
// other, and each is waited for also when the connection breaks meanwhile, so that
// nothing of an earlier attempt is still under way.
type attempt struct {
	*Contender
	session *session
	ctx     context.Context //nolint:containedctx // ends with the connection, or with Run's
	calls   context.Context //nolint:containedctx // of reads: ends with Run's alone
	id      int64           // of the session

	node string // the name of our node, or ""; seen to be this session's
	term Term   // what it leads with
}

// campaign contends over one connection, and returns when that ends, or with what must end
// Run: a refusal of the first creation, for the configuration is wrong. Later
// somebody has changed an ACL, and may change it back.
func (c *Contender) campaign(ctx context.Context, s *session) error {
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	a := &attempt{Contender: c, session: s, ctx: both, calls: ctx, id: c.conn.SessionID()}
	retry := task.Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second}
	for !a.over() {
		err := a.round()
		switch {
		case err == nil:
			retry.Reset()
		case a.over():
		case zkconn.IsUnknown(err), errors.Is(err, zkconn.ErrNoNode), c.entered:
			c.cfg.Logger.Warn("contending failed, trying again", "path", c.cfg.Path, "err", err)
			_ = retry.Wait(a.ctx) // which the loop asks
		default:
			return err
		}
	}
	return nil
}

// round does what there is to do, and waits until something has changed.
func (a *attempt) round() error {
	drain(a.changed)
	names, err := a.queue()
	if err != nil {
		return err
	}
	err = a.adopt(own(names, a.prefix))
	switch {
	case err != nil:
		return err
	case a.over(): // what was read may be another session's
		return nil
	case a.node == "":
		a.depose(ErrDeposed)
		return a.enter()
	}
	ahead := before(names, a.node)
	if ahead == "" {
		return a.lead()
	}
	a.depose(ErrDeposed)
	_, _, err = a.conn.GetW(a.calls, a.path(ahead))
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil
	}
	if err == nil {
		a.wait(task.Jitter(lookAgain), nil)
	}
	return err
}

// over reports whether the connection has ended, or Run is to.
func (a *attempt) over() bool { return a.ctx.Err() != nil }

func (a *attempt) path(name string) string { return a.cfg.Path + "/" + name }

// queue lists the nodes in order, with every one that we have created.
func (a *attempt) queue() ([]string, error) {
	if a.uncertain {
		// When this has been agreed on, what was sent before it was applied, and is
		// known to the server that we read from, or never will be.
		_, err := a.conn.Multi(a.calls, zkconn.CheckOp(a.cfg.Path, zkconn.AnyVersion))
		if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
			return nil, err
		}
		a.uncertain = false
	}
	names, _, err := a.conn.Children(a.calls, a.cfg.Path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, nil // to be created
	}
	return inOrder(names), err
}

// adopt finds our node among those with our prefix, which are in order, and deletes the
// others: of a former session, of a creation that went unanswered and was repeated.
func (a *attempt) adopt(mine []string) error {
	known := a.node
	a.node = ""
	for _, name := range mine {
		if name == known && a.node == "" && !a.doomed[name] {
			a.node = name
			continue
		}
		_, stat, err := a.conn.GetW(a.calls, a.path(name))
		if errors.Is(err, zkconn.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		if a.node == "" && stat.EphemeralOwner == a.id && !a.doomed[name] {
			a.node, a.term = name, Term{Token: stat.Czxid, Node: a.path(name)}
			a.placed = name
			a.entered = true // perhaps by a creation that was not acknowledged
			continue
		}
		if err := a.discard(name); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes a node of ours, now or, if that is not known to have been done, later.
func (a *attempt) discard(name string) error {
	a.doomed[name] = true
	err := a.remove(a.Contender.calls, name)
	if err == nil {
		delete(a.doomed, name)
	}
	return err
}

// remove deletes a node of ours unless it is gone.
func (c *Contender) remove(ctx context.Context, name string) error {
	_, err := c.conn.Multi(ctx, zkconn.DeleteOp(c.cfg.Path+"/"+name, zkconn.AnyVersion))
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil
	}
	return err
}

// enter creates our node, at the end of the queue, when nobody serves a former term.
func (a *attempt) enter() error {
	a.awaitServed(a.ctx)
	if a.over() {
		return nil
	}
	prefix := a.path(a.prefix + latch)
	_, err := a.conn.CreateEphemeralSequential(a.Contender.calls, prefix, []byte(a.cfg.ID))
	if errors.Is(err, zkconn.ErrNoNode) {
		if err := a.conn.EnsureRoot(a.calls, a.cfg.Path); err != nil {
			return err
		}
		_, err = a.conn.CreateEphemeralSequential(a.Contender.calls, prefix, []byte(a.cfg.ID))
	}
	a.entered = a.entered || err == nil
	a.uncertain = zkconn.IsUnknown(err)
	return err // the next round finds the node
}

// lead proves again and again that our node, the first, is there, until it is not, or we
// have resigned.
func (a *attempt) lead() error {
	for !a.over() {
		if a.resigned(a.term) {
			return a.discard(a.node)
		}
		drain(a.changed)
		sent := a.cfg.Clock.Now().Elapsed
		lease := a.conn.SessionTimeout() * leaseNum / leaseDen
		_, err := a.conn.Multi(a.calls, zkconn.CheckOp(a.term.Node, zkconn.AnyVersion))
		var served <-chan struct{}
		switch {
		case a.over():
		case err == nil:
			served = a.hold(a.session, a.term, sent+lease)
		case errors.Is(err, zkconn.ErrNoNode):
			a.depose(ErrDeposed)
			return nil
		default: // the lease goes on, or not
			a.cfg.Logger.Warn("leadership not confirmed, trying again", "path", a.cfg.Path, "err", err)
		}
		a.wait(lease/renewals, served)
	}
	return nil
}

// wait returns when something may have changed, d has passed, served is closed, or the
// connection is over.
func (a *attempt) wait(d time.Duration, served <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.changed:
	case <-served:
	case <-a.ctx.Done():
	}
}

func drain(ready <-chan struct{}) {
	select {
	case <-ready:
	default:
	}
}

// leave deletes our nodes when nobody serves a term any more.
func (c *Contender) leave(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	c.awaitServed(ctx)
	if !c.entered && !c.uncertain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leavePatience)
	defer cancel()
	retry := task.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	for {
		err := c.vacate(ctx)
		if err == nil {
			return nil
		}
		if !zkconn.IsUnknown(err) || retry.Wait(ctx) != nil {
			return errors.Join(ErrNotReleased, err)
		}
	}
}

// vacate deletes every node of ours, and makes sure that there is none.
func (c *Contender) vacate(ctx context.Context) error {
	if c.placed != "" { // the next contender need not wait until we have looked for others
		if err := c.remove(ctx, c.placed); err != nil {
			return err
		}
		c.placed = ""
	}
	a := &attempt{Contender: c, ctx: ctx, calls: ctx}
	names, err := a.queue()
	if err != nil {
		return err
	}
	for _, name := range own(names, c.prefix) {
		if err := c.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

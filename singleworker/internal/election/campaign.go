package election

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

const (
	// leaveTimeout limits each write, and leaving as a whole, once the contender has to stop. If
	// ZooKeeper is unreachable for longer, the end of the session removes the node.
	leaveTimeout = 3 * time.Second
	// lookAgain is how often a waiting contender reads the queue without an event, so that a lost
	// watch delays it only that long.
	lookAgain = 30 * time.Second
)

// attempt is the loop's state for one connection. Requests are sent one at a time, and each is
// waited for even if the connection is lost meanwhile, so nothing of an earlier attempt is in
// flight.
type attempt struct {
	*Contender
	session *session
	ctx     context.Context //nolint:containedctx // ends with the connection or with Run's context
	calls   context.Context //nolint:containedctx // for reads: ends with Run's context only
	id      int64           // of the session

	node string // name of our node if this session owns it, or ""
	term Term   // of that node
}

// campaign contends over one connection until the connection ends. It returns an error only if Run
// must end: the first create was refused, so the configuration is wrong. A later refusal is
// retried, because it means that someone changed an ACL and may change it back.
func (c *Contender) campaign(ctx context.Context, s *session) error {
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	a := &attempt{Contender: c, session: s, ctx: both, calls: ctx, id: c.conn.SessionID()}
	retry := task.Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second, Jitter: c.cfg.Chance.Jitter("campaign")}
	for !a.over() {
		err := a.round()
		switch {
		case err == nil:
			retry.Reset()
		case a.over():
		case zkconn.IsUnknown(err), errors.Is(err, zkconn.ErrNoNode), c.entered:
			c.cfg.Logger.Warn("leader election failed; retrying", "path", c.cfg.Path, "err", err)
			_ = retry.Wait(a.ctx) // the loop checks a.ctx
		default:
			return err
		}
	}
	return nil
}

// round does the next step and waits until something changes.
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
	case a.over(): // the reads may belong to another session
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
		a.wait(a.cfg.Chance.Jitter("look")(lookAgain), nil)
	}
	return err
}

// over reports whether the connection or Run's context has ended.
func (a *attempt) over() bool { return a.ctx.Err() != nil }

func (a *attempt) path(name string) string { return a.cfg.Path + "/" + name }

// queue lists the nodes in order. The list contains every node that we have created.
func (a *attempt) queue() ([]string, error) {
	if a.uncertain {
		// Once this transaction has been applied, every earlier request of ours has either been
		// applied, and is known to the server that we read from, or never will be.
		_, err := a.conn.Multi(a.calls, zkconn.CheckOp(a.cfg.Path, zkconn.AnyVersion))
		if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
			return nil, err
		}
		a.uncertain = false
	}
	names, _, err := a.conn.Children(a.calls, a.cfg.Path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, nil // enter creates it
	}
	return inOrder(names), err
}

// adopt finds our node among those with our prefix, given in order, and deletes the others: nodes
// of an earlier session, or of a create that went unanswered and was repeated.
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
			a.entered = true // perhaps by a create that was not acknowledged
			continue
		}
		if err := a.discard(name); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes one of our nodes. If the outcome is unknown, later rounds delete it.
func (a *attempt) discard(name string) error {
	a.doomed[name] = true
	err := a.remove(a.Contender.calls, name)
	if err == nil {
		delete(a.doomed, name)
	}
	return err
}

// remove deletes one of our nodes if it exists.
func (c *Contender) remove(ctx context.Context, name string) error {
	_, err := c.conn.Multi(ctx, zkconn.DeleteOp(c.cfg.Path+"/"+name, zkconn.AnyVersion))
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil
	}
	return err
}

// enter creates our node, at the end of the queue, after Serve has returned from the previous term.
func (a *attempt) enter() error {
	a.awaitServed(a.ctx)
	if a.over() {
		return nil
	}
	if err := a.conn.CheckClosed(a.calls, a.cfg.Path); err != nil {
		return err
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

// lead renews the lease for as long as our node, the first in the queue, exists and we have not
// resigned.
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
		default: // the lease continues until it lapses
			a.cfg.Logger.Warn("leadership not confirmed; retrying", "path", a.cfg.Path, "err", err)
		}
		a.wait(lease/renewals, served)
	}
	return nil
}

// wait returns after d, or earlier if something may have changed, served is closed, or the
// connection has ended.
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

// leave deletes our nodes after Serve has returned.
func (c *Contender) leave(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	c.awaitServed(ctx)
	if !c.entered && !c.uncertain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	retry := task.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond, Jitter: c.cfg.Chance.Jitter("leave")}
	for {
		err := c.vacate(ctx)
		if err == nil {
			return nil
		}
		if !zkconn.IsUnknown(err) || retry.Wait(ctx) != nil {
			return fmt.Errorf("%w: %w", ErrNotReleased, err)
		}
	}
}

// vacate deletes all our nodes, including any that we do not know of.
func (c *Contender) vacate(ctx context.Context) error {
	if c.placed != "" { // first, so that the next contender does not wait for the search below
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

// Vacate deletes the nodes below a path that conn's session owns. It leaves out c's; c may be nil.
// A contender that has left deletes its nodes, and servers may lose that, as when they are restored
// from a backup. Then everybody would wait behind a node whose session lives.
func Vacate(ctx context.Context, conn Conn, path string, c *Contender) error {
	names, _, err := conn.Children(ctx, path)
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, protected) || c != nil && strings.HasPrefix(name, c.prefix) {
			continue
		}
		_, stat, err := conn.Get(ctx, path+"/"+name)
		if err == nil && stat.EphemeralOwner == conn.SessionID() {
			_, err = conn.Multi(ctx, zkconn.DeleteOp(path+"/"+name, zkconn.AnyVersion))
		}
		if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
			return err
		}
	}
	return nil
}

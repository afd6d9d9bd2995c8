package coord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// join makes this instance part of the group: the roots, the declared jobs,
// the registrations, the ephemeral node. It tries until it succeeds, ctx ends,
// or it must fail: a refusal is final at the start, for the configuration is
// wrong; after that somebody changed an ACL, or came in another mode while this
// instance's session was over, and may correct that.
func (c *Coordinator) join(ctx context.Context, self zkrec.Instance, again bool) (zkrec.Instance, error) {
	retry := task.Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second}
	for {
		mine, err := c.tryJoin(ctx, self, again)
		final := errors.Is(err, ErrDuplicate) || !again && !zkconn.IsUnknown(err)
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
		other, found, err := c.otherMode(ctx)
		switch {
		case err != nil:
			return mine, err
		case !found && !waiting:
			return mine, nil
		case !found:
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

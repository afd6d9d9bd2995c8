package coord

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// joining is the attempt to join that is under way, if one is.
type joining struct {
	running bool
	cancel  context.CancelFunc // of the last attempt
}

func (j *joining) stop() {
	j.running = false
	if j.cancel != nil {
		j.cancel()
	}
}

// join begins an attempt to become part of the group in this connection.
func (c *Coordinator) join() {
	c.joining.stop()
	attempt, again, self := c.loop.BeginAttempt(), c.member.EverJoined(), c.member.Record()
	ctx, cancel := context.WithCancel(context.Background())
	c.joining = joining{true, cancel}
	c.loop.Async("join", func(tasks context.Context) func() {
		stop := context.AfterFunc(tasks, cancel)
		defer stop()
		mine, err := c.keepJoining(ctx, attempt, self, again)
		return func() { c.joined(attempt, mine, err) }
	})
}

// keepJoining tries until it succeeds, ctx ends, or it must fail: a refusal at the start is final,
// for the configuration is wrong. After that an operator may have changed an ACL, or an instance
// may have come in another mode while this one's session was over, and may correct that.
func (c *Coordinator) keepJoining(
	ctx context.Context, attempt int, self zkrec.Instance, again bool,
) (zkrec.Instance, error) {
	retry := task.Backoff{Min: 50 * time.Millisecond, Max: 2 * time.Second, Jitter: c.loop.Chance.Jitter("join")}
	for {
		mine, err := c.tryJoin(ctx, attempt, self, again)
		final := errors.Is(err, member.ErrDuplicate) || !again && !zkconn.IsUnknown(err)
		if err == nil || final || ctx.Err() != nil {
			return mine, err
		}
		c.log.Warn("joining the group failed, trying again", "err", err)
		if err := retry.Wait(ctx); err != nil {
			return zkrec.Instance{}, err
		}
	}
}

func (c *Coordinator) tryJoin(
	ctx context.Context, attempt int, self zkrec.Instance, again bool,
) (zkrec.Instance, error) {
	if again {
		// Everything but the ephemeral node outlives a session, unless someone deleted it; and each
		// moment without heartbeats counts.
		if mine, err := c.member.Entry.Appear(ctx, self); !errors.Is(err, zkconn.ErrNoNode) {
			return mine, err
		}
	}
	if err := c.member.Entry.Prepare(ctx); err != nil {
		return zkrec.Instance{}, err
	}
	if err := c.member.Place.Prime(ctx); err != nil {
		return zkrec.Instance{}, err
	}
	if err := c.catalog.RegisterAll(ctx, attempt); err != nil {
		return zkrec.Instance{}, err
	}
	mine, err := c.member.Entry.Appear(ctx, self)
	if err != nil {
		return mine, err
	}
	return mine, c.member.Entry.Declare(ctx)
}

// joined ends an attempt.
func (c *Coordinator) joined(attempt int, mine zkrec.Instance, err error) {
	if attempt != c.loop.Attempt() || !c.loop.Connected() {
		return
	}
	c.joining.running = false
	if err != nil {
		if c.member.EverJoined() || !c.member.Leaving() {
			c.failure = err
		}
		return
	}
	c.loop.SetJoined(true)
	c.log.Info("joined the group", "path", c.loop.Tree.Root(), "instance_id", c.member.ID(),
		"session_id", c.loop.SessionID(), "session_timeout", c.loop.Conn.SessionTimeout().String())
	if !c.member.EverJoined() {
		c.member.Entry.Sweep()
		c.member.Departed.Prune()
	}
	c.owner.Step(lease.Opened{Session: c.loop.Conn.SessionTimeout(), SyncPeriod: c.loop.SyncPeriod()})
	c.member.Joined(mine)
	c.nextSync = c.loop.Now()
	c.catalog.Joined()
	c.keeper.Joined()
	c.journal.Joined()
	c.deputy.Joined()
}

// leave reports whether the instance is out of the group, and takes the last step when everything
// before it is done.
func (c *Coordinator) leave() (left bool) {
	departing, departed := c.member.Departure()
	switch {
	case !c.member.Leaving() || departed || departing:
		return departed
	case !c.member.EverJoined():
		if c.joining.running {
			c.joining.cancel() // joined then tells what was registered
			return false
		}
		if !c.loop.Connected() || len(c.catalog.Registered()) == 0 {
			return true // nothing of ours is there, or it cannot be removed
		}
	case !c.loop.Joined():
		if c.loop.Now()-c.loop.LostAt() >= c.loop.Conn.SessionTimeout() {
			c.failure = ErrNotHandedBack
		}
		return false
	case !c.member.Drained():
		return false
	}
	c.member.Depart(c.catalog.Registered())
	return false
}

package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/access"
	"github.com/swjobs/singleworker/singleworker/internal/listing"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Entry is how an instance becomes part of its group. Its methods run beside the loop.
type Entry struct {
	loop     *session.Loop
	cfg      Config
	handlers atomic.Pointer[handlerNode] // of this instance, now
	room     listing.Room
}

func newEntry(loop *session.Loop, cfg Config) *Entry {
	e := &Entry{loop: loop, cfg: cfg}
	e.handlers.Store(handlerNodeOf(cfg.Handlers, cfg.Declarations))
	return e
}

// Prepare creates the nodes that must exist before this instance appears: the roots. Who else could
// change them could have this instance run anything: it returns zkconn.ErrOpenACL then.
func (e *Entry) Prepare(ctx context.Context) error {
	conn, tree := e.loop.Conn, e.loop.Tree
	if _, err := access.Follow(ctx, conn, tree); err != nil {
		return err
	}
	for _, root := range []string{tree.Instances(), tree.Lives(), tree.AllDeparted()} {
		if err := conn.EnsureRoot(ctx, root); err != nil {
			return err
		}
	}
	if err := signals.Prepare(ctx, conn, tree); err != nil {
		return err
	}
	return conn.CheckClosed(ctx, tree.Root(), tree.Instances(), tree.Lives(), tree.Changes(), tree.Asked(), tree.Handlers(), tree.Orders(), tree.Exclusions(), tree.Leader())
}

// Appear creates the ephemeral node, which makes this instance part of the group, and returns its
// record. Instances of the other mode may have just died: it waits for their sessions to end, and
// has no node meanwhile, so that the others do not count on it. ErrDuplicate or ErrMode is returned
// when they are alive.
func (e *Entry) Appear(ctx context.Context, self zkrec.Instance) (mine zkrec.Instance, err error) {
	started := e.loop.Now()
	retry := task.Backoff{Min: 100 * time.Millisecond, Max: 500 * time.Millisecond, Jitter: e.loop.Chance.Jitter("appear")}
	for waiting := false; ; {
		asked := e.loop.Now()
		if !waiting {
			if mine, err = e.createEphemeral(ctx, self); err != nil {
				return mine, err
			}
		}
		other, found, err := e.otherMode(ctx)
		switch {
		case err != nil:
			return mine, err
		case !found && !waiting:
			return mine, nil
		case !found:
			waiting = false
			continue
		case !waiting:
			err := changeOwn(ctx, e.loop, e.cfg.ID, func(version int32) zkconn.Op {
				return zkconn.DeleteOp(e.loop.Tree.Instance(e.cfg.ID), version)
			})
			if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
				return mine, err
			}
			e.loop.Log.Warn("an instance is in the other mode; waiting for its session to end", "instance_id", other.sid)
			waiting = true
		case asked-started > e.maxAbsence(other.Instance):
			return mine, fmt.Errorf("%w: %s is in %s mode, this one in %s mode", ErrMode, other.sid,
				modeName(other.Mode), modeName(e.cfg.Instance.Mode))
		}
		if err := retry.Wait(ctx); err != nil {
			return mine, err
		}
	}
}

// maxAbsence is how long the node of an instance that has died may remain while this one stays
// connected: a new connection begins another attempt, and with it another wait. A session ends up
// to one and a half ticks of the servers after its timeout. A server that joins the others again
// takes sessions that began without it for new ones, and the leader renews them, which nobody
// notices who is connected to another server. If that comes last, it is two timeouts and two and a
// half ticks; a tick is half a timeout at most.
func (e *Entry) maxAbsence(other zkrec.Instance) time.Duration {
	return max(e.loop.Conn.SessionTimeout(), time.Duration(other.SessionTimeout), time.Duration(other.SessionLongest)) * 7 / 2
}

// createEphemeral publishes this incarnation under its id. A node of another incarnation belongs to
// a live instance, or to one that has just died: it waits for that session to end.
func (e *Entry) createEphemeral(ctx context.Context, mine zkrec.Instance) (zkrec.Instance, error) {
	path := e.loop.Tree.Instance(e.cfg.ID)
	started := e.loop.Now()
	retry := task.Backoff{Min: 100 * time.Millisecond, Max: 500 * time.Millisecond, Jitter: e.loop.Chance.Jitter("appear")}
	level := slog.LevelWarn
	for {
		asked := e.loop.Now()
		mine, err := e.enlist(ctx, path, mine)
		if !errors.Is(err, zkconn.ErrNodeExists) {
			return mine, err
		}
		other, err := readOwn(ctx, e.loop, e.cfg.ID)
		ours := other.mine(e.loop)
		switch {
		case errors.Is(err, zkconn.ErrNoNode):
			continue
		case zkconn.IsUnknown(err):
			return mine, err
		case err != nil && !ours:
			return mine, fmt.Errorf("%s: %w", path, err)
		case err != nil: // ours, overwritten by someone else
			_, err = e.loop.Conn.Multi(ctx, other.same, zkconn.SetOp(path, mine.Encode(), other.stat.Version))
			if errors.Is(err, zkconn.ErrBadVersion) {
				continue
			}
			return mine, err
		case other.Incarnation == mine.Incarnation && ours:
			return other.Instance, nil
		case other.Incarnation == mine.Incarnation:
			// Of an earlier session of ours, with which it would go.
			_, err := e.loop.Conn.Multi(ctx, other.same, zkconn.DeleteOp(path, other.stat.Version))
			if err != nil && !errors.Is(err, zkconn.ErrNoNode) && !errors.Is(err, zkconn.ErrBadVersion) {
				return mine, err
			}
			continue
		}
		if asked-started > e.maxAbsence(other.Instance) {
			return mine, fmt.Errorf("%w: %q runs on host %s as pid %d since %s", ErrDuplicate,
				e.cfg.ID, other.Host, other.PID, other.StartedAt.Format(time.RFC3339))
		}
		e.loop.Log.Log(ctx, level, "another instance has this id; waiting for its session to end",
			"instance_id", e.cfg.ID, "host", other.Host, "pid", other.PID)
		level = slog.LevelDebug // once is enough
		if err := retry.Wait(ctx); err != nil {
			return mine, err
		}
	}
}

// enlist creates the ephemeral node. The parent's version counts how often that was done: who
// changes or removes a node of an incarnation checks it, since the next incarnation's node has the
// same path and its version starts at 0 again. Where an ACL forbids writing the parent, it is left
// alone. The transaction checks that the handlers, which the node names, are published.
func (e *Entry) enlist(ctx context.Context, path string, mine zkrec.Instance) (zkrec.Instance, error) {
	handlers := e.handlers.Load()
	mine.Handlers = handlers.hash
	counted := []zkconn.Op{zkconn.SetOp(e.loop.Tree.Instances(), nil, zkconn.AnyVersion)}
	for {
		var ops []zkconn.Op
		if mine.Handlers != "" {
			ops = append(ops, zkconn.CheckOp(e.loop.Tree.HandlerList(mine.Handlers), zkconn.AnyVersion))
		}
		named := len(ops)
		ops = append(append(ops, counted...), zkconn.CreateEphemeralOp(path, mine.Encode()))
		_, err := e.loop.Server.Multi(ctx, ops...)
		refused := new(zkconn.MultiError)
		switch {
		case !errors.As(err, &refused):
			return mine, err
		case refused.Index < named:
			if errors.Is(err, zkconn.ErrNoNode) {
				err = e.publishHandlers(ctx, handlers)
			}
			if zkconn.IsUnknown(err) {
				return mine, err
			} else if err != nil {
				e.loop.Log.Warn("handlers not published: the others read registrations instead", "err", err)
				mine.Handlers = ""
			}
		case refused.Index == named && len(counted) > 0 && errors.Is(err, zkconn.ErrDenied):
			counted = nil
		default:
			return mine, err
		}
	}
}

// otherMode finds an instance that runs in another mode and joined before this one: a leader would
// find jobs owned by others, and never own them. An instance without a node yet comes after all
// others.
func (e *Entry) otherMode(ctx context.Context) (other instanceRead, found bool, err error) {
	sids, _, err := e.loop.Conn.Children(ctx, e.loop.Tree.Instances())
	if err != nil {
		return other, false, err
	}
	instances := readInstances(ctx, e.loop, sids, e.loop.Conn.Get)
	born := int64(math.MaxInt64)
	for _, i := range instances {
		if i.Incarnation == e.cfg.Instance.Incarnation {
			born = i.stat.Czxid
		}
	}
	for _, i := range instances {
		if zkconn.IsUnknown(i.err) {
			return other, false, i.err
		}
		if i.err == nil && i.stat.Czxid < born && i.Mode != e.cfg.Instance.Mode {
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

package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// errNotMine is returned when this instance's node belongs to another session.
var errNotMine = errors.New("the node belongs to another session")

// ownNode is the node with this instance's id as it was read. It may be another incarnation's.
type ownNode struct {
	zkrec.Instance
	stat zkconn.Stat
	// same refuses a transaction unless this is still the node that was read. Versions of nodes begin
	// at 0 again with the next incarnation's. The parent's version grows with each node that is
	// created.
	same zkconn.Op
}

// readOwn reads the node with this instance's id. The result has a stat even if the record cannot
// be read.
func readOwn(ctx context.Context, l *session.Loop, id string) (own ownNode, err error) {
	parent, _, err := l.Conn.Exists(ctx, l.Tree.Instances()) // before the node: see same
	if err != nil {
		return own, err
	}
	own.same = zkconn.CheckOp(l.Tree.Instances(), parent.Version)
	own.Instance, own.stat, err = readInstance(ctx, l, l.Tree.Instance(id), l.Conn.Get)
	return own, err
}

// mine reports whether the node belongs to the present session.
func (own ownNode) mine(l *session.Loop) bool { return own.stat.EphemeralOwner == l.Conn.SessionID() }

// changeOwn changes or deletes this instance's node, unless it belongs to another session: a
// process that was stopped for longer than its session may find its successor's node.
func changeOwn(ctx context.Context, l *session.Loop, id string, change func(version int32) zkconn.Op) error {
	for {
		own, err := readOwn(ctx, l, id)
		switch {
		case zkconn.IsUnknown(err), errors.Is(err, zkconn.ErrNoNode):
			return err
		case !own.mine(l):
			return fmt.Errorf("%s: %w", l.Tree.Instance(id), errNotMine)
		}
		_, err = l.Server.Multi(ctx, own.same, change(own.stat.Version))
		if !errors.Is(err, zkconn.ErrBadVersion) {
			return err
		}
		// Another instance has joined in between, or the server that was read lags behind.
		if err := l.Conn.Sync(ctx, l.Tree.Instances()); err != nil {
			return err
		}
	}
}

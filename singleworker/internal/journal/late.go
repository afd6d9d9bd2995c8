package journal

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// A result that is written without the slot has a node below the tick node, see zkrec.Tree.Late: it
// is created before the records are read, and deleted in the transaction that writes the result.

// late is the run whose result w writes without the slot, or "".
func (w *write) late(guard owner.Guard) string {
	switch {
	case w.kind == amend:
		return w.amend.RunID
	case w.isResult() && len(guard.Ops) == 0:
		return w.commit.From.RunID
	}
	return ""
}

// createLate creates the Late node of a run. It goes with the session.
func createLate(ctx context.Context, l *session.Loop, slot, run string) error {
	_, err := l.Conn.Multi(ctx, zkconn.CreateEphemeralOp(l.Tree.Late(slot, run), nil))
	if errors.Is(err, zkconn.ErrNodeExists) { // from a try whose answer was lost
		return nil
	}
	return err
}

// dropLate deletes the Late node, unless the write of the result has.
func dropLate(l *session.Loop, slot, run string) {
	path := l.Tree.Late(slot, run)
	l.Async("drop late node", func(ctx context.Context) func() {
		_, err := l.Conn.Multi(ctx, zkconn.DeleteOp(path, zkconn.AnyVersion))
		return func() {
			if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
				l.Log.Debug("node not deleted; it ends with the session", "path", path, "err", err)
			}
		}
	})
}

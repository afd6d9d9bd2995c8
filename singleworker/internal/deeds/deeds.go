// Package deeds keeps the log of who did what.
//
// The transaction that does something notes it, as a sequential node: who writes at the same time
// is never refused because of the log, and the log has no deed that was not done. Writers also
// remove the oldest entries, now and then, and so does an instance, for operators may not do it.
package deeds

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Write has send apply ops and, in the same transaction, notes the deed. Without a Kind there is
// nothing to note. A deed that the log refuses is not done, and the error says so. A connection
// that is to create no nodes, with zkconn.ErrOpenACL, notes nothing: anybody could change that.
func Write(
	ctx context.Context, conn *zkconn.Conn, tree zkrec.Tree, d zkrec.Deed, ops []zkconn.Op,
	send func(ops []zkconn.Op) ([]zkconn.Stat, error),
) ([]zkconn.Stat, error) {
	if d.Kind == "" {
		return send(ops)
	}
	note := zkconn.CreateSequentialOp(tree.NewDeed(d), d.Encode())
	all := append(slices.Clone(ops), note)
	stats, err := send(all)
	if refused(err, note) && errors.Is(err, zkconn.ErrNoNode) {
		if err := conn.EnsureRoot(ctx, tree.Deeds()); err != nil {
			return nil, logError(tree, err)
		}
		stats, err = send(all)
	}
	switch {
	case errors.Is(err, zkconn.ErrOpenACL):
		return send(ops)
	case refused(err, note):
		return nil, logError(tree, err)
	case err != nil:
		return nil, err
	}
	if _, number, ok := zkrec.ParseDeedName(path.Base(stats[len(ops)].Created)); ok && number%pruneEach == 0 {
		Prune(ctx, conn, tree)
	}
	return stats[:len(ops)], nil
}

// refused reports whether the server refused the transaction because of the note.
func refused(err error, note zkconn.Op) bool {
	failed := (*zkconn.OpError)(nil)
	return errors.As(err, new(*zkconn.MultiError)) && errors.As(err, &failed) && failed.Path == note.Path()
}

func logError(tree zkrec.Tree, err error) error {
	if zkconn.IsUnknown(err) {
		return err
	}
	return fmt.Errorf("nothing was changed, for who does it cannot be noted below %s, where everybody who changes something must be able to create nodes: %w", tree.Deeds(), err)
}

// Pruning is done by the writer of each entry whose number divides by pruneEach. It removes at most
// maxPruned entries of a kind, so that an old log of many is no long transaction.
const (
	pruneEach = 64
	maxPruned = 500
)

// Prune removes the oldest deeds of each letter. A failed removal is left to the next one: another
// writer may be doing the same, and the change that was noted has been made.
func Prune(ctx context.Context, conn *zkconn.Conn, tree zkrec.Tree) {
	names, _, err := conn.Children(ctx, tree.Deeds())
	if err != nil {
		return
	}
	slices.Sort(names) // of one letter, the oldest first
	of := make(map[string][]zkconn.Op)
	for _, name := range names {
		if letter, _, ok := zkrec.ParseDeedName(name); ok {
			of[letter] = append(of[letter], zkconn.DeleteOp(tree.Deeds()+"/"+name, zkconn.AnyVersion))
		}
	}
	for _, ops := range of {
		if over := min(len(ops)-zkrec.MaxDeeds, maxPruned); over > 0 {
			_, _ = conn.Multi(ctx, ops[:over]...)
		}
	}
}

// Package deeds keeps the log of who did what, the versions of jobs, and the remains of canceled
// jobs.
//
// The transaction that does something notes it, as sequential nodes: who writes at the same time
// is never refused because of the log, and the log has no deed that was not done. Writers also
// remove the oldest nodes, now and then. So does an instance, for operators may not do it.
package deeds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Write has send apply ops and, in the same transaction, notes the deed and writes the nodes of the
// remains: below tree.Canceled, or the one of Version. Without a Kind there is nothing to note. A
// deed that the log refuses is not done, and the error says so. A connection that is to create no
// nodes, with zkconn.ErrOpenACL, notes nothing: anybody could change that.
func Write(
	ctx context.Context, conn *zkconn.Conn, tree zkrec.Tree, d zkrec.Deed, ops []zkconn.Op,
	send func(ops []zkconn.Op) ([]zkconn.Stat, error), remains ...zkconn.Op,
) ([]zkconn.Stat, error) {
	if d.Kind == "" {
		return send(ops)
	}
	all := slices.Concat(ops, []zkconn.Op{zkconn.CreateSequentialOp(tree.NewDeed(d), d.Encode())}, remains)
	stats, err := send(all)
	for range 2 { // the parents may be missing
		root := refusing(tree, err, all[len(ops):])
		if root == "" || !errors.Is(err, zkconn.ErrNoNode) {
			break
		}
		if err := conn.EnsureRoot(ctx, root); err != nil {
			return nil, logError(root, err)
		}
		stats, err = send(all)
	}
	switch root := refusing(tree, err, all[len(ops):]); {
	case errors.Is(err, zkconn.ErrOpenACL):
		return send(ops)
	case root != "":
		return nil, logError(root, err)
	case err != nil:
		return nil, err
	}
	noted := stats[len(ops)].Created
	if _, number, ok := zkrec.ParseDeedName(path.Base(noted)); ok && number%pruneEach == 0 {
		Prune(ctx, conn, tree)
		pruneCanceled(ctx, conn, tree, noted)
	}
	return stats[:len(ops)], nil
}

// Version numbers a change of a job whose record, was, is replaced, and returns the operation that
// notes it, for Write. It reads the job's versions. The job was created at a time. A record of a
// newer version is an error.
func Version(
	ctx context.Context, conn *zkconn.Conn, tree zkrec.Tree, job string, was []byte, created time.Time, d zkrec.Deed,
) (number int32, note zkconn.Op, err error) {
	node := tree.Versions(job)
	data, stat, err := conn.Get(ctx, node)
	missing := errors.Is(err, zkconn.ErrNoNode)
	if err != nil && !missing {
		return 0, note, err
	}
	versions, err := zkrec.ParseVersions(data, stat.Mtime)
	if errors.As(err, new(*zkrec.SchemaError)) {
		return 0, note, fmt.Errorf("%s: %w", node, err)
	}
	number, versions = versions.Add(was, created, d) // one that cannot be read otherwise begins again
	if missing {
		return number, zkconn.CreateOp(node, versions.Encode()), nil
	}
	return number, zkconn.SetOp(node, versions.Encode(), stat.Version), nil
}

// refusing is the parent of the note because of which the server refused the transaction, or "".
func refusing(tree zkrec.Tree, err error, notes []zkconn.Op) string {
	failed := (*zkconn.OpError)(nil)
	if !errors.As(err, new(*zkconn.MultiError)) || !errors.As(err, &failed) ||
		!slices.ContainsFunc(notes, func(note zkconn.Op) bool { return note.Path() == failed.Path }) {
		return ""
	}
	if root := path.Dir(failed.Path); root == tree.Deeds() || root == tree.Canceled() {
		return root
	}
	return "" // the versions of a job, which has changed, or is gone
}

func logError(root string, err error) error {
	if zkconn.IsUnknown(err) {
		return err
	}
	return fmt.Errorf("nothing was changed, for who does it cannot be noted below %s, where everybody who changes something must be able to create nodes: %w", root, err)
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

// pruneCanceled removes the oldest remains of canceled jobs. A node that has just been made tells
// the time.
func pruneCanceled(ctx context.Context, conn *zkconn.Conn, tree zkrec.Tree, made string) {
	names, _, err := conn.Children(ctx, tree.Canceled())
	now, found, unread := conn.Exists(ctx, made)
	if err != nil || unread != nil || !found {
		return
	}
	kept := make(map[bool][]zkrec.CanceledName) // the pasts, and the jobs
	paths := make(map[zkrec.CanceledName]string)
	for _, name := range names {
		if n, ok := zkrec.ParseCanceledName(name); ok {
			kept[n.Past], paths[n] = append(kept[n.Past], n), tree.Canceled()+"/"+name
		}
	}
	for _, list := range kept {
		slices.SortFunc(list, func(a, b zkrec.CanceledName) int { return cmp.Compare(a.Number, b.Number) })
	}
	pasts, jobs := kept[true], kept[false]
	gone := slices.Clone(pasts[:max(0, min(len(pasts)-zkrec.MaxPasts, maxPruned))])
	over := max(0, min(len(jobs)-zkrec.MaxCanceled, maxPruned))
	aged := jobs[over:min(len(jobs), over+2*pruneEach)] // more than have come since the last time
	reads := make([]zkconn.Read, len(aged))
	for i, n := range aged {
		reads[i].Path = paths[n]
	}
	for _, r := range conn.ReadMany(ctx, reads) {
		if r.Err != nil || now.Ctime.Sub(r.Stat.Ctime) <= zkrec.CanceledKept {
			break
		}
		over++
	}
	for _, n := range jobs[:over] {
		gone = append(gone, n)
		past := slices.IndexFunc(pasts, func(p zkrec.CanceledName) bool { return p.Job == n.Job && p.Czxid == n.Czxid })
		if past >= 0 && !slices.Contains(gone, pasts[past]) {
			gone = append(gone, pasts[past])
		}
	}
	ops := make([]zkconn.Op, len(gone))
	for i, n := range gone {
		ops[i] = zkconn.DeleteOp(paths[n], zkconn.AnyVersion)
	}
	if len(ops) > 0 {
		_, _ = conn.Multi(ctx, ops...)
	}
}

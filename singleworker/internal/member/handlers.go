package member

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Which jobs a member can run follows from its handlers. It publishes them before it appears: a list in a node
// that is named by the list's hash, which its record names. So the others know what it can run from its record,
// and read each distinct list once. Instances that publish none (of an older version, with too long a list,
// or that may not write it) are known by their registrations at each job, which all write.

// handlersKept is for how long the list of handlers of which no live member speaks is kept.
const handlersKept = 24 * time.Hour

// published is this instance's list of handlers as a node.
type published struct {
	hash string // empty: not published
	data []byte
}

func publishedOf(cfg Config) published {
	if cfg.Handlers == nil {
		return published{}
	}
	hash, data, ok := zkrec.EncodeHandlers(cfg.Handlers)
	if !ok {
		return published{}
	}
	return published{hash, data}
}

// publishHandlers creates the node with this instance's handlers.
func (e *Entry) publishHandlers(ctx context.Context) error {
	tree, conn := e.loop.Tree, e.loop.Conn
	if err := conn.EnsureRoot(ctx, tree.Handlers()); err != nil {
		return err
	}
	_, err := conn.Multi(ctx, zkconn.CreateOp(tree.HandlerList(e.published.hash), e.published.data))
	if errors.Is(err, zkconn.ErrNodeExists) {
		return nil
	}
	return err
}

// Sweep removes, beside the loop, old lists of handlers that no live member names, such as those of earlier
// releases. An instance does so once it has joined for the first time.
func (e *Entry) Sweep() {
	e.loop.Async("sweep handlers", func(ctx context.Context) func() {
		err := e.dropHandlers(ctx)
		return func() {
			if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
				e.loop.Log.Debug("old lists of handlers not removed", "err", err)
			}
		}
	})
}

// dropHandlers is Sweep. A member that joins meanwhile may name a list: it changes the version of the
// instances' parent, which refuses the removal.
func (e *Entry) dropHandlers(ctx context.Context) error {
	tree, conn := e.loop.Tree, e.loop.Conn
	hashes, _, err := conn.Children(ctx, tree.Handlers())
	if err != nil || !slices.ContainsFunc(hashes, func(hash string) bool { return hash != e.published.hash }) {
		return err
	}
	sids, parent, err := conn.Children(ctx, tree.Instances())
	if err != nil {
		return err
	}
	var now time.Time // on ZooKeeper's clock, about
	for _, i := range readInstances(ctx, e.loop, sids, e.loop.Conn.Get) {
		if i.sid == e.cfg.ID {
			now = i.stat.Mtime // this instance has just joined
		}
		if i.err != nil && !errors.Is(i.err, zkconn.ErrNoNode) && !errors.Is(i.err, errNoSession) {
			return i.err // it may name any
		}
		hashes = slices.DeleteFunc(hashes, func(hash string) bool { return hash == i.Handlers })
	}
	for _, hash := range hashes {
		path := tree.HandlerList(hash)
		stat, found, err := conn.Exists(ctx, path)
		if err != nil {
			return err
		}
		if !found || now.Sub(stat.Mtime) < handlersKept {
			continue
		}
		_, err = conn.Multi(ctx, zkconn.CheckOp(tree.Instances(), parent.Version), zkconn.DeleteOp(path, stat.Version))
		if err != nil {
			return err
		}
		e.loop.Log.Debug("list of handlers removed: no live instance has them", "path", path)
	}
	return nil
}

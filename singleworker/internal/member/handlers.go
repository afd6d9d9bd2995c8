package member

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Which jobs a member can run follows from its handlers. It publishes them before it appears: a
// list in a node that is named by the list's hash, which its record names. So the others know from
// its record which jobs it can run, and read each distinct list once. Instances that publish none
// (of an older version, with too long a list, or that may not write it) are known by their
// registrations at each job, which all write.

// handlersKept is for how long the list of handlers of which no live member speaks is kept.
const handlersKept = 24 * time.Hour

// handlerNode is this instance's list of handlers as a node.
type handlerNode struct {
	hash string // empty: not published
	data []byte
}

// handlerNodeOf returns the node of a list; nil is not published.
func handlerNodeOf(names []string, declarations []Declaration) *handlerNode {
	if names == nil {
		return new(handlerNode)
	}
	jobs := make(map[string]string, len(declarations))
	for _, d := range declarations {
		jobs[d.Job.Name] = d.fingerprint()
	}
	hash, data, ok := zkrec.EncodeHandlers(names, jobs)
	if !ok {
		return new(handlerNode)
	}
	return &handlerNode{hash, data}
}

// SetHandlers takes in another list of handlers of this instance. It is published when this
// instance joins, or by Member.Publish.
func (e *Entry) SetHandlers(names []string) {
	e.handlers.Store(handlerNodeOf(names, e.cfg.Declarations))
}

// keepHandlers publishes the list of handlers that the record of a member is about to name. It also
// writes a list that exists: an instance that is about to remove it as old then finds another
// version.
func (e *Entry) keepHandlers(ctx context.Context, list *handlerNode) error {
	if err := e.publishHandlers(ctx, list); err != nil {
		return err
	}
	_, err := e.loop.Conn.Multi(ctx, zkconn.SetOp(e.loop.Tree.HandlerList(list.hash), list.data, zkconn.AnyVersion))
	if errors.Is(err, zkconn.ErrDenied) {
		return nil
	}
	return err
}

// publishHandlers creates the node with a list of handlers.
func (e *Entry) publishHandlers(ctx context.Context, list *handlerNode) error {
	tree, conn := e.loop.Tree, e.loop.Conn
	if err := conn.EnsureRoot(ctx, tree.Handlers()); err != nil {
		return err
	}
	_, err := conn.Multi(ctx, zkconn.CreateOp(tree.HandlerList(list.hash), list.data))
	if errors.Is(err, zkconn.ErrNodeExists) {
		return nil
	}
	return err
}

// Sweep removes, beside the loop, old lists of handlers that no live member names, such as an
// earlier release's. An instance does so once it has joined for the first time.
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

// dropHandlers is Sweep. A member that joins meanwhile may name a list: it changes the version of
// the instances' parent, which refuses the removal.
func (e *Entry) dropHandlers(ctx context.Context) error {
	tree, conn := e.loop.Tree, e.loop.Conn
	hashes, _, err := conn.Children(ctx, tree.Handlers())
	mine := e.handlers.Load().hash
	if err != nil || !slices.ContainsFunc(hashes, func(hash string) bool { return hash != mine }) {
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

// Able says which live members have which handlers, as far as they publish that. A nil *Able knows
// nobody.
type Able struct {
	// Others lists the live members that publish no handlers, sorted: their registrations tell.
	Others []string

	hashes map[string]string   // by sid; "" of the others
	lists  []*handlerList      // each distinct one
	sids   map[string][]string // by which of the lists have a handler
	places places
}

// handlerList is a list of handlers and who has published it.
type handlerList struct {
	names []string // sorted
	sids  []string
}

// With lists the members that publish a handler, sorted. The caller must not change the result,
// which jobs share.
func (a *Able) With(handler string) []string {
	if a == nil {
		return nil
	}
	which := make([]byte, len(a.lists))
	for i, list := range a.lists {
		if _, found := slices.BinarySearch(list.names, handler); found {
			which[i] = 1
		}
	}
	sids, known := a.sids[string(which)]
	if !known {
		for i, list := range a.lists {
			if which[i] == 1 {
				sids = append(sids, list.sids...)
			}
		}
		slices.Sort(sids)
		a.sids[string(which)] = sids
	}
	return sids
}

// ableOf says who has which handlers, by the hashes that the records of live members name and the
// lists that could be read, and who may run which jobs.
func ableOf(records map[string]zkrec.Instance, lists map[string][]string, excluded zkrec.Exclusions) *Able {
	a := &Able{hashes: make(map[string]string, len(records)), sids: make(map[string][]string)}
	a.places = places{at: make(map[string]zkrec.Instance, len(records)), excluded: excluded, lists: make(map[string][]string)}
	byHash := make(map[string]*handlerList)
	for _, sid := range slices.Sorted(maps.Keys(records)) {
		hash := records[sid].Handlers
		a.places.at[sid] = placeOf(records[sid])
		names, read := lists[hash]
		if !read {
			a.Others = append(a.Others, sid)
			a.hashes[sid] = ""
			continue
		}
		a.hashes[sid] = hash
		if byHash[hash] == nil {
			byHash[hash] = &handlerList{names: names}
			a.lists = append(a.lists, byHash[hash])
		}
		byHash[hash].sids = append(byHash[hash].sids, sid)
	}
	return a
}

// same reports whether two groups can run the same.
func (a *Able) same(b *Able) bool {
	return a != nil && b != nil && maps.Equal(a.hashes, b.hashes) && a.places.same(&b.places)
}

// fetchHandlers reads the lists of handlers that records name, except those that are known. A list
// that cannot be read counts as not published, and is among the errors, by path.
func (r *Roster) fetchHandlers(ctx context.Context, next *reading, known map[string][]string) (map[string]error, error) {
	next.handlers = make(map[string][]string)
	var hashes []string
	var reads []zkconn.Read
	for _, sid := range slices.Sorted(maps.Keys(next.records)) {
		i := next.records[sid]
		names, found := known[i.Handlers]
		switch {
		case i.Handlers == "" || slices.Contains(hashes, i.Handlers):
		case found:
			next.handlers[i.Handlers] = names
		default:
			hashes = append(hashes, i.Handlers)
			reads = append(reads, zkconn.Read{Path: r.loop.Tree.HandlerList(i.Handlers)})
		}
	}
	unreadable := make(map[string]error)
	if len(reads) == 0 {
		return unreadable, nil
	}
	for i, read := range r.loop.Conn.ReadMany(ctx, reads) {
		if read.Err == nil {
			next.handlers[hashes[i]], read.Err = zkrec.ParseHandlers(hashes[i], read.Data)
		}
		switch {
		case read.Err == nil:
		case zkconn.IsUnknown(read.Err):
			return nil, read.Err
		default:
			delete(next.handlers, hashes[i])
			unreadable[reads[i].Path] = read.Err
		}
	}
	return unreadable, nil
}

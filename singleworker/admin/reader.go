package admin

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Counted returns a context for calls of a Client, and the number of requests to ZooKeeper that
// they have sent so far.
func Counted(ctx context.Context) (context.Context, *atomic.Int64) { return zkconn.Counted(ctx) }

// reader reads the nodes of a group, and keeps nothing. Its errors say that no server has answered,
// or that a node may not be read.
type reader struct {
	conn  *zkconn.Conn
	tree  zkrec.Tree
	heard func(nodes int) // as Config.OnRead, of the nodes that were read since the last call
}

// optional reads a node that may be missing.
func (rd reader) optional(ctx context.Context, path string) ([]byte, zkconn.Stat, error) {
	data, stat, err := rd.conn.Get(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, zkconn.Stat{}, nil
	}
	return data, stat, err
}

// children lists the children of a node that may be missing.
func (rd reader) children(ctx context.Context, path string) ([]string, error) {
	names, _, err := rd.conn.Children(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// child is a node below another one.
type child struct {
	name string
	data []byte
	stat zkconn.Stat
	err  error // why it may not be read, a *zkrec.UnreadableError, or nil
}

// family is the children of a node, or why they may not be listed, which wraps ErrDenied.
type family struct {
	nodes  []child
	denied error
}

// below reads the children of nodes that may be missing, in two requests, however many those are.
// Children that go meanwhile are left out.
func (rd reader) below(ctx context.Context, parents ...string) ([]family, error) {
	l := lists{parents: parents}
	listed, err := rd.readMany(ctx, l.reads())
	if err == nil {
		err = l.take(listed)
	}
	if err != nil {
		return nil, err
	}
	nodes, err := rd.readMany(ctx, zkconn.ReadsOf(l.paths...))
	if err != nil {
		return nil, err
	}
	return l.families(ctx, rd, nodes)
}

// lists are the lists of the children of nodes that may be missing.
type lists struct {
	parents []string
	denied  []error  // by parent: why it may not be listed
	paths   []string // of all children
}

func (l *lists) reads() []zkconn.Read {
	reads := zkconn.ReadsOf(l.parents...)
	for i := range reads {
		reads[i].Children = true
	}
	return reads
}

// take takes in the lists as they were read.
func (l *lists) take(listed []zkconn.ReadResult) error {
	l.denied, l.paths = make([]error, len(l.parents)), nil
	for i, list := range listed {
		switch {
		case errors.Is(list.Err, ErrDenied):
			l.denied[i] = list.Err
		case list.Err != nil && !errors.Is(list.Err, zkconn.ErrNoNode):
			return list.Err
		}
		for _, name := range list.Names {
			l.paths = append(l.paths, l.parents[i]+"/"+name)
		}
	}
	return nil
}

// families are the children by parent, as they were read.
func (l *lists) families(ctx context.Context, rd reader, nodes []zkconn.ReadResult) ([]family, error) {
	all, of := make([]family, len(l.parents)), make(map[string]*family)
	for i, parent := range l.parents {
		all[i].denied, of[parent] = l.denied[i], &all[i]
	}
	return all, rd.passOn(ctx, l.paths, nodes, func(parent string, node child) { of[parent].nodes = append(of[parent].nodes, node) })
}

// eachChild is below for one node.
func (rd reader) eachChild(ctx context.Context, path string, use func(child)) error {
	families, err := rd.below(ctx, path)
	if err != nil {
		return err
	}
	for _, node := range families[0].nodes {
		use(node)
	}
	return families[0].denied
}

// eachOf reads the children of those names of a node, but for those that are missing.
func (rd reader) eachOf(ctx context.Context, parent string, names []string, use func(child)) error {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = parent + "/" + name
	}
	return rd.eachAt(ctx, paths, func(_ string, node child) { use(node) })
}

// eachAt reads nodes, but for those that are missing, and passes each on with the path of its
// parent.
func (rd reader) eachAt(ctx context.Context, paths []string, use func(parent string, node child)) error {
	results, err := rd.readMany(ctx, zkconn.ReadsOf(paths...))
	if err != nil {
		return err
	}
	return rd.passOn(ctx, paths, results, use)
}

// passOn is eachAt for nodes as they were read.
func (rd reader) passOn(ctx context.Context, paths []string, results []zkconn.ReadResult, use func(parent string, node child)) error {
	for i, r := range results {
		parent, name := path.Split(paths[i])
		node := child{name: name, data: r.Data, stat: r.Stat}
		err := r.Err
		if errors.Is(err, ErrDenied) {
			node.err = denied(err)
			node.stat, _, err = rd.conn.Exists(ctx, paths[i]) // which needs no permission
		}
		if errors.Is(err, zkconn.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		use(strings.TrimSuffix(parent, "/"), node)
	}
	return nil
}

// named reads the calendars and the limits that specs name. One that does not exist is left out.
func (rd reader) named(ctx context.Context, specs ...zkrec.Spec) (calendars zkrec.ReadCalendars, limits zkrec.ReadLimits, err error) {
	var paths []string
	for _, spec := range specs {
		paths = append(paths, spec.Named(rd.tree)...)
	}
	if len(paths) == 0 {
		return nil, nil, nil
	}
	slices.Sort(paths)
	calendars, limits = make(zkrec.ReadCalendars), make(zkrec.ReadLimits)
	return calendars, limits, rd.eachAt(ctx, slices.Compact(paths), func(parent string, node child) {
		if parent == rd.tree.Limits() {
			limits[node.name] = node.limit()
		} else {
			calendars[node.name] = node.calendar()
		}
	})
}

// calendar takes in the node of a calendar.
func (c child) calendar() zkrec.ReadCalendar {
	if c.err != nil {
		return zkrec.ReadCalendar{Version: c.stat.Version, Err: c.err}
	}
	return zkrec.NewCalendar(c.data, c.stat.Version, c.stat.Mtime)
}

// freezeOf is a reading of the freeze. A group whose node is missing was never frozen.
func freezeOf(result zkconn.ReadResult) zkrec.ReadFreeze {
	if errors.Is(result.Err, zkconn.ErrNoNode) {
		return zkrec.ReadFreeze{}
	}
	return zkrec.NewFreeze(result.Data, result.Stat.Version, result.Stat.Mtime, result.Err)
}

// denied says which node may not be read.
func denied(err error) error {
	refused := new(zkconn.OpError)
	if !errors.As(err, &refused) {
		return err
	}
	return &zkrec.UnreadableError{Path: refused.Path, Err: refused.Err}
}

// readers is how many jobs, slots, or instances are dealt with concurrently where there is no
// request for many.
const readers = 32

// readsPerAnswer is how many nodes are read before OnRead is called.
const readsPerAnswer = 2048

// readMany reads nodes. It fails if the outcome of a reading is not known.
func (rd reader) readMany(ctx context.Context, reads []zkconn.Read) ([]zkconn.ReadResult, error) {
	results := make([]zkconn.ReadResult, 0, len(reads))
	for some := range slices.Chunk(reads, readsPerAnswer) {
		for _, r := range rd.conn.ReadMany(ctx, some) {
			if zkconn.IsUnknown(r.Err) {
				return nil, r.Err
			}
			results = append(results, r)
		}
		rd.heard(len(some))
	}
	return results, nil
}

// historyOf parses the pages of a slot's history. stat has the czxid of the first page, and is
// otherwise the one of the page that was written last.
func historyOf(results []zkconn.ReadResult) (h zkrec.History, stat zkconn.Stat, err error) {
	created := results[0].Stat.Czxid
	for _, r := range results {
		if r.Err == nil && r.Stat.Mzxid > stat.Mzxid {
			stat = r.Stat
		}
	}
	stat.Czxid = created
	pages, err := zkconn.DataOf(results) // a slot is made with the first
	if err == nil {
		h, err = zkrec.ParseHistory(pages)
	}
	return h, stat, err
}

// owners calls use for each slot of the jobs that an owner record names an instance for. It reads
// no other record: of a job without shards, one.
func (rd reader) owners(ctx context.Context, jobs []string, use func(slot, sid string)) error {
	others, err := rd.ownersOf(ctx, jobs, use)
	if err != nil {
		return err
	}
	reads := make([]zkconn.Read, len(others))
	for i, job := range others {
		reads[i] = zkconn.Read{Path: rd.tree.Shards(job), Children: true}
	}
	lists, err := rd.readMany(ctx, reads)
	if err != nil {
		return err
	}
	var shards []string
	for i, list := range lists { // one that may not be read names nobody, or does not exist
		for _, name := range list.Names {
			if shard, ok := zkrec.ParseShard(name); ok {
				shards = append(shards, zkrec.ShardSlot(others[i], shard))
			}
		}
	}
	_, err = rd.ownersOf(ctx, shards, use)
	return err
}

// ownersOf calls use for the slots whose owner record names an instance, and returns the others. A
// record that may not be read, or is unreadable, names nobody.
func (rd reader) ownersOf(ctx context.Context, slots []string, use func(slot, sid string)) (others []string, err error) {
	reads := make([]zkconn.Read, len(slots))
	for i, slot := range slots {
		reads[i] = zkconn.Read{Path: rd.tree.Alive(slot)}
	}
	results, err := rd.readMany(ctx, reads)
	for i, r := range results {
		if r.Err != nil && !errors.Is(r.Err, zkconn.ErrNoNode) && !errors.Is(r.Err, ErrDenied) {
			return nil, r.Err
		}
		if owner, _ := zkrec.ParseOwner(r.Data); owner.SID != "" {
			use(slots[i], owner.SID)
		} else {
			others = append(others, slots[i])
		}
	}
	return others, err
}

// retried repeats a read until a server has answered it. Its error begins with doing.
func retried[T any](ctx context.Context, conn *zkconn.Conn, doing string, read func() (T, error)) (value T, err error) {
	err = conn.Retry(ctx, func() (err error) {
		value, err = read()
		return err
	})
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	return value, nil
}

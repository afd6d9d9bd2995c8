package deletion

import (
	"context"
	"errors"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// places has the places of limits that the open runs of slots hold, by the path of the tick record.
// A record and its places are deleted together, so that no run waits for a job that is gone.
type places struct {
	tree zkrec.Tree
	held map[string]held
}

type held struct {
	version int32    // of the record: a later one may hold other places
	nodes   []string // of the places
}

// places finds the places that the slots of the job hold whose nodes are among paths. whole is a
// reading of the tick record of a job that is not divided. limited means that runs may take places
// meanwhile, so that the versions of records which hold none count, too. Without limits, the job
// has to become another one first.
func (d *Deletion) places(ctx context.Context, paths []string, whole zkconn.ReadResult, limited bool) (places, error) {
	records := map[string]zkconn.ReadResult{d.Tree.Tick(d.Job): whole}
	var divided []string
	for _, path := range paths {
		if slot, ok := d.Tree.Watched(path); ok && slot != d.Job && path == d.Tree.Tick(slot) {
			divided = append(divided, path)
		}
	}
	for i, r := range d.Conn.ReadMany(ctx, zkconn.ReadsOf(divided...)) {
		records[divided[i]] = r
	}
	p := places{tree: d.Tree, held: make(map[string]held)}
	var nodes, owners []string
	for path, r := range records {
		if zkconn.IsUnknown(r.Err) {
			return places{}, r.Err
		}
		record, err := zkrec.ParseTick(r.Data, r.Stat.Mtime)
		if r.Err != nil || err != nil || record.Places == "" && !limited {
			continue // a record that cannot be read tells of no places
		}
		p.held[path] = held{version: r.Stat.Version}
		for _, place := range record.Places.List() {
			nodes, owners = append(nodes, d.Tree.HeldPlace(place)), append(owners, path)
		}
	}
	for i, r := range d.Conn.ReadMany(ctx, zkconn.ReadsOf(nodes...)) {
		slot, _ := d.Tree.Watched(owners[i])
		switch {
		case errors.Is(r.Err, zkconn.ErrNoNode) || r.Err == nil && string(r.Data) != slot: // somebody has freed it
		case r.Err != nil:
			return places{}, r.Err
		default:
			of := p.held[owners[i]]
			of.nodes = append(of.nodes, nodes[i])
			p.held[owners[i]] = of
		}
	}
	return p, nil
}

// remove deletes a node at a version and, before a tick record, its places.
func (p places) remove(path string, version int32) (ops []zkconn.Op) {
	of, found := p.held[path]
	if found {
		version = of.version
	}
	slices.Sort(of.nodes)
	for _, node := range of.nodes {
		ops = append(ops, zkconn.DeleteOp(node, zkconn.AnyVersion))
	}
	return append(ops, zkconn.DeleteOp(path, version))
}

// whole is how many of the first n operations do not part a tick record from its places.
func (p places) whole(ops []zkconn.Op, n int) int {
	if n == len(ops) {
		return n
	}
	for n > 0 {
		if _, place := p.tree.HeldPlaceAt(ops[n-1].Path()); !place {
			break
		}
		n--
	}
	return n
}

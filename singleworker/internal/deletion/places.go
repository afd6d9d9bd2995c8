package deletion

import (
	"context"
	"errors"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Places has the places of limits that the open runs of slots hold, by the path of the tick record.
// A record and its places are deleted together, so that no run waits for a job that is gone.
type Places struct {
	tree zkrec.Tree
	held map[string]held
}

type held struct {
	version int32    // of the record: a later one may hold other places
	nodes   []string // of the places
}

// places finds the places that the slots of the job hold whose nodes are among paths. whole is a
// reading of the tick record of a job that is not divided. limited means that runs may take places
// meanwhile: without limits, the job has to become another one first.
func (d *Deletion) places(ctx context.Context, paths []string, whole zkconn.ReadResult, limited bool) (Places, error) {
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
	return FindPlaces(ctx, d.Conn, d.Tree, records, limited)
}

// FindPlaces finds the places that open runs hold by their tick records. With all, the versions of
// records that hold none count, too.
func FindPlaces(ctx context.Context, conn *zkconn.Conn, tree zkrec.Tree, records map[string]zkconn.ReadResult, all bool) (Places, error) {
	p := Places{tree: tree, held: make(map[string]held)}
	var nodes, owners []string
	for path, r := range records {
		if zkconn.IsUnknown(r.Err) {
			return Places{}, r.Err
		}
		record, err := zkrec.ParseTick(r.Data, r.Stat.Mtime)
		if r.Err != nil || err != nil || record.Places == "" && !all {
			continue // a record that cannot be read tells of no places
		}
		p.held[path] = held{version: r.Stat.Version}
		for _, place := range record.Places.List() {
			nodes, owners = append(nodes, tree.HeldPlace(place)), append(owners, path)
		}
	}
	if len(nodes) == 0 {
		return p, nil
	}
	for i, r := range conn.ReadMany(ctx, zkconn.ReadsOf(nodes...)) {
		slot, _ := tree.Watched(owners[i])
		switch {
		case errors.Is(r.Err, zkconn.ErrNoNode) || r.Err == nil && string(r.Data) != slot: // somebody has freed it
		case r.Err != nil:
			return Places{}, r.Err
		default:
			of := p.held[owners[i]]
			of.nodes = append(of.nodes, nodes[i])
			p.held[owners[i]] = of
		}
	}
	return p, nil
}

// Delete deletes a node at a version and, before a tick record, its places.
func (p Places) Delete(path string, version int32) (ops []zkconn.Op) {
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
func (p Places) whole(ops []zkconn.Op, n int) int {
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

package tree

import (
	"strings"

	"github.com/swjobs/singleworker/singleworker/zkdev/internal/wire"
)

// setWatches restores the watches of a reconnected client. Changes since the latest zxid that it
// has seen fire at once, in the order of its lists.
func (s *State) setWatches(out *Output, client Client, r *wire.Request) wire.Code {
	w := &r.Watches
	if len(w.Persistent) > 0 {
		return wire.Unimplemented
	}
	tell := func(t wire.EventType, path string) {
		out.Events = append(out.Events, Event{Conn: client.Conn, Type: t, Path: path})
	}
	for _, path := range w.Data {
		n := s.nodes[path]
		switch {
		case n == nil:
			tell(wire.NodeDeleted, path)
		case n.mzxid > w.Zxid:
			tell(wire.NodeDataChanged, path)
		default:
			s.data.add(path, client.Conn)
		}
	}
	for _, path := range w.Exist {
		if s.nodes[path] != nil {
			tell(wire.NodeCreated, path)
		} else {
			s.data.add(path, client.Conn)
		}
	}
	for _, path := range w.Child {
		n := s.nodes[path]
		switch {
		case n == nil:
			tell(wire.NodeDeleted, path)
		case n.pzxid > w.Zxid:
			tell(wire.NodeChildrenChanged, path)
		default:
			s.children.add(path, client.Conn)
		}
	}
	return wire.OK
}

// Kinds of watches to check or remove.
const (
	childWatches = 1
	dataWatches  = 2
	anyWatches   = 3
)

// changeWatches handles checkWatches and removeWatches. In ZooKeeper, checkWatches checks whether
// any client watches the path.
func (s *State) changeWatches(client Client, r *wire.Request) wire.Code {
	if r.Kind < childWatches || r.Kind > anyWatches {
		return wire.MarshallingError
	}
	if r.Op == wire.OpCheckWatches && !strings.Contains(r.Path, "/") {
		if r.Path == "" {
			return wire.NoWatcher
		}
		return wire.MarshallingError // as in ZooKeeper
	}
	found := false
	for _, kind := range []struct {
		bit   int32
		table *watchTable
	}{{childWatches, s.children}, {dataWatches, s.data}} {
		if r.Kind&kind.bit == 0 {
			continue
		}
		if r.Op == wire.OpRemoveWatches {
			found = kind.table.remove(r.Path, client.Conn) || found
		} else {
			found = kind.table.watched(r.Path) || found
		}
	}
	if !found {
		return wire.NoWatcher
	}
	return wire.OK
}

package tree

import "slices"

// A watchTable holds the one-shot watches of one kind. A connection has at most one watch per path.
type watchTable struct {
	byPath map[string]map[Conn]struct{}
	byConn map[Conn]map[string]struct{}
}

func newWatchTable() *watchTable {
	return &watchTable{byPath: map[string]map[Conn]struct{}{}, byConn: map[Conn]map[string]struct{}{}}
}

func (t *watchTable) add(path string, c Conn) {
	if t.byPath[path] == nil {
		t.byPath[path] = map[Conn]struct{}{}
	}
	t.byPath[path][c] = struct{}{}
	if t.byConn[c] == nil {
		t.byConn[c] = map[string]struct{}{}
	}
	t.byConn[c][path] = struct{}{}
}

// take removes the watches on a path and returns their connections.
func (t *watchTable) take(path string) []Conn {
	watchers := t.byPath[path]
	if len(watchers) == 0 {
		return nil
	}
	conns := make([]Conn, 0, len(watchers))
	for c := range watchers {
		conns = append(conns, c)
	}
	slices.Sort(conns)
	for _, c := range conns {
		t.remove(path, c)
	}
	return conns
}

// remove removes one watch and reports whether it was there.
func (t *watchTable) remove(path string, c Conn) bool {
	if _, ok := t.byPath[path][c]; !ok {
		return false
	}
	delete(t.byPath[path], c)
	if len(t.byPath[path]) == 0 {
		delete(t.byPath, path)
	}
	delete(t.byConn[c], path)
	if len(t.byConn[c]) == 0 {
		delete(t.byConn, c)
	}
	return true
}

func (t *watchTable) dropConn(c Conn) {
	for path := range t.byConn[c] {
		t.remove(path, c)
	}
}

// watched reports whether any connection watches a path.
func (t *watchTable) watched(path string) bool { return len(t.byPath[path]) > 0 }

func (t *watchTable) size() int {
	n := 0
	for _, watchers := range t.byPath {
		n += len(watchers)
	}
	return n
}

package zkrec

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// NodeVersions are the paths and versions of nodes on which a decision about a job rests, besides
// its own: calendars, and the specs of its ancestors. They can be compared.
type NodeVersions string

// With returns v and the version of a further node. created tells a node from another one of its
// path, whose versions begin at 0 again; it is 0 for nodes that stay. written is when it was
// written, on ZooKeeper's clock, in Unix milliseconds: servers that were emptied, or restored from
// a backup, count transactions again, too. It also tells a calendar that was made in the place
// of one that was deleted by hand.
func (v NodeVersions) With(path string, version int32, created, written int64) NodeVersions {
	return v.And(NodeVersions(fmt.Sprintf("%d %d %d %s\n", version, created, written, path)))
}

// And returns the versions of both, each once.
func (v NodeVersions) And(others NodeVersions) NodeVersions {
	if v == "" || others == "" {
		return v + others
	}
	lines := slices.Sorted(strings.Lines(string(v + others)))
	return NodeVersions(strings.Join(slices.Compact(lines), ""))
}

// Nodes are the paths and the versions: a transaction that rests on the nodes checks them, see
// zkconn.CheckOps.
func (v NodeVersions) Nodes() iter.Seq2[string, int32] {
	return func(yield func(string, int32) bool) {
		for path, numbers := range v.nodes() {
			if version, err := strconv.ParseInt(numbers[0], 10, 32); err == nil && !yield(path, int32(version)) {
				return
			}
		}
	}
}

// Jobs are the paths of those nodes that may be deleted and made again, which their versions do not
// tell, and the transactions that have created them.
func (v NodeVersions) Jobs() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for path, numbers := range v.nodes() {
			if created, err := strconv.ParseInt(numbers[1], 10, 64); err == nil && created != 0 && !yield(path, created) {
				return
			}
		}
	}
}

// nodes are the paths, and the numbers that With was given.
func (v NodeVersions) nodes() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		const path = 3 // is what follows three numbers
		for line := range strings.Lines(string(v)) {
			parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", path+1)
			if !yield(parts[path], parts[:path]) {
				return
			}
		}
	}
}

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
// path, whose versions begin at 0 again; it is 0 for nodes that stay.
func (v NodeVersions) With(path string, version int32, created int64) NodeVersions {
	return v.And(NodeVersions(fmt.Sprintf("%d %d %s\n", version, created, path)))
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
		for line := range strings.Lines(string(v)) {
			text, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			_, path, _ := strings.Cut(rest, " ")
			if version, err := strconv.ParseInt(text, 10, 32); err == nil && !yield(path, int32(version)) {
				return
			}
		}
	}
}

// Jobs are the paths of those nodes that may be deleted and made again, which their versions do not
// tell, and the transactions that have created them.
func (v NodeVersions) Jobs() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for line := range strings.Lines(string(v)) {
			_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			text, path, _ := strings.Cut(rest, " ")
			if created, err := strconv.ParseInt(text, 10, 64); err == nil && created != 0 && !yield(path, created) {
				return
			}
		}
	}
}

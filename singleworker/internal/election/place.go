package election

import (
	"cmp"
	"slices"
	"strings"
)

// The parts of a node's name, as composed by Curator's withProtection and LeaderLatch.
const (
	protected = "_c_"
	latch     = "latch-"
)

// namePrefix returns the prefix of the names of a contender's nodes.
func namePrefix(uuid string) string { return protected + uuid + "-" }

// sortKey returns the key by which Curator orders nodes: the text after the last "latch-", which is
// the sequence number, or the whole name if it has no "latch-".
func sortKey(name string) string {
	if i := strings.LastIndex(name, latch); i >= 0 {
		return name[i+len(latch):]
	}
	return name
}

// inOrder returns the names in the order in which they lead.
func inOrder(names []string) []string {
	return slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(sortKey(a), sortKey(b)), cmp.Compare(a, b))
	})
}

// own returns the names that have a contender's prefix, in order.
func own(names []string, prefix string) []string {
	var mine []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			mine = append(mine, name)
		}
	}
	return mine
}

// before returns the name that precedes name, or "" if name is the first.
func before(names []string, name string) string {
	ahead := ""
	for _, other := range names {
		if other == name {
			return ahead
		}
		ahead = other
	}
	return ""
}

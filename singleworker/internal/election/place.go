package election

import (
	"cmp"
	"slices"
	"strings"
)

// The parts of a node's name, as Curator's withProtection and LeaderLatch put it together.
const (
	protected = "_c_"
	latch     = "latch-"
)

// namePrefix is what the names of a contender's nodes begin with.
func namePrefix(uuid string) string { return protected + uuid + "-" }

// sortKey is what Curator orders nodes by: the text after the last "latch-", which is the
// number; of other names the whole.
func sortKey(name string) string {
	if i := strings.LastIndex(name, latch); i >= 0 {
		return name[i+len(latch):]
	}
	return name
}

// inOrder returns names in the order in which they lead.
func inOrder(names []string) []string {
	return slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(sortKey(a), sortKey(b)), cmp.Compare(a, b))
	})
}

// own are those of the names, in order, that begin with a contender's prefix.
func own(names []string, prefix string) []string {
	var mine []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			mine = append(mine, name)
		}
	}
	return mine
}

// before is the name ahead of one in order, or "" when it is the first.
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

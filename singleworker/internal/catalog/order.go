package catalog

import (
	"maps"
	"slices"
	"strings"
)

func byName(a, b *Job) int { return strings.Compare(a.Name, b.Name) }

// inOrder is the jobs by name, so that work on all of them is always done in the same order. It is
// made when it is asked for, and nil if the jobs have changed since.
type inOrder []*Job

// of returns the list of jobs, which does not change.
func (o *inOrder) of(jobs map[string]*Job) []*Job {
	if *o == nil {
		*o = slices.SortedFunc(maps.Values(jobs), byName)
	}
	return *o
}

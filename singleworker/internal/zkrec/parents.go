package zkrec

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/singleworker/job"
)

// ParentNames are the names of the parents of the spec's schedule, and of the former ones.
func (s Spec) ParentNames() []string {
	if len(s.Job.After) == 0 && s.Former == nil {
		return nil
	}
	names := slices.Clone(s.Job.After)
	for f := s.Former; f != nil; f = f.Former {
		names = append(names, f.After...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CheckParent reports why the job cannot be another one's parent.
func (s Spec) CheckParent() error {
	if s.Job.Shards == 0 {
		s.Job.Shards = s.ActiveLayout().Shards
	}
	return s.Job.CheckParent()
}

// ErrCycle means that a job would wait for itself.
var ErrCycle = errors.New("would wait for itself")

// Ancestors lists the jobs that come before the one of that name: its parents, theirs, and so on.
// It refuses a job that comes before itself with ErrCycle, and one with more than job.MaxAncestors.
func Ancestors(name string, parents func(name string) []string) ([]string, error) {
	after := map[string]string{name: ""} // whose parent it is
	list := []string{name}
	for i := 0; i < len(list); i++ {
		for _, parent := range parents(list[i]) {
			if parent == name {
				way := []string{name}
				for of := list[i]; of != ""; of = after[of] {
					way = append(way, of)
				}
				slices.Reverse(way)
				return nil, fmt.Errorf("%w: %s", ErrCycle, strings.Join(way, " after "))
			}
			if _, known := after[parent]; known {
				continue
			}
			after[parent] = list[i]
			if list = append(list, parent); len(list) > job.MaxAncestors+1 {
				return nil, fmt.Errorf("has more than %d jobs before it", job.MaxAncestors)
			}
		}
	}
	return list[1:], nil
}

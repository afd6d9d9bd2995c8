package files

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/job"
)

// Generations says of each job in which generation it is: 0, or one after the last of the listed
// jobs after which it runs. So jobs can be submitted in any order of the files. Jobs that wait for
// each other, which are refused, are in any.
func Generations(jobs []job.Job) []int {
	generations, at := make([]int, len(jobs)), make(map[string]int, len(jobs))
	for i, j := range jobs {
		at[j.Name] = i
	}
	for range job.MaxAncestors {
		before := slices.Clone(generations)
		for i, j := range jobs {
			for _, name := range j.After {
				if parent, listed := at[name]; listed {
					generations[i] = max(generations[i], generations[parent]+1)
				}
			}
		}
		if slices.Equal(before, generations) {
			break
		}
	}
	return generations
}

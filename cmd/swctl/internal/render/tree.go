package render

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// Kin is a job in a tree of jobs that run after one another.
type Kin struct {
	admin.JobStatus
	branch string // drawn before the name
	Again  bool   // it is in the tree already, with those that run after it
}

// FamilyTree lists the jobs that run after others, or before others, each with those below it that
// run after it. A job after several is there several times. With named, only jobs stay that it
// has, or that come before or after one that it has. Each level is in the order of the jobs.
func FamilyTree(jobs []admin.JobStatus, named func(admin.JobStatus) bool) []Kin {
	at, children := make(map[string]admin.JobStatus, len(jobs)), make(map[string][]string)
	for _, job := range jobs {
		at[job.Name] = job
		for _, parent := range job.Job.After {
			children[parent] = append(children[parent], job.Name)
		}
	}
	parents := func(name string) []string { return at[name].Job.After }
	before, after := make(map[string]bool), make(map[string]bool)
	for _, job := range jobs {
		if named(job) && len(job.Job.After)+len(children[job.Name]) > 0 {
			mark(before, job.Name, parents)
			mark(after, job.Name, func(name string) []string { return children[name] })
		}
	}
	var lines []Kin
	listed := make(map[string]bool)
	var list func(name, branch, below string)
	list = func(name, branch, below string) {
		lines = append(lines, Kin{at[name], branch, listed[name]})
		if listed[name] {
			return
		}
		listed[name] = true
		var shown []string
		for _, child := range children[name] {
			if before[child] || after[child] {
				shown = append(shown, child)
			}
		}
		for i, child := range shown {
			if i+1 < len(shown) {
				list(child, below+"├─ ", below+"│  ")
			} else {
				list(child, below+"└─ ", below+"   ")
			}
		}
	}
	known := func(name string) bool { _, found := at[name]; return found }
	first := func(job admin.JobStatus) bool { return !slices.ContainsFunc(job.Job.After, known) }
	// Jobs whose records were changed by hand may wait for one another in a circle: no job is first.
	for _, of := range []func(admin.JobStatus) bool{first, func(admin.JobStatus) bool { return true }} {
		for _, job := range jobs {
			if (before[job.Name] || after[job.Name]) && of(job) && !listed[job.Name] {
				list(job.Name, "", "")
			}
		}
	}
	return lines
}

// mark adds a job to a set, and all that are reached from it.
func mark(set map[string]bool, name string, next func(string) []string) {
	if set[name] {
		return
	}
	set[name] = true
	for _, other := range next(name) {
		mark(set, other, next)
	}
}

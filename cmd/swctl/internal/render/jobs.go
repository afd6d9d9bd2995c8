package render

import (
	"slices"
	"strconv"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Jobs is a table with a row for each job; it has a column of reasons only if a job has one.
func (p Page) Jobs(jobs []admin.JobStatus, indent string) {
	tree := make([]Kin, len(jobs))
	for i, job := range jobs {
		tree[i] = Kin{JobStatus: job}
	}
	p.Tree(tree, indent)
}

// Tree is the table of Jobs, for a tree of them.
func (p Page) Tree(tree []Kin, indent string) {
	header := []string{"NAME", "SCHEDULE", "ZONE", "STATE", "OWNER", "LAST", "NEXT"}
	reasons := slices.ContainsFunc(tree, func(job Kin) bool { return len(job.Conditions) > 0 })
	if reasons {
		header = append(header, "REASON")
	}
	t := p.table(header, "ZONE", "SCHEDULE")
	for _, kin := range tree {
		job, name := kin.JobStatus, words.Name(kin.JobStatus)
		if kin.Again {
			name += " (*)"
		}
		owner, _, _ := ownerCells(p.Clock, job)
		if len(job.Slots) > 0 {
			owner = words.Owners(job.Slots)
		}
		row := []string{name, job.Job.Schedule, job.Job.TimeZone, words.Health(job), owner, lastCell(p.Clock, job), p.ago(job.NextRun)}
		if reasons {
			row = append(row, words.Line(job.Conditions))
		}
		t.Row(row...)
		t.Branch(kin.branch)
		t.Paint("STATE", color(job.Conditions))
	}
	t.Write(p.Out, indent)
}

// WideJobs is a table with a row for each job, or for each of its shards, and every column.
func (p Page) WideJobs(jobs []admin.JobStatus) {
	t := p.table([]string{"NAME", "SCHEDULE", "ZONE", "HANDLER", "PARAMETER", "STATE", "OWNER", "SINCE", "TOKEN", "LAST", "NEXT", "REASON"},
		"TOKEN", "PARAMETER", "HANDLER", "ZONE", "SCHEDULE", "SINCE")
	for _, job := range jobs {
		for _, slot := range words.Slots(job) {
			param := ""
			if slot.Shard != nil {
				param = slot.Shard.Parameter
			}
			t.Row(append([]string{words.Name(slot), slot.Job.Schedule, slot.Job.TimeZone, slot.Job.Handler, param}, slotCells(p.Clock, slot)...)...)
			t.Paint("STATE", color(slot.Conditions))
		}
	}
	t.Write(p.Out, "")
}

// shards is a table with a row for each shard of a job, or for each instance of one that runs on
// all.
func (p Page) shards(job admin.JobStatus) {
	header, below := []string{"SHARD", "PARAMETER", "STATE", "OWNER", "SINCE", "TOKEN", "LAST", "NEXT", "REASON"}, []string{"TOKEN", "SINCE", "PARAMETER"}
	everywhere := words.Everywhere(job)
	if everywhere {
		header, below = []string{"INSTANCE", "STATE", "SINCE", "TOKEN", "LAST", "NEXT", "REASON"}, []string{"TOKEN", "SINCE"}
	}
	t := p.table(header, below...)
	for _, slot := range job.Slots {
		columns := slotCells(p.Clock, unpaused(slot))
		if everywhere {
			t.Row(append([]string{slot.InstanceID, columns[0]}, columns[2:]...)...)
		} else {
			t.Row(append([]string{strconv.Itoa(slot.Shard.Index), slot.Shard.Parameter}, columns...)...)
		}
		t.Paint("STATE", color(slot.Conditions))
	}
	t.Write(p.Out, "  ")
}

// unpaused leaves out of a slot that it is paused: all of them are, and it is said above.
func unpaused(slot admin.JobStatus) admin.JobStatus {
	slot.Conditions = slices.DeleteFunc(slices.Clone(slot.Conditions), func(c reason.Condition) bool {
		return c.Code == reason.Paused || c.Code == reason.LongPaused
	})
	return slot
}

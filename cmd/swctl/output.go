package main

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// zoneOf is the time zone of a job; UTC when it names none that exists.
func zoneOf(j job.Job) *time.Location {
	zone, err := j.Location()
	if err != nil {
		return time.UTC
	}
	return zone
}

// readable reports whether the record of a job could be read.
func readable(j job.Job) bool { return j.Schedule != "" }

// ownerOf names the owner of a job, or says none.
func ownerOf(job admin.JobStatus) string {
	if len(job.Slots) > 0 {
		return ownerSummary(job.Slots)
	}
	if job.Owner == nil {
		return "none"
	}
	return job.Owner.InstanceID
}

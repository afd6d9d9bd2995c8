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

package main

import (
	"cmp"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// zoneOf is the time zone of a job; UTC when it names none that exists.
func zoneOf(job admin.Job) *time.Location {
	loc, err := time.LoadLocation(cmp.Or(job.TimeZone, "UTC"))
	if err != nil {
		return time.UTC
	}
	return loc
}

// zoneName is the time zone of a job by name, and handlerName the handler that
// runs it, defaults filled in. Of a job whose record cannot be read, which has
// no schedule either, both are unknown and empty.
func zoneName(job admin.Job) string {
	if job.Schedule == "" {
		return job.TimeZone
	}
	return cmp.Or(job.TimeZone, "UTC")
}

func handlerName(job admin.Job) string {
	if job.Schedule == "" {
		return job.Handler
	}
	return cmp.Or(job.Handler, job.Name)
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

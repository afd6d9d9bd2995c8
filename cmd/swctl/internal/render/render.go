// Package render prints jobs, runs and instances for people: tables, descriptions, and the line
// that confirms a command. It asks nobody for anything, and prints only printable text, whatever
// others wrote. (JSON is package singleworker/admin/api.)
package render

import (
	"bytes"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Page is the output of one command.
type Page struct {
	Out *bytes.Buffer
	Now time.Time // relative times count from it
}

// linef writes one line, made printable.
func (p Page) linef(format string, args ...any) {
	p.Out.WriteString(plain.Printable(fmt.Sprintf(format, args...)) + "\n")
}

// moment is a time in full and seen from now; "-" for the zero time.
func (p Page) moment(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "-"
	}
	return plain.Moment(t, p.Now, zone)
}

// Named is a job in a question or an answer: "nightly (was v2, owner app-2)", where was is
// "was " or empty.
func Named(job admin.JobStatus, was string) string {
	owner := "owner " + words.Owner(job)
	if words.Everywhere(job) {
		owner = "on " + words.Owners(job.Slots)
	} else if len(job.Slots) > 0 {
		owner = "shards owned " + words.Owners(job.Slots)
	}
	return plain.Printable(fmt.Sprintf("%s (%sv%d, %s)", job.Name, was, job.Version, owner))
}

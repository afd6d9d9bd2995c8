// Package render prints jobs, runs and instances for people: tables, descriptions, and the line
// that confirms a command. It asks nobody for anything, and prints only printable text, whatever
// others wrote. (JSON is package singleworker/admin/api.)
package render

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Page is the output of one command.
type Page struct {
	Clock

	Out     *bytes.Buffer
	Columns int  // of the terminal; 0 means no limit
	Color   bool // states are colored
	Wide    bool // with whole run IDs
}

// table begins a table with that header. If it does not fit into the terminal, the last column goes
// below its row, and then the ones that are named in below.
func (p Page) table(header []string, below ...string) *output.Table {
	t := &output.Table{Columns: p.Columns, Color: p.Color, Below: below}
	t.Row(header...)
	return t
}

// color is the color of the first condition, or of none.
func color(all []reason.Condition) output.Color {
	if len(all) == 0 {
		return output.Green
	}
	return []output.Color{output.Plain, output.Yellow, output.Red, output.Alarm}[all[0].Severity]
}

// runID is the ID of a run, of which a table has the beginning.
func (p Page) runID(id string) string {
	const whole, short = 36, 8
	if len(id) != whole || p.Wide {
		return id
	}
	return id[:short]
}

// linef writes one line, made printable.
func (p Page) linef(format string, args ...any) {
	p.Out.WriteString(plain.Printable(fmt.Sprintf(format, args...)) + "\n")
}

// NamedChanged confirms a change of a calendar, or a limit, which those jobs name.
func (p Page) NamedChanged(word string, done admin.NamedChange, dry bool) {
	end := ""
	if len(done.Jobs) > 0 {
		end = ", named by " + strings.Join(done.Jobs, ", ")
	}
	if dry {
		end += " (dry run: nothing was changed)"
	}
	p.linef("%s %s: %s%s", word, done.Name, done.Outcome, end)
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
	version := ""
	if job.Number > 0 { // its record can be read
		version = fmt.Sprintf("%sv%d, ", was, job.Number)
	}
	return plain.Printable(fmt.Sprintf("%s (%s%s)", job.Name, version, owner))
}

// Count is "1 job" or "2 jobs".
func Count(jobs int) string {
	if jobs == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", jobs)
}

// Package render prints jobs, runs and instances for people: tables, descriptions, and the line
// that confirms a command. It asks nobody for anything, and prints only printable text, whatever
// others wrote. (JSON is package singleworker/admin/api.)
package render

import (
	"bytes"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

// Page is the output of one command.
type Page struct {
	Out *bytes.Buffer
	Now time.Time // relative times count from it

	Columns int    // of the terminal; 0 means no limit
	Color   bool   // states are colored
	Wide    bool   // with whole run IDs
	Times   string // one of those below; "" means that each table knows best
}

// The forms of times that a reader can want.
const (
	TimesRelative = "relative"
	TimesLocal    = "local"
	TimesUTC      = "utc"
)

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

// moment is a time in full and seen from now; "-" for the zero time.
func (p Page) moment(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "-"
	}
	return plain.Moment(t, p.Now, p.in(zone))
}

// ago is a moment that tables have relative to now, and at one that they have in full, unless the
// reader wants otherwise.
func (p Page) ago(t time.Time) string {
	if p.Times == TimesLocal || p.Times == TimesUTC {
		return plain.Absolute(t, p.in(nil))
	}
	return plain.Relative(t, p.Now)
}

func (p Page) at(t time.Time, zone *time.Location) string {
	if p.Times == TimesRelative {
		return plain.Relative(t, p.Now)
	}
	return plain.Absolute(t, p.in(zone))
}

// in is the zone that the reader wants, or that one.
func (p Page) in(zone *time.Location) *time.Location {
	switch p.Times {
	case TimesLocal:
		return time.Local //nolint:gosmopolitan // it is what the reader asks for
	case TimesUTC:
		return time.UTC
	}
	return zone
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

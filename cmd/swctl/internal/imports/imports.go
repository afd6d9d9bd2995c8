// Package imports makes jobs of what other schedulers keep: a crontab, Quartz's XML, and the
// configurations that ElasticJob keeps in ZooKeeper. It is pure: bytes come in, jobs and remarks go
// out. It says which fields it cannot translate. Nothing is left out without a remark, except
// fields that have the other scheduler's default and need nothing here.
package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Options are for every format.
type Options struct {
	// Zone is the time zone of schedules that name no zone. The other schedulers take their machine's,
	// which no file says. Default: UTC, with a remark that something was lost.
	Zone string
	// Now is the boundary of past and future.
	Now time.Time
}

// Result is what became of a source.
type Result struct {
	Jobs    []job.Job
	Remarks []Remark
}

// Remark is something to know about a job, or about the source if Job is empty.
type Remark struct {
	// Job is the job, or its name in the source if there is no job.
	Job string `json:"job,omitempty"`
	// Field is the source's name for it: a line, an element, a key.
	Field string `json:"field,omitempty"`
	// Lost says that the jobs do not do it. Otherwise the remark is something to know.
	Lost bool   `json:"lost"`
	Text string `json:"text"`
	Do   string `json:"do,omitempty"` // what to do about it
}

// Lost counts untranslated fields.
func (r Result) Lost() (n int) {
	for _, remark := range r.Remarks {
		if remark.Lost {
			n++
		}
	}
	return n
}

// The limits of reading.
const (
	maxJobs    = 20000
	maxRemarks = 2 * maxJobs
	maxQuoted  = 60 // bytes of the source in a remark
)

// maker collects jobs and remarks.
type maker struct {
	Result

	opts     Options
	names    map[string]int // how many jobs wanted a name
	zoneless bool           // a job had no zone, and none is given
	more     int            // remarks beyond maxRemarks
}

func newMaker(opts Options) *maker { return &maker{opts: opts, names: map[string]int{}} }

// lostf says that something was not translated; notef says something to know.
func (m *maker) lostf(name, field, do, format string, args ...any) {
	m.remark(Remark{name, field, true, fmt.Sprintf(format, args...), do})
}

func (m *maker) notef(name, field, do, format string, args ...any) {
	m.remark(Remark{name, field, false, fmt.Sprintf(format, args...), do})
}

// remark takes a remark. Of too many, which nobody reads, only the number is kept.
func (m *maker) remark(r Remark) {
	if len(m.Remarks) >= maxRemarks {
		m.more++
		return
	}
	r.Field = part(r.Field)
	m.Remarks = append(m.Remarks, r)
}

// zone is the time zone of a schedule for which the source says text.
func (m *maker) zone(text string) string {
	if text == "" && m.opts.Zone == "" {
		m.zoneless = true
	}
	if text == "" {
		return m.opts.Zone
	}
	return text
}

// add takes a job, unless it is not valid, which is a remark: the field is the source's name for
// its schedule.
func (m *maker) add(j job.Job, field string) {
	j = j.Normal()
	if err := j.Validate(); err != nil {
		refused := new(invalid.FieldError)
		if errors.As(err, &refused) && refused.Field != "Schedule" {
			field = strings.TrimSpace(field + " " + refused.Field)
		}
		m.lostf(j.Name, field, "correct it in the source, or submit the job manually", "there is no job for it: %s", quoted(err.Error()))
		return
	}
	if len(m.Jobs) == maxJobs {
		m.lostf(j.Name, "", "split the source", "there is no job for it: a source may have %d jobs", maxJobs)
		return
	}
	m.Jobs = append(m.Jobs, j)
}

// result is the collection, with the remarks about the whole.
func (m *maker) result() Result {
	if m.zoneless {
		m.lostf("", "time zone", "--tz ZONE with that of its machine", "jobs have schedules in UTC: the source names no time zone, and its scheduler uses that of its machine")
	}
	if m.more > 0 {
		m.Remarks = append(m.Remarks, Remark{Field: "remarks", Lost: true, Text: fmt.Sprintf("there are %d more", m.more), Do: "correct those that are shown, and import it again"})
	}
	return m.Result
}

// unique makes a valid name of a text, which no other job has.
func (m *maker) unique(text string) string {
	base := validName(text)
	for {
		m.names[base]++
		n := m.names[base]
		if n == 1 {
			return base
		}
		if name := fmt.Sprintf("%s-%d", base, n); m.names[name] == 0 {
			m.names[name]++
			return name
		}
	}
}

// validName is a text without what names of jobs cannot have.
func validName(text string) string {
	const most = job.MaxNameBytes - len("-10000000")
	text = strings.Map(func(r rune) rune {
		if r == '/' || !unicode.IsPrint(r) || r == utf8.RuneError || r >= 0xfff0 {
			return '-'
		}
		return r
	}, text)
	for len(text) > most {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	text = strings.TrimSpace(strings.TrimLeft(text, "_- "))
	if job.CheckName(text) != nil {
		text = strings.TrimLeft(strings.Trim(text, "[]. ")+"-job", "_- ")
	}
	return text
}

// handlerCommand is how the handler of jobs.Command is called here: an application registers it
// under that name.
const (
	handlerCommand = "command"
	handlerHTTP    = "http"
)

// command makes a job run a command line of a shell. A line of plain words, of which the first is a
// path, needs no shell; any other is left to the shell as it is, which gives its words their
// meaning.
func (m *maker) command(j *job.Job, shell, line string) {
	j.Handler = handlerCommand
	words := plainWords(line)
	if words == nil {
		words = []string{shell, "-c", line}
		m.notef(j.Name, "command", "allow "+shell+" in jobs.CommandConfig.Allow, which allows everything, or put the line into a script and allow that",
			"runs as %s -c: a shell has to read it", shell)
	}
	j.Args = map[string]string{"program": words[0]}
	if len(words) > 1 {
		j.Args["args"] = jsonOf(words[1:])
	}
}

// jsonOf writes words as JSON that people can read.
func jsonOf(words []string) string {
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(words) //nolint:errchkjson // texts always encode
	return strings.TrimSuffix(text.String(), "\n")
}

// plainWords takes a command line apart, or returns nil if only a shell can.
func plainWords(line string) []string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" \t_-./:=@,+%", r)
	}
	words := strings.Fields(line)
	if strings.ContainsFunc(line, special) || len(words) == 0 || !isCleanPath(words[0]) {
		return nil
	}
	return words
}

// isCleanPath reports whether jobs.Command can allow a program.
func isCleanPath(program string) bool {
	return len(program) > 1 && program[0] == '/' && !strings.Contains(program, "//") && !strings.HasSuffix(program, "/") &&
		!strings.Contains(program+"/", "/./") && !strings.Contains(program+"/", "/../")
}

// quoted is as much of a text as fits in a remark, and part a short excerpt of the source.
func quoted(text string) string { return excerpt(text, 4*maxQuoted) }
func part(text string) string   { return excerpt(text, maxQuoted) }

// excerpt is the beginning of a text, of so many bytes, on one line.
func excerpt(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// ReadCalendar reads a file of one calendar; path "-" is stdin.
func ReadCalendar(path string, stdin io.Reader) (is job.Calendar, err error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return is, err
		}
		defer f.Close()
		stdin = f
	}
	decoder := yaml.NewDecoder(io.LimitReader(stdin, job.MaxBytes))
	decoder.KnownFields(true)
	if err := decoder.Decode(&is); err != nil {
		return is, err
	}
	if !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF) {
		return is, errors.New("there is more after the calendar")
	}
	return is, is.Validate()
}

// kindCalendar is the kind of a document that has a calendar.
const kindCalendar = "Calendar"

// Calendar is a calendar as a document has it.
type Calendar struct {
	Kind string       `json:"kind"`
	Name string       `json:"name"`
	Is   job.Calendar `json:"calendar"`
}

// CalendarOf is the document of a calendar of a group.
func CalendarOf(of admin.Calendar) Calendar { return Calendar{kindCalendar, of.Name, of.Is} }

// CalendarEntry is a calendar as a file has it.
type CalendarEntry struct {
	Place
	Calendar
}

// besideCalendar are the keys that swctl prints beside a calendar.
var besideCalendar = namesOf(reflect.TypeFor[admin.Calendar]())

// calendar takes in a calendar.
func (r *reader) calendar(n *yaml.Node) {
	e, before := CalendarEntry{Place: r.at(n)}, len(r.problems)
	is := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	for key, value := range pairs(n) {
		switch {
		case key.Value == keyVersion || key.Value == keyKind:
			r.heading(key, value, kindCalendar)
		case key.Value == "name" && value.Kind == yaml.ScalarNode:
			e.Name = value.Value
		case key.Value == "calendar":
			is = value
		case !slices.Contains(besideCalendar, key.Value):
			r.problemf(r.at(key), "%s is not a key of a %s: want name and calendar", key.Value, kindCalendar)
		}
	}
	if err := job.CheckCalendarName(e.Name); err != nil {
		r.problemf(e.Place, "name %q: %v", e.Name, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON(nil, is)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&e.Is)
	if err == nil {
		err = e.Is.Validate()
	}
	if err != nil {
		at, field := is, new(invalid.FieldError)
		if errors.As(err, &field) {
			of, _ := reflect.TypeFor[job.Calendar]().FieldByName(field.Field)
			if _, value := member(is, jsonName(of)); value != nil {
				at = value
			}
		}
		r.problemf(r.at(at), "%v", err)
	}
	if r.once(kindCalendar, e.Name, e.Place); len(r.problems) == before {
		r.found.Calendars = append(r.found.Calendars, e)
	}
}

// planCalendars says which calendars to set, and which to delete afterwards.
func (opts Options) planCalendars(entries []CalendarEntry, have []admin.Calendar) (set, prune []Step) {
	for _, e := range entries {
		set = append(set, Step{Name: e.Name, Place: e.String(), Is: e.Is})
	}
	left := map[string]known[admin.Calendar]{}
	for _, was := range have {
		left[was.Name] = known[admin.Calendar]{was, was.Set, was.Error}
	}
	return planNamed(opts, kindCalendar, set, left, func(s *Step, was admin.Calendar) {
		for _, part := range []struct {
			name    string
			was, is []string
		}{
			{"time_zone", []string{was.Is.TimeZone}, []string{s.Is.TimeZone}}, {"dates", was.Is.Dates, s.Is.Dates},
			{"yearly", was.Is.Yearly, s.Is.Yearly}, {"weekdays", was.Is.Weekdays, s.Is.Weekdays}, {"hours", was.Is.Hours, s.Is.Hours},
		} {
			if !slices.Equal(part.was, part.is) {
				s.differs(part.name, strings.Join(part.was, ", "), strings.Join(part.is, ", "))
			}
		}
	})
}

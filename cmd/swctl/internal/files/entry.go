package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The keys of a document that is not the bare job.
const (
	keyVersion = "apiVersion"
	keyKind    = "kind"
	keyItems   = "items"
	keySpec    = "spec"
	keyPaused  = "paused"

	keyCalendars = "calendars"
	keyLimits    = "limits"
)

// beside are the keys that swctl prints beside a spec: of those only some are read.
var beside = append(namesOf(reflect.TypeFor[admin.JobStatus]()), keyVersion, keyKind, "state", "reason_code", "requests")

func namesOf(of reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(of) {
		if name := jsonName(field); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// document takes in the jobs, calendars and limits of a document.
func (r *reader) document(n *yaml.Node) {
	if n.Tag == tagNull || !r.strict(n, 0) {
		return // it is empty, or its problems are known
	}
	list := n
	if _, items := member(n, keyItems); items != nil {
		list = items
		for key, value := range pairs(n) {
			switch {
			case key.Value == keyCalendars && value.Kind == yaml.SequenceNode:
				r.items(value, kindCalendar)
			case key.Value == keyLimits && value.Kind == yaml.SequenceNode:
				r.items(value, kindLimit)
			case key.Value != keyItems:
				r.heading(key, value, "JobList", "JobSpecList", "CalendarList", "LimitList")
			}
		}
	}
	if list.Kind != yaml.SequenceNode {
		list = &yaml.Node{Content: []*yaml.Node{list}}
	}
	of := ""
	if _, kind := member(n, keyKind); kind != nil && list != n {
		of, _ = strings.CutSuffix(kind.Value, "List")
	}
	r.items(list, of)
}

// items takes in jobs, calendars and limits: of is the kind of those that do not tell.
func (r *reader) items(list *yaml.Node, of string) {
	for _, item := range list.Content {
		kind := of
		if _, own := member(item, keyKind); own != nil {
			kind = own.Value
		}
		switch kind {
		case kindCalendar:
			r.calendar(item)
		case kindLimit:
			r.limit(item)
		default:
			r.job(item)
		}
	}
}

// heading checks a key that names the kind of a document.
func (r *reader) heading(key, value *yaml.Node, kinds ...string) {
	want, ok := map[string][]string{keyVersion: {api.Version}, keyKind: kinds}[key.Value]
	switch {
	case !ok:
		r.problemf(r.at(key), "%s is not a key of a %s", key.Value, kinds[0])
	case !slices.Contains(want, value.Value):
		r.problemf(r.at(value), "%s is %q: want %s", key.Value, value.Value, want[0])
	}
}

// job takes in one job, bare or as spec beside its status.
func (r *reader) job(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.problemf(r.at(n), `want a job, such as name: nightly and schedule: "0 3 * * *"`)
		return
	}
	e, before := Entry{Place: r.at(n)}, len(r.problems)
	_, spec := member(n, keySpec)
	bare := spec == nil
	if bare {
		spec = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	}
	for key, value := range pairs(n) {
		switch {
		case key.Value == keyVersion || key.Value == keyKind:
			r.heading(key, value, "Job")
		case key.Value == keyPaused:
			r.paused(&e, value)
		case bare:
			spec.Content = append(spec.Content, key, value)
		case key.Value == "version":
			if err := json.Unmarshal(asJSON(nil, value), &e.Version); err != nil {
				r.problemf(r.at(value), "version: want a number, as swctl show tells")
			}
		case !slices.Contains(beside, key.Value):
			r.problemf(r.at(key), "%s is not a key beside %s", key.Value, keySpec)
		}
	}
	var err error
	if e.Job, err = jobOf(spec); err != nil {
		r.refused(spec, err)
	}
	if at, ok := r.names[e.Job.Name]; ok && e.Job.Name != "" {
		r.problemf(e.Place, "the job %s is there twice: it is at %s, too", e.Job.Name, at)
	}
	r.names[e.Job.Name] = e.Place
	if len(r.problems) == before {
		r.found.Jobs = append(r.found.Jobs, e)
	}
}

// jobOf reads a job and checks it.
func jobOf(spec *yaml.Node) (job.Job, error) {
	var j job.Job
	if err := json.Unmarshal(asJSON(nil, spec), &j); err != nil {
		return j, err
	}
	return j, j.Validate()
}

// paused reads whether the job is to be paused.
func (r *reader) paused(e *Entry, n *yaml.Node) {
	switch {
	case n.Tag == tagNull:
	case n.Tag == tagBool && strings.EqualFold(n.Value, "false"):
		e.Resume = true
	case n.Tag == tagBool:
		e.Pause = &admin.Pause{}
	default:
		if err := json.Unmarshal(asJSON(nil, n), &e.Pause); err != nil {
			r.problemf(r.at(n), "paused: want true, false, or a pause as swctl show -o json prints it")
		}
	}
}

// refused says where in a job an error is.
func (r *reader) refused(spec *yaml.Node, err error) {
	field := new(invalid.FieldError)
	if !errors.As(err, &field) {
		r.problemf(r.at(spec), "%v", err)
		return
	}
	name := field.Field // in Go, or in JSON if that is wrong
	if of, ok := reflect.TypeFor[job.Job]().FieldByName(name); ok {
		name = jsonName(of)
	}
	key, value := member(spec, name)
	text := new(cronexpr.Error)
	switch {
	case value == nil:
		r.problemf(r.at(spec), "%s: %v", name, field.Err)
	case !slices.Contains(namesOf(reflect.TypeFor[job.Job]()), name):
		r.problemf(r.at(key), "%s %v", name, field.Err)
	case errors.As(err, &text):
		at := r.at(value)
		if text.Column > 0 && !strings.Contains(value.Value, "\n") {
			at.Column += text.Column - 1
			if value.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
				at.Column++
			}
		}
		r.problemf(at, "%v", text)
	default:
		r.problemf(r.at(r.culprit(spec, key, value, field.Field)), "%s %.100q: %v", name, field.Value, inQuotes(field.Err))
	}
}

// culprit is the member of a value without which there would be no such error, or the value.
func (r *reader) culprit(spec, key, value *yaml.Node, field string) *yaml.Node {
	if value.Kind != yaml.MappingNode {
		return value
	}
	for k, v := range pairs(value) {
		alone := &yaml.Node{Kind: yaml.MappingNode}
		for other, its := range pairs(spec) {
			if other == key {
				its = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{k, v}}
			}
			alone.Content = append(alone.Content, other, its)
		}
		_, err := jobOf(alone)
		if again := new(invalid.FieldError); errors.As(err, &again) && again.Field == field {
			return v
		}
	}
	return value
}

// inQuotes says what to do where a number or the like stands for text.
func inQuotes(err error) error {
	if mismatch := new(json.UnmarshalTypeError); errors.As(err, &mismatch) && mismatch.Type.Kind() == reflect.String {
		return fmt.Errorf("is a %s, want text: put it in quotes", mismatch.Value)
	}
	return err
}

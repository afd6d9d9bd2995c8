package zkrec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Spec is what a job's node says: when the job runs and with what.
type Spec struct {
	Schedule string
	TimeZone string            // IANA name; empty means UTC
	Handler  string            // empty means the job's own name
	Args     map[string]string // handed to the handler

	// Declared is the Fingerprint of the declaration (Manager.Schedule) that
	// this spec came from or that an operator's change overrode. Empty when
	// no code ever declared the job.
	Declared string

	// extra keeps the fields of newer writers.
	extra map[string]json.RawMessage
}

// specJSON is the JSON form; the names are part of the format.
type specJSON struct {
	Schema   int               `json:"schema"`
	Schedule string            `json:"schedule"`
	TimeZone string            `json:"time_zone,omitempty"`
	Handler  string            `json:"handler,omitempty"`
	Args     map[string]string `json:"args,omitempty"`
	Declared string            `json:"declared,omitempty"`
}

var specFields = []string{"schema", "schedule", "time_zone", "handler", "args", "declared"}

// HandlerOf is the name of the handler that runs the given job.
func (s Spec) HandlerOf(job string) string {
	if s.Handler == "" {
		return job
	}
	return s.Handler
}

// Normal gives what can be said of the job in more than one way the form that is
// written: a handler that is the default is left out.
func (s Spec) Normal(job string) Spec {
	if s.Handler == job {
		s.Handler = ""
	}
	return s
}

// Fingerprint identifies what the spec asks of the job, not where it came from
// or how it is spelled: equal fingerprints mean the same schedule, zone, handler
// and arguments.
func (s Spec) Fingerprint(job string) string {
	s = s.Normal(job)
	s.Declared, s.extra = "", nil
	sum := sha256.Sum256(s.encodeJSON())
	return hex.EncodeToString(sum[:8])
}

// Keep gives s the fields that old has and this version does not know.
func (s Spec) Keep(old Spec) Spec {
	s.extra = old.extra
	return s
}

// Encode returns the node's data: plain cron text when the job has nothing
// but a schedule, as in the published sample, a JSON object otherwise.
func (s Spec) Encode() []byte {
	bare := s.TimeZone == "" && s.Handler == "" && len(s.Args) == 0 && s.Declared == "" && len(s.extra) == 0
	if bare && isPlain(s.Schedule) {
		return []byte(s.Schedule)
	}
	return s.encodeJSON()
}

// isPlain reports whether the text of a schedule is read as it is when it
// stands in a node alone.
func isPlain(schedule string) bool {
	return schedule != "" && !strings.HasPrefix(schedule, "{") && schedule == strings.TrimSpace(schedule)
}

func (s Spec) encodeJSON() []byte {
	known := mustJSON(specJSON{
		Schema: Schema, Schedule: s.Schedule, TimeZone: s.TimeZone,
		Handler: s.Handler, Args: s.Args, Declared: s.Declared,
	})
	if len(s.extra) == 0 {
		return known
	}
	out := bytes.TrimSuffix(known, []byte("}"))
	for _, name := range slices.Sorted(maps.Keys(s.extra)) {
		out = append(append(append(append(out, ','), mustJSON(name)...), ':'), s.extra[name]...)
	}
	return append(out, '}')
}

// ParseSpec reads a job's node. The schedule is not judged here; the record
// is: garbage and newer schemas are refused.
func ParseSpec(data []byte) (Spec, error) {
	text := strings.TrimSpace(string(data))
	switch {
	case text == "":
		return Spec{}, errors.New("job spec is empty, want a cron expression or a JSON object")
	case len(data) > MaxRecordBytes:
		return Spec{}, fmt.Errorf("job spec has %d bytes, at most %d are read", len(data), MaxRecordBytes)
	case !strings.HasPrefix(text, "{"):
		return Spec{Schedule: text}, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return Spec{}, fmt.Errorf("job spec %s: %w", excerpt(data), err)
	}
	var known specJSON
	if err := json.Unmarshal(data, &known); err != nil {
		return Spec{}, fmt.Errorf("job spec %s: %w", excerpt(data), err)
	}
	if known.Schema > Schema {
		return Spec{}, fmt.Errorf("job spec: %w", &SchemaError{Found: known.Schema, Known: Schema})
	}
	// Names are known in any case, as json.Unmarshal takes them.
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool {
		return slices.ContainsFunc(specFields, func(known string) bool { return strings.EqualFold(known, name) })
	})
	spec := Spec{
		Schedule: known.Schedule, TimeZone: known.TimeZone, Handler: known.Handler,
		Args: known.Args, Declared: known.Declared,
	}
	if len(fields) > 0 {
		spec.extra = fields
	}
	return spec, nil
}

// Location loads a spec's time zone: an IANA name, or UTC when it is empty.
// "Local" is refused: it differs between machines.
func Location(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New(`differs between machines, want an IANA name such as "Europe/Berlin"`)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf(`%w, want an IANA name such as "Europe/Berlin"`, err)
	}
	return loc, nil
}

package zkrec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Spec is what a job's node says: when the job runs, with what, and what
// becomes of the ticks that do not go as planned. The names are part of the
// format.
type Spec struct {
	Schedule string            `json:"schedule"`
	TimeZone string            `json:"time_zone,omitempty"` // IANA name; empty means UTC
	Handler  string            `json:"handler,omitempty"`   // empty means the job's own name
	Args     map[string]string `json:"args,omitempty"`      // handed to the handler
	Payload  json.RawMessage   `json:"payload,omitempty"`   // JSON, handed to the handler

	Policy
	Sharding

	Paused *Pause `json:"paused,omitempty"`

	// Since is when the schedule took effect, in Unix milliseconds on the
	// clock of whoever changed it: ticks before are not the job's. Zero means
	// when the node was last written, on ZooKeeper's clock. Former is the schedule before that.
	Since  int64   `json:"since,omitempty"`
	Former *Former `json:"former,omitempty"`

	// Layout is nil as long as Sharding is what the job always had.
	Layout *Layout `json:"layout,omitempty"`

	// Canceled: the job is being deleted, which takes more than one transaction.
	// It counts as gone.
	Canceled bool `json:"canceled,omitempty"`

	// Declared is the Fingerprint of the declaration (Manager.Schedule) that
	// this spec came from or that an operator's change overrode. Empty when
	// no code ever declared the job.
	Declared string `json:"declared,omitempty"`

	// extra keeps the fields of newer writers.
	extra map[string]json.RawMessage
}

// Former is a schedule that another one replaced: what it was to fire between
// its last claim and its end is known by it.
type Former struct {
	Schedule string `json:"schedule"`
	TimeZone string `json:"time_zone,omitempty"`
	Since    int64  `json:"since,omitempty"`
}

// Pause is the last time that a job was, or is, paused. Ticks from Since until
// Until are not run, but for what Missed says.
type Pause struct {
	Since  int64  `json:"since"`           // Unix milliseconds
	Until  int64  `json:"until,omitempty"` // Unix milliseconds; 0: until it is resumed
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Missed is what becomes of the ticks in between when they are over: a
	// misfire policy. Empty means skip.
	Missed string `json:"missed,omitempty"`
}

// Covers reports whether t is in the pause; nil and the zero Pause cover nothing.
func (p *Pause) Covers(t time.Time) bool {
	ms := t.UnixMilli()
	return p != nil && p.Since != 0 && ms >= p.Since && (p.Until == 0 || ms < p.Until)
}

// Duration is written as Go writes durations: "1m30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// specFields are the JSON names that this version knows.
var specFields = append([]string{"schema"}, jsonNames(reflect.TypeFor[Spec]())...)

func jsonNames(record reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(record) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// HandlerOf is the name of the handler that runs the given job.
func (s Spec) HandlerOf(job string) string {
	if s.Handler == "" {
		return job
	}
	return s.Handler
}

// Normal gives what can be said of the job in more than one way the form that is
// written: what is the default is left out.
func (s Spec) Normal(job string) Spec {
	if s.Handler == job {
		s.Handler = ""
	}
	s.Policy = s.Policy.Normal()
	return s
}

// Fingerprint identifies what the spec asks of the job, not where it came from,
// how it is spelled, or what an operator does with it meanwhile: equal
// fingerprints mean the same schedule, zone, handler, arguments and policies.
func (s Spec) Fingerprint(job string) string {
	s = s.Normal(job)
	s.Declared, s.extra = "", nil
	s.Paused, s.Since, s.Former, s.Layout, s.Canceled = nil, 0, nil, nil, false
	sum := sha256.Sum256(s.encodeJSON())
	return hex.EncodeToString(sum[:8])
}

// Over returns s as it is written over old, which was read from a node last
// written at mtime: fields that this version does not know and a pause stay; a
// schedule that differs takes effect now, another sharding as Layout says.
func (s Spec) Over(old Spec, mtime, now time.Time) Spec {
	s.extra, s.Paused, s.Layout = old.extra, old.Paused, s.layoutOver(old)
	since := old.SinceOr(mtime)
	if s.Schedule == old.Schedule && s.TimeZone == old.TimeZone {
		s.Since, s.Former = since, old.Former
		return s
	}
	s.Since = now.UnixMilli()
	s.Former = &Former{Schedule: old.Schedule, TimeZone: old.TimeZone, Since: since}
	return s
}

// SinceOr is Since, or else when the spec's node was last written.
func (s Spec) SinceOr(mtime time.Time) int64 {
	if s.Since == 0 {
		return mtime.UnixMilli()
	}
	return s.Since
}

// Encode returns the node's data: plain cron text when the job has nothing
// but a schedule, as in the published sample, a JSON object otherwise.
func (s Spec) Encode() []byte {
	if isPlain(s.Schedule) && s.isBare() {
		return []byte(s.Schedule)
	}
	return s.encodeJSON()
}

// isBare reports whether the spec has nothing but a schedule.
func (s Spec) isBare() bool {
	return s.TimeZone == "" && s.Handler == "" && len(s.Args) == 0 && len(s.Payload) == 0 &&
		s.Policy == (Policy{}) && s.Shards == 0 && s.Layout == nil && !s.Canceled && s.Paused == nil && s.Since == 0 && s.Former == nil &&
		s.Declared == "" && len(s.extra) == 0
}

// isPlain reports whether the text of a schedule is read as it is when it
// stands in a node alone.
func isPlain(schedule string) bool {
	return schedule != "" && !strings.HasPrefix(schedule, "{") && schedule == strings.TrimSpace(schedule)
}

func (s Spec) encodeJSON() []byte {
	known := mustJSON(struct {
		Schema int `json:"schema"`
		Spec
	}{Schema, s})
	if len(s.extra) == 0 {
		return known
	}
	out := bytes.TrimSuffix(known, []byte("}"))
	for _, name := range slices.Sorted(maps.Keys(s.extra)) {
		out = append(append(append(append(out, ','), mustJSON(name)...), ':'), s.extra[name]...)
	}
	return append(out, '}')
}

// CheckSize reports, as a *SizeError, that the record of s is too long to be written, as it is or
// as it will be when a change of the job's shards has taken effect.
func (s Spec) CheckSize() error {
	if err := CheckSize(s.Encode()); err != nil || !s.Resizing() {
		return err
	}
	return CheckSize(s.Resized().Encode())
}

// layoutBytes is what instances add to a spec when its layout changes, however
// long it is already.
const layoutBytes = 128

// ParseSpec reads a job's node. Neither the schedule nor the policies are
// judged here; the record is: garbage and newer schemas are refused.
func ParseSpec(data []byte) (Spec, error) {
	text := strings.TrimSpace(string(data))
	switch {
	case text == "":
		return Spec{}, errors.New("job spec is empty, want a cron expression or a JSON object")
	case len(data) > MaxRecordBytes+layoutBytes:
		return Spec{}, fmt.Errorf("job spec has %d bytes, at most %d are read", len(data), MaxRecordBytes)
	case !strings.HasPrefix(text, "{"):
		return Spec{Schedule: text}, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return Spec{}, fmt.Errorf("job spec %s: %w", excerpt(data), err)
	}
	var known struct {
		Schema int `json:"schema"`
		Spec
	}
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
	spec := known.Spec
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

package zkrec

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

// Spec is the data of a job's node: the job, and what operators and instances have
// added to it. The names are part of the format.
type Spec struct {
	Job job.Job `json:"-"` // its Name is the node's, and not written

	// Switch is the record of another node, see With.
	Switch Switch `json:"-"`

	// Since is when the schedule took effect, in Unix milliseconds by ZooKeeper's clock; its ticks
	// begin after that. Zero means when the node was last written, see WrittenAt. Former is the
	// previous schedule.
	Since  int64   `json:"since,omitempty"`
	Former *Former `json:"former,omitempty"`

	// Done says that the job is done, if it is about the present schedule, and the job was not opened
	// since. Of a job that was read it is nil otherwise, see WrittenAt and With.
	Done *Done `json:"done,omitempty"`

	// Layout is nil if the job was never resharded.
	Layout *Layout `json:"layout,omitempty"`

	// Canceled means that the job is being deleted in several transactions. It
	// counts as gone.
	Canceled bool `json:"canceled,omitempty"`

	// Version counts the changes of the job; 0 means that there was none. See Versions.
	Version int32 `json:"version,omitempty"`

	// Undeleted is nil unless the job was canceled before, and brought back.
	Undeleted *Undeleted `json:"undeleted,omitempty"`

	Declaration
	FromFiles

	unknown Unknown
}

// Declaration is a spec's record of the declaration (Manager.Schedule) that it came from, or that
// an operator's change overrode. It is zero if the job was never declared.
type Declaration struct {
	// Declared is the declaration's Fingerprint.
	Declared string `json:"declared,omitempty"`
	// DeclaredBy is the instance that first declared that, with its version, and
	// DeclaredAt when, in Unix milliseconds by its clock. For people only.
	DeclaredBy string `json:"declared_by,omitempty"`
	DeclaredAt int64  `json:"declared_at,omitempty"`
	// DeclaredVersion is the version of that instance's program (Config.Version), empty if it has
	// none: older programs do not replace the declaration.
	DeclaredVersion string `json:"declared_version,omitempty"`
	// DeclaredLate means that it was declared by a running Manager: instances publish only the jobs
	// that they declare when they start.
	DeclaredLate bool `json:"declared_late,omitempty"`
}

// FromFiles says from which files a job comes: see admin.SubmitOptions.Set.
type FromFiles struct {
	// Set names the files.
	Set string `json:"set,omitempty"`
	// Applied is the Fingerprint of the job in them.
	Applied string `json:"applied,omitempty"`
}

// Former is a replaced schedule. It is kept to tell which of its ticks were missed before it was
// replaced; so are those before it, as nobody may have owned the job since.
type Former struct {
	Schedule  string    `json:"schedule"`
	TimeZone  string    `json:"time_zone,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"`
	NotAfter  time.Time `json:"not_after,omitzero"`
	MaxRuns   int       `json:"max_runs,omitempty"`
	Calendars []string  `json:"calendars,omitempty"`
	After     []string  `json:"after,omitempty"`
	Since     int64     `json:"since,omitempty"`
	Former    *Former   `json:"former,omitempty"`

	unknown Unknown
}

// Job is the job with the schedule that it had.
func (f *Former) Job(of job.Job) job.Job {
	of.Schedule, of.TimeZone, of.NotBefore, of.NotAfter, of.MaxRuns = f.Schedule, f.TimeZone, f.NotBefore, f.NotAfter, f.MaxRuns
	of.Calendars, of.After = f.Calendars, f.After
	return of
}

// SameTimes reports whether two jobs have the same schedule, with its zone, bounds, MaxRuns,
// Calendars and parents, which are normal. One that has another one begins anew.
func SameTimes(a, b *job.Job) bool {
	return a.Schedule == b.Schedule && a.TimeZone == b.TimeZone && a.NotBefore.Equal(b.NotBefore) && a.NotAfter.Equal(b.NotAfter) &&
		a.MaxRuns == b.MaxRuns && slices.Equal(a.Calendars, b.Calendars) && slices.Equal(a.After, b.After)
}

type formerFields Former

// MarshalJSON implements json.Marshaler.
func (f Former) MarshalJSON() ([]byte, error) { return f.unknown.Encode(formerFields(f)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (f *Former) UnmarshalJSON(data []byte) error { return f.unknown.Decode(data, (*formerFields)(f)) }

// Done says that a job that ends (job.Job.Ends) is done: its last tick is accounted for, in all
// shards, no run is open, and none waits. Nobody owns it. A trigger or another schedule opens it
// again. One with an "@at" schedule is removed some time after At.
type Done struct {
	// At is by ZooKeeper's clock, in Unix milliseconds. 0 means when the node was last written.
	At int64 `json:"at,omitempty"`
	// Since is the Since of the schedule that is done. A version that does not know this record keeps
	// it when it writes another schedule.
	Since int64 `json:"since"`
	// Opened is the Switch's: how often the job had been opened before.
	Opened int `json:"opened,omitempty"`

	unknown Unknown
}

type doneFields Done

// MarshalJSON implements json.Marshaler.
func (d Done) MarshalJSON() ([]byte, error) { return d.unknown.Encode(doneFields(d)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Done) UnmarshalJSON(data []byte) error { return d.unknown.Decode(data, (*doneFields)(d)) }

// MaxFormer is how many replaced schedules a spec keeps.
const MaxFormer = 8

// The JSON names that this version knows.
var (
	jobFields  = jsonNames(reflect.TypeFor[job.Job]())
	specFields = append(names{"schema"}, jsonNames(reflect.TypeFor[Spec]())...)
)

// Check reports why the job cannot run: an *invalid.FieldError.
func (s Spec) Check() error {
	if err := s.Job.Validate(); err != nil {
		return err
	}
	if err := s.Switch.check(); err != nil {
		return err
	}
	if err := s.checkTimes(); err != nil {
		return err
	}
	if err := s.CheckAfter(); err != nil {
		return err
	}
	return s.ActiveLayout().Check()
}

// CheckAfter reports why the job cannot run after others, as an *invalid.FieldError: shards that
// still wait for BeforeTick cannot wait for parents.
func (s Spec) CheckAfter() error {
	if len(s.Job.After) > 0 && s.ActiveLayout().BeforeTick != "" {
		return job.Invalid("After", strings.Join(s.Job.After, ", "), errors.New("cannot take the place of BeforeTick: cancel the job and submit it"))
	}
	return nil
}

// checkTimes refuses times that only a manual edit can have written.
func (s Spec) checkTimes() error {
	layout := s.ActiveLayout()
	fields, times := []string{"Since", "Layout.Since", "Layout.Until"}, []int64{s.Since, layout.Since, layout.Until}
	if d := s.Done; d != nil {
		fields, times = append(fields, "Done.At"), append(times, d.At)
	}
	for f := s.Former; f != nil; f = f.Former {
		fields, times = append(fields, "Former.Since"), append(times, f.Since)
	}
	for i, ms := range times {
		if err := CheckTime(ms); err != nil {
			return job.Invalid(fields[i], strconv.FormatInt(ms, 10), err)
		}
	}
	return nil
}

// Fingerprint identifies the demands of the spec on the job, not where it came from, how it is
// spelled, or an operator's doings with it meanwhile: equal fingerprints mean the same schedule,
// zone, handler, arguments and policies.
func (s Spec) Fingerprint() string {
	sum := sha256.Sum256(Spec{Job: s.Job.Normal()}.encodeJSON())
	return hex.EncodeToString(sum[:8])
}

// Overridden reports whether an operator has changed the job since it was declared.
func (s Spec) Overridden() bool { return s.Declared != "" && s.Declared != s.Fingerprint() }

// Edited reports whether somebody has changed the job since the files of its set were applied.
func (s Spec) Edited() bool { return s.Applied != "" && s.Applied != s.Fingerprint() }

// WrittenAt returns s as read from a node that was last written at mtime: no time is left out.
// Every reader of a spec calls it first, and then With.
func (s Spec) WrittenAt(mtime time.Time) Spec {
	written := mtime.UnixMilli()
	if s.Since == 0 {
		s.Since = written
	}
	switch {
	case s.Done == nil:
	case s.Done.Since != s.Since: // of a former schedule
		s.Done = nil
	case s.Done.At == 0:
		done := *s.Done
		done.At, s.Done = written, &done
	}
	return s
}

// With returns s with the job's switch, as it was read: a job that was opened since it was done is
// not.
func (s Spec) With(of Switch) Spec {
	if s.Switch = of; s.Done != nil && s.Done.Opened != of.Opened {
		s.Done = nil
	}
	return s
}

// Over returns s as it replaces old: unknown fields, the set and a pause stay. A different schedule
// takes effect when the node is written, by ZooKeeper's clock, whatever the clock of the writer
// says, and a different sharding as described at Layout. The Version is still old's.
func (s Spec) Over(old Spec) Spec {
	s.unknown, s.Switch, s.Layout, s.FromFiles = old.unknown, old.Switch, s.layoutOver(old), old.FromFiles
	s.Version, s.Undeleted = old.Version, old.Undeleted
	if SameTimes(&s.Job, &old.Job) {
		s.Since, s.Former = old.Since, old.Former
		if s.Done = old.Done; s.Resizing() {
			s.Done = nil // the owner of its first shard changes the shards
		}
		return s
	}
	s.Since, s.Done = 0, nil
	was := old.Job.Normal()
	s.Former = (&Former{
		Schedule: old.Job.Schedule, TimeZone: old.Job.TimeZone, NotBefore: was.NotBefore, NotAfter: was.NotAfter, MaxRuns: was.MaxRuns,
		Calendars: was.Calendars, After: was.After, Since: old.Since, Former: old.Former,
	}).bounded()
	return s
}

// bounded is f with at most MaxFormer schedules. The ticks of those that are dropped are counted by
// the oldest one that stays.
func (f *Former) bounded() *Former {
	kept := *f
	last := &kept
	for n := 1; last.Former != nil; n++ {
		next := *last.Former
		if n == MaxFormer {
			for next.Former != nil {
				next = *next.Former
			}
			last.Since, last.Former = next.Since, nil
			break
		}
		last.Former = &next
		last = &next
	}
	return &kept
}

// Encode returns the node's data: plain cron text if the job has only a schedule,
// as in the published sample, otherwise a JSON object.
func (s Spec) Encode() []byte {
	data := s.encodeJSON()
	plain := Spec{Job: job.Job{Schedule: s.Job.Schedule}}
	if isPlain(s.Job.Schedule) && bytes.Equal(data, plain.encodeJSON()) {
		return []byte(s.Job.Schedule)
	}
	return data
}

// isPlain reports whether a schedule can be stored as plain text.
func isPlain(schedule string) bool {
	return schedule != "" && !strings.HasPrefix(schedule, "{") && schedule == strings.TrimSpace(schedule)
}

// Schema is the lowest one that has the fields of the job and of its layout.
func (s Spec) Schema() int {
	former := s.Job
	former.BeforeTick = s.ActiveLayout().BeforeTick
	return max(SchemaOf(&s.Job), SchemaOf(&former))
}

func (s Spec) encodeJSON() []byte {
	s.Job.Name = ""
	out := fmt.Appendf(nil, `{"schema":%d`, s.Schema())
	for _, part := range [][]byte{mustJSON(s.Job), mustJSON(s)} {
		if members := part[1 : len(part)-1]; len(members) > 0 {
			out = append(append(out, ','), members...)
		}
	}
	if s.unknown != "" {
		out = append(append(out, ','), s.unknown...)
	}
	return append(out, '}')
}

// CheckSize returns an *invalid.FieldError if the record of s is too long to be written, as it is
// or as it will be after resharding.
func (s Spec) CheckSize() error {
	if err := s.Job.CheckSize(len(s.Encode())); err != nil || !s.Resizing() {
		return err
	}
	return s.Job.CheckSize(len(s.Resized().Encode()))
}

// addedBytes is how much instances may add to a spec of any length when its
// layout changes, or when it is done.
const addedBytes = 256

// ParseSpec reads the node of the named job. It refuses unreadable records and
// newer schemas, but does not validate the job.
func ParseSpec(name string, data []byte) (Spec, error) {
	text := strings.TrimSpace(string(data))
	switch {
	case text == "":
		return Spec{}, errors.New("job spec is empty, want a cron expression or a JSON object")
	case len(data) > MaxRecordBytes+addedBytes:
		return Spec{}, fmt.Errorf("job spec has %d bytes, at most %d are read", len(data), MaxRecordBytes)
	case !strings.HasPrefix(text, "{"):
		return Spec{Job: job.Job{Name: name, Schedule: text}}, nil
	}
	var known struct {
		Schema int `json:"schema"`
		Spec
	}
	members, err := membersOf(data)
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if err == nil && known.Schema > SpecSchema {
		return Spec{}, fmt.Errorf("job spec: %w", &SchemaError{Found: known.Schema, Known: SpecSchema})
	}
	take(members, specFields)
	if err == nil {
		err = json.Unmarshal(mustJSON(take(members, jobFields)), &known.Job)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("job spec %s: %w", excerpt(data), err)
	}
	spec := known.Spec
	spec.Job.Name = name
	spec.unknown = unknownOf(members)
	return spec, nil
}

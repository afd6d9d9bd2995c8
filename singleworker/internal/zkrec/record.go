package zkrec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unique"

	"github.com/swjobs/singleworker/singleworker/job"
)

// Schema is the version of the JSON records that this code writes.
const Schema = 1

// SpecSchema is the newest schema of specs that this version reads: the highest of the table.
const SpecSchema = 7

// raising is the table of the fields that narrow or widen the ticks that may be claimed, or run
// again, with the schema of a spec that uses one. A spec that uses none has Schema. See the
// package's documentation.
var raising = []struct {
	schema int
	used   func(j *job.Job) bool
}{
	{2, (*job.Job).IsPlaced},
	{3, func(j *job.Job) bool { return j.Everywhere }},
	{4, func(j *job.Job) bool { return j.BeforeTick != "" }},
	{5, func(j *job.Job) bool {
		return !j.NotBefore.IsZero() || !j.NotAfter.IsZero() || j.MaxRuns > 0 || j.Jitter > 0 || j.Interrupted.Asks()
	}},
	{6, func(j *job.Job) bool { return len(j.Calendars) > 0 || j.PauseAfterFailures > 0 }},
	{SpecSchema, func(j *job.Job) bool { return len(j.After) > 0 || len(j.Limits) > 0 }},
}

// SchemaOf is the oldest schema that has all fields by which a job narrows or widens the ticks that
// may be claimed.
func SchemaOf(j *job.Job) int {
	schema := Schema
	for _, field := range raising {
		if field.used(j) {
			schema = max(schema, field.schema)
		}
	}
	return schema
}

// MaxRecordBytes is the longest record that is read or written: well under
// the 1 MB that ZooKeeper allows in a node, so that a transaction of many
// claims still fits in a frame.
const MaxRecordBytes = job.MaxBytes

// SchemaError reports a record written by a newer version.
type SchemaError struct {
	Found int // the record's schema
	Known int // the newest one that this version reads
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("written with schema %d, this version reads up to %d: upgrade it", e.Found, e.Known)
}

// parsed is the error of reading a record: err, or that its schema is newer than this version's.
func parsed(what string, data []byte, err error, schema *int) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", what, excerpt(data), err)
	case *schema > Schema:
		return fmt.Errorf("%s: %w", what, &SchemaError{Found: *schema, Known: Schema})
	}
	return nil
}

// UnreadableError reports that a node of a job cannot be read: its data is not a record or has a
// newer schema, or access to it is denied. The job is invalid then: no instance runs it until the
// node is repaired or deleted. A missing node, in contrast, is created by the instance that runs
// the job.
type UnreadableError struct {
	Path string
	Err  error
}

func (e *UnreadableError) Error() string { return fmt.Sprintf("%s cannot be read: %v", e.Path, e.Err) }

func (e *UnreadableError) Unwrap() error { return e.Err }

// Owner is the owner record of a slot, the data of its alive node. The zero
// Owner is written as an empty node.
type Owner struct {
	SID         string `json:"sid,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
	// Offer names the instance that a previous owner handed the slot to; the
	// others leave it alone for one sync period.
	Offer string `json:"offer,omitempty"`
	// Relieved is the owner before, if the slot was taken from it although it was alive: it had not
	// claimed a run in time, or had sent no heartbeats for too long. So those that have not seen this
	// know that it is to get no slots for a while.
	Relieved Member `json:"relieved,omitzero"`
}

// Member is one start of an instance.
type Member struct {
	SID         string `json:"sid,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
}

// Encode returns the node's data.
func (o Owner) Encode() []byte {
	if o == (Owner{}) {
		return nil
	}
	return mustJSON(o)
}

// ParseOwner reads an alive node. Data that is not an owner record, such as the published sample's
// or a manual edit, is an error and names no instance.
func ParseOwner(data []byte) (Owner, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return Owner{}, nil
	}
	var o Owner
	if err := json.Unmarshal(data, &o); err != nil {
		return Owner{}, fmt.Errorf("owner record %s: %w", excerpt(data), err)
	}
	for _, sid := range []string{o.SID, o.Offer} {
		if err := job.CheckNodeName(sid); sid != "" && err != nil { // it becomes a path
			return Owner{}, fmt.Errorf("owner record: instance %q %w", sid, err)
		}
	}
	// A group has thousands of slots and few instances.
	for _, name := range []*string{&o.SID, &o.Incarnation, &o.Relieved.SID, &o.Relieved.Incarnation} {
		*name = unique.Make(*name).Value()
	}
	return o, nil
}

// EncodeBeat returns a heartbeat: decimal Unix milliseconds, as in the published
// sample. It is informational: no instance compares it with its own clock.
func EncodeBeat(now time.Time) []byte {
	return strconv.AppendInt(nil, now.UnixMilli(), 10)
}

// ParseBeat reads a heartbeat: when it was sent, by its sender's clock.
func ParseBeat(data []byte) (time.Time, error) {
	ms, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("heartbeat %s: %w", excerpt(data), err)
	}
	return time.UnixMilli(ms), nil
}

// The years 1 to 9999, in Unix milliseconds: RFC 3339 has no other times, and arithmetic with times
// far beyond them overflows.
const firstTime, lastTime = -62135596800000, 253402300799999

// CheckTime refuses Unix milliseconds that only a manual edit can have written.
func CheckTime(ms int64) error {
	if ms < firstTime || ms > lastTime {
		return fmt.Errorf("%d is not a time of the years 1 to 9999 in Unix milliseconds", ms)
	}
	return nil
}

// mustJSON encodes a record of this package. Their fields can all be encoded.
func mustJSON(record any) []byte {
	data, err := json.Marshal(record)
	if err != nil {
		panic(fmt.Sprintf("zkrec: encode %T: %v", record, err))
	}
	return data
}

// excerpt quotes the beginning of data that could not be read.
func excerpt(data []byte) string {
	const limit = 40
	if len(data) > limit {
		return fmt.Sprintf("%q...", data[:limit])
	}
	return fmt.Sprintf("%q", data)
}

package zkrec

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

// Switch is the data of a job's register node. It has everything that operators do with a job
// without changing the job itself. It is not part of the spec because a node has one access list:
// who may pause a job need not be able to have it run something else. Claims check its version as
// they check the spec's.
type Switch struct {
	Schema int    `json:"schema"`
	Paused *Pause `json:"paused,omitempty"`
	// Opened is how often the job was opened again after it was done: see Done.
	Opened int `json:"opened,omitempty"`

	unknown Unknown
}

// Encode returns the node's data: none if nothing was ever done with the job.
func (w Switch) Encode() []byte {
	if w.Paused == nil && w.Opened == 0 && w.unknown == "" {
		return nil
	}
	w.Schema = Schema
	return w.unknown.Encode(w)
}

// ParseSwitch reads a register node. It refuses unreadable records and newer schemas.
func ParseSwitch(data []byte) (w Switch, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return Switch{}, nil
	}
	if len(data) > MaxRecordBytes {
		return Switch{}, fmt.Errorf("switch has %d bytes, at most %d are read", len(data), MaxRecordBytes)
	}
	if err := parsed("switch", data, w.unknown.Decode(data, &w), &w.Schema); err != nil {
		return Switch{}, err
	}
	return w, nil
}

// WrittenAt returns w as read from a node that was last written at mtime: no time is left out.
// Every reader calls it first.
func (w Switch) WrittenAt(mtime time.Time) Switch {
	if w.Paused == nil {
		return w
	}
	p := w.Paused.writtenAt(mtime)
	w.Paused = &p
	return w
}

// Open returns w as it opens a job that is done.
func (w Switch) Open() Switch {
	w.Opened++
	return w
}

// check returns an *invalid.FieldError if no version writes such a record.
func (w Switch) check() error {
	if w.Paused == nil {
		return nil
	}
	return w.Paused.check()
}

// Pause is the last pause of a job, in force or over. Ticks from Since until Until are not run,
// except by the policy Missed. Times that depend on when the node is written are left to
// Switch.WrittenAt, so that the clock of the operator does not matter.
type Pause struct {
	Since  int64    `json:"since,omitempty"` // Unix milliseconds; 0 means when the node was last written
	Until  int64    `json:"until,omitempty"` // Unix milliseconds; 0 means until resumed
	For    Duration `json:"for,omitempty"`   // from when the node was last written; 0 means Until counts
	Over   bool     `json:"over,omitempty"`  // since the node was last written
	By     string   `json:"by,omitempty"`
	Reason string   `json:"reason,omitempty"`
	// Missed is the misfire policy for the ticks of the pause. Empty means skip.
	Missed job.MisfirePolicy `json:"missed,omitempty"`

	unknown Unknown
}

type pauseFields Pause

// MarshalJSON implements json.Marshaler.
func (p Pause) MarshalJSON() ([]byte, error) { return p.unknown.Encode(pauseFields(p)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (p *Pause) UnmarshalJSON(data []byte) error { return p.unknown.Decode(data, (*pauseFields)(p)) }

// writtenAt returns p as read from a node that was last written at mtime.
func (p Pause) writtenAt(mtime time.Time) Pause {
	written := mtime.UnixMilli()
	if p.Since == 0 {
		p.Since = written
	}
	if p.Over || p.For != 0 {
		p.Until = written + time.Duration(p.For).Milliseconds()
	}
	p.For, p.Over = 0, false
	return p
}

// check returns an *invalid.FieldError if no version writes such a pause.
func (p Pause) check() error {
	if err := p.Missed.Check(); err != nil {
		return job.Invalid("Paused.Missed", string(p.Missed), err)
	}
	for field, ms := range map[string]int64{"Paused.Since": p.Since, "Paused.Until": p.Until} {
		if err := CheckTime(ms); err != nil {
			return job.Invalid(field, strconv.FormatInt(ms, 10), err)
		}
	}
	return nil
}

// Lasts reports whether the pause is not over at t; nil is over.
func (p *Pause) Lasts(t time.Time) bool { return p != nil && (p.Until == 0 || t.UnixMilli() < p.Until) }

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

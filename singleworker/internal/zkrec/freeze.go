package zkrec

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// MaxSpans is how many freezes of a group are kept, one that is in force among them.
const MaxSpans = 8

// Freeze is the pause of a whole group, the data of one node. Claims check its version, so no run
// of a schedule begins once it is written.
type Freeze struct {
	Schema int `json:"schema"`
	// Spans are the last times in which the group was frozen, the oldest first. The last one may be in
	// force. Ticks in each of them are judged as those in a pause of the job.
	Spans []Span `json:"spans,omitempty"`

	unknown Unknown
}

// Span is a time in which the group is frozen, but for some jobs.
type Span struct {
	Pause  Pause    `json:"pause"`
	Except []string `json:"except,omitempty"` // sorted
}

// Freeze is the node of the group's freeze. Each group has it from its beginning.
func (t Tree) Freeze() string { return t.root + "/" + freezeNode }

// Encode returns the node's data: none if the group was never frozen.
func (f Freeze) Encode() []byte {
	if len(f.Spans) == 0 && f.unknown == "" {
		return nil
	}
	f.Schema = Schema
	return f.unknown.Encode(f)
}

// WrittenAt returns f as read from a node that was last written at mtime: no time is left out.
func (f Freeze) WrittenAt(mtime time.Time) Freeze {
	f.Spans = slices.Clone(f.Spans)
	for i := range f.Spans {
		f.Spans[i].Pause = f.Spans[i].Pause.writtenAt(mtime)
	}
	return f
}

// InForce is the span that is not over at t, or nil.
func (f Freeze) InForce(t time.Time) *Span {
	if n := len(f.Spans); n > 0 && f.Spans[n-1].Pause.Lasts(t) {
		return &f.Spans[n-1]
	}
	return nil
}

// parseFreeze reads a node that was last written at mtime. It refuses unreadable records, newer
// schemas, and spans that no version writes.
func parseFreeze(data []byte, mtime time.Time) (f Freeze, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return Freeze{}, nil
	}
	if len(data) > MaxRecordBytes {
		return Freeze{}, fmt.Errorf("freeze has %d bytes, at most %d are read", len(data), MaxRecordBytes)
	}
	if err := parsed("freeze", data, f.unknown.Decode(data, &f), &f.Schema); err != nil {
		return Freeze{}, err
	}
	for _, span := range f.Spans {
		if err := span.Pause.check(); err != nil {
			return Freeze{}, fmt.Errorf("freeze: %w", err)
		}
	}
	return f.WrittenAt(mtime), nil
}

// ReadFreeze is a group's freeze as it was read. The zero value is of a group that was never
// frozen.
type ReadFreeze struct {
	Freeze

	Version int32
	Err     error // why it cannot be read: the group counts as frozen then, until it can be

	all      []Pause            // of a job that is never excepted
	excepted map[string][]Pause // of the others
}

// NewFreeze takes in the data of the node, which was last written at mtime. err is why it may not
// be read, or nil.
func NewFreeze(data []byte, version int32, mtime time.Time, err error) (read ReadFreeze) {
	if read.Version, read.Err = version, err; err == nil {
		read.Freeze, read.Err = parseFreeze(data, mtime)
	}
	if read.Err != nil {
		read.Spans = []Span{{Pause: Pause{Since: max(1, mtime.UnixMilli()), Reason: "its record cannot be read"}}}
	}
	for _, span := range read.Spans {
		read.all = append(read.all, span.Pause)
		for _, name := range span.Except {
			if read.excepted == nil {
				read.excepted = make(map[string][]Pause)
			}
			read.excepted[name] = nil
		}
	}
	for name := range read.excepted {
		for _, span := range read.Spans {
			if !slices.Contains(span.Except, name) {
				read.excepted[name] = append(read.excepted[name], span.Pause)
			}
		}
	}
	return read
}

// Of are the spans in which a job is frozen, the oldest first. They are shared, and not changed.
func (f ReadFreeze) Of(job string) []Pause {
	if own, excepted := f.excepted[job]; excepted {
		return own
	}
	return f.all
}

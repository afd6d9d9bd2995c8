package admin

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The JSON names of this package's types are a contract, which swctl -o json and package
// admin/api speak: fields are added, never renamed or removed. Times are RFC 3339 in UTC;
// one that is not known is absent.

// MarshalJSON leaves out what cannot be read of the job, and the description of the job in
// each of its Slots.
func (s JobStatus) MarshalJSON() ([]byte, error) {
	type plain JobStatus
	s.NextRun, s.Overdue = zkrec.UTC(s.NextRun), zkrec.UTC(s.Overdue)
	if s.Job.Schedule == "" {
		s.Job = job.Job{}
	}
	s.Registered = append([]string{}, s.Registered...) // [], not null
	s.Slots = slices.Clone(s.Slots)
	for i := range s.Slots {
		s.Slots[i].Job, s.Slots[i].Set, s.Slots[i].Edited = job.Job{}, "", false
	}
	return encode(struct {
		plain
		Health     string      `json:"state"`                 // the Health of the job: how it stands
		ReasonCode reason.Code `json:"reason_code,omitempty"` // Reason's
	}{plain(s), s.Health(), s.Reason.Code})
}

// MarshalJSON has [] where no entry is about the tick.
func (x Explanation) MarshalJSON() ([]byte, error) {
	type plain Explanation
	x.Entries = append([]history.Entry{}, x.Entries...)
	return encode(plain(x))
}

// MarshalJSON has ClockOffset, ClockBound and Silent in seconds.
func (i Instance) MarshalJSON() ([]byte, error) {
	type plain Instance
	document := struct {
		plain
		ClockOffset *float64 `json:"clock_offset_seconds,omitempty"` // how far its clock is ahead of ZooKeeper's, if that is known
		ClockBound  float64  `json:"clock_bound_seconds,omitempty"`  // by how much ClockOffset may be wrong
		Silent      float64  `json:"silent_seconds,omitempty"`       // for how long it has given no sign of life, if that is too long
	}{plain: plain(i), ClockBound: i.ClockBound.Seconds(), Silent: i.Silent.Seconds()}
	if i.ClockOffset != nil {
		seconds := i.ClockOffset.Seconds()
		document.ClockOffset = &seconds
	}
	return encode(document)
}

// encode is json.Marshal without the escapes for HTML: an encoder that wants them adds them.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

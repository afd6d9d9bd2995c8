package zkrec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/history"
)

// HistoryPages is how many nodes a history takes: one is written with each result, so a result
// costs ZooKeeper a few entries and not all that are kept. When it is full, that with the oldest
// entries is emptied for the next.
const HistoryPages = 6

// MaxPageBytes is how long a page becomes, unless it has only one entry.
const MaxPageBytes = MaxRecordBytes / (HistoryPages - 1)

// page is the data of one node of a history. What most entries of a page have in common is said
// once.
type page struct {
	Schema  int   `json:"schema,omitempty"` // left out as long as it is 1
	Rev     int64 `json:"rev"`              // of the write of the history that has last changed the page
	Dropped int64 `json:"dropped"`          // as in History, as it was then
	First   int64 `json:"first"`            // the number of the first entry
	Ahead   int64 `json:"ahead,omitempty"`  // by how much an entry's Rev is higher than its number, unless it says another
	Writer
	Entries []json.RawMessage `json:"entries"`

	revs    []int64 // of the entries
	unknown Unknown
}

// Writer is an owner of a slot.
type Writer struct {
	SID   string `json:"sid,omitempty"`
	Token int64  `json:"token,omitempty"`
}

// otherWriter is the Writer of an entry, if it is not the page's.
type otherWriter struct {
	Writer
	unknown Unknown
}

// MarshalJSON implements json.Marshaler.
func (w otherWriter) MarshalJSON() ([]byte, error) { return w.unknown.Encode(w.Writer), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (w *otherWriter) UnmarshalJSON(data []byte) error { return w.unknown.Decode(data, &w.Writer) }

// pageEntry is an Entry in a page. Its short keys are those that most entries have. Times after
// others are in milliseconds.
type pageEntry struct {
	Tick      int64          `json:"t"`
	Run       string         `json:"r,omitempty"`   // the bytes of its UUID, in base64
	RunID     string         `json:"id,omitempty"`  // if it is not a UUID
	Start     int64          `json:"s,omitempty"`   // after the tick
	End       int64          `json:"e,omitempty"`   // after the start, or after the last of the ticks
	State     history.State  `json:"is,omitempty"`  // history.StateOK unless it says another
	Rev       int64          `json:"rev,omitempty"` // see page.Ahead
	By        *otherWriter   `json:"by,omitempty"`
	Attempt   *int           `json:"attempt,omitempty"`
	Manual    string         `json:"manual,omitempty"`
	Failures  int            `json:"failures,omitempty"`
	Error     string         `json:"error,omitempty"`
	TakenFrom string         `json:"taken_from,omitempty"`
	Delayed   int64          `json:"delayed,omitempty"`
	Passed    int64          `json:"passed,omitempty"`
	NotBegun  bool           `json:"not_begun,omitempty"`
	Always    bool           `json:"always,omitempty"`
	Restarts  int            `json:"restarts,omitempty"`
	To        int64          `json:"to,omitempty"`
	Count     int            `json:"count,omitempty"`
	Reason    history.Reason `json:"reason,omitempty"`
	Effects   Effects        `json:"effects,omitzero"`
	Asked     Asked          `json:"asked,omitzero"`
}

// firstAttempt is the Attempt of most entries.
func (e Entry) firstAttempt() int {
	if e.RunID == "" {
		return 0
	}
	return 1
}

// encode returns e as it is in the page.
func (p *page) encode(e Entry) []byte {
	out := pageEntry{
		Tick: e.Tick, Manual: e.Manual, Failures: e.Failures, Error: e.Error, TakenFrom: e.TakenFrom, Delayed: e.Delayed, Passed: e.Passed,
		NotBegun: e.NotBegun, Always: e.Always, Restarts: e.Restarts, To: e.To, Count: e.Count, Reason: e.Reason,
		Effects: e.Effects, Asked: e.Asked,
	}
	if out.Run = shortID(e.RunID); out.Run == "" {
		out.RunID = e.RunID
	}
	if out.Start, out.End = e.Started-e.Tick, e.Ended-e.Started; e.RunID == "" {
		out.Start, out.End = e.Started, e.Ended-e.Last()
	}
	if e.State != history.StateOK {
		out.State = e.State
	}
	if e.Rev != e.Number+p.Ahead {
		out.Rev = e.Rev
	}
	if by := (otherWriter{Writer{e.SID, e.Token}, e.writer}); by != (otherWriter{Writer: p.Writer}) {
		out.By = &by
	}
	if e.Attempt != e.firstAttempt() {
		out.Attempt = &e.Attempt
	}
	return e.unknown.Encode(out)
}

// decode returns the entry with that index.
func (p *page) decode(i int) (Entry, error) {
	var in pageEntry
	var more Unknown
	err := more.Decode(p.Entries[i], &in)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Number: p.First + int64(i), To: in.To, Count: in.Count, Reason: in.Reason, Run: Run{
		Tick: in.Tick, Manual: in.Manual, RunID: in.RunID, SID: p.SID, Token: p.Token, Failures: in.Failures, State: history.StateOK, Error: in.Error,
		TakenFrom: in.TakenFrom, Delayed: in.Delayed, Passed: in.Passed, NotBegun: in.NotBegun, Always: in.Always, Restarts: in.Restarts,
		Effects: in.Effects, Asked: in.Asked, unknown: more,
	}}
	if in.Run != "" {
		if e.RunID, err = longID(in.Run); err != nil {
			return Entry{}, err
		}
	}
	if e.Started, e.Ended = in.Tick+in.Start, in.Tick+in.Start+in.End; e.RunID == "" {
		e.Started, e.Ended = in.Start, e.Last()+in.End
	}
	if in.State != "" {
		e.State = in.State
	}
	if e.Rev = in.Rev; e.Rev == 0 {
		e.Rev = e.Number + p.Ahead
	}
	if in.By != nil {
		e.SID, e.Token, e.writer = in.By.SID, in.By.Token, in.By.unknown
	}
	if e.Attempt = e.firstAttempt(); in.Attempt != nil {
		e.Attempt = *in.Attempt
	}
	return e, nil
}

// shortID is a UUID in 22 characters; "" if a run's ID is not a UUID in its usual form.
func shortID(id string) string {
	parsed, err := uuid.Parse(id)
	if err != nil || parsed.String() != id {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(parsed[:])
}

func longID(short string) (string, error) {
	data, err := base64.RawURLEncoding.DecodeString(short)
	if err != nil {
		return "", fmt.Errorf("run %s: %w", excerpt([]byte(short)), err)
	}
	id, err := uuid.FromBytes(data)
	if err != nil {
		return "", fmt.Errorf("run %s: %w", excerpt([]byte(short)), err)
	}
	return id.String(), nil
}

// parsePage reads a node of a history; an empty one has no entries.
func parsePage(data []byte) (p page, entries []Entry, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return page{}, nil, nil
	}
	if err := parsed("history", data, p.unknown.Decode(data, &p), &p.Schema); err != nil {
		return page{}, nil, err
	}
	if p.Dropped < 0 || p.Dropped > p.Rev || p.First < 0 || p.First == 0 && len(p.Entries) > 0 {
		return page{}, nil, fmt.Errorf("history: a page of write %d begins with entry %d, and has forgotten write %d", p.Rev, p.First, p.Dropped)
	}
	for i := range p.Entries {
		e, err := p.decode(i)
		if err != nil {
			return page{}, nil, fmt.Errorf("history: entry %d: %w", p.First+int64(i), err)
		}
		if e.Rev < 1 || e.Rev > p.Rev {
			return page{}, nil, fmt.Errorf("history: entry %d is of write %d, and its page of %d", e.Number, e.Rev, p.Rev)
		}
		p.revs, entries = append(p.revs, e.Rev), append(entries, e)
	}
	return p, entries, nil
}

// last is the number of the last entry.
func (p *page) last() int64 {
	if len(p.Entries) == 0 {
		return 0
	}
	return p.First + int64(len(p.Entries)) - 1
}

// size is how long the entries are.
func (p *page) size() (bytes int) {
	for _, e := range p.Entries {
		bytes += len(e) + len(",")
	}
	return bytes
}

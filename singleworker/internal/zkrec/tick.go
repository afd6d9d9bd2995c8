package zkrec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The states of a run, and of a tick that was not run.
const (
	RunRunning     = "running"
	RunOK          = "ok"
	RunFailed      = "failed"
	RunTimedOut    = "timed_out"
	RunInterrupted = "interrupted" // its instance died, stopped or lost the job in mid-run; or an operator stopped it
	RunLost        = "lost"        // as interrupted, and it is not run again: nobody knows how far it came
	TickSkipped    = "skipped"     // a rule or an operator wanted it so
	TickMissed     = "missed"      // nobody was there in time, and the misfire policy let it go
)

// Why a tick is skipped or missed.
const (
	ReasonOverlap         = "overlap"          // the previous run was still going on
	ReasonPaused          = "paused"           // the job was paused
	ReasonNoOwner         = "no_owner"         // it came before its owner had adopted the job
	ReasonStalled         = "stalled"          // its owner could not claim it in time
	ReasonScheduleChanged = "schedule_changed" // the schedule that it belonged to was replaced before anybody claimed it
)

// What is to come after a run that has ended without success.
const (
	NextRetry = "retry" // it failed
	NextRerun = "rerun" // it was interrupted
)

// MaxErrorBytes is how much of a run's error text is kept.
const MaxErrorBytes = 4 << 10

// Run is one execution of a handler, or the record that there was none. Times
// are Unix milliseconds, and those of the run itself on the clock of its
// instance.
type Run struct {
	Tick     int64  `json:"tick"`             // the scheduled time; of a manual run, when it was asked for
	Manual   string `json:"manual,omitempty"` // the request that asked for it
	RunID    string `json:"run_id,omitempty"`
	SID      string `json:"sid,omitempty"`
	Token    int64  `json:"token,omitempty"`
	Attempt  int    `json:"attempt,omitempty"`  // of this tick, from 1
	Failures int    `json:"failures,omitempty"` // attempts before that failed; the others were interrupted
	Started  int64  `json:"started,omitempty"`  // of the claim
	State    string `json:"state"`
	Ended    int64  `json:"ended,omitempty"`
	Error    string `json:"error,omitempty"` // at most MaxErrorBytes
}

// Open reports whether the run has no result yet.
func (r Run) Open() bool { return r.State == RunRunning }

// Tick is the data of a slot's tick node: how far its ticks are accounted for,
// and the last run with its result, once it has one.
type Tick struct {
	Schema int `json:"schema"`
	// Watermark is the tick up to which each was claimed or recorded as not run.
	Watermark int64 `json:"watermark,omitempty"`
	Run
	// Again says that the run's tick is to be run once more, from NextAttemptAt on.
	NextAttempt   string `json:"next_attempt,omitempty"`
	NextAttemptAt int64  `json:"next_attempt_at,omitempty"`
	// BusySince is when the first of several runs in a row began, if ticks that
	// came during it still wait for their end; 0: they wait for the last run alone.
	BusySince int64 `json:"busy_since,omitempty"`
}

// Normal returns t as it is read back after Encode.
func (t Tick) Normal() Tick {
	t.Schema, t.Error = Schema, CutError(t.Error)
	return t
}

// Encode returns the node's data.
func (t Tick) Encode() []byte { return mustJSON(t.Normal()) }

// CutError makes an error text one that is read back as it is written: of at
// most MaxErrorBytes, and valid UTF-8.
func CutError(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > MaxErrorBytes {
		text = strings.ToValidUTF8(text[:MaxErrorBytes], "") // a cut character is dropped
	}
	return text
}

// ParseTick reads a tick node that was last written at a time of ZooKeeper's clock. A record without a
// watermark, as an empty one, accounts for the ticks up to then: the node of a job that never ran was
// written together with the job, and where it was written later, someone has emptied it, and nobody
// knows which of the ticks before were run. The zero time leaves the watermark at 0.
func ParseTick(data []byte, written time.Time) (Tick, error) {
	var t Tick
	if len(bytes.TrimSpace(data)) == 0 {
		t.Watermark = unixMilli(written)
		return t, nil
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return Tick{}, fmt.Errorf("tick record %s: %w", excerpt(data), err)
	}
	if t.Schema > Schema {
		return Tick{}, fmt.Errorf("tick record: %w", &SchemaError{Found: t.Schema, Known: Schema})
	}
	if t.Watermark == 0 && t.Manual == "" {
		t.Watermark = t.Tick // as the first versions wrote it
	}
	if t.Watermark == 0 {
		t.Watermark = unixMilli(written)
	}
	return t, nil
}

// unixMilli is 0 for the zero time.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Entry is what became of a tick, or of several in a row that were not run.
type Entry struct {
	Run
	To     int64  `json:"to,omitempty"`    // the last tick of a row
	Count  int    `json:"count,omitempty"` // of a row; MaxCount stands for that many or more
	Reason string `json:"reason,omitempty"`
}

// MaxCount is how far the ticks of a row are counted.
const MaxCount = 10_000

// Last is the last tick that the entry speaks of.
func (e Entry) Last() int64 { return max(e.Tick, e.To) }

// Ticks is how many ticks the entry speaks of.
func (e Entry) Ticks() int { return max(e.Count, 1) }

// History is the data of a slot's history node: its last entries, the newest
// last.
type History struct {
	Schema  int     `json:"schema"`
	Entries []Entry `json:"entries"`
}

// MaxHistory is how many entries are kept; fewer, if they would take more than
// MaxRecordBytes.
const MaxHistory = 20

// Add returns h with entries added to a record whose Watermark was as given. A
// row of ticks that were not run goes on with the last entry if that is of the
// same kind and reaches to where the row begins.
func (h History) Add(through int64, entries ...Entry) History {
	all := append([]Entry(nil), h.Entries...)
	for _, e := range entries {
		e.Error = CutError(e.Error)
		n := len(all) - 1
		if n >= 0 && all[n].goesOn(e) && all[n].Last() == through {
			all[n].Count = min(all[n].Ticks()+e.Ticks(), MaxCount)
			all[n].To, all[n].Ended = e.Last(), e.Ended
		} else {
			all = append(all, e)
		}
		if e.RunID == "" {
			through = e.Last()
		}
	}
	h.Entries = all[max(0, len(all)-MaxHistory):]
	return h
}

// goesOn reports whether next is a row of the same kind as e.
func (e Entry) goesOn(next Entry) bool {
	return e.RunID == "" && next.RunID == "" && e.State == next.State && e.Reason == next.Reason &&
		e.SID == next.SID && e.Token == next.Token
}

// Amend returns h with the entry of e's run replaced by e; ok is false when
// there is none any more.
func (h History) Amend(e Entry) (amended History, ok bool) {
	all := append([]Entry(nil), h.Entries...)
	for i, old := range all {
		if old.RunID == e.RunID {
			e.Error = CutError(e.Error)
			all[i] = e
			h.Entries = all
			return h, true
		}
	}
	return h, false
}

// Encode returns the node's data.
func (h History) Encode() []byte {
	h.Schema = Schema
	for {
		data := mustJSON(h)
		if len(data) <= MaxRecordBytes || len(h.Entries) <= 1 {
			return data
		}
		h.Entries = h.Entries[1:]
	}
}

// ParseHistory reads a history node; an empty one is an empty History.
func ParseHistory(data []byte) (History, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return History{}, nil
	}
	var h History
	if err := json.Unmarshal(data, &h); err != nil {
		return History{}, fmt.Errorf("history %s: %w", excerpt(data), err)
	}
	if h.Schema > Schema {
		return History{}, fmt.Errorf("history: %w", &SchemaError{Found: h.Schema, Known: Schema})
	}
	return h, nil
}

// What an operator can ask the owner of a job for.
const (
	RequestRun  = "run"  // a manual run
	RequestStop = "stop" // the end of a run
)

// MaxRequests is how many requests wait at a job before further ones are
// refused.
const MaxRequests = 10

// Request is what an operator asks the owner of a job for: a node that exists
// until it is done.
type Request struct {
	Schema  int               `json:"schema"`
	Kind    string            `json:"kind"`
	At      time.Time         `json:"at"` // on the operator's clock
	By      string            `json:"by,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Args    map[string]string `json:"args,omitempty"`    // of a manual run, over the job's own
	Payload json.RawMessage   `json:"payload,omitempty"` // of a manual run, instead of the job's own
	RunID   string            `json:"run_id,omitempty"`  // the run to stop
}

// Encode returns the node's data.
func (r Request) Encode() []byte {
	r.Schema = Schema
	return mustJSON(r)
}

// ParseRequest reads a request node.
func ParseRequest(data []byte) (Request, error) {
	var r Request
	if err := json.Unmarshal(data, &r); err != nil {
		return Request{}, fmt.Errorf("request %s: %w", excerpt(data), err)
	}
	if r.Schema > Schema {
		return Request{}, fmt.Errorf("request: %w", &SchemaError{Found: r.Schema, Known: Schema})
	}
	if r.Kind == RequestStop && r.RunID == "" {
		return Request{}, fmt.Errorf("request %s: it does not say which run to stop", excerpt(data))
	}
	return r, nil
}

// Alarm is the data of a slot's alarm node: the last tick that was reported
// missing.
type Alarm struct {
	Schema int       `json:"schema"`
	Tick   int64     `json:"tick"` // Unix milliseconds
	SID    string    `json:"sid"`  // the instance that noticed
	At     time.Time `json:"at"`   // on its clock
}

// Encode returns the node's data.
func (a Alarm) Encode() []byte {
	a.Schema = Schema
	return mustJSON(a)
}

// ParseAlarm reads an alarm node.
func ParseAlarm(data []byte) (Alarm, error) {
	var a Alarm
	if err := json.Unmarshal(data, &a); err != nil {
		return Alarm{}, fmt.Errorf("alarm %s: %w", excerpt(data), err)
	}
	return a, nil
}

// Complete is the data of a sharded job's shards node: up to which tick all
// shards have run all there was to run.
type Complete struct {
	Schema int   `json:"schema"`
	Tick   int64 `json:"tick"` // Unix milliseconds
}

// Encode returns the node's data.
func (c Complete) Encode() []byte {
	c.Schema = Schema
	return mustJSON(c)
}

// ParseComplete reads a shards node; an empty one is the zero Complete: no tick
// is known to be.
func ParseComplete(data []byte) (Complete, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return Complete{}, nil
	}
	var c Complete
	if err := json.Unmarshal(data, &c); err != nil {
		return Complete{}, fmt.Errorf("record of complete ticks %s: %w", excerpt(data), err)
	}
	if c.Schema > Schema {
		return Complete{}, fmt.Errorf("record of complete ticks: %w", &SchemaError{Found: c.Schema, Known: Schema})
	}
	return c, nil
}

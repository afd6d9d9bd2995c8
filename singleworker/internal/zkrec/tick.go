package zkrec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// MaxErrorBytes is how much of a run's error text is kept.
const MaxErrorBytes = 4 << 10

// Run is one execution of a handler, or, in an Entry without a RunID, ticks that were not run.
// Times are Unix milliseconds, a run's by its instance's clock.
type Run struct {
	Tick     int64         `json:"tick"`             // the scheduled time; for a manual run that names no past tick, when it was requested
	Manual   string        `json:"manual,omitempty"` // the ID of the request for a manual run
	RunID    string        `json:"run_id,omitempty"`
	SID      string        `json:"sid,omitempty"`
	Token    int64         `json:"token,omitempty"`
	Attempt  int           `json:"attempt,omitempty"`  // of this tick, from 1; one that was not begun does not count
	Failures int           `json:"failures,omitempty"` // attempts before that failed; the others were interrupted
	Started  int64         `json:"started,omitempty"`  // of the claim
	State    history.State `json:"state"`
	Ended    int64         `json:"ended,omitempty"`
	Error    string        `json:"error,omitempty"` // at most MaxErrorBytes
	// TakenFrom is the former owner, from which the slot was taken for this run because it had not
	// claimed it in time.
	TakenFrom string `json:"taken_from,omitempty"`
	// Delayed is how long the run waited for others to end, in milliseconds: its instance had as many
	// in progress as it may, or there were too few places of a limit.
	Delayed int64 `json:"delayed,omitempty"`
	// Passed is when BeforeTick had returned nil for the tick, in a job that has such a function. It
	// is written to the first shard's record as soon as that has happened, and by the others with
	// their claims.
	Passed int64 `json:"passed,omitempty"`
	// NotBegun says that an interrupted run was claimed, and that its handler was certainly not
	// called: the next run of its tick is the same attempt.
	NotBegun bool `json:"not_begun,omitempty"`
	// Always says that the job always ran when the run began.
	Always bool `json:"always,omitempty"`
	// Restarts is, of a job that always runs, how many runs before this one, in a row, did not last.
	Restarts int `json:"restarts,omitempty"`
	// Effects of an attempt before, which the run's resolver has found.
	Effects Effects `json:"effects,omitzero"`

	// Asked is who asked for the run, and for its end.
	Asked Asked `json:"asked,omitzero"`

	unknown Unknown // they go where the run goes: into the history, and beside a manual run
}

// Open reports whether the run has no result yet.
func (r Run) Open() bool { return r.State == history.StateRunning }

// WaitsSince is since when the run could have been claimed, but for others, in Unix milliseconds.
func (r Run) WaitsSince() int64 { return r.Started - r.Delayed }

// Past is why a past tick may be run by name, which is empty if the run is of no such tick.
func (r Run) Past() history.Past { return r.Asked.Value().Past }

// Asks reports whether a resolver is asked before the run's handler is called, because an attempt
// before was interrupted, and whether the handler is called if the effects are not there, and if
// nobody knows. It is not if the tick was started as often as it may be, or is too old, however
// late its Jitter may have made it due. Attempts that were not begun do not count. A past tick that
// somebody has named is started once more for that.
func (r Run) Asks(policy job.Job) (asks, ifAbsent, ifUnknown bool) {
	policy = policy.WithDefaults()
	n, grace := r.Attempt-r.Failures, policy.MisfireGrace
	if !policy.Interrupted.Asks() || n <= 1 || r.Always {
		return false, true, true
	}
	ifAbsent = r.Past() != "" || n <= policy.MaxAttempts && (grace == 0 || r.Started-r.Tick <= (grace+policy.Jitter).Milliseconds())
	return true, ifAbsent, ifAbsent && policy.Interrupted == job.InterruptedAsk
}

// Tick is the data of a slot's tick node: how far its ticks are accounted for,
// and the last run with its result, once it has one.
type Tick struct {
	Schema int `json:"schema"`
	// Watermark is the time up to which every tick was claimed or recorded as not
	// run.
	Watermark int64 `json:"watermark,omitempty"`
	Run
	// NextAttempt, if not empty, says that the run's tick is to be run again, at
	// NextAttemptAt or later.
	NextAttempt   string `json:"next_attempt,omitempty"`
	NextAttemptAt int64  `json:"next_attempt_at,omitempty"`
	// Held is the run before a manual one whose tick is to be run again when a pause is over.
	Held Held `json:"held,omitzero"`
	// RestartAt is when the next run of a job that always runs begins, after one that has ended.
	RestartAt int64 `json:"restart_at,omitempty"`
	// BusySince is when the first of several consecutive runs began, if ticks that
	// came during them are still queued; 0 means that they wait only for the last run.
	BusySince int64 `json:"busy_since,omitempty"`
	// Runs is how many ticks were claimed, of a job with MaxRuns, since RunsSince: the Since of the
	// schedule that it counts for. Each claim writes it.
	Runs      int   `json:"slot_runs,omitempty"`
	RunsSince int64 `json:"slot_runs_since,omitempty"`
	// Failed is how many ticks in a row have failed for good, of a job with PauseAfterFailures,
	// since FailedSince: the end of the job's last pause.
	Failed      int   `json:"failed,omitempty"`
	FailedSince int64 `json:"failed_since,omitempty"`
	// Places are those that the open run holds.
	Places Places `json:"places,omitempty"`
	// History is where the slot's history was when this record was written, in the same transaction.
	// Each write of the history writes this record, too, so a reader that watches it hears of both.
	History Mark `json:"history,omitzero"`

	lasting Unknown // they are of the slot, the others of the run
}

// Same reports whether two records say the same of the slot's ticks, wherever its history is.
func (t Tick) Same(other Tick) bool {
	t.History = other.History
	return t == other
}

// Held is a run whose tick is to be run again, at NextAttemptAt or later.
type Held struct {
	Run
	NextAttempt   string `json:"next_attempt,omitempty"`
	NextAttemptAt int64  `json:"next_attempt_at,omitempty"`
}

type heldFields Held

// MarshalJSON implements json.Marshaler.
func (h Held) MarshalJSON() ([]byte, error) { return h.unknown.Encode(heldFields(h)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (h *Held) UnmarshalJSON(data []byte) error { return h.unknown.Decode(data, (*heldFields)(h)) }

// Begin returns the record that has a new run: of t it keeps only the slot's fields. How many runs
// there were is counted for each.
func (t Tick) Begin(watermark int64, run Run) Tick {
	return Tick{Watermark: watermark, Run: run, Failed: t.Failed, FailedSince: t.FailedSince, lasting: t.lasting}
}

// Again is the run whose tick is to be run again next. Its NextAttempt is empty if nothing is.
func (t Tick) Again() Held {
	if t.NextAttempt == "" {
		return t.Held
	}
	return Held{t.Run, t.NextAttempt, t.NextAttemptAt}
}

// NextAttemptOf says what follows a run, and when; "" if nothing does.
func (t Tick) NextAttemptOf(runID string) (what string, at int64) {
	switch runID {
	case t.RunID:
		return t.NextAttempt, t.NextAttemptAt
	case t.Held.RunID:
		return t.Held.NextAttempt, t.Held.NextAttemptAt
	}
	return "", 0
}

// Finished reports whether no run is open or to be repeated.
func (t Tick) Finished() bool { return !t.Open() && t.Again().NextAttempt == "" }

// Prompt reports whether the run was to start at its tick: nothing but load can have made it late.
func (t Tick) Prompt() bool {
	return t.Manual == "" && t.Attempt == 1 && t.BusySince == 0 && t.TakenFrom == "" && t.Delayed == 0 && t.Passed == 0
}

// Normal returns t as it is read back after Encode.
func (t Tick) Normal() Tick {
	t.Schema, t.Error, t.Held.Error = Schema, CutError(t.Error), CutError(t.Held.Error)
	if t.RunID != "" {
		t.Attempt = max(t.Attempt, 1)
	}
	if !t.Open() {
		t.Places = "" // whatever ends a run gives them back
	}
	return t
}

// Encode returns the node's data. It leaves out what mostly is the same: that the Watermark is the
// tick of the run, and that this is the first attempt.
func (t Tick) Encode() []byte {
	t = t.Normal()
	if t.Manual == "" && t.Watermark == t.Tick {
		t.Watermark = 0
	}
	if t.Attempt == 1 && t.RunID != "" {
		t.Attempt = 0
	}
	return join(t.unknown, t.lasting).Encode(t)
}

// CutError truncates an error text to MaxErrorBytes and makes it valid UTF-8, so
// that it is read back as it was written.
func CutError(text string) string { return cut(text, MaxErrorBytes) }

func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") // a cut character is dropped
	}
	return text
}

// ParseTick reads a tick node that was last written at the given time of ZooKeeper's clock. A
// record without a watermark, such as an empty one, accounts for the ticks up to then: the node of
// a job that never ran was written together with the job, and if it was written later, someone has
// emptied it, so it is unknown which earlier ticks were run. The zero time leaves the watermark at
// 0.
func ParseTick(data []byte, written time.Time) (Tick, error) {
	var t Tick
	if len(bytes.TrimSpace(data)) == 0 {
		t.Watermark = Milli(written)
		return t, nil
	}
	if err := parsed("tick record", data, t.unknown.Decode(data, &t), &t.Schema); err != nil {
		return Tick{}, err
	}
	t.unknown, t.lasting = t.unknown.only(isPassing), t.unknown.only(isLasting)
	times := []int64{t.Watermark, t.Tick, t.Started, t.Ended, t.NextAttemptAt, t.RestartAt, t.BusySince, t.Passed, t.RunsSince}
	held := t.Held
	for _, ms := range append(times, held.Tick, held.Started, held.Ended, held.NextAttemptAt, held.Passed) {
		if err := CheckTime(ms); err != nil {
			return Tick{}, fmt.Errorf("tick record: %w", err)
		}
	}
	if err := t.Places.check(); err != nil {
		return Tick{}, fmt.Errorf("tick record: %w", err)
	}
	if t.RunID != "" && t.Attempt == 0 {
		t.Attempt = 1
	}
	if t.Watermark == 0 && t.Manual == "" {
		t.Watermark = t.Tick
	}
	if t.Watermark == 0 {
		t.Watermark = Milli(written)
	}
	return t, nil
}

// Alarm is the data of a slot's alarm node: the last tick that was reported as
// missed.
type Alarm struct {
	Schema int       `json:"schema"`
	Tick   int64     `json:"tick"` // Unix milliseconds
	SID    string    `json:"sid"`  // the instance that noticed
	At     time.Time `json:"at"`   // on its clock

	unknown Unknown
}

// Over returns a as it replaces old: of old it keeps only the slot's fields.
func (a Alarm) Over(old Alarm) Alarm {
	a.unknown = old.unknown.only(isLasting)
	return a
}

// Encode returns the node's data.
func (a Alarm) Encode() []byte {
	a.Schema = Schema
	return a.unknown.Encode(a)
}

// ParseAlarm reads an alarm node.
func ParseAlarm(data []byte) (a Alarm, err error) {
	if err := a.unknown.Decode(data, &a); err != nil {
		return Alarm{}, fmt.Errorf("alarm %s: %w", excerpt(data), err)
	}
	if err := CheckTime(a.Tick); err != nil { // it would be later than all that are missed
		return Alarm{}, fmt.Errorf("alarm: %w", err)
	}
	return a, nil
}

// MaxStackBytes is how much of a handler's stack is kept.
const MaxStackBytes = 4 << 10

// Stack is the data of a slot's stack node: where the handler was of the last run that did not end
// although an operator had asked for that.
type Stack struct {
	Schema int       `json:"schema"`
	RunID  string    `json:"run_id"`
	SID    string    `json:"sid"`
	At     time.Time `json:"at"` // on the instance's clock
	// Text is at most MaxStackBytes: a function and its line on each line, the innermost first.
	Text string `json:"text"`
}

// Encode returns the node's data.
func (s Stack) Encode() []byte {
	s.Schema, s.Text = Schema, cut(s.Text, MaxStackBytes)
	return mustJSON(s)
}

// ParseStack reads a stack node.
func ParseStack(data []byte) (s Stack, err error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return Stack{}, fmt.Errorf("stack %s: %w", excerpt(data), err)
	}
	return s, nil
}

// Complete is the data of a sharded job's shards node: the tick up to which all
// shards have finished.
type Complete struct {
	Schema int   `json:"schema"`
	Tick   int64 `json:"tick"` // Unix milliseconds

	unknown Unknown
}

// Encode returns the node's data.
func (c Complete) Encode() []byte {
	c.Schema = Schema
	return c.unknown.Encode(c)
}

// ParseComplete reads a shards node; an empty one is the zero Complete.
func ParseComplete(data []byte) (c Complete, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return Complete{}, nil
	}
	if err := parsed("record of complete ticks", data, c.unknown.Decode(data, &c), &c.Schema); err != nil {
		return Complete{}, err
	}
	if err := CheckTime(c.Tick); err != nil { // shards that are created begin after it
		return Complete{}, fmt.Errorf("record of complete ticks: %w", err)
	}
	return c, nil
}

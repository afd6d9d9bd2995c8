package ticks

import (
	"errors"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Errors that refuse a commit. Nothing of it was written then.
var (
	// ErrConflict is returned when the tick record is not the one that the commit is based on.
	ErrConflict = errors.New("tick record has changed")
	// ErrSpecChanged is returned when the job's spec is not the version that the commit is based on.
	ErrSpecChanged = errors.New("the job has changed")
	// ErrNoRequest is returned when the manual run that the commit opens was canceled.
	ErrNoRequest = errors.New("request canceled")
	// ErrSuperseded is returned when an amendment finds that the history no longer has the run.
	ErrSuperseded = errors.New("the history no longer has the run")
)

// Commit is a decision on a slot's ticks, to be written as a whole or not at all.
type Commit struct {
	Slot string
	// Token is the ownership under which alone the decision may be written. 0: it is the result of a
	// run, which its runner may write for as long as the record is From.
	Token       int64
	SpecVersion int32  // the version of the spec that Plan is based on; not checked without a Token
	From        Record // the record that Plan is based on
	Plan        Plan
}

// Opens reports whether the commit begins a run.
func (c Commit) Opens() bool {
	return c.Plan.Record.Open() && c.Plan.Record.RunID != c.From.RunID
}

// Request is what an operator asks of the owner of a slot: a manual run, or the stop of a run.
type Request struct {
	ID string
	zkrec.Request
}

// IsRun reports whether a manual run is requested.
func (r Request) IsRun() bool { return r.Kind == zkrec.RequestRun }

// IsStop reports whether the stop of a run is requested.
func (r Request) IsStop() bool { return r.Kind == zkrec.RequestStop }

// The states of a run that has ended, as the records have them.
const (
	OK          = zkrec.RunOK
	Failed      = zkrec.RunFailed
	TimedOut    = zkrec.RunTimedOut
	Interrupted = zkrec.RunInterrupted
)

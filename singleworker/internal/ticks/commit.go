package ticks

import (
	"errors"
)

// Errors of a refused commit. Nothing was written.
var (
	// ErrConflict is returned when the tick record has changed since the decision.
	ErrConflict = errors.New("tick record has changed")
	// ErrSpecChanged is returned when the job's spec or switch has changed since the decision.
	ErrSpecChanged = errors.New("job has changed")
	// ErrNoRequest is returned when the request for the manual run that the commit opens was canceled.
	ErrNoRequest = errors.New("request canceled")
	// ErrLimited is returned when there is no place for the run that the commit opens: its slot waits.
	ErrLimited = errors.New("all places of a limit are taken")
	// ErrSuperseded is returned when a run to be amended is no longer in the history.
	ErrSuperseded = errors.New("run is no longer in the history")
)

// ErrWithheld is returned for a claim that was written: the run is open, must not begin, and needs
// a result.
var ErrWithheld = errors.New("the instance began to drain, or was told not to run the job, while the run was claimed")

// Commit is a decision on a slot's ticks, to be written atomically.
type Commit struct {
	Slot string
	// Token is the ownership that the write requires. 0 means the commit is the result of a run, which
	// its runner may write as long as the record is still From, even after it has lost the slot.
	Token   int64
	Version Version // of the job that Plan is based on; not checked if Token is 0
	From    Record  // the record that Plan is based on
	Plan    Plan
	Limits  map[string]int // the places that a run needs which Plan opens, by limit
	Gate    *Gate          // which has let ticks of Plan begin; nil: none
}

// Opens reports whether the commit opens a run.
func (c *Commit) Opens() bool {
	return c.Plan.Record.Open() && c.Plan.Record.RunID != c.From.RunID
}

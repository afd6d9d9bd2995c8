package zkrec

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
)

// The kinds of requests.
const (
	RequestRun = "run" // a manual run
	// RequestPast is a further attempt at a past tick. An instance that does not know it leaves it to
	// another.
	RequestPast = "past"
	// RequestBackfill is a further attempt at each of many past ticks, one after the other. A claim
	// takes the next one off it, in its transaction.
	RequestBackfill = "backfill"
	RequestStop     = "stop" // the end of a run
)

// MaxRequests is the maximum number of pending requests of a job, or a shard.
const MaxRequests = 10

// MaxReadRequests is how many pending requests are read at a time, the oldest first. More than
// MaxRequests only come from writing them manually, except for requests to stop runs.
const MaxReadRequests = 100

// Request is an operator's request to the owner of a job: a node that exists
// until the request is done.
type Request struct {
	Schema  int               `json:"schema"`
	Kind    string            `json:"kind"`
	At      time.Time         `json:"at"` // on the operator's clock
	By      string            `json:"by,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Args    map[string]string `json:"args,omitempty"`    // of a manual run; override the job's
	Payload json.RawMessage   `json:"payload,omitempty"` // of a manual run; replaces the job's
	RunID   string            `json:"run_id,omitempty"`  // the run to stop

	// Tick is the past tick that is to be run, and Past why it may. Attempt and Failures are the
	// run's: who writes the request knows the attempts before, and makes sure that there are no
	// others.
	Tick     int64        `json:"tick,omitempty"` // Unix milliseconds
	Past     history.Past `json:"past,omitempty"`
	Attempt  int          `json:"attempt,omitempty"`
	Failures int          `json:"failures,omitempty"`

	Backfill Backfill `json:"backfill,omitzero"` // the past ticks that are to be run
}

// IsRun reports whether a run is requested: a manual one, or one of past ticks.
func (r Request) IsRun() bool {
	return r.Kind == RequestRun || r.Kind == RequestPast || r.Kind == RequestBackfill
}

// Run is the run that the request with that ID asks for.
func (r Request) Run(id string) Run {
	run := Run{Tick: r.At.UnixMilli(), Manual: id, Attempt: 1}
	if r.Kind == RequestPast {
		run.Tick, run.Attempt, run.Failures = r.Tick, r.Attempt, r.Failures
	}
	run.AskedFor(history.Asked{AskedBy: r.By, AskedReason: r.Reason, Past: r.Past})
	return run
}

// Encode returns the node's data.
func (r Request) Encode() []byte {
	r.Schema = Schema
	return mustJSON(r)
}

// ParseRequest reads a request node.
func ParseRequest(data []byte) (Request, error) {
	var r Request
	if err := parsed("request", data, json.Unmarshal(data, &r), &r.Schema); err != nil {
		return Request{}, err
	}
	if r.Kind == RequestStop && r.RunID == "" {
		return Request{}, fmt.Errorf("request %s: it does not say which run to stop", excerpt(data))
	}
	whole := CheckTime(r.Tick) == nil && r.Tick != 0 && r.Past != "" && r.Failures >= 0 && r.Failures < r.Attempt
	if named := r.Kind == RequestPast; named && !whole || !named && (r.Past != "" || r.Tick != 0) {
		return Request{}, fmt.Errorf("request %s: it does not say which attempt at which past tick is to be run, and why", excerpt(data))
	}
	if r.Kind != RequestBackfill {
		r.Backfill = Backfill{}
	} else if err := r.Backfill.check(); err != nil {
		return Request{}, fmt.Errorf("request %s: %w", excerpt(data), err)
	}
	return r, nil
}

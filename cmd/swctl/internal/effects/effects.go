// Package effects compares the markers of package once, which are in an application's database,
// with the run log of its group. It knows neither: a Database and a log of runs come in, a Report
// goes out.
//
// Both are read from the newest tick to the oldest, side by side, so only ticks that one side has
// given and the other one has not yet are held. Runs are in the log in the order in which they
// ended, so a marker waits for its run at most as long as a run takes. A run that ended long after
// its tick waits for its marker instead.
//
// A slot is compared where both sides can have something:
//
//   - from the first tick of which it has a marker, or up to which markers were pruned, and of
//     which the log has an entry,
//   - to the last markers after which another run of the slot has begun: runs of a slot come one
//     after the other, so the ones before have ended,
//   - without the holes of the log.
package effects

import (
	"context"
	"iter"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
)

// A Marker says that the effects of a tick are in the database.
type Marker struct {
	Slot    string
	Tick    time.Time
	Request string // of a manual run
	Step    bool   // it is of one of several transactions: the tick need not be ok

	RunID, InstanceID string    // the run that wrote it
	At                time.Time // when, by the instance's clock
}

// A Fence is the largest token that has written in a slot. A slot with one uses package once.
type Fence struct {
	Slot  string
	Token int64
	// Pruned is the first tick whose marker is kept, and First the first one that has one. They are
	// zero if there is none.
	Pruned, First time.Time
}

// A Database has markers and fences. Package once has a SQL database as one.
type Database interface {
	// Fences lists the fences of a group.
	Fences(ctx context.Context, group string) ([]Fence, error)
	// Markers lists the markers of a group, the newest tick first, without BeforeTick's.
	Markers(ctx context.Context, group string) iter.Seq2[Marker, error]
	// Has reports whether a tick has a marker, of a step at least.
	Has(ctx context.Context, group, slot string, tick time.Time, request string) (bool, error)
	// Lower sets the fences of a group that are above a token to it, and returns how many those were.
	Lower(ctx context.Context, group string, token int64) (int64, error)
	Close() error
}

// Sides of a comparison.
const (
	InLog      = "log"      // the run log
	InDatabase = "database" // the application's
)

// A Difference is a tick that is done on one side alone.
type Difference struct {
	Job     string    `json:"job"`
	Slot    string    `json:"slot"` // the job, the shard, or the job at an instance
	Tick    time.Time `json:"tick"`
	Request string    `json:"request,omitempty"` // the ID of the request for a manual run
	// Missing is the side that lacks it: database, which has no marker of an ok tick, or log, in
	// which a tick with a marker is not ok.
	Missing string `json:"missing"`
	// RunID and InstanceID are the run that is ok, or that wrote the marker.
	RunID      string    `json:"run_id"`
	InstanceID string    `json:"instance_id"`
	At         time.Time `json:"at"` // when the run ended, or wrote the marker, by its instance's clock
	// State is the last outcome in the log of a tick that is not ok there. Empty if it has none.
	State history.State `json:"state,omitempty"`
}

// A Report is the outcome of a comparison.
type Report struct {
	Group string `json:"group"`
	// From and To are the first and the last tick that were compared. Each slot has bounds of its own.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Slots is how many use package once and have runs in the log, and Others how many of the log's do
	// not use it.
	Slots  int `json:"slots"`
	Others int `json:"others"`
	// Runs is how many ok runs were compared, and Markers how many markers.
	Runs    int `json:"runs"`
	Markers int `json:"markers"`
	// Differences are the first ones that were found, and Found is how many there are.
	Differences []Difference `json:"differences"`
	Found       int          `json:"found"`
}

// A Reset is the outcome of lowering fences.
type Reset struct {
	Group string `json:"group"`
	// Token is ZooKeeper's present transaction, to which fences are lowered.
	Token  int64 `json:"token"`
	DryRun bool  `json:"dry_run"` // nothing was changed
	// Fences are those above it, as they were.
	Fences []ResetFence `json:"fences"`
}

// A ResetFence is a fence as it was.
type ResetFence struct {
	Slot  string `json:"slot"` // the job, the shard, or the job at an instance
	Token int64  `json:"token"`
}

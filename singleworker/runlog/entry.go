package runlog

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
)

// Kind tells an Entry's subject.
type Kind string

// The kinds of entries.
const (
	Ran    Kind = "run"   // a run that has ended, one attempt of its tick
	NotRun Kind = "ticks" // consecutive ticks that were not run
	// Hole says that something that happened between Tick and To is not in the log: nobody read the
	// history before it had forgotten it; or that ZooKeeper was restored and has less than the log.
	// Error says which. Without a Job, it is jobs that came and went.
	Hole Kind = "hole"
	// Gone says that the job, or the shard, was removed, and its history with it: its last moment,
	// less than a second if a reader was there, may not be in the log.
	Gone Kind = "gone"
	// Void is for stores, and Options.OnAppended: it takes the place of a row of ticks that were not
	// run, which ZooKeeper forgot when it was restored and accounts for once more. No query returns
	// it.
	Void Kind = "void"
	// Mark is for stores: a line without news.
	Mark Kind = "mark"
)

// Entry is a line of the log about a tick.
type Entry struct {
	// Seq numbers the log's entries, from 1. An entry that is told again, because its row of ticks has
	// grown or its result came late, gets a new number and takes the place of the former one. Numbers
	// may be missing.
	Seq int64 `json:"seq"`
	// Slot is the job, or the shard, such as "report[3]", or the job at an instance: "report/app-1".
	Slot string `json:"slot,omitempty"`
	// Job is the name of the job.
	Job string `json:"job,omitempty"`
	// Incarnation tells jobs apart that had the same name one after the other.
	Incarnation int64 `json:"incarnation,omitempty"`
	// Key tells the entries of one incarnation of a slot apart: the ID of the run, or the first of its
	// ticks.
	Key  string `json:"key,omitempty"`
	Kind Kind   `json:"kind"`
	// At is when the run ended, or its ticks were found not to have run, by the clock of the instance
	// that recorded it; of a Hole when ZooKeeper had what follows it, of Gone and of Void when the
	// reader saw it.
	At time.Time `json:"at"`
	// Amended means that the log had the entry, which now reads: the result of a run came late, it was
	// in the log as interrupted or lost; or a row of ticks has grown.
	Amended bool `json:"amended,omitempty"`

	// Of a Hole and of Gone only Tick, To and Error are set, and of a Hole Number and Rev, from which
	// the log continues. NextAttempt and Shard are never set.
	history.Entry
}

// OK reports whether nothing went wrong: a run that succeeded, or ticks that were skipped on
// purpose.
func (e Entry) OK() bool {
	switch e.Kind {
	case Ran, NotRun:
		return e.State == history.StateOK || e.State == history.StateSkipped
	case Hole:
		return false
	case Gone, Void, Mark:
	}
	return true
}

// Duration is how long a run took, by its instance's clock.
func (e Entry) Duration() time.Duration { return e.Ended.Sub(e.Started) }

// Late is how long after its tick a run began. ok is false unless it is the first attempt of a
// scheduled run.
func (e Entry) Late() (late time.Duration, ok bool) {
	if e.Kind != Ran || e.Manual != "" || e.Attempt > 1 || e.Tick.IsZero() || e.Started.IsZero() {
		return 0, false
	}
	return e.Started.Sub(e.Tick), true
}

// maxKey is longer than the IDs that instances give to runs.
const maxKey = 64

// keyOf is the Key of an entry of a history.
func keyOf(e history.Entry) string {
	key := e.RunID
	if key == "" {
		key = "tick:" + strconv.FormatInt(e.Tick.UnixMilli(), 10)
		if e.Manual != "" {
			key += ":" + e.Manual
		}
	}
	if len(key) > maxKey { // somebody else wrote it
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:])
	}
	return key
}

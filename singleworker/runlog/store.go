package runlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Store keeps the logs of one or more groups. Safe for concurrent use, by several processes unless
// its package says otherwise. Errors that are not named below are of the store's connection or
// disk: trying again may help.
type Store interface {
	// Load returns the positions that a reader needs to continue the log of a group. A log that does
	// not exist is empty.
	Load(ctx context.Context, group string) (State, error)
	// Seq is the Seq of Load.
	Seq(ctx context.Context, group string) (int64, error)
	// Append appends a batch, all of it or nothing. If an error other than ErrConflict is returned, it
	// may have been appended nevertheless: Load tells.
	Append(ctx context.Context, group string, b Batch) error

	// Entries are those that a query asks for, the newest first: by Seq, descending. The kinds Void
	// and Mark are left out. The last element has the error that ended it.
	Entries(ctx context.Context, q Query) iter.Seq2[Entry, error]
	// Prune removes old entries, and returns how many. What Load returns does not change.
	Prune(ctx context.Context, group string, r Retention) (int, error)

	Close() error
}

// ErrConflict says that another reader has appended something to the log.
var ErrConflict = errors.New("another reader appends to the same log")

// SchemaError says that a store was written by a newer version of this package.
type SchemaError struct{ Found, Known int }

func (e *SchemaError) Error() string {
	return fmt.Sprintf("the store has schema %d and this version knows up to %d: upgrade this program", e.Found, e.Known)
}

// State is how far a log is.
type State struct {
	Seq       int64               // the last number that was given; 0: the log is empty
	Cursor    int64               // admin.HistoryReading.Cursor up to which everything is in the log
	Positions map[string]Position // by slot
}

// Batch holds the entries that a reader appends.
type Batch struct {
	After  int64 // the Seq that the log must have
	Cursor int64
	// Entries are numbered, from After+1 on. An entry with the Slot, Incarnation and Key of one that
	// is there takes its place: it is Amended, or one of the kind NotRun or Void, after which nothing
	// is there. Without entries, only the Cursor is new.
	Entries []Entry
	// Positions are those that the entries have changed, by slot. A slot of an entry of kind Gone has
	// none any more.
	Positions map[string]Position
}

// Seq is the last number of the log once the batch is appended.
func (b Batch) Seq() int64 {
	if len(b.Entries) == 0 {
		return b.After
	}
	return b.Entries[len(b.Entries)-1].Seq
}

// Query says which entries to return. Its zero fields exclude nothing; Group must be set.
type Query struct {
	Group string
	// Slot is a job, with all its shards, or one shard, such as "report[3]", or a job at one instance:
	// "report/app-1".
	Slot string
	// Since and Until bound Entry.At; Until is excluded.
	Since, Until time.Time
	// After excludes the entries up to this Seq, so that a caller can ask for news since its last
	// query.
	After int64
	// Failed excludes runs that are OK.
	Failed bool
	// Limit is the maximum number of entries.
	Limit int
}

// Retention says which entries to keep. Its zero fields remove nothing.
type Retention struct {
	// Since is the oldest Entry.At to keep.
	Since time.Time
	// PerSlot is how many entries of each job, or shard, to keep: the newest.
	PerSlot int
}

// Matches reports whether an entry is one that the query asks for. It does not look at Group and
// Limit.
func (q Query) Matches(e Entry) bool {
	switch {
	case q.Slot != "" && q.Slot != e.Slot && q.Slot != e.Job,
		!q.Since.IsZero() && e.At.Before(q.Since),
		!q.Until.IsZero() && !e.At.Before(q.Until),
		e.Seq <= q.After,
		q.Failed && e.OK():
		return false
	}
	return true
}

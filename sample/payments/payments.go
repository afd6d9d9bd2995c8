// Package payments is a job that must not do anything twice: each hour it puts the payments that
// are due into a file and sends it to the bank. Its tests show how swtest.Explore finds out whether
// that survives crashes, and which mistakes it finds: bugs_test.go has six of them.
//
// # Why it survives
//
// A run can end between any two of its steps: its process is killed, or loses its lease. The next
// owner repeats the tick from the beginning, and the first one may still be about to do its next
// step. So each step is one that can be repeated, by anybody, at any time:
//
//   - The file has the name of the tick, not of the moment, so that a repetition is about the same
//     file.
//   - Which payments are in it is decided once, in a transaction of the database.
//   - The bank takes a file of each name once. Its answer may be lost, and then it knows the file
//     when it is sent again, which is success.
//   - The file is marked as done after that, never before it.
//   - Retries end. So a run sends all files that are not done, not only its own.
//   - Nothing is kept in variables.
//
// No step needs the fencing token: a late one finds the file as it is, and changes nothing. Where a
// step overwrites something, package once compares tokens.
package payments

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// File is a list of payments.
type File struct {
	Name     string
	Payments []int // their IDs
}

// Store is the table of payments.
type Store interface {
	// Collect puts all payments that are due before a time and in no file into one, unless there is
	// one of that name, and returns the files that are not done, in one transaction.
	Collect(ctx context.Context, file string, before time.Time) ([]File, error)
	// Done marks a file as sent.
	Done(ctx context.Context, file string) error
}

// Bank is the bank's interface.
type Bank interface {
	// Send sends a file, whose payments the bank then makes. It takes each name once: ErrKnown.
	Send(ctx context.Context, file File) error
}

// ErrKnown means that the bank has a file of that name.
var ErrKnown = errors.New("payments: the bank knows the file")

// Handler sends the payments that were due before the tick.
func Handler(store Store, bank Bank) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		files, err := store.Collect(ctx, name(run.Tick), run.Tick)
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := bank.Send(ctx, file); err != nil && !errors.Is(err, ErrKnown) {
				return err
			}
			if err := store.Done(ctx, file.Name); err != nil {
				return err
			}
		}
		return nil
	}
}

// name is the name of a file for a time.
func name(t time.Time) string { return "payments-" + t.UTC().Format("20060102-150405") }

package payments

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// world is everything outside of the application's processes: the database and the bank. One
// payment becomes due every ten minutes.
type world struct {
	begun time.Time

	mu    sync.Mutex
	files map[string][]int // of the payments in the database
	in    map[int]string   // the file of a payment
	done  map[string]bool  // the files that are marked
	sent  map[string]bool  // the files that the bank knows
	paid  map[int][]string // the files by which the bank has made a payment
}

const between = 10 * time.Minute

func newWorld() any {
	return &world{
		begun: time.Now(), files: make(map[string][]int), in: make(map[int]string), done: make(map[string]bool),
		sent: make(map[string]bool), paid: make(map[int][]string),
	}
}

func outside(w *swtest.World) *world { return w.Outside.(*world) } //nolint:forcetypeassert // of newWorld

// call is a call of the database or the bank. It can fail before, and its answer can be lost; and
// at both points processes die or are stopped. Nothing is done for a context that is over, as in
// database/sql.
func (w *world) call(ctx context.Context, name string, do func() error) error {
	if err := swtest.Point(ctx, name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.mu.Lock()
	err := do()
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return swtest.Point(ctx, "after "+name)
}

// due lists the payments that are due before a time.
func (w *world) due(before time.Time) (ids []int) {
	for id := range int(before.Sub(w.begun)/between) + 1 {
		if w.begun.Add(time.Duration(id) * between).Before(before) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (w *world) Collect(ctx context.Context, file string, before time.Time) (open []File, err error) {
	err = w.call(ctx, "collect", func() error {
		if _, exists := w.files[file]; !exists {
			w.files[file] = nil
			for _, id := range w.due(before) {
				if w.in[id] == "" {
					w.in[id], w.files[file] = file, append(w.files[file], id)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(w.files)) {
			if len(w.files[name]) > 0 && !w.done[name] {
				open = append(open, File{name, w.files[name]})
			}
		}
		return nil
	})
	return open, err
}

func (w *world) Done(ctx context.Context, file string) error {
	return w.call(ctx, "done", func() error {
		w.done[file] = true
		return nil
	})
}

func (w *world) Send(ctx context.Context, file File) error {
	return w.call(ctx, "send", func() error {
		if w.sent[file.Name] {
			return ErrKnown
		}
		w.sent[file.Name] = true
		for _, id := range file.Payments {
			w.paid[id] = append(w.paid[id], file.Name)
		}
		return nil
	})
}

// check expects that the job recovers when the faults are over, that each payment that was due
// before its last tick was made once, and that each file is done.
func check(w *swtest.World) error {
	o, runs := outside(w), w.Runs("payments")
	last := runs[len(runs)-1]
	if last.Err != nil {
		return fmt.Errorf("it does not recover: %w", last.Err)
	}
	for _, id := range o.due(last.Tick) {
		if files := o.paid[id]; len(files) != 1 {
			return fmt.Errorf("payment %d was made %d times: %q", id, len(files), files)
		}
	}
	for file, payments := range o.files {
		if len(payments) > 0 && !o.done[file] {
			return fmt.Errorf("%s is not done", file)
		}
	}
	return nil
}

// hourly is half a day of a group that sends payments in that way.
func hourly(handler func(Store, Bank) singleworker.Handler) swtest.Plan {
	return swtest.Plan{
		Jobs: []singleworker.Job{{Name: "payments", Schedule: "@hourly", Retries: 5}},
		For:  12 * time.Hour, Outside: newWorld, Check: check,
		Handlers: func(p swtest.Process) map[string]singleworker.Handler {
			o := outside(p.World)
			return map[string]singleworker.Handler{"payments": handler(o, o)}
		},
	}
}

func TestHandlerSurvives(t *testing.T) {
	t.Parallel()
	swtest.Explore(t, hourly(Handler))
}

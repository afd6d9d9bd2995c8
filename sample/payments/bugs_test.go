package payments

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// sending is Handler with another way to send a file.
func sending(send func(ctx context.Context, run *singleworker.Run, store Store, bank Bank, file File) error) func(Store, Bank) singleworker.Handler {
	return func(store Store, bank Bank) singleworker.Handler {
		return func(ctx context.Context, run *singleworker.Run) error {
			files, err := store.Collect(ctx, name(run.Tick), run.Tick)
			for _, file := range files {
				err = errors.Join(err, send(ctx, run, store, bank, file))
			}
			return err
		}
	}
}

// unlessKnown makes success of ErrKnown.
func unlessKnown(err error) error {
	if errors.Is(err, ErrKnown) {
		return nil
	}
	return err
}

// The file has the name of the moment, so that whoever repeats the tick sends another one. Handler
// names it after the tick.
func namedByTheClock(ctx context.Context, _ *singleworker.Run, store Store, bank Bank, file File) error {
	if err := bank.Send(ctx, File{name(time.Now()), file.Payments}); unlessKnown(err) != nil {
		return err
	}
	return store.Done(ctx, file.Name)
}

// It is marked before it is sent: after a crash between the two, nobody sends it.
func markedBefore(ctx context.Context, _ *singleworker.Run, store Store, bank Bank, file File) error {
	if err := store.Done(ctx, file.Name); err != nil {
		return err
	}
	return unlessKnown(bank.Send(ctx, file))
}

// A file that the bank knows is taken for an error: once the bank's answer was lost, the file is
// never done.
func knownIsAnError(ctx context.Context, _ *singleworker.Run, store Store, bank Bank, file File) error {
	if err := bank.Send(ctx, file); err != nil {
		return err
	}
	return store.Done(ctx, file.Name)
}

// An error of the bank is logged, and the file marked all the same: nobody sends it again.
func errorIsLogged(ctx context.Context, run *singleworker.Run, store Store, bank Bank, file File) error {
	if err := bank.Send(ctx, file); unlessKnown(err) != nil {
		run.Logger().Error("not sent", "file", file.Name, "error", err)
	}
	return store.Done(ctx, file.Name)
}

// Each payment is sent alone, under the ID of the run: the next run sends those again that the
// bank has.
func oneByOne(ctx context.Context, run *singleworker.Run, store Store, bank Bank, file File) error {
	for _, id := range file.Payments {
		if err := bank.Send(ctx, File{fmt.Sprintf("%s-%d", run.ID, id), []int{id}}); unlessKnown(err) != nil {
			return err
		}
	}
	return store.Done(ctx, file.Name)
}

// Up to when payments have been sent is kept in a variable: the next owner has another one.
func keptInAVariable(store Store, bank Bank) singleworker.Handler {
	var until time.Time
	return func(ctx context.Context, run *singleworker.Run) error {
		file := File{Name: name(run.Tick)}
		w := store.(*world) //nolint:forcetypeassert // there is no other
		for _, id := range w.due(run.Tick) {
			if at := w.begun.Add(time.Duration(id) * between); !at.Before(until) {
				file.Payments = append(file.Payments, id)
			}
		}
		if err := bank.Send(ctx, file); unlessKnown(err) != nil {
			return err
		}
		until = run.Tick
		return nil
	}
}

// Explore finds each of the six. With -v it shows how.
func TestSixBugs(t *testing.T) {
	t.Parallel()
	for name, bug := range map[string]func(Store, Bank) singleworker.Handler{
		"named by the clock":  sending(namedByTheClock),
		"marked before":       sending(markedBefore),
		"known is an error":   sending(knownIsAnError),
		"an error is logged":  sending(errorIsLogged),
		"payments one by one": sending(oneByOne),
		"kept in a variable":  keptInAVariable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := swtest.Find(t, hourly(bug))
			if f == nil {
				t.Fatal("not found")
			}
			t.Log(f)
			if len(f.Faults) == 0 || len(f.Faults) > 3 {
				t.Errorf("%d faults, want one to three", len(f.Faults))
			}
		})
	}
}

package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

// ledger is an outside system of a test: a row for each key, without checks of its own.
type ledger struct {
	mu   sync.Mutex
	rows map[string]int
}

func newLedger() any { return &ledger{rows: make(map[string]int)} }

// add is a transaction.
func (l *ledger) add(ctx context.Context, key string, n int) error {
	if err := swtest.Point(ctx, "add"); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows[key] += n
	return nil
}

// ledgerOf is the ledger of a world.
func ledgerOf(w *swtest.World) *ledger { return w.Outside.(*ledger) } //nolint:forcetypeassert // of newLedger

func (l *ledger) get(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows[key]
}

// hourly is a job with retries.
var hourly = []singleworker.Job{{Name: "pay", Schedule: "@hourly", Retries: 3}}

func complete(w *swtest.World) error { return w.Complete("pay") }

// once appends an effect once for the tick.
func once(ctx context.Context, w *swtest.World, run *singleworker.Run, key string) error {
	if err := w.Effects.AppendOnce(ctx, run, key); err != nil && !errors.Is(err, swtest.ErrDone) {
		return err
	}
	return nil
}

// bugs are handlers with one bug each, in the plan in which it hurts.
func bugs() map[string]swtest.Plan {
	all := handlersWithBugs()
	maps.Copy(all, moreHandlersWithBugs())
	return all
}

func handlersWithBugs() map[string]swtest.Plan {
	return map[string]swtest.Plan{
		"not idempotent": {Jobs: hourly, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(ctx context.Context, run *singleworker.Run) error { return w.Effects.Append(ctx, run, key(run)) }
		})},
		"ignores its context": {Jobs: hourly, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(_ context.Context, run *singleworker.Run) error {
				for k := range 3 {
					time.Sleep(10 * time.Minute)
					if err := w.Effects.Append(context.Background(), run, fmt.Sprint(key(run), k)); err != nil {
						return err
					}
				}
				return nil
			}
		})},
		"key without the job": {
			Jobs: []singleworker.Job{{Name: "pay", Schedule: "@hourly"}, {Name: "bill", Schedule: "@hourly", Handler: "pay"}},
			Handlers: handle(func(w *swtest.World) singleworker.Handler {
				return func(ctx context.Context, run *singleworker.Run) error { return once(ctx, w, run, run.Tick.String()) }
			}),
			Check: func(w *swtest.World) error { return w.Complete("pay", "bill") },
		},
		"token not compared": {Jobs: []singleworker.Job{{Name: "pay", Schedule: "@hourly", Interrupted: "skip"}}, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(ctx context.Context, run *singleworker.Run) error {
				if err := pause(ctx, 5*time.Minute); err != nil {
					return err
				}
				return w.Effects.Append(ctx, run, key(run))
			}
		})},
		"state in a variable": {Jobs: hourly, Outside: newLedger, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			number := 0
			return func(ctx context.Context, _ *singleworker.Run) error {
				number++
				return ledgerOf(w).add(ctx, fmt.Sprint("invoice ", number), 1)
			}
		}), Check: func(w *swtest.World) error {
			for key, n := range ledgerOf(w).rows {
				if n > 1 {
					return fmt.Errorf("%s was written %d times", key, n)
				}
			}
			return nil
		}},
		"two shards on one key": {Jobs: []singleworker.Job{{Name: "pay", Schedule: "@hourly", Shards: 2}}, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(ctx context.Context, run *singleworker.Run) error {
				return once(ctx, w, run, run.Job+run.Tick.String())
			}
		}), Check: complete},
	}
}

func moreHandlersWithBugs() map[string]swtest.Plan {
	return map[string]swtest.Plan{
		"all missed ticks at once": {Jobs: []singleworker.Job{{Name: "pay", Schedule: "0 */10 * * * ?", Misfire: "all"}}, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(ctx context.Context, run *singleworker.Run) error { return once(ctx, w, run, key(run)) }
		}), Check: func(w *swtest.World) error {
			all := w.Effects.List()
			for k, x := range all {
				if k >= 5 && x.Time.Sub(all[k-5].Time) < time.Minute {
					return fmt.Errorf("six mails in a minute, the last %v", x)
				}
			}
			return nil
		}},
		"done before it is": {Jobs: hourly, Outside: newLedger, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(ctx context.Context, run *singleworker.Run) error {
				l := ledgerOf(w)
				if l.get(key(run)) > 0 {
					return nil
				}
				if err := l.add(ctx, key(run), 1); err != nil {
					return err
				}
				return once(ctx, w, run, key(run))
			}
		}), Check: complete},
		"swallows errors": {Jobs: hourly, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(ctx context.Context, run *singleworker.Run) error {
				if err := once(ctx, w, run, key(run)); err != nil {
					run.Logger().Error("pay", "err", err)
				}
				return nil
			}
		}), Check: complete},
		"the time in the key": {Jobs: hourly, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(ctx context.Context, run *singleworker.Run) error {
				return once(ctx, w, run, run.Job+time.Now().String())
			}
		}), Check: func(w *swtest.World) error {
			seen := make(map[time.Time]swtest.Effect)
			for _, x := range w.Effects.List() {
				if other, twice := seen[x.Tick]; twice {
					return fmt.Errorf("paid twice: %v, and %v", other, x)
				}
				seen[x.Tick] = x
			}
			return nil
		}},
		"two transactions for one": {Jobs: []singleworker.Job{{Name: "pay", Schedule: "@hourly", Interrupted: "skip"}}, Outside: newLedger, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(ctx context.Context, _ *singleworker.Run) error {
				l := ledgerOf(w)
				return errors.Join(l.add(ctx, "debit", 1), l.add(ctx, "credit", 1))
			}
		}), Check: func(w *swtest.World) error {
			if l := ledgerOf(w); l.get("debit") != l.get("credit") {
				return fmt.Errorf("debit %d, credit %d", l.get("debit"), l.get("credit"))
			}
			return nil
		}},
		"a lock that outlives its holder": {Jobs: hourly, Outside: newLedger, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(ctx context.Context, run *singleworker.Run) error {
				l := ledgerOf(w)
				if l.get("lock") > 0 {
					return nil // somebody else does it
				}
				if err := l.add(ctx, "lock", 1); err != nil {
					return err
				}
				return errors.Join(once(ctx, w, run, key(run)), l.add(ctx, "lock", -1))
			}
		}), Check: complete},
		"repeats what was answered late": {Jobs: hourly, Handlers: handle(func(w *swtest.World) singleworker.Handler {
			return func(ctx context.Context, run *singleworker.Run) error {
				for {
					err := w.Effects.Append(ctx, run, key(run))
					if !errors.Is(err, swtest.ErrRefused) {
						return err
					}
					if err := pause(ctx, time.Second); err != nil {
						return err
					}
				}
			}
		})},
	}
}

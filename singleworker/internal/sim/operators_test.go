package sim

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/invalid"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// The deeds of operators, and of programs with their own instance.

// operate waits for an operator's command; the server may be unreachable for a while.
func (w *world) operate(what string, f func(ctx context.Context) error) {
	clock := wall.Clock(func() time.Duration { return time.Duration(w.operators.Load()) })
	ctx, cancel := context.WithTimeout(wall.Off(context.Background(), clock), 10*time.Minute)
	defer cancel()
	err := f(ctx)
	w.notef("%s: %v", what, err)
	if err != nil {
		w.violate(violation{5, what, time.Now(), err.Error()})
	}
}

// order drains or disables an instance, as an operator would; most are enabled later, some only
// when the noise stops.
func (w *world) order(sid string) {
	give := (*admin.Client).Drain
	what := "drain "
	if w.rng.IntN(2) == 0 {
		give, what = (*admin.Client).Disable, "disable "
	}
	operate := func(what string, f func(ctx context.Context, c *admin.Client) error) {
		w.operate(what+sid, func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				return unless(f(ctx, c), admin.ErrNoInstance, admin.ErrConflict)
			})
		})
	}
	operate(what, func(ctx context.Context, c *admin.Client) error {
		_, err := give(c, ctx, sid, admin.OrderOptions{By: "sim"})
		return err
	})
	if w.rng.IntN(4) == 0 {
		return
	}
	w.after(w.upTo(4*w.Session), func() {
		operate("enable ", func(ctx context.Context, c *admin.Client) error {
			_, err := c.Enable(ctx, sid)
			return err
		})
	})
}

// withdraw calls Drain as an instance's program would.
func (w *world) withdraw(victim *swtest.Instance) {
	w.notef("%s withdraws", victim.Name)
	patience := w.upTo(w.Session)
	w.later.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = victim.Drain(ctx) // continues after ctx has ended
	})
}

func (w *world) changeJob() {
	k := w.rng.IntN(len(w.shards))
	if w.jobs[jobName(k)] {
		w.cancel(k)
		next := w.rng.IntN(4)
		if next%2 == 0 {
			return
		}
		time.Sleep(w.upTo(w.Session))
		if next == 3 {
			w.undelete(k)
			return
		}
	}
	w.submit(k)
}

// undelete brings a job back that was canceled.
func (w *world) undelete(k int) {
	w.mu.Lock()
	w.jobs[jobName(k)] = true
	w.mu.Unlock()
	w.operate("undelete "+jobName(k), func(ctx context.Context) error {
		return w.cluster.Operate(ctx, func(c *admin.Client) error {
			_, err := c.Undelete(ctx, jobName(k), admin.UndeleteOptions{})
			if w.Windows || w.Calendars || w.Families || w.Shared { // it was perhaps refused when it was submitted, or had no parent
				err = unless(err, admin.ErrNotFound)
			}
			return unless(unlessOver(err), admin.ErrExists) // an instance was faster, with its declaration
		})
	})
}

// trigger asks for a manual run, or for two at once: of a job, with all its shards, or of one
// shard.
func (w *world) trigger(k int) {
	name := w.part(k)
	for range 1 + w.rng.IntN(2) {
		w.operate("trigger "+name, func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				opts := admin.TriggerOptions{Args: map[string]string{"by": "hand"}}
				if past, err := c.History(ctx, name); err == nil && len(past.Entries) > 0 && w.rng.IntN(2) == 0 {
					e := past.Entries[w.rng.IntN(len(past.Entries))]
					opts.Tick, opts.Again = e.Tick, w.rng.IntN(2) == 0
					if e.RunID == "" {
						return w.backfill(ctx, c, name, opts)
					}
				}
				_, err := c.Trigger(ctx, name, opts)
				if no := new(invalid.FieldError); errors.As(err, &no) && no.Field == "Tick" {
					return nil // of a manual run, say, or of former shards
				}
				if w.Calendars || w.Families || w.Shared { // one of them may be missing, or a parent
					err = unless(err, admin.ErrUnreadable)
				}
				return unless(unlessAlways(err), admin.ErrTickDone, admin.ErrTickOpen, admin.ErrNotFound, admin.ErrNoShard, admin.ErrNoHandler, admin.ErrBusy, admin.ErrConflict)
			})
		})
	}
}

// backfill asks for all past ticks from one on, and sometimes for those that are ok, too.
func (w *world) backfill(ctx context.Context, c *admin.Client, name string, opts admin.TriggerOptions) error {
	of := admin.BackfillOptions{From: opts.Tick}
	if opts.Again {
		of.Only = []history.Past{history.PastMissed, history.PastFailed, history.PastAgain, history.PastForgotten}
	}
	_, err := c.Backfill(ctx, name, of)
	if no := new(invalid.FieldError); errors.As(err, &no) && (no.Field == "From" || no.Field == "To") {
		return nil // of former shards
	}
	return unless(unlessAlways(err), admin.ErrNotFound, admin.ErrNoShard, admin.ErrNoHandler, admin.ErrBusy, admin.ErrConflict)
}

// pause pauses a job for a while. Half of the pauses end by themselves.
func (w *world) pause(name string) {
	d := w.upTo(3*w.Session) + time.Second
	missed := []jobs.MisfirePolicy{"", "skip", "once", "all"}[w.rng.IntN(4)]
	opts := admin.PauseOptions{Missed: missed, By: "sim"}
	resumed := w.rng.IntN(2) == 0
	switch {
	case resumed:
	case w.rng.IntN(2) == 0:
		opts.For = d
	default:
		opts.Until = time.Now().Add(d)
	}
	operate := func(what string, f func(ctx context.Context, c *admin.Client) error) {
		w.operate(what+" "+name, func(ctx context.Context) error {
			return w.cluster.Operate(ctx, func(c *admin.Client) error {
				return unless(f(ctx, c), admin.ErrNotFound, admin.ErrConflict)
			})
		})
	}
	operate("pause", func(ctx context.Context, c *admin.Client) error {
		_, err := c.Pause(ctx, name, opts)
		if past := new(invalid.FieldError); errors.As(err, &past) && past.Field == "Until" && (w.Clocks || w.ServerClock) {
			return nil // by the operator's clock, or by ZooKeeper's
		}
		return err
	})
	if resumed {
		w.after(d, func() {
			operate("resume", func(ctx context.Context, c *admin.Client) error {
				_, err := c.Resume(ctx, name, admin.ResumeOptions{Missed: missed})
				return err
			})
		})
	}
}

// unless is err, or nil if that is one of those that may be.
func unless(err error, may ...error) error {
	for _, one := range may {
		if errors.Is(err, one) {
			return nil
		}
	}
	return err
}

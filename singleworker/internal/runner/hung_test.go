package runner

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// wantHung expects exactly these to have been told.
func (w *world) wantHung(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.hung, want) {
		w.t.Errorf("told %q, want %q", w.hung, want)
	}
}

// fiveTimes is a handler that takes ten seconds in each of the first five minutes, and then a time.
func fiveTimes(then time.Duration) func(context.Context, Run) error {
	return func(ctx context.Context, r Run) error {
		took := 10 * time.Second
		if r.Tick.After(after(5 * time.Minute)) {
			took = then
		}
		select {
		case <-time.After(took):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A run that hangs is told once, when it begins to. The tick at 6 minutes is the first long one.
func TestHungRunIsToldOnce(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		policy ticks.Policy
		took   time.Duration
		during func(w *world) // a while after the long run has begun
		want   []string
	}{
		"ten times the usual":                {took: 5 * time.Minute, want: []string{"6m0s at 7m40s, usually 10s"}},
		"it ends before":                     {took: 99 * time.Second},
		"as the job says":                    {policy: ticks.Policy{HungAfter: 30 * time.Second}, took: 5 * time.Minute, want: []string{"6m0s at 6m30s, usually 10s"}},
		"never, as the job says":             {policy: ticks.Policy{HungAfter: jobs.NoHung}, took: 5 * time.Minute},
		"the history could not be read":      {took: 5 * time.Minute, during: func(w *world) { w.keeper.change("job", func(*kept) { w.keeper.forgets = 1 }) }, want: []string{"6m0s at 8m0s, usually 10s"}},
		"the job is changed during the run":  {took: 5 * time.Minute, during: func(w *world) { w.limit(3 * time.Minute) }, want: []string{"6m0s at 9m0s, usually 10s"}},
		"it is to be told no more":           {took: 5 * time.Minute, during: func(w *world) { w.limit(jobs.NoHung) }},
		"at once after a change":             {took: 5 * time.Minute, during: func(w *world) { w.limit(5 * time.Second) }, want: []string{"6m0s at 6m20s, usually 10s"}},
		"it is told, and the job is changed": {policy: ticks.Policy{HungAfter: 15 * time.Second}, took: 5 * time.Minute, during: func(w *world) { w.limit(5 * time.Second) }, want: []string{"6m0s at 6m15s, usually 10s"}},
		"the job is lost":                    {took: 5 * time.Minute, during: (*world).lose},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.run(t.Context())
				w.adopt(row.policy, fiveTimes(row.took))
				pass(6*time.Minute + 20*time.Second)
				if row.during != nil {
					row.during(w)
				}
				pass(4*time.Minute + 20*time.Second)
				w.wantHung(row.want...)
				w.stop()
			})
		})
	}
}

// limit changes HungAfter of job, which is owned.
func (w *world) limit(d time.Duration) {
	changed := make(chan struct{})
	w.runner.box.Post(func() {
		j := withPolicy(w.runner.jobs["job"].Job, ticks.Policy{HungAfter: d})
		w.runner.own(j)
		close(changed)
	})
	<-changed
	synctest.Wait()
}

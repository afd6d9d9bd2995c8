package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// due is a world in which many jobs have a tick every minute, and what happened in it.
type due struct {
	*world

	mu     sync.Mutex
	claims []time.Duration // when the claims were made, since midnight
	runs   []time.Duration // when the handlers were called
	slow   time.Duration   // how long each claim takes
	refuse error           // the first claim
}

// newDue returns a world of so many jobs, whose claims take so long; one of them is named job.
func newDue(t *testing.T, jobs int, slow time.Duration) *due {
	t.Helper()
	d := &due{world: newWorld(t), slow: slow}
	d.keeper.pull = func(c ticks.Commit) lever {
		if !c.Plan.Opens {
			return lever{}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.claims = append(d.claims, time.Since(midnight))
		refuse := d.refuse
		d.refuse = nil
		return lever{delay: d.slow, refuse: refuse}
	}
	d.run(t.Context())
	d.own(d.minutely("job"))
	for i := range jobs - 1 {
		d.own(d.minutely(fmt.Sprintf("other-%03d", i)))
	}
	return d
}

// minutely is a job that has a tick every minute.
func (d *due) minutely(name string) Job {
	return d.job(name, "0 * * * * ?", func(context.Context, Run) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.runs = append(d.runs, time.Since(midnight))
		return nil
	})
}

// many is how many jobs are claimed as far ahead as may be.
const many = int(maxLead / perClaim)

// all reports whether that has happened so often, each time at the same moment.
func all(times []time.Duration, n int, at time.Duration) bool {
	return len(times) == n && !slices.ContainsFunc(times, func(t time.Duration) bool { return t != at })
}

// The more jobs are due, the further ahead of the tick they are claimed. All begin on it.
func TestCrowdIsClaimedAhead(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		jobs  int
		ahead time.Duration
		slow  time.Duration
		late  time.Duration
	}{
		{1, 0, 0, 0},
		{crowd - 1, 0, 0, 0},
		{crowd - 1, 0, 5 * time.Millisecond, 5 * time.Millisecond},
		{crowd, crowd * perClaim, 0, 0},
		{crowd, crowd * perClaim, crowd * perClaim, 0},
		{crowd, crowd * perClaim, crowd*perClaim + time.Millisecond, time.Millisecond},
		{many + 100, maxLead, maxLead - time.Millisecond, 0},
	} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDue(t, row.jobs, row.slow)
				pass(90 * time.Second)
				d.stop()
				if !all(d.claims, row.jobs, time.Minute-row.ahead) {
					t.Errorf("claimed at %v, want %d at %v", d.claims, row.jobs, time.Minute-row.ahead)
				}
				if !all(d.runs, row.jobs, time.Minute+row.late) {
					t.Errorf("ran at %v, want %d at %v", d.runs, row.jobs, time.Minute+row.late)
				}
				d.wantHistory("job", "1m0s at 1m0s: ok")
				if n := len(d.runner.coming); n != 0 {
					t.Errorf("%d ticks are still expected", n)
				}
			})
		})
	}
}

// A run that ends just before the next tick does not make that one overlap.
func TestRunThatEndsBeforeTheTickOfACrowd(t *testing.T) {
	t.Parallel()
	for end, want := range map[time.Duration][]string{
		time.Millisecond:  {"1m0s at 1m0s: ok", "2m0s at 2m0s: ok"},
		-time.Millisecond: {"2m0s: skipped overlap", "1m0s at 1m0s: ok"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDue(t, 200, 0)
			d.own(d.job("long", "0 * * * * ?", working(time.Minute-end)))
			pass(150 * time.Second)
			d.stop()
			d.wantHistory("long", want...)
		})
	}
}

// What happens between a claim and its tick, of a run that is to begin.
func TestClaimedAheadAndNotBegun(t *testing.T) {
	t.Parallel()
	const tick = time.Minute
	for name, row := range map[string]struct {
		happens func(d *due)
		runs    int // of the job's handler
		want    string
		again   string        // the next attempt
		ended   time.Duration // after that
	}{
		"nothing":               {func(*due) {}, 1, "1m0s at 1m0s: ok", "", maxLead / 2},
		"the ownership is lost": {(*due).lose, 0, "1m0s at 1m0s: interrupted", "rerun", maxLead / 2},
		"an operator stops it": {func(d *due) {
			d.request(stopOf("stop", d.keeper.opened("job")[0].RunID))
		}, 0, "1m0s at 1m0s: interrupted", "", 0},
		"the schedule changes": {func(d *due) {
			d.own(withSchedule(d.t, d.runner.jobs["job"].Job, "0 1 * * * ?")) // has the same tick
		}, 1, "1m0s at 1m0s: ok", "", maxLead / 2},
		"the clock is set":   {func(d *due) { d.runner.ClockStepped() }, 1, "1m0s at 1m0s: ok", "", maxLead / 2},
		"the instance stops": {func(d *due) { d.runner.Stop() }, 1, "1m0s at 1m0s: ok", "", maxLead / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDue(t, many, 0)
				pass(tick - maxLead/2)
				at := time.Now()
				row.happens(d)
				pass(30 * time.Second)
				d.stop()
				runs := 0
				for _, r := range d.started() {
					if r.Job == "job" {
						runs++
					}
				}
				if runs != row.runs {
					t.Errorf("the handler was called %d times, want %d", runs, row.runs)
				}
				if others := len(d.started()) - runs; others != many-1 || !all(d.runs, many-1+row.runs, tick) {
					t.Errorf("%d others ran, at %v; want %d on the tick", others, d.runs, many-1)
				}
				d.wantHistory("job", row.want)
				record := d.keeper.read("job").record
				if record.NextAttempt != row.again {
					t.Errorf("next attempt: %q, want %q", record.NextAttempt, row.again)
				}
				if ended := time.UnixMilli(record.Ended).Sub(at); ended != row.ended {
					t.Errorf("ended %v after that, want %v", ended, row.ended)
				}
			})
		})
	}
}

// A schedule that is replaced after the alarm has no tick that could be claimed ahead.
func TestScheduleIsReplacedBeforeTheCrowdIsClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDue(t, 200, 0)
		pass(time.Minute - (early+maxLead)/2)
		d.own(withSchedule(t, d.runner.jobs["job"].Job, "@yearly"))
		pass(maxLead)
		if last := d.runner.jobs["job"].lastDue; last != 0 {
			t.Errorf("the tick %v is taken for one of the new schedule", last)
		}
		pass(30 * time.Second)
		d.stop()
		if !all(d.runs, 199, time.Minute) {
			t.Errorf("%d runs, from %v to %v; want 199 on the tick", len(d.runs), slices.Min(d.runs), slices.Max(d.runs))
		}
	})
}

// A claim ahead of the tick that is refused is made again: the handler is called once.
func TestClaimAheadIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDue(t, 100, 0)
		d.mu.Lock()
		d.refuse = errors.New("not now")
		d.mu.Unlock()
		pass(90 * time.Second)
		d.stop()
		late := retryAfter - 100*perClaim
		slices.Sort(d.runs)
		if !all(d.runs[:99], 99, time.Minute) || !all(d.runs[99:], 1, time.Minute+late) {
			t.Errorf("ran at %v, want 99 on the tick and one %v late", d.runs, late)
		}
	})
}

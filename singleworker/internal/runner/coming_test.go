package runner

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// due is a world in which many jobs have a tick every minute, and the events in it.
type due struct {
	*world

	mu     sync.Mutex
	claims []time.Duration // when the claims were made, since midnight
	runs   []time.Duration // when the handlers were called
	slow   time.Duration   // how long it takes until a claim is written,
	late   time.Duration   // and how much longer one of job,
	reply  time.Duration   // and then until that is answered
	answer error           // to a claim of job; the first one is written
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
		l := lever{delay: d.slow, reply: d.reply}
		if c.Slot == "job" {
			l.delay += d.late
		}
		switch {
		case c.Slot != "job" || d.answer == nil:
		case c.From.RunID == "":
			l.after = d.answer
		default:
			l.refuse = d.answer
		}
		return l
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

// all reports whether that has happened so often, each time at the same moment.
func all(times []time.Duration, n int, at time.Duration) bool {
	return len(times) == n && !slices.ContainsFunc(times, func(t time.Duration) bool { return t != at })
}

// However many jobs are due, they are claimed on the tick, not before, and begin when that is
// answered.
func TestCrowdIsClaimedOnTheTick(t *testing.T) {
	t.Parallel()
	for _, jobs := range []int{1, 500} {
		t.Run(strconv.Itoa(jobs), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const slow = 5 * time.Millisecond
				d := newDue(t, jobs, slow)
				pass(90 * time.Second)
				d.stop()
				if !all(d.claims, jobs, time.Minute) {
					t.Errorf("claimed at %v, want %d on the tick", d.claims, jobs)
				}
				if !all(d.runs, jobs, time.Minute+slow) {
					t.Errorf("ran at %v, want %d when they were claimed", d.runs, jobs)
				}
				d.wantHistory("job", "1m0s at 1m0s: ok")
				if n := len(d.runner.alarms.coming); n != 0 {
					t.Errorf("%d ticks are still expected", n)
				}
			})
		})
	}
}

// Decisions of one moment are sent together, in transactions that are full. Results of a crowd wait
// until it has begun, unless something waits for them.
func TestCrowdIsSentTogether(t *testing.T) {
	t.Parallel()
	const tick, slow, stopped = time.Minute, 5 * time.Millisecond, 20 * time.Millisecond
	for name, row := range map[string]struct {
		jobs    int
		stops   bool
		claims  []int
		results time.Duration // after the tick
	}{
		"a few":                   {jobs: crowd - 1, claims: []int{crowd - 1}, results: slow},
		"a crowd":                 {jobs: crowd, claims: []int{crowd}, results: resultsHeld},
		"a large one":             {jobs: 1200, claims: []int{500, 500, 200}, results: resultsHeld},
		"a crowd that is stopped": {jobs: crowd, stops: true, claims: []int{crowd}, results: stopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDue(t, row.jobs, slow)
				pass(tick + stopped)
				if row.stops {
					d.stop()
				}
				pass(tick / 2)
				var claims []string
				for _, n := range row.claims {
					claims = append(claims, fmt.Sprintf("%v: %d", tick, n))
				}
				sent := d.keeper.sent
				if n := len(claims); len(sent) < n || !slices.Equal(sent[:n], claims) {
					t.Fatalf("sent %v, want %v first", sent, claims)
				}
				results := 0
				for _, text := range sent[len(claims):] {
					at, count, _ := strings.Cut(text, ": ")
					if at != (tick + row.results).String() {
						t.Errorf("results were sent at %s, want %v after the tick", at, row.results)
					}
					n, _ := strconv.Atoi(count)
					results += n
				}
				if results != row.jobs {
					t.Errorf("%d results were sent, want %d", results, row.jobs)
				}
				if !row.stops {
					d.stop()
				}
			})
		})
	}
}

// Results of a crowd wait until its last run begins, unless its claim takes long, or is refused.
func TestCrowdHoldsItsResultsBack(t *testing.T) {
	t.Parallel()
	const tick, slow, late = time.Minute, 5 * time.Millisecond, 75 * time.Millisecond
	for name, row := range map[string]struct {
		late    time.Duration
		answer  error
		results time.Duration // after the tick
		n       int
	}{
		"all are answered together": {0, nil, resultsHeld, crowd},
		"one is late":               {late, nil, slow + late, crowd},
		"one is refused late":       {late, ticks.ErrLimited, slow + late, crowd - 1},
		"one is very late":          {time.Second, nil, longestHeld, crowd - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDue(t, crowd, slow)
				d.mu.Lock()
				d.late, d.answer = row.late, row.answer
				d.mu.Unlock()
				pass(tick + tick/2)
				results := 0
				for _, text := range d.keeper.sent[1:] {
					if at, n, _ := strings.Cut(text, ": "); at == (tick + row.results).String() {
						n, _ := strconv.Atoi(n)
						results += n
					}
				}
				if results != row.n {
					t.Errorf("%d results were sent %v after the tick, want %d", results, row.results, row.n)
				}
				d.stop()
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

// Events between the writing of a claim and its answer decide whether the run begins.
func TestClaimedAndNotBegun(t *testing.T) {
	t.Parallel()
	const tick, jobs, slow = time.Minute, 100, 10 * time.Millisecond
	for name, row := range map[string]struct {
		happens func(d *due)
		answer  error // of the job's claim
		runs    int   // of the job's handler
		others  int
		want    string
		again   string // the next attempt
	}{
		"nothing":               {func(*due) {}, nil, 1, jobs - 1, "1m0s at 1m0s: ok", ""},
		"the ownership is lost": {(*due).lose, nil, 0, jobs - 1, "1m0s at 1m0s: interrupted", "rerun"},
		"an operator stops it": {func(d *due) {
			d.request(stopOf("stop", d.keeper.opened("job")[0].RunID))
		}, nil, 0, jobs - 1, "1m0s at 1m0s: interrupted", ""},
		"the schedule changes": {func(d *due) {
			d.own(withSchedule(d.t, d.runner.jobs["job"].Job, "0 1 * * * ?")) // has the same tick
		}, nil, 1, jobs - 1, "1m0s at 1m0s: ok", ""},
		"the clock is set":    {func(d *due) { d.runner.ClockStepped() }, nil, 1, jobs - 1, "1m0s at 1m0s: ok", ""},
		"the instance stops":  {func(d *due) { d.runner.Stop() }, nil, 0, 0, "1m0s at 1m0s: interrupted", "rerun"},
		"the instance drains": {func(*due) {}, ticks.ErrWithheld, 0, jobs - 1, "1m0s at 1m0s: interrupted", "rerun"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDue(t, jobs, 0)
				d.mu.Lock()
				d.answer, d.reply = row.answer, slow
				d.mu.Unlock()
				pass(tick + slow/2)
				row.happens(d)
				pass(20 * time.Second)
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
				if others := len(d.started()) - runs; others != row.others || !all(d.runs, row.others+row.runs, tick+slow) {
					t.Errorf("%d others ran, at %v; want %d when they were claimed", others, d.runs, row.others)
				}
				d.wantHistory("job", row.want)
				rec := d.keeper.read("job").record
				if rec.NextAttempt != row.again {
					t.Errorf("next attempt: %q, want %q", rec.NextAttempt, row.again)
				}
				if rec.NotBegun != (row.runs == 0) {
					t.Errorf("on record as not begun: %v", rec.NotBegun)
				}
			})
		})
	}
}

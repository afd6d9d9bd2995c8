package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/grant"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

const grace = 30 * time.Second

// world is a runner, what it asks for and what it reports, in virtual time.
type world struct {
	t      *testing.T
	book   *grant.Book
	runner *Runner
	ended  chan error // what Run returned

	claim   func(Claim) error // nil: every claim stands
	skipped func()            // called by Skipped, in the loop

	mu       sync.Mutex
	claims   []Claim
	starts   []Claim
	results  []Result // that Observer was told
	finished []Result // that Claimer was told
	skips    []skip
}

type skip struct {
	job  string
	tick time.Time
	err  error
}

var (
	_ Claimer  = (*world)(nil)
	_ Observer = (*world)(nil)
)

// newWorld returns a world in the bubble of t, which fails the test when a goroutine is
// left behind.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, book: grant.NewBook(grant.NewClock()), ended: make(chan error, 1)}
	w.runner = New(Config{Claimer: w, Observer: w, Grace: grace, Logger: slog.New(slog.DiscardHandler)})
	return w
}

// run starts the runner; its end is awaited with stop, or by the test itself.
func (w *world) run(ctx context.Context) {
	go func() { w.ended <- w.runner.Run(ctx) }()
	synctest.Wait()
}

// pass lets time go by, up to and including what happens at its end.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stop stops the runner and waits for its end.
func (w *world) stop() {
	w.t.Helper()
	w.runner.Stop()
	if err := <-w.ended; err != nil {
		w.t.Errorf("Run = %v, want nil", err)
	}
}

// job is a job that is owned for ever, under token 7.
func (w *world) job(name, schedule string, handle func(ctx context.Context, c Claim) error) Job {
	w.t.Helper()
	if handle == nil {
		handle = func(context.Context, Claim) error { return nil }
	}
	return Job{
		Name: name, Schedule: parse(w.t, schedule, time.UTC), Handle: handle,
		Grant: w.book.Open(lease.Slot(name), 7, 1<<62),
	}
}

// runJob starts the runner and has it own a job of that schedule.
func (w *world) runJob(schedule string, handle func(ctx context.Context, c Claim) error) {
	w.t.Helper()
	w.run(w.t.Context())
	w.runner.Own(w.job("job", schedule, handle))
}

// every is n times that far apart, the first that far after from.
func every(step time.Duration, from time.Time, n int) []time.Time {
	var times []time.Time
	for i := range n {
		times = append(times, from.Add(time.Duration(i+1)*step))
	}
	return times
}

func parse(t *testing.T, text string, loc *time.Location) *cronexpr.Schedule {
	t.Helper()
	schedule, err := cronexpr.Parse(text, loc)
	if err != nil {
		t.Fatal(err)
	}
	return schedule
}

func (w *world) Claim(c Claim) error {
	w.mu.Lock()
	w.claims = append(w.claims, c)
	w.mu.Unlock()
	if w.claim != nil {
		return w.claim(c)
	}
	return nil
}

func (w *world) Finish(r Result) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = append(w.finished, r)
	return errors.New("not recorded") // which changes nothing here
}

func (w *world) Started(c Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts = append(w.starts, c)
}

func (w *world) Ended(r Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.results = append(w.results, r)
}

func (w *world) Skipped(job string, tick time.Time, err error) {
	w.mu.Lock()
	w.skips = append(w.skips, skip{job, tick, err})
	w.mu.Unlock()
	if w.skipped != nil {
		w.skipped()
	}
}

// ticks lists the ticks that were run, and when they were.
func (w *world) ticks() (ticks, at []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.starts {
		ticks, at = append(ticks, c.Tick), append(at, c.Started)
	}
	return ticks, at
}

// wantOnTime expects exactly these ticks, each at its time.
func (w *world) wantOnTime(want ...time.Time) {
	w.t.Helper()
	same := func(a, b time.Time) bool { return a.Equal(b) }
	ticks, at := w.ticks()
	if !slices.EqualFunc(ticks, want, same) {
		w.t.Errorf("%d ticks, want %d:%s", len(ticks), len(want), listing(ticks, want))
	}
	if !slices.EqualFunc(at, ticks, same) {
		w.t.Errorf("ticks, and when they were run:%s", listing(ticks, at))
	}
}

// listing shows where two lists of times differ.
func listing(a, b []time.Time) string {
	at := func(list []time.Time, i int) any {
		if i < len(list) {
			return list[i]
		}
		return "nothing"
	}
	var text strings.Builder
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !a[i].Equal(b[i]) {
			fmt.Fprintf(&text, "\n  %d: %v, %v", i, at(a, i), at(b, i))
		}
	}
	return text.String()
}

// reported lists the results so far.
func (w *world) reported() []Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.results)
}

// wantResult expects that one run has ended, in that state.
func (w *world) wantResult(state string, cause error) Result {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.results) != 1 || len(w.finished) != 1 {
		w.t.Fatalf("%d results reported, %d recorded; want one", len(w.results), len(w.finished))
	}
	r := w.results[0]
	if r.State != state || !errors.Is(r.Err, cause) || r != w.finished[0] {
		w.t.Errorf("reported %s (%v), recorded %s (%v); want %s (%v)",
			r.State, r.Err, w.finished[0].State, w.finished[0].Err, state, cause)
	}
	return r
}

// wantSkips expects exactly these ticks to be reported as not run.
func (w *world) wantSkips(want ...skip) {
	w.t.Helper()
	same := func(a, b skip) bool { return a.job == b.job && a.tick.Equal(b.tick) && errors.Is(a.err, b.err) }
	if !slices.EqualFunc(w.skips, want, same) {
		w.t.Errorf("skipped\n  %v\nwant\n  %v", w.skips, want)
	}
}

// untilEnd is a handler that ends with its context.
func untilEnd(ctx context.Context, _ Claim) error {
	<-ctx.Done()
	return ctx.Err()
}

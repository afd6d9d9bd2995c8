package runner

import (
	"bytes"
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
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

const grace = 30 * time.Second

// world is a runner with its records and its reports, in virtual time.
type world struct {
	t      *testing.T
	keeper *keeper
	clock  *leases.Clock
	leases *leases.Table
	runner *Runner
	token  int64      // of the last lease
	ended  chan error // what Run returned
	log    *logBuffer

	recorded func() // called by Recorded, in the loop

	mu      sync.Mutex
	starts  []Run           // of handlers
	open    map[string]bool // runs that the observer was told of, and not their ends
	results []Result
	entries []ticks.Entry // reported to Observer
	refused []error       // claims of runs
	hung    []string      // "run at when, usually so long"
}

var _ Observer = (*world)(nil)

// newWorld returns a world in the bubble of t, which fails the test when a goroutine is
// left behind or the account of a job's ticks is incomplete at the end.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newKeeper(t).world("a", 7)
}

// world returns one more instance with the same records; with the token of its first lease.
func (k *keeper) world(sid string, token int64) *world {
	w := &world{t: k.t, keeper: k, clock: leases.NewClock(), token: token - 1, ended: make(chan error, 1), log: &logBuffer{}}
	w.leases = leases.NewTable(w.clock)
	w.runner = New(Config{
		InstanceID: sid, Keeper: k, Observer: w, Grace: grace, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	})
	return w
}

// logBuffer keeps the log's text.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// run starts the runner; stop, or the test itself, waits for its end.
func (w *world) run(ctx context.Context) {
	go func() { w.ended <- w.runner.Run(ctx) }()
	synctest.Wait()
}

// pass lets time pass, including all events at its end.
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

// job is a job acquired now, under a new token, with an unlimited lease; its schedule
// takes effect now, unless it already has.
func (w *world) job(name, schedule string, handle func(ctx context.Context, r Run) error) Job {
	w.t.Helper()
	if handle == nil {
		handle = func(context.Context, Run) error { return nil }
	}
	w.token++
	counted := func(ctx context.Context, r Run) error {
		w.mu.Lock()
		w.starts = append(w.starts, r)
		w.mu.Unlock()
		return handle(ctx, r)
	}
	j := Job{
		Name: name, Handle: counted, Since: time.Now(),
		Job:   &ticks.Job{Schedule: parse(w.t, schedule, time.UTC), Since: time.Now(), Policy: &ticks.Policy{}},
		Lease: w.leases.Open(lease.Slot(name), w.token, 1<<62),
	}
	w.keeper.change(name, func(k *kept) {
		record := k.record
		k.lease, j.Record = j.Lease, &record
	})
	return j
}

// own makes the runner own a job.
func (w *world) own(j Job) {
	w.keeper.own(j)
	w.runner.Own(j)
}

// lose ends the ownership of job.
func (w *world) lose() {
	w.keeper.change("job", func(k *kept) { k.lease = nil })
	w.leases.Close("job", leases.ErrLost)
	w.runner.Disown("job")
}

// request adds an operator's requests for job.
func (w *world) request(requests ...ticks.Request) {
	w.keeper.change("job", func(k *kept) {
		for _, r := range requests {
			k.requests = append(k.requests, r.ID)
		}
	})
	w.runner.Requested("job", requests)
}

func parse(t *testing.T, text string, loc *time.Location) *cronexpr.Schedule {
	t.Helper()
	schedule, err := cronexpr.Parse(text, loc)
	if err != nil {
		t.Fatal(err)
	}
	return schedule
}

func (w *world) Started(r Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = make(map[string]bool)
	}
	w.open[r.RunID] = true
}

func (w *world) Ended(r Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open[r.RunID] {
		w.t.Errorf("the end of run %s is told without its start", r.RunID)
	}
	delete(w.open, r.RunID)
	w.results = append(w.results, r)
}

func (w *world) Hung(r Run, usual time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hung = append(w.hung, fmt.Sprintf("%v at %v, usually %v", r.Tick.Sub(midnight), time.Since(midnight), usual))
}

func (w *world) Refused(_ string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, err)
}

func (w *world) Recorded(_ string, entries []ticks.Entry) {
	w.mu.Lock()
	w.entries = append(w.entries, entries...)
	w.mu.Unlock()
	if w.recorded != nil {
		w.recorded()
	}
}

// started lists the runs so far.
func (w *world) started() []Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.starts)
}

// ticks lists the ticks that were run, and when they were.
func (w *world) ticks() (ticks, at []time.Time) {
	for _, r := range w.started() {
		ticks, at = append(ticks, r.Tick), append(at, r.Started)
	}
	return ticks, at
}

// wantOnTime expects exactly these ticks to have been run, each at its time.
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

// wantResult expects that one run has ended, in that state, and is recorded so.
func (w *world) wantResult(state history.State, cause error) Result {
	w.t.Helper()
	results := w.reported()
	if len(results) != 1 {
		w.t.Fatalf("%d results reported, want one: %+v", len(results), results)
	}
	r := results[0]
	if r.State != state || !errors.Is(r.Err, cause) || r.Unrecorded != nil {
		w.t.Errorf("reported %s (%v, unrecorded: %v); want %s (%v)", r.State, r.Err, r.Unrecorded, state, cause)
	}
	of := func(e ticks.Entry) bool { return e.RunID == r.RunID }
	history := w.keeper.read(r.Job).history
	if i := slices.IndexFunc(history, of); i < 0 || history[i].State != state || history[i].Ended != r.Ended.UnixMilli() {
		w.t.Errorf("history %+v; want the run in it, %s", history, state)
	}
	return r
}

// wantHistory expects a job's history, each entry as lines writes it.
func (w *world) wantHistory(name string, want ...string) {
	w.t.Helper()
	if got := lines(w.keeper.read(name).history); !slices.Equal(got, want) {
		w.t.Errorf("history of %s\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// midnight is when the clock of a bubble begins.
var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return midnight.Add(d) }

// lines writes entries down: "tick at when: what", with the times since midnight.
func lines(entries []ticks.Entry) (text []string) {
	ms := func(t int64) time.Duration { return time.UnixMilli(t).Sub(midnight) }
	for _, e := range entries {
		var line string
		switch {
		case e.RunID == "":
			line = fmt.Sprintf("%v: %s %s", ms(e.Tick), e.State, e.Reason)
			if e.Count > 0 {
				line = fmt.Sprintf("%v to %v: %d %s %s", ms(e.Tick), ms(e.To), e.Count, e.State, e.Reason)
			}
		case e.Manual != "":
			line = fmt.Sprintf("%s at %v: %s", e.Manual, ms(e.Started), e.State)
		default:
			line = fmt.Sprintf("%v at %v: %s", ms(e.Tick), ms(e.Started), e.State)
		}
		if e.Attempt > 1 {
			line += fmt.Sprintf(", attempt %d", e.Attempt)
		}
		text = append(text, line)
	}
	return text
}

// untilEnd is a handler that returns when its context is canceled.
func untilEnd(ctx context.Context, _ Run) error {
	<-ctx.Done()
	return ctx.Err()
}

// working is a handler that takes the given time.
func working(d time.Duration) func(context.Context, Run) error {
	return func(context.Context, Run) error {
		time.Sleep(d)
		return nil
	}
}

// withPolicy returns j with another policy.
func withPolicy(j Job, p ticks.Policy) Job {
	return withSpec(j, func(of *ticks.Job) { of.Policy = &p })
}

// withSpec returns j with another spec.
func withSpec(j Job, change func(of *ticks.Job)) Job {
	of := *j.Job
	change(&of)
	j.Job = &of
	return j
}

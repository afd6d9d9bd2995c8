package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/grant"
	"github.com/swjobs/singleworker/singleworker/internal/task"
)

// ErrStopping ends runs that outlast the grace of a stop.
var ErrStopping = errors.New("instance is stopping")

// StuckError names the jobs whose handlers did not return although their
// contexts have ended.
type StuckError struct{ Jobs []string }

func (e *StuckError) Error() string {
	return "handlers ignore their context and still run: " + strings.Join(e.Jobs, ", ")
}

// stuckAfter is how long handlers have to return after their context ended.
const stuckAfter = 5 * time.Second

// The states of a run that has ended.
const (
	OK          = "ok"
	Failed      = "failed"
	Interrupted = "interrupted" // its context ended before it was done
)

// Claim is a tick and the run that reserves it.
type Claim struct {
	Job     string
	Tick    time.Time
	RunID   string
	Token   int64
	Attempt int
	Started time.Time
}

// Result is how a run ended.
type Result struct {
	Claim
	Ended time.Time
	State string
	Err   error // nil when State is OK
}

// Claimer reserves ticks and keeps results. Its methods are called from the
// goroutines of the runs and may block.
type Claimer interface {
	// Claim returns nil when the tick is ours to run.
	Claim(c Claim) error
	// Finish keeps the result of a claim that stood.
	Finish(r Result) error
}

// Observer is told what happens to ticks, from the goroutines of the runs and
// from the loop.
type Observer interface {
	Started(c Claim)
	Ended(r Result)
	// Skipped: the tick came and was not run here; err says why.
	Skipped(job string, tick time.Time, err error)
}

// ErrOverlap skips a tick that comes while the previous run goes on.
var ErrOverlap = errors.New("the previous run is still going on")

// Job is a job that this instance owns.
type Job struct {
	Name     string
	Schedule *cronexpr.Schedule
	Handle   func(ctx context.Context, c Claim) error
	Grant    *grant.Grant
	// Last is the last tick that was claimed, by anybody: no tick up to it is
	// run.
	Last time.Time
}

// Config is all that a Runner needs.
type Config struct {
	Claimer  Claimer
	Observer Observer
	Grace    time.Duration // for running handlers when the instance stops
	Logger   *slog.Logger
}

// Runner runs jobs. Own, Disown and Stop may be called by anybody, at any
// time, and return at once.
type Runner struct {
	cfg Config
	log *slog.Logger
	box *task.Mailbox

	// Owned by the loop.
	scheduler gocron.Scheduler
	jobs      map[string]*job
	running   map[string]*activity // by job, also of jobs not owned any more
	stopping  bool
	graceEnds time.Time               // when running handlers are cancelled
	cancelled bool                    // they were
	runs      context.Context         //nolint:containedctx // the lifetime of all runs, ended once for all
	cancel    context.CancelCauseFunc // of runs
	tasks     *task.Group
}

// activity is a run that goes on: its claim, then its handler.
type activity struct{ handling atomic.Bool }

// job is an owned job and its alarm.
type job struct {
	Job
	alarm *alarm
	id    uuid.UUID // gocron's
}

// New returns a runner; Run starts it.
func New(cfg Config) *Runner {
	return &Runner{
		cfg: cfg, log: cfg.Logger, box: task.NewMailbox(),
		jobs: make(map[string]*job), running: make(map[string]*activity),
	}
}

// Own begins to run a job, or replaces what is known of it.
func (r *Runner) Own(j Job) { r.box.Post(func() { r.own(j) }) }

// Disown starts no further run of the job. Runs that go on end when their
// grant says so.
func (r *Runner) Disown(name string) { r.box.Post(func() { r.disown(name) }) }

// Stop starts no further run of any job; running ones have the configured
// grace, then their context ends with ErrStopping. Idempotent.
func (r *Runner) Stop() { r.box.Post(r.stop) }

// Run runs jobs until Stop was called and the last run has ended. It returns
// a *StuckError when handlers do not return although their contexts have
// ended. The end of ctx ends running handlers at once.
func (r *Runner) Run(ctx context.Context) error {
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC)) // see ahead
	if err != nil {
		return fmt.Errorf("gocron: %w", err)
	}
	r.scheduler = scheduler
	r.runs, r.cancel = context.WithCancelCause(ctx)
	r.tasks = task.NewGroup(context.WithoutCancel(ctx))
	scheduler.Start()
	stuck := r.loop(ctx)
	r.cancel(ErrStopping)
	if err := scheduler.Shutdown(); err != nil {
		r.log.Warn("gocron did not shut down", "err", err)
	}
	if len(stuck) > 0 {
		return &StuckError{Jobs: stuck}
	}
	return r.tasks.Wait()
}

// loop returns the jobs that are stuck, when there are any.
func (r *Runner) loop(ctx context.Context) (stuck []string) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for {
		select {
		case <-r.box.Ready():
			r.box.Run()
		case <-timer.C:
		case <-done:
			done = nil
			r.stop()
			r.graceEnds = time.Now()
		}
		if !r.stopping {
			continue
		}
		if len(r.running) == 0 {
			return nil
		}
		left := time.Until(r.graceEnds)
		switch {
		case left > 0:
		case !r.cancelled:
			r.cancelled = true
			r.cancel(ErrStopping)
			r.graceEnds = time.Now().Add(stuckAfter)
			left = stuckAfter
		default:
			if stuck = r.stuck(); len(stuck) > 0 {
				return stuck
			}
			left = stuckAfter // claims: they end when ZooKeeper answers, or with the session
		}
		timer.Reset(left)
	}
}

// stuck lists the jobs whose handlers have not returned.
func (r *Runner) stuck() []string {
	var names []string
	for name, run := range r.running {
		if run.handling.Load() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (r *Runner) stop() {
	if r.stopping {
		return
	}
	r.stopping, r.graceEnds = true, time.Now().Add(r.cfg.Grace)
	for name := range r.jobs {
		r.disown(name)
	}
}

func (r *Runner) own(j Job) {
	if r.stopping {
		return
	}
	if old := r.jobs[j.Name]; old != nil && old.Last.After(j.Last) {
		j.Last = old.Last
	}
	r.disown(j.Name)
	owned := &job{Job: j, alarm: &alarm{schedule: j.Schedule, after: j.Last}}
	// gocron is not told the schedule's text: it computes nothing itself.
	scheduled, err := r.scheduler.NewJob(
		gocron.CronJob("", true),
		gocron.NewTask(func() { r.box.Post(func() { r.due(owned) }) }),
		gocron.WithCronImplementation(owned.alarm), gocron.WithName(j.Name))
	if err != nil {
		r.log.Error("job cannot be scheduled", "job", j.Name, "err", err)
		return
	}
	owned.id = scheduled.ID()
	r.jobs[j.Name] = owned
}

func (r *Runner) disown(name string) {
	old := r.jobs[name]
	if old == nil {
		return
	}
	delete(r.jobs, name)
	if err := r.scheduler.RemoveJob(old.id); err != nil {
		r.log.Debug("alarm not removed", "job", name, "err", err)
	}
}

// due starts a run for the tick that has come.
func (r *Runner) due(j *job) {
	if r.jobs[j.Name] != j {
		return // disowned since the alarm went off
	}
	tick, ok := j.alarm.due(time.Now())
	if !ok || !tick.After(j.Last) {
		return
	}
	j.Last = tick
	if r.running[j.Name] != nil {
		r.cfg.Observer.Skipped(j.Name, tick, ErrOverlap)
		return
	}
	run := &activity{}
	r.running[j.Name] = run
	claim := Claim{
		Job: j.Name, Tick: tick, RunID: uuid.NewString(), Token: j.Grant.Token,
		Attempt: 1, Started: time.Now(),
	}
	r.tasks.Go("run of "+j.Name, func(context.Context) error {
		r.execute(j, claim, run)
		return nil
	})
}

// execute claims the tick and runs it.
func (r *Runner) execute(j *job, claim Claim, run *activity) {
	ended := func() { r.box.Post(func() { delete(r.running, j.Name) }) }
	if err := r.cfg.Claimer.Claim(claim); err != nil {
		ended()
		r.cfg.Observer.Skipped(j.Name, claim.Tick, err)
		return
	}
	run.handling.Store(true)
	result := r.handle(j, claim)
	ended()
	if err := r.cfg.Claimer.Finish(result); err != nil {
		r.log.Warn("result of a run was not recorded", "job", j.Name, "tick", claim.Tick,
			"run_id", claim.RunID, "state", result.State, "err", err)
	}
	r.cfg.Observer.Ended(result)
}

func (r *Runner) handle(j *job, claim Claim) Result {
	result := Result{Claim: claim, State: Interrupted}
	ctx, done, err := j.Grant.Begin(r.runs)
	if err != nil {
		// Claimed, and the lease ended before the answer came.
		result.Ended, result.Err = time.Now(), err
		return result
	}
	defer done()
	r.cfg.Observer.Started(claim)
	err = task.Protect("handler", func() error { return j.Handle(ctx, claim) })
	result.Ended = time.Now()
	switch {
	case err == nil:
		result.State = OK
	case ctx.Err() != nil:
		result.Err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	default:
		result.State, result.Err = Failed, err
	}
	return result
}

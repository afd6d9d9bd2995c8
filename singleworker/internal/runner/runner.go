package runner

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// StuckError names the jobs whose handlers did not return although their
// contexts have ended.
type StuckError struct{ Jobs []string }

func (e *StuckError) Error() string {
	return "handlers ignore their context and still run: " + strings.Join(e.Jobs, ", ")
}

// stuckAfter is how long handlers have to return after their context ended.
const stuckAfter = 5 * time.Second

// Keeper keeps the records of jobs. Its methods are called from goroutines of
// their own and may block.
type Keeper interface {
	// Commit writes a decision and returns the record as it is then. It fails with ticks.ErrConflict,
	// and the record, when that is not From; with ticks.ErrNoRequest when the manual run to be opened
	// was canceled; with ticks.ErrSpecChanged when the spec has changed, which Own is about to tell;
	// or when the job is no longer owned.
	Commit(c ticks.Commit) (ticks.Record, error)
	// Amend corrects the history of a run that was given up too early.
	Amend(job string, e ticks.Entry) error
	// Drop removes a request that is done with. It does not block.
	Drop(job, request string)
}

// Observer is told what happens to ticks, from the goroutines of the runs and
// from the loop.
type Observer interface {
	Started(r Run)
	Ended(r Result)
	// Recorded: entries were written to the history of the job.
	Recorded(job string, entries []ticks.Entry)
}

// Job is a job, or a shard of one, that this instance owns.
type Job struct {
	ticks.Job
	Name     string
	Handle   func(ctx context.Context, r Run) error
	Lease    *leases.Lease
	Since    time.Time    // when it was adopted
	Record   ticks.Record // as it was then
	Requests []ticks.Request
}

// Config is all that a Runner needs.
type Config struct {
	InstanceID string
	Keeper     Keeper
	Observer   Observer
	Grace      time.Duration // for running handlers when the instance stops
	Logger     *slog.Logger
}

// Runner runs jobs. Own, Requested, Disown, ClockStepped and Stop may be called
// by anybody, at any time, and return at once.
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

// New returns a runner; Run starts it.
func New(cfg Config) *Runner {
	return &Runner{
		cfg: cfg, log: cfg.Logger, box: task.NewMailbox(),
		jobs: make(map[string]*job), running: make(map[string]*activity),
	}
}

// Own begins to run a job, or replaces what is known of it.
func (r *Runner) Own(j Job) { r.box.Post(func() { r.own(j) }) }

// Requested says what operators ask for now.
func (r *Runner) Requested(name string, requests []ticks.Request) {
	r.box.Post(func() {
		r.heed(name, requests)
		if j := r.jobs[name]; j != nil {
			j.Requests = requests
			r.decide(j)
		}
	})
}

// Disown starts no further run of the job. Runs that go on end when their
// grant says so.
func (r *Runner) Disown(name string) { r.box.Post(func() { r.disown(name) }) }

// ClockStepped has all that waits for a time of day wait anew: the wall clock was
// set, or the machine suspended, so timers would end early, or late, by as much.
func (r *Runner) ClockStepped() {
	r.box.Post(func() {
		for _, j := range r.jobs {
			r.silence(j)
			r.schedule(j)
		}
	})
}

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
			left = stuckAfter // records: they end when ZooKeeper answers, or with the session
		}
		timer.Reset(left)
	}
}

// stuck lists the jobs whose handlers have not returned.
func (r *Runner) stuck() []string {
	var names []string
	for name, act := range r.running {
		if act.handling.Load() {
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

func (r *Runner) own(changed Job) {
	if r.stopping {
		r.heed(changed.Name, changed.Requests)
		return
	}
	j := r.jobs[changed.Name]
	if j != nil && j.Lease == changed.Lease {
		changed.Record = j.Record // ours is the newer one
		r.silence(j)
		j.Job = changed
	} else {
		r.disown(changed.Name)
		j = &job{Job: changed}
		r.jobs[changed.Name] = j
		r.warnAhead(j)
	}
	r.heed(j.Name, j.Requests)
	r.schedule(j)
}

// warnAhead says of a job why it will not run for long.
func (r *Runner) warnAhead(j *job) {
	if ahead := time.Until(time.UnixMilli(j.Record.Watermark)); ahead > farAhead {
		r.log.Error("nothing runs before the job's last claimed tick, which is in the future: a clock was, or is, wrong",
			"job", j.Name, "watermark", time.UnixMilli(j.Record.Watermark), "ahead", ahead)
	}
}

// farAhead is how far a claimed tick may lie in the future because the clocks
// of two instances differ as clocks do.
const farAhead = time.Minute

// schedule decides on a job now, and has gocron call decide at each tick.
func (r *Runner) schedule(j *job) {
	j.alarm = &alarm{schedule: j.Schedule, after: time.UnixMilli(j.Record.Watermark)}
	alarm := j.alarm
	// gocron is not told the schedule's text: it computes nothing itself.
	scheduled, err := r.scheduler.NewJob(
		gocron.CronJob("", true),
		gocron.NewTask(func() { r.box.Post(func() { r.due(j, alarm) }) }),
		gocron.WithCronImplementation(alarm), gocron.WithName(j.Name))
	if err != nil {
		r.log.Error("job cannot be scheduled", "job", j.Name, "err", err)
		delete(r.jobs, j.Name)
		return
	}
	j.id = scheduled.ID()
	r.decide(j)
}

// silence ends what schedule began, and a wake-up.
func (r *Runner) silence(j *job) {
	if err := r.scheduler.RemoveJob(j.id); err != nil {
		r.log.Debug("alarm not removed", "job", j.Name, "err", err)
	}
	j.wakeAt(time.Time{}, nil)
}

func (r *Runner) disown(name string) {
	if j := r.jobs[name]; j != nil {
		delete(r.jobs, name)
		r.silence(j)
	}
}

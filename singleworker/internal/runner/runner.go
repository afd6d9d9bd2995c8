package runner

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
)

// StuckError names the jobs whose handlers did not return after their contexts
// were canceled.
type StuckError struct{ Jobs []string }

func (e *StuckError) Error() string {
	return "handlers still running after their context was canceled: " + strings.Join(e.Jobs, ", ")
}

// stuckAfter is how long handlers have to return after their context was canceled.
const stuckAfter = 5 * time.Second

// Keeper writes the records of jobs. Its methods must not block. Each done is called once, or once
// for each commit, on any goroutine, perhaps before the method returns.
type Keeper interface {
	// Commit writes decisions, which are the keeper's from then on, in as few transactions as they
	// fit; done gets the index of each, and the record as it is then. One fails with
	// ticks.ErrConflict, and the record, when that is not From; with ticks.ErrNoRequest when the
	// manual run to be opened was canceled; with ticks.ErrSpecChanged when the spec has changed, which
	// Own is about to tell; or when the job is no longer owned. With ticks.ErrWithheld it was written.
	Commit(all []*ticks.Commit, done func(i int, current *ticks.Record, err error))
	// Amend corrects the history entry of a run that another owner recorded as interrupted or lost.
	Amend(job string, e ticks.Entry, done func(err error))
	// History reads the history of a job, the oldest entry first.
	History(job string, done func(entries []ticks.Entry, err error))
	// Drop removes a completed request.
	Drop(job, request string)
}

// Observer is notified of the fates of ticks, from the runs' goroutines and from the loop.
type Observer interface {
	Started(r Run)
	Ended(r Result)
	// Refused is called when a run could not be claimed.
	Refused(job string, err error)
	// Hung is called once when a run in progress counts as hung. 95% of those before it took usual at
	// most; 0: that is not known.
	Hung(r Run, usual time.Duration)
	// Recorded is called after entries were written to the history of the job.
	Recorded(job string, entries []ticks.Entry)
}

// Job is a job, or a shard of one, that this instance owns.
type Job struct {
	*ticks.Job // shared with others: not changed
	Name       string
	Handle     func(ctx context.Context, r Run) error
	Before     func(ctx context.Context, r Run) error // BeforeTick, in the first shard of a job that has it; else nil
	Lease      *leases.Lease
	Since      time.Time     // when this instance acquired it
	From       string        // the owner that it was taken from because that had not claimed a run in time
	Record     *ticks.Record // as it was then; shared with others: not changed
	Requests   []ticks.Request
	Gate       *ticks.Gate // of a slot that waits for the first shard; nil: nothing is known of that
}

// Config configures a Runner. Keeper, Observer and Logger are required.
type Config struct {
	InstanceID string
	Keeper     Keeper
	Observer   Observer
	Grace      time.Duration  // how long running handlers may continue after Stop
	MaxRunning int            // how many runs may be in progress; 0: no limit
	Wall       wall.Clock     // nil: the machine's
	Chance     *chance.Source // nil: the machine's
	Logger     *slog.Logger
}

// Runner runs jobs. Own, Requested, Begun, Disown, Full, Waiting, ClockStepped and Stop are safe
// for concurrent use, also before Run, and return at once.
type Runner struct {
	cfg Config
	log *slog.Logger
	box *task.Mailbox

	// Owned by the loop.
	scheduler gocron.Scheduler
	jobs      map[string]*job
	running   map[string]*activity // by job, including jobs no longer owned
	endless   int                  // how many of them are of jobs that always run
	line      []*job               // with a run to open when others have ended, the longest waiting first
	alarms    map[*cronexpr.Schedule]*alarm
	coming    map[int64][]*alarm // that have gone off, by the tick that is about to come, in ns
	decided   []decision         // in this turn, and not sent
	held      []func()           // what records the results that are held back
	stopping  bool
	graceEnds time.Time               // when running handlers are canceled
	canceled  bool                    // they have been
	runs      context.Context         //nolint:containedctx // the lifetime of all runs
	cancel    context.CancelCauseFunc // of runs
	tasks     *task.Group

	holds   atomic.Bool  // results are held back; changed by the loop
	atLimit atomic.Bool  // what full reports, for others than the loop
	inLine  atomic.Int64 // the length of line, for others than the loop
}

// New returns a runner; Run starts it.
func New(cfg Config) *Runner {
	return &Runner{
		cfg: cfg, log: cfg.Logger, box: task.NewMailbox(),
		jobs: make(map[string]*job), running: make(map[string]*activity),
		alarms: make(map[*cronexpr.Schedule]*alarm), coming: make(map[int64][]*alarm),
	}
}

// Own starts running a job, or updates one that is already owned.
func (r *Runner) Own(j Job) { r.box.Post(func() { r.own(j) }) }

// Requested replaces the pending requests of a job.
func (r *Runner) Requested(name string, requests []ticks.Request) {
	r.box.Post(func() {
		r.applyStops(name, requests)
		if j := r.jobs[name]; j != nil {
			j.Requests = requests
			r.decide(j)
		}
	})
}

// Begun passes on the gate of the first shard for which a job waits.
func (r *Runner) Begun(name string, gate *ticks.Gate) {
	r.box.Post(func() {
		if j := r.jobs[name]; j != nil {
			j.Gate = gate
			r.decide(j)
		}
	})
}

// Disown starts no further run of the job. A run in progress continues until its
// lease ends.
func (r *Runner) Disown(name string) { r.box.Post(func() { r.disown(name) }) }

// Full reports whether as many runs are in progress as may be.
func (r *Runner) Full() bool { return r.atLimit.Load() }

// Waiting is how many jobs have a run to open when others have ended.
func (r *Runner) Waiting() int { return int(r.inLine.Load()) }

// ClockStepped resets all timers. It is called when the wall clock was set or the
// machine was suspended; timers would fire early or late by the difference.
func (r *Runner) ClockStepped() {
	r.box.Post(func() {
		names := slices.Sorted(maps.Keys(r.jobs))
		for _, name := range names { // an alarm ends with its last job
			r.unschedule(r.jobs[name])
		}
		for _, name := range names {
			r.schedule(r.jobs[name])
		}
	})
}

// Stop starts no further run. Running handlers have the configured grace period,
// then their context is canceled with ErrStopping. Idempotent.
func (r *Runner) Stop() { r.box.Post(r.stop) }

// Run runs jobs until Stop was called and the last run has ended. It returns a
// *StuckError if handlers do not return after their contexts were canceled. When
// ctx is canceled, it stops without a grace period.
func (r *Runner) Run(ctx context.Context) error {
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC)) // see shown
	if err != nil {
		return fmt.Errorf("gocron: %w", err)
	}
	r.scheduler = scheduler
	r.runs, r.cancel = context.WithCancelCause(ctx)
	r.tasks = task.NewPool(context.WithoutCancel(ctx))
	scheduler.Start()
	stuck := r.loop(ctx)
	r.cancel(ErrStopping)
	if err := scheduler.Shutdown(); err != nil {
		r.log.Warn("gocron did not shut down", "err", err)
	}
	if len(stuck) > 0 {
		r.tasks.Dismiss()
		return &StuckError{Jobs: stuck}
	}
	return r.tasks.Wait()
}

// loop returns when the runner has stopped, with the jobs whose handlers are stuck.
func (r *Runner) loop(ctx context.Context) (stuck []string) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	done := ctx.Done()
	for {
		select {
		case <-r.box.Ready():
			r.cfg.Chance.Await(chance.Runner)
			r.box.Run()
			r.flush()
		case <-timer.C:
		case <-done:
			done = nil
			r.stop()
			r.flush()
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
		case !r.canceled:
			r.canceled = true
			r.cancel(ErrStopping)
			r.graceEnds = time.Now().Add(stuckAfter)
			left = stuckAfter
		default:
			if stuck = r.stuck(); len(stuck) > 0 {
				return stuck
			}
			left = stuckAfter // only results are pending: they end when ZooKeeper answers or the session ends
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
	r.release()
	for _, name := range slices.Sorted(maps.Keys(r.jobs)) {
		r.disown(name)
	}
	r.stopAlways()
}

func (r *Runner) own(changed Job) {
	if r.stopping {
		r.applyStops(changed.Name, changed.Requests)
		return
	}
	j := r.jobs[changed.Name]
	if j != nil && j.Lease == changed.Lease {
		changed.Record = j.Record // ours is at least as recent
		r.unschedule(j)
		r.endAlways(j.Job, changed)
		j.Job = changed
	} else {
		r.disown(changed.Name)
		j = &job{Job: changed}
		r.jobs[changed.Name] = j
		r.warnAhead(j)
	}
	r.applyStops(j.Name, j.Requests)
	r.schedule(j)
	r.awaitHung(j)
}

// warnAhead logs an error if the job will not run for some time because its
// watermark is in the future.
func (r *Runner) warnAhead(j *job) {
	if ahead := time.UnixMilli(j.Record.Watermark).Sub(r.cfg.Wall.Now()); ahead > farAhead {
		r.log.Error("job does not run: its last claimed tick is in the future; check the instances' clocks",
			"job", j.Name, "watermark", time.UnixMilli(j.Record.Watermark), "ahead", ahead.Round(time.Second).String())
	}
}

// farAhead is how far in the future a claimed tick may be because of ordinary clock
// skew between instances.
const farAhead = time.Minute

// schedule has a job decided on at each tick of its schedule, and now.
func (r *Runner) schedule(j *job) {
	a, err := r.alarmOf(j.Schedule)
	if err != nil {
		r.log.Error("cannot schedule job", "job", j.Name, "err", err)
		delete(r.jobs, j.Name)
		return
	}
	a.add(j)
	r.decide(j)
	r.due(a) // a tick that comes so soon that its alarm is late already
}

// alarmOf is the alarm of a schedule, which equal schedules share. It makes gocron call due at each
// of its ticks.
func (r *Runner) alarmOf(s *cronexpr.Schedule) (*alarm, error) {
	if a := r.alarms[s]; a != nil {
		return a, nil
	}
	a := newAlarm(s, r.cfg.Wall)
	// The text is empty because alarm, not gocron, computes the ticks.
	scheduled, err := r.scheduler.NewJob(
		gocron.CronJob("", true),
		gocron.NewTask(func() { r.box.Post(func() { r.due(a) }) }),
		gocron.WithCronImplementation(a), gocron.WithName(s.String()))
	if err != nil {
		return nil, fmt.Errorf("gocron: %w", err)
	}
	a.id, r.alarms[s] = scheduled.ID(), a
	return a, nil
}

// unschedule removes a job's timer, and its alarm if no other job has that.
func (r *Runner) unschedule(j *job) {
	r.wakeAt(j, time.Time{}, nil)
	a := j.alarm
	a.remove(j)
	if len(a.jobs) > 0 {
		return
	}
	delete(r.alarms, a.schedule)
	if err := r.scheduler.RemoveJob(a.id); err != nil {
		r.log.Debug("alarm not removed", "schedule", a.schedule, "err", err)
	}
}

func (r *Runner) disown(name string) {
	if j := r.jobs[name]; j != nil {
		delete(r.jobs, name)
		r.unschedule(j)
	}
}

package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// StuckError names the jobs whose handlers did not return after their contexts
// were canceled.
type StuckError struct{ Jobs []string }

func (e *StuckError) Error() string {
	return "handlers still running after their context was canceled: " + strings.Join(e.Jobs, ", ")
}

// Runner runs jobs. Own, Requested, Begun, Room, Disown, Full, Waiting, ClockStepped and Stop are
// safe for concurrent use, also before Run, and return at once.
type Runner struct {
	*common
	line line // counts for others, too

	// Owned by the loop.
	jobs      owned
	alarms    *alarms
	out       *outbox
	runs      *runs
	stopping  bool
	graceEnds time.Time // when running handlers are canceled
	canceled  bool      // they have been
}

// New returns a runner; Run starts it.
func New(cfg Config) *Runner {
	c := &common{cfg: cfg, box: task.NewMailbox()}
	r := &Runner{common: c, line: line{limit: cfg.MaxRunning}, jobs: make(owned), out: &outbox{common: c}}
	r.alarms = &alarms{common: c, set: make(map[*cronexpr.Schedule]*alarm), coming: make(map[int64][]*alarm), come: r.come}
	r.runs = &runs{common: c, out: r.out, jobs: r.jobs, byJob: make(map[string]*activity), asks: newAsks(), ended: r.ended}
	return r
}

// Own starts running a job, or updates one that is already owned.
func (r *Runner) Own(j Job) { r.box.Post(func() { r.own(j) }) }

// Requested replaces the pending requests of a job.
func (r *Runner) Requested(name string, requests []ticks.Request) {
	r.box.Post(func() {
		r.runs.applyStops(name, requests)
		if j := r.jobs[name]; j != nil {
			j.Requests = requests
			r.decide(j)
		}
	})
}

// Begun passes on the gate of the slots for which a job waits.
func (r *Runner) Begun(name string, gate *ticks.Gate) {
	r.box.Post(func() {
		if j := r.jobs[name]; j != nil {
			j.Gate = gate
			r.decide(j)
		}
	})
}

// Room tells that there may be places for a run that was refused with ticks.ErrLimited.
func (r *Runner) Room(name string) { r.box.Post(func() { r.decideByName(name) }) }

// Disown starts no further run of the job. A run in progress continues until its
// lease ends.
func (r *Runner) Disown(name string) { r.box.Post(func() { r.disown(name) }) }

// Evict ends the run of a job that always runs with ErrMoved, for its slot to be handed over when
// the end is recorded. It leaves other runs alone.
func (r *Runner) Evict(name string) {
	r.box.Post(func() {
		if act := r.runs.byJob[name]; act != nil && act.always {
			if j := r.jobs[name]; j != nil { // else this instance may not run it any more
				j.evicted = true
			}
			act.stop(ErrMoved)
		}
	})
}

// Full reports whether as many runs are in progress as may be.
func (r *Runner) Full() bool { return r.line.atLimit.Load() }

// Waiting is how many jobs have a run to open when others have ended.
func (r *Runner) Waiting() int { return int(r.line.waiting.Load()) }

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
	r.alarms.scheduler = scheduler
	r.runs.ctx, r.runs.cancel = context.WithCancelCause(ctx)
	r.runs.tasks = task.NewPool(context.WithoutCancel(ctx))
	scheduler.Start()
	stuck := slices.Concat(r.loop(ctx), r.runs.asks.slots())
	r.runs.cancel(ErrStopping)
	if err := scheduler.Shutdown(); err != nil {
		r.cfg.Logger.Warn("gocron did not shut down", "err", err)
	}
	if len(stuck) > 0 {
		r.runs.tasks.Dismiss()
		return &StuckError{Jobs: stuck}
	}
	return r.runs.tasks.Wait()
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
			r.out.flush()
		case <-timer.C:
		case <-done:
			done = nil
			r.stop()
			r.out.flush()
			r.graceEnds = time.Now()
		}
		if !r.stopping {
			continue
		}
		if len(r.runs.byJob) == 0 {
			return nil
		}
		left := time.Until(r.graceEnds)
		switch {
		case left > 0:
		case !r.canceled:
			r.canceled = true
			r.runs.cancel(ErrStopping)
			r.graceEnds = time.Now().Add(stuckAfter)
			left = stuckAfter
		default:
			if stuck = r.runs.stuck(); len(stuck) > 0 {
				return stuck
			}
			left = stuckAfter // only results are pending: they end when ZooKeeper answers or the session ends
		}
		timer.Reset(left)
	}
}

func (r *Runner) stop() {
	if r.stopping {
		return
	}
	r.stopping, r.graceEnds = true, time.Now().Add(r.cfg.Grace)
	r.out.release()
	for _, name := range slices.Sorted(maps.Keys(r.jobs)) {
		r.disown(name)
	}
	r.runs.stopAlways()
}

func (r *Runner) own(changed Job) {
	if r.stopping {
		r.runs.applyStops(changed.Name, changed.Requests)
		return
	}
	j := r.jobs[changed.Name]
	if j != nil && j.Lease == changed.Lease {
		changed.Record = j.Record // ours is at least as recent
		r.unschedule(j)
		r.runs.endAlways(j.Job, changed)
		j.Job = changed
	} else {
		r.disown(changed.Name)
		j = &job{Job: changed}
		r.jobs[changed.Name] = j
		r.warnAhead(j)
	}
	r.runs.applyStops(j.Name, j.Requests)
	r.schedule(j)
	r.runs.awaitHung(j)
}

// warnAhead logs an error if the job will not run for some time because its
// watermark is in the future.
func (r *Runner) warnAhead(j *job) {
	if ahead := time.UnixMilli(j.Record.Watermark).Sub(r.cfg.Wall.Now()); ahead > farAhead {
		r.cfg.Logger.Error("job does not run: its last claimed tick is in the future; check the instances' clocks",
			"job", j.Name, "watermark", time.UnixMilli(j.Record.Watermark), "ahead", ahead.Round(time.Second).String())
	}
}

// farAhead is how far in the future a claimed tick may be because of ordinary clock
// skew between instances.
const farAhead = time.Minute

// schedule has a job decided on at each tick of its schedule, and now.
func (r *Runner) schedule(j *job) {
	if err := r.alarms.add(j); err != nil {
		r.cfg.Logger.Error("cannot schedule job", "job", j.Name, "err", err)
		delete(r.jobs, j.Name)
		return
	}
	r.decide(j)
	r.alarms.due(j.alarm) // a tick that comes so soon that its alarm is late already
}

// unschedule undoes schedule.
func (r *Runner) unschedule(j *job) {
	r.wakeAt(j, time.Time{}, nil)
	r.alarms.remove(j)
}

func (r *Runner) disown(name string) {
	if j := r.jobs[name]; j != nil {
		delete(r.jobs, name)
		r.unschedule(j)
	}
}

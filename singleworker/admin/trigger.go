package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// TriggerOptions are options of a manual run. The zero value runs the job as its
// schedule does.
type TriggerOptions struct {
	Args    map[string]string // override those of the job
	Payload json.RawMessage   // JSON, replaces the job's
	// By is who requests the run: one printable line, up to 1 KiB, of which the run keeps 100 bytes.
	// Default: as of the log, see Who.
	By     string
	Reason string // the same, without a default
	// WaitForHandler leaves the request for a future instance if no live one can
	// run the job, instead of returning ErrNoHandler.
	WaitForHandler bool

	// Tick asks for a further attempt at a past tick, of that second, instead of a run outside of
	// the schedule: for one that was missed or skipped, or whose last attempt did not succeed. Its
	// effects have the key of the tick in package once. Zero: no tick.
	Tick time.Time
	// Again runs the tick even if it is ok, or nothing is on record of it any more, and has its
	// effects done once more. Default: ErrTickDone.
	Again bool
}

// TriggerResult is what Trigger did.
type TriggerResult struct {
	ID  string    `json:"request"` // of the request, the same for each shard, and Run.Manual of its run; later IDs sort after it
	Job JobStatus `json:"job"`     // when the run was requested
}

// Trigger requests a manual run of a job: one run outside of its schedule, even while the job is
// paused, and after a run in progress. For a job with shards it requests a run of every shard,
// atomically, or of one shard, "report[3]". It returns when ZooKeeper has accepted the request. The
// request stays pending, over changes of the owner, until it is done; AwaitRun waits for that. A
// job that is done is opened again for it. Each call requests a separate run. With Tick it is one
// more attempt at that tick, while no other one is requested or to come, and Run.Past says why it
// may be. Ticks that are due go before it. All shards must allow it. Errors: *invalid.FieldError,
// of the field Tick if that is no past tick of the schedule then in effect, ErrTickDone,
// ErrTickOpen, ErrNotFound, ErrNoShard, ErrNoHandler, ErrBusy, ErrUnreadable, ErrConflict,
// ErrDenied, ErrUnavailable.
func (c *Client) Trigger(ctx context.Context, name string, opts TriggerOptions) (TriggerResult, error) {
	if err := job.CheckPayload(opts.Payload); err != nil { // before it is encoded
		return TriggerResult{}, err
	}
	if opts.Again && opts.Tick.IsZero() {
		return TriggerResult{}, &invalid.FieldError{Field: "Again", Value: "true", Err: errors.New("needs a Tick")}
	}
	request := zkrec.Request{
		Kind: zkrec.RequestRun, At: wall.Of(ctx).Now(), By: opts.By, Reason: opts.Reason,
		Args: maps.Clone(opts.Args), Payload: opts.Payload,
	}
	if !opts.Tick.IsZero() {
		request.Kind = zkrec.RequestPast
	}
	a, err := c.newAsk(ctx, zkrec.DeedTrigger, name, request)
	if err != nil {
		return TriggerResult{}, err
	}
	if err := (job.Job{Args: opts.Args, Payload: opts.Payload}).CheckSize(len(request.Encode())); err != nil {
		return TriggerResult{}, err
	}
	a.judge = func(slot past, waiting map[string]zkrec.Request) (*zkrec.Request, error) {
		if err := slot.mayBeAsked(waiting, opts.WaitForHandler); err != nil {
			return nil, err
		}
		if !opts.Tick.IsZero() {
			return slot.pastTick(a.request, opts.Tick, opts.Again, waiting)
		}
		return &a.request, nil
	}
	if err := a.run(ctx); err != nil {
		return TriggerResult{}, fmt.Errorf("trigger %s: %w", name, err)
	}
	return TriggerResult{ID: a.id, Job: a.status}, nil
}

// mayBeAsked refuses a request for a run that nobody can do, or that waits for too many others.
func (p past) mayBeAsked(waiting map[string]zkrec.Request, waitForHandler bool) error {
	schedule, err := p.job.Job.ParseSchedule()
	switch {
	case err == nil && schedule.Always():
		return &invalid.FieldError{Field: "name", Value: p.slot, Err: errors.New("names a job that always runs: stop its run, and the next one begins after a pause")}
	case p.job.State == StateInvalid:
		return fmt.Errorf("%w: %s", ErrUnreadable, p.job.Reason)
	case p.job.State != StateOwned && len(p.able) == 0 && !waitForHandler:
		return fmt.Errorf("%w: %s", ErrNoHandler, p.job.Reason)
	case len(waiting) >= zkrec.MaxRequests:
		return fmt.Errorf("%w: %d, at most %d are allowed", ErrBusy, len(waiting), zkrec.MaxRequests)
	}
	return nil
}

// AwaitRun waits until a manual run has ended and is not to be repeated after an interruption, and
// returns its last entry, in any State; for a job with shards, those of all shards, by index. An
// entry is history.StateUnknown if the request is gone and no record of the run exists. If ctx is
// done first, the entries are as last seen (history.StateWaiting, history.StateRunning ...), and
// the error, which wraps the cause of ctx, says what the run waits for; the run is not canceled.
// Other errors: ErrNotFound if the job no longer exists, ErrNoShard if the shard does not exist,
// ErrDenied, and ErrUnavailable if nothing could be read.
func (c *Client) AwaitRun(ctx context.Context, name, id string) ([]history.Entry, error) {
	var runs []*openRun
	err := c.await(ctx, func(l *lookout) (bool, error) {
		if runs == nil {
			_, pasts, err := c.pasts(ctx, name)
			if err != nil {
				return false, err
			}
			for _, slot := range pasts {
				if slot.job.isAbsent() && len(pasts) > 1 {
					continue // it was not asked
				}
				manual := history.Entry{Run: history.Run{Manual: id, State: history.StateWaiting}, Count: 1}
				runs = append(runs, newOpenRun(slot, c.tree.Request(slot.slot, id), manual))
			}
		}
		return l.follow(ctx, name, runs, lookAtManual)
	})
	var entries []history.Entry
	var open []*openRun
	for _, run := range runs {
		entries = append(entries, run.last)
		if !run.done {
			open = append(open, run)
		}
	}
	switch {
	case err == nil || len(open) == 0:
	case len(runs) == 1:
		err = fmt.Errorf("manual run of %s: %s%s: %w", name, lastSeen(err), open[0].reason, err)
	default:
		err = fmt.Errorf("manual run of %s: %s%d of %d %s are not done, the first of them %s: %s: %w",
			name, lastSeen(err), len(open), len(runs), partsName(open[0].slot), open[0].slot, open[0].reason, err)
	}
	return entries, err
}

// lastSeen returns a prefix that says that a status may be outdated.
func lastSeen(err error) string {
	if errors.Is(err, ErrUnavailable) {
		return "when last seen, "
	}
	return ""
}

// lookAtManual updates a manual run; gone says that its request is.
func lookAtManual(r *openRun, slot past, gone bool) {
	entry, found := slot.manual(r.last.Manual)
	open := entry.State == history.StateRunning || entry.State == history.StateUnknown
	switch {
	case found:
		r.last = entry
	case gone:
		r.last.State = history.StateUnknown
	}
	r.reason, r.done = progress(r.last, slot.job), gone && !(found && open)
	if slot.job.isAbsent() {
		r.done = true // nobody else may run it
	}
}

// progress describes the state of a manual run that is not done.
func progress(run history.Entry, job JobStatus) string {
	switch {
	case run.NextAttempt != "":
		return fmt.Sprintf("attempt %d is %s, the %s is pending", run.Attempt, run.State, run.NextAttempt)
	case run.State == history.StateRunning:
		return "it is running on " + run.InstanceID
	case run.State != history.StateWaiting:
		return "it is " + string(run.State)
	case job.State != StateOwned:
		return "it has not started: " + job.Reason.String()
	case job.LastRun != nil && job.LastRun.State == history.StateRunning:
		return "it waits for the run in progress on " + job.LastRun.InstanceID
	}
	return job.Owner.InstanceID + " has not started it"
}

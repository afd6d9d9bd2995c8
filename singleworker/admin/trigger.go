package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// TriggerOptions say what is different in a manual run. The zero value runs
// the job as its schedule does.
type TriggerOptions struct {
	Args    map[string]string // over those of the job
	Payload json.RawMessage   // JSON, instead of the job's
	By      string            // who asks, up to 1 KiB
	Reason  string            // up to 1 KiB
	// WaitForHandler leaves the request for an instance that is yet to come
	// when none that lives can run the job, instead of ErrNoHandler.
	WaitForHandler bool
}

// TriggerResult is what Trigger did.
type TriggerResult struct {
	ID  string    // of the request, and Run.Manual of its run; later ones sort after it
	Job JobStatus // as it was when the run was asked for
}

// Trigger asks the owner of a job to run it once, now: beside its schedule,
// under a tick of its own, also while it is paused, and after the run that goes
// on, if one does. It returns when ZooKeeper has accepted the request, which
// then waits until it is done, whoever owns the job; AwaitRun waits for that.
// Each call is a run of its own. Errors: *InvalidError, ErrNotFound,
// ErrNoHandler, ErrBusy, ErrUnreadable, ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) Trigger(ctx context.Context, name string, opts TriggerOptions) (TriggerResult, error) {
	if err := checkPayload(opts.Payload); err != nil { // before it is encoded
		return TriggerResult{}, err
	}
	request := zkrec.Request{
		Kind: zkrec.RequestRun, At: time.Now(), By: opts.By, Reason: opts.Reason,
		Args: maps.Clone(opts.Args), Payload: opts.Payload,
	}
	a, err := c.newAsk(name, request)
	if err != nil {
		return TriggerResult{}, err
	}
	if err := checkSize(Job{Args: opts.Args, Payload: opts.Payload}, request.Encode()); err != nil {
		return TriggerResult{}, err
	}
	a.judge = func(status JobStatus, able []string, waiting map[string]zkrec.Request) (bool, error) {
		switch {
		case status.State == Invalid:
			return false, fmt.Errorf("%w: %s", ErrUnreadable, status.Reason)
		case status.State != Owned && len(able) == 0 && !opts.WaitForHandler:
			return false, fmt.Errorf("%w: %s", ErrNoHandler, status.Reason)
		case len(waiting) >= zkrec.MaxRequests:
			return false, fmt.Errorf("%w: %d, at most %d may", ErrBusy, len(waiting), zkrec.MaxRequests)
		}
		return true, nil
	}
	if err := a.run(ctx); err != nil {
		return TriggerResult{}, fmt.Errorf("trigger %s: %w", name, err)
	}
	return TriggerResult{ID: a.id, Job: a.status}, nil
}

// AwaitRun waits until the manual run of that id has ended for good, retries
// included, and returns its last entry, whatever its State. It is RunUnknown
// when the request is gone and no record tells of it. When ctx ends first, the
// entry says how far it is (RunWaiting, RunRunning ...) and the error, which
// wraps the cause of the context's end, why; the run is not called off. Errors
// besides: ErrNotFound when there is no such job any more, ErrDenied, and
// ErrUnavailable when nothing could be read at all.
func (c *Client) AwaitRun(ctx context.Context, name, id string) (Entry, error) {
	last := Entry{Run: Run{Manual: id, State: RunWaiting}, Count: 1}
	reason := ""
	err := c.await(ctx, func() (bool, error) {
		_, _, err := c.conn.GetW(ctx, c.tree.Request(name, id))
		if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
			return false, err
		}
		gone := err != nil
		past, err := c.past(ctx, name)
		if err != nil {
			return false, err
		}
		entry, found := past.manual(id)
		open := entry.State == RunRunning || entry.State == RunUnknown
		switch {
		case found:
			last = entry
		case gone:
			last.State = RunUnknown
		}
		reason = progress(last, past.job)
		return gone && !(found && open), nil
	})
	if err != nil {
		err = fmt.Errorf("manual run of %s: %s: %w", name, reason, err)
	}
	return last, err
}

// progress says how far a manual run is that has not ended for good.
func progress(run Entry, job JobStatus) string {
	switch {
	case run.Again != "":
		return fmt.Sprintf("attempt %d is %s, the %s is to come", run.Attempt, run.State, run.Again)
	case run.State == RunRunning:
		return "it is running on " + run.InstanceID
	case run.State != RunWaiting:
		return "it is " + run.State
	case job.State != Owned:
		return "nobody has begun it: " + job.Reason
	case job.LastRun != nil && job.LastRun.State == RunRunning:
		return "it waits for the run that goes on on " + job.LastRun.InstanceID
	}
	return job.Owner.InstanceID + " has not begun it"
}

// await looks until it is done or ctx ends: when a watched node changes, and
// every second.
func (c *Client) await(ctx context.Context, look func() (done bool, err error)) error {
	const lookAgain = time.Second // watches are a reason to look sooner
	for seen := false; ; {
		err := c.retry(ctx, func() error {
			done, err := look()
			if err == nil && done {
				return errDone
			}
			return err
		})
		switch {
		case errors.Is(err, errDone):
			return nil
		case err == nil:
			seen = true
		case !seen || !errors.Is(err, ErrUnavailable):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.changed:
		case <-time.After(lookAgain):
		}
	}
}

// errDone ends await.
var errDone = errors.New("done")

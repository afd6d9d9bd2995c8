package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Get reads a job, or one shard: "report[3]". Errors: *invalid.FieldError for the
// name, ErrNotFound, ErrNoShard, ErrUnreadable for a shard, ErrDenied,
// ErrUnavailable.
func (c *Client) Get(ctx context.Context, name string) (JobStatus, error) {
	if err := checkSlot(name); err != nil {
		return JobStatus{}, err
	}
	return retried(ctx, c.conn, fmt.Sprintf("job %q", name), func() (JobStatus, error) { return c.get(ctx, name) })
}

func (o observer) get(ctx context.Context, name string) (JobStatus, error) {
	r, live, err := o.among(ctx, name)
	if err == nil {
		err = o.compare(ctx, live)
	}
	if err != nil {
		return JobStatus{}, err
	}
	return o.completed(ctx, r, r.status(live, o.clock.now()), live)
}

// among reads a job, or one shard, with its histories, as an unreadable one makes the job invalid,
// and the instances that live, in as few requests as the job alone.
func (o observer) among(ctx context.Context, name string) (reading, map[string]Instance, error) {
	also := &beside{lists: lists{parents: o.rolls()}}
	r, err := o.reading(ctx, name, also)
	if err != nil {
		return reading{}, nil, err
	}
	below, err := also.families(ctx, o.reader, also.nodes)
	if err != nil {
		return reading{}, nil, err
	}
	live, _, err := o.nodesIn(below)
	maps.DeleteFunc(live, isNone)
	return r, live, err
}

// completed adds to a status which records cannot be read, and how instances declare the job.
func (o observer) completed(ctx context.Context, r reading, status JobStatus, live map[string]Instance) (JobStatus, error) {
	if status.Shard != nil || status.InstanceID != "" || status.State == StateInvalid {
		return status, nil
	}
	if slices.ContainsFunc(r.slots, func(slot records) bool { return slot.tickErr != nil || slot.historyErr != nil }) {
		nodes, err := o.unreadable(ctx, r.name)
		if err != nil {
			return status, err
		}
		if len(nodes) > 0 {
			status.State, status.Reason = StateInvalid, nodes[0].reason()
			status.SetConditions(o.clock.now().now)
		}
	}
	if status.DeclaredBy == "" {
		return status, nil
	}
	lists, all, err := o.declared(ctx, live, 1)
	if err != nil {
		return status, err
	}
	status.setDeclarations(differing(lists), o.clock.now().now)
	status.Undeclared = !status.declaredLate && all &&
		!slices.ContainsFunc(lists, func(list declaredList) bool { _, declares := list.jobs[r.name]; return declares })
	return status, nil
}

// List reads all jobs, sorted by name. A job of which a record may not be read, or whose node has a
// name that no job can have, is StateInvalid. Errors: ErrDenied if they may not be listed,
// ErrUnavailable.
func (c *Client) List(ctx context.Context) ([]JobStatus, error) {
	return retried(ctx, c.conn, "list jobs", func() ([]JobStatus, error) { return c.list(ctx) })
}

func (o observer) list(ctx context.Context) ([]JobStatus, error) {
	live, err := o.live(ctx)
	if err != nil {
		return nil, err
	}
	list, _, err := o.listAmong(ctx, live)
	return list, err
}

// listAmong is list with the instances that were read before. It also returns what was read of the
// jobs.
func (o observer) listAmong(ctx context.Context, live map[string]Instance) (list []JobStatus, all []reading, err error) {
	names, err := o.children(ctx, o.tree.Root())
	if err != nil {
		return nil, nil, err
	}
	var jobs []string
	for _, name := range names {
		switch is, err := zkrec.JobName(name); {
		case is && err != nil:
			text := fmt.Sprintf("nobody runs it: its name %v; delete %s", err, o.tree.Job(name))
			list = append(list, invalidJob(name, reason.Reason{Code: reason.BadName, Error: text}))
		case is:
			jobs = append(jobs, name)
		}
	}
	all, err = o.readings(ctx, jobs)
	if err == nil && len(jobs) > 0 {
		err = o.compare(ctx, live)
	}
	if err != nil {
		return nil, nil, err
	}
	lists, _, err := o.declared(ctx, live, 2) // one has nothing to differ from
	if err != nil {
		return nil, nil, err
	}
	at, differ := o.clock.now(), differing(lists)
	for _, r := range all {
		switch status, err := r.listed(live, at); {
		case errors.Is(err, ErrNotFound): // canceled meanwhile
		case err != nil:
			return nil, nil, err
		default:
			status.setDeclarations(differ, at.now)
			list = append(list, status)
		}
	}
	slices.SortFunc(list, func(a, b JobStatus) int { return cmp.Compare(a.Name, b.Name) })
	return list, all, nil
}

// listed is the status of a job as one of many: one that may not be read is invalid.
func (r reading) listed(live map[string]Instance, at moment) (JobStatus, error) {
	switch {
	case errors.Is(r.err, ErrDenied):
		return invalidJob(r.name, reason.Reason{Code: reason.Denied, Error: denied(r.err).Error()}), nil
	case r.err != nil:
		return JobStatus{}, r.err
	}
	return r.status(live, at), nil
}

// invalid is the status of a job of which no more is known.
func invalidJob(name string, why reason.Reason) JobStatus {
	s := JobStatus{Name: name, Job: job.Job{Name: name}, State: StateInvalid, Reason: why}
	s.SetConditions(time.Time{}) // what is known does not depend on the time
	return s
}

// AwaitOwner waits until the job, or each of its shards, has an owner, or the
// job is invalid, and returns its status. Errors: as of Get, or the cause of
// ctx if that is done first.
func (c *Client) AwaitOwner(ctx context.Context, name string) (JobStatus, error) {
	if err := checkSlot(name); err != nil {
		return JobStatus{}, err
	}
	var status JobStatus
	slot := name
	err := c.await(ctx, func(l *lookout) (bool, error) {
		shards := zkconn.Read{Path: c.tree.Shards(zkrec.JobOfSlot(name)), Children: true} // this one may not exist yet
		if _, err := l.watch(ctx, zkconn.Read{Path: c.tree.Alive(slot)}, shards); err != nil {
			return false, err
		}
		now, err := c.get(ctx, name)
		if err != nil {
			return false, err
		}
		status, slot = now, firstUnowned(now).Name
		return status.State != StateUnowned, nil
	})
	switch {
	case err != nil && !status.Reason.IsZero() && ctx.Err() != nil:
		return JobStatus{}, fmt.Errorf("job %q has no owner yet: %s: %w", name, status.Reason, err)
	case err != nil:
		return JobStatus{}, fmt.Errorf("job %q: %w", name, err)
	}
	return status, nil
}

// firstUnowned is the first shard of a job that has no owner, or the job itself.
func firstUnowned(job JobStatus) JobStatus {
	for _, shard := range job.Slots {
		if shard.State != StateOwned {
			return shard
		}
	}
	return job
}

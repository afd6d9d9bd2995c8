package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Target is what an order is for: one job, or all jobs, on an instance, or on every instance of a
// host, also on those that join later.
type Target struct {
	InstanceID string // or Host
	Host       string // as instances publish it: Instance.Host
	Job        string // empty: all jobs
}

func (t Target) String() string {
	return cmp.Or(t.InstanceID, "host "+t.Host) + map[bool]string{true: " for job " + t.Job}[t.Job != ""]
}

func (t Target) check() error {
	if (t.InstanceID == "") == (t.Host == "") {
		return &invalid.FieldError{Field: "Target", Value: t.InstanceID + t.Host, Err: errors.New("want either an instance or a host")}
	}
	if t.Host != "" {
		if err := job.CheckNodeName(t.Host); err != nil {
			return &invalid.FieldError{Field: "Host", Value: t.Host, Err: err}
		}
	} else if err := job.CheckNodeName(t.InstanceID); err != nil {
		return &invalid.FieldError{Field: "InstanceID", Value: t.InstanceID, Err: err}
	}
	if t.Job == "" {
		return nil
	}
	return checkName(t.Job)
}

func (t Target) binds(i Instance) bool {
	return t.InstanceID == i.ID && t.Host == "" || t.Host != "" && t.Host == i.Host
}

// DisableAt is like Disable, for what the target says. An instance hands over a job that is
// disabled there as soon as it is idle; a run in progress ends first. The order stays in force
// until EnableAt with the same target, whatever other orders there are. Neither the instance nor
// the host need exist. Errors: *invalid.FieldError, *invalid.FieldError, ErrNotFound for the job,
// ErrTooManyOrders, ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) DisableAt(ctx context.Context, t Target, opts OrderOptions) (OrderResult, error) {
	if err := errors.Join(t.check(), checkWho(opts.By, opts.Reason)); err != nil {
		return OrderResult{}, err
	}
	if t.Host == "" && t.Job == "" {
		return c.Disable(ctx, t.InstanceID, opts)
	}
	next := zkrec.Exclusion{
		SID: t.InstanceID, Host: t.Host, Job: t.Job, By: opts.By, Reason: opts.Reason, At: time.Now().UTC().Round(time.Millisecond),
	}
	or := ordering{c.members, c.writer}
	var result OrderResult
	sent := false
	err := or.persist(ctx, func() (err error) {
		result, err = or.excludeOnce(ctx, next, &sent)
		if err == nil {
			err = or.bound(ctx, t, &result)
		}
		return err
	})
	if err != nil {
		return OrderResult{}, fmt.Errorf("disable %s: %w", t, uncertain(err, sent))
	}
	return result, nil
}

// excludeOnce writes the order unless it is there. sent says whether it may have been written
// before.
func (or ordering) excludeOnce(ctx context.Context, next zkrec.Exclusion, sent *bool) (result OrderResult, err error) {
	path := or.tree.Exclusion(next.Name())
	data, stat, err := or.conn.Get(ctx, path)
	found := err == nil
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		return result, err
	}
	result.Outcome = OutcomeUnchanged
	old, _ := zkrec.ParseExclusion(next.Name(), data) // what is no order is replaced by one
	if found && old.Schema != 0 && old.By == next.By && old.Reason == next.Reason {
		if *sent && bytes.Equal(data, next.Encode()) {
			result.Outcome = OutcomeOrdered
		}
		order := orderOfExclusion(old)
		result.Order = &order
		return result, nil
	}
	ops := []zkconn.Op{zkconn.SetOp(path, next.Encode(), stat.Version)} // instances need not read it again: it is for the same
	switch {
	case !found:
		if err := or.roomForExclusion(ctx, next); err != nil {
			return result, err
		}
		ops = []zkconn.Op{zkconn.CreateOp(path, next.Encode())}
	case old.Schema == 0: // instances read it again if the list has changed
		ops = []zkconn.Op{zkconn.DeleteOp(path, stat.Version), zkconn.CreateOp(path, next.Encode())}
	}
	*sent = true
	deed := or.deed(ctx, zkrec.DeedDisable, Who{next.By, next.Reason}, jobsOf(next.Job)...)
	deed.Where = Target{InstanceID: next.SID, Host: next.Host}.String()
	if _, err := or.multi(ctx, deed, ops...); err != nil {
		return result, err
	}
	order := orderOfExclusion(next)
	result.Outcome, result.Order = OutcomeOrdered, &order
	return result, nil
}

// jobsOf is the job that an order is for, if it is for one.
func jobsOf(job string) []string {
	if job == "" {
		return nil
	}
	return []string{job}
}

// roomForExclusion creates the parent of the orders, and checks that the job exists and that there
// are not too many orders.
func (or ordering) roomForExclusion(ctx context.Context, next zkrec.Exclusion) error {
	if next.Job != "" {
		if _, found, err := or.conn.Exists(ctx, or.tree.Job(next.Job)); err != nil {
			return err
		} else if !found {
			return ErrNotFound
		}
	}
	if err := or.conn.EnsureRoot(ctx, or.tree.Exclusions()); err != nil {
		return err
	}
	stat, _, err := or.conn.Exists(ctx, or.tree.Exclusions())
	if err == nil && stat.NumChildren >= zkrec.MaxExclusions {
		return fmt.Errorf("%w: at most %d; take back those that are no longer needed", ErrTooManyOrders, zkrec.MaxExclusions)
	}
	return err
}

// EnableAt removes the order of DisableAt for the same target; others stay in force. Without an
// order, the outcome is OutcomeUnchanged. Errors: *invalid.FieldError, *invalid.FieldError,
// ErrDenied, ErrUnavailable.
func (c *Client) EnableAt(ctx context.Context, t Target) (OrderResult, error) {
	if err := t.check(); err != nil {
		return OrderResult{}, err
	}
	if t.Host == "" && t.Job == "" {
		return c.Enable(ctx, t.InstanceID)
	}
	or := ordering{c.members, c.writer}
	name := (zkrec.Exclusion{SID: t.InstanceID, Host: t.Host, Job: t.Job}).Name()
	parse := func(data []byte) Order {
		x, _ := zkrec.ParseExclusion(name, data)
		return orderOfExclusion(x)
	}
	deed := c.deed(ctx, zkrec.DeedEnable, Who{}, jobsOf(t.Job)...)
	deed.Where = Target{InstanceID: t.InstanceID, Host: t.Host}.String()
	return or.withdraw(ctx, t.String(), c.tree.Exclusion(name), deed, parse, func(result *OrderResult) error { return or.bound(ctx, t, result) })
}

// bound adds the running instances that an order binds.
func (or ordering) bound(ctx context.Context, t Target, result *OrderResult) error {
	live, err := or.live(ctx)
	for _, i := range live {
		switch {
		case !t.binds(i):
			continue
		case t.Host == "":
			result.Instance = &i
		default:
			result.Bound = append(result.Bound, i)
		}
		if i.State != InstanceUnreadable && i.place.record.Specs == 0 {
			result.Deaf = append(result.Deaf, i.ID)
		}
	}
	slices.SortFunc(result.Bound, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	slices.Sort(result.Deaf)
	return err
}

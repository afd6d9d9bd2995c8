package admin

import (
	"context"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Cancel deletes a job with all its records and returns its last status. For 7 days Undelete brings
// it back. After a node that marks it, the deletion takes one transaction, unless the job has so
// many shards that they do not fit in one. Then the job is first marked as canceled, which ends it,
// and deleted in several transactions; if that is interrupted, another Cancel completes it. The
// owners stop: contexts of runs in progress are canceled with the cause
// singleworker.ErrJobCanceled. An owner that is cut off from ZooKeeper does not notice: its run
// continues until its lease ends, for at most 0.75 session timeouts, possibly beside runs of
// another job submitted under the same name. Errors: *invalid.FieldError for the name, ErrNotFound,
// ErrConflict, ErrDenied, ErrUnavailable.
func (c *Client) Cancel(ctx context.Context, name string) (JobStatus, error) {
	return c.cancel(ctx, name, nil)
}

// CancelSeen is Cancel for a job that is as somebody has read it: one that was changed since, or
// another one of its name, stays, with ErrConflict. It is for programs that ask before they cancel,
// or find out from a list which jobs are to go.
func (c *Client) CancelSeen(ctx context.Context, name string, seen Seen) (JobStatus, error) {
	return c.cancel(ctx, name, &seen)
}

func (ed editor) cancel(ctx context.Context, name string, seen *Seen) (JobStatus, error) {
	if err := checkName(name); err != nil {
		return JobStatus{}, err
	}
	status, err := retried(ctx, ed.conn, fmt.Sprintf("job %q", name), func() (JobStatus, error) { return ed.get(ctx, name) })
	if err == nil && seen != nil && *seen != status.Seen() {
		err = fmt.Errorf("%s: %w", name, ErrConflict)
	}
	if err != nil {
		return JobStatus{}, fmt.Errorf("cancel: %w", err)
	}
	d := ed.deletion(name, 0, ed.deed(ctx, zkrec.DeedCancel, Who{}, name))
	if seen != nil {
		d.Czxid, d.Version = seen.ID, &seen.Version
	}
	if err := ed.conn.Retry(ctx, func() error { return deleted(d.Run(ctx)) }); err != nil {
		return JobStatus{}, fmt.Errorf("cancel %s: %w", name, uncertain(err, true))
	}
	return status, nil
}

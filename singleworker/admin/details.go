package admin

import (
	"context"
	"errors"
	"fmt"
)

// Job reads a job, or one shard, once for its status, as Get has it, its history, its
// requests and all its ticks. A job costs ZooKeeper three requests, with shards some more: one for
// about 250 records. Errors: as of Get.
func (c *Client) Job(ctx context.Context, name string) (JobDetails, error) {
	if err := checkSlot(name); err != nil {
		return JobDetails{}, err
	}
	return retried(ctx, c.conn, fmt.Sprintf("job %q", name), func() (JobDetails, error) { return c.details(ctx, name) })
}

func (o observer) details(ctx context.Context, name string) (JobDetails, error) {
	r, live, err := o.among(ctx, name)
	if err == nil {
		err = o.compare(ctx, live)
	}
	if err == nil && r.of.spec.Canceled {
		err = ErrNotFound
	}
	if err != nil {
		return JobDetails{}, err
	}
	at := o.clock.now()
	job, pasts := r.pasts(live, at)
	d := detailsOf(job, pasts, at)
	if d.Job, err = o.completed(ctx, r, job, live); err != nil {
		return JobDetails{}, err
	}
	d.Requests, err = o.requestsOf(ctx, pasts)
	if errors.Is(err, ErrDenied) {
		err = nil
	}
	return d, err
}

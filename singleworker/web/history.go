package web

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// History is where runs are looked up that are to be drawn over time.
type History interface {
	// Entries returns for each job, in the order of jobs, its runs and the ticks that were not run that touch the span from
	// from to to, newest first. Jobs are as admin.Client.List returns them. Safe for concurrent use.
	Entries(ctx context.Context, jobs []admin.JobStatus, from, to time.Time) ([][]admin.Entry, error)
}

// recent is the History that ZooKeeper holds: the last 20 entries of a job, or so, whatever the span.
type recent struct{ client Client }

func (r recent) Entries(ctx context.Context, jobs []admin.JobStatus, _, _ time.Time) ([][]admin.Entry, error) {
	return r.client.Histories(ctx, jobs)
}

// histories are what the History has of some jobs of the snapshot, in a span of time that ends now if to is zero.
func (h *handler) histories(ctx context.Context, jobs []admin.JobStatus, span time.Duration, to time.Time) ([][]admin.Entry, error) {
	key := []string{span.String(), to.String()}
	for _, job := range jobs {
		key = append(key, job.Name)
	}
	return detail(ctx, h, "entries "+strings.Join(key, "\x00"), func(ctx context.Context) ([][]admin.Entry, error) {
		until := to
		if until.IsZero() {
			until = time.Now()
		}
		all, err := h.opts.History.Entries(ctx, jobs, until.Add(-span), until)
		for len(all) < len(jobs) {
			all = append(all, nil)
		}
		return slices.Clip(all), err
	})
}

package admin

import (
	"context"
	"fmt"

	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/deletion"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Submission is a job for SubmitAll.
type Submission struct {
	Job     job.Job
	Options SubmitOptions
}

// SubmitAll submits jobs, each with another name, as Submit does, but in one transaction: if one is
// refused, nothing is done. Some hundred jobs fit into one. Errors: as Submit, and ErrTooLarge.
func (c *Client) SubmitAll(ctx context.Context, jobs []Submission) ([]Change, error) {
	all, names := make([]*submission, len(jobs)), make([]string, len(jobs))
	var err error
	for i, of := range jobs {
		if all[i], err = c.submission(ctx, of.Job, of.Options); err != nil {
			return nil, fmt.Errorf("job %s: %w", of.Job.Name, err)
		}
		names[i] = of.Job.Name
	}
	sent := false
	err = c.persist(ctx, func() error {
		b := batch{deed: c.deed(ctx, zkrec.DeedSubmit, Who{}, names...)}
		for _, s := range all {
			b.specs = append(b.specs, s.spec)
		}
		for i, s := range all {
			s.batch = &b
			if err := s.once(ctx); err != nil {
				return fmt.Errorf("submit %s: %w", names[i], err)
			}
		}
		if len(b.ops) == 0 {
			return nil
		}
		if deletion.Fitting(c.conn, b.ops) < len(b.ops) {
			return fmt.Errorf("%w: %d jobs", ErrTooLarge, len(jobs))
		}
		sent = true
		return b.write(ctx, c.writer)
	})
	if err != nil {
		return nil, uncertain(err, sent)
	}
	changes := make([]Change, len(all))
	for i, s := range all {
		changes[i] = s.change()
	}
	return changes, nil
}

// batch is the transaction of SubmitAll.
type batch struct {
	deed zkrec.Deed
	on   []zkconn.On      // the jobs that exist
	of   []signals.Signal // who must look
	ops  []zkconn.Op

	specs []zkrec.Spec // of all jobs: one may run after another
}

func (b *batch) replaces(on zkconn.On, of []signals.Signal, ops []zkconn.Op) {
	b.deed.Kind = zkrec.DeedReplace
	b.on, b.of, b.ops = append(b.on, on), append(b.of, of...), append(b.ops, ops...)
}

func (b *batch) write(ctx context.Context, w writer) error {
	_, err := deeds.Write(ctx, w.rd.conn, w.rd.tree, b.deed, b.ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
		return signals.MultiOnAll(ctx, w.rd.conn, b.on, b.of, ops...)
	})
	return err
}

package admin

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Histories reads the histories of many jobs in few requests. The jobs are as List has returned
// them; of each, in their order, the entries are those of History. A job that was canceled since
// has at most its last run. Errors: ErrUnavailable.
func (c *Client) Histories(ctx context.Context, jobs []JobStatus) ([][]history.Entry, error) {
	return retried(ctx, c.conn, "read histories", func() ([][]history.Entry, error) { return c.histories(ctx, jobs) })
}

func (o observer) histories(ctx context.Context, jobs []JobStatus) ([][]history.Entry, error) {
	var reads []zkconn.Read
	slots := make([][]JobStatus, len(jobs))
	for i, job := range jobs {
		if slots[i] = job.Slots; len(job.Slots) == 0 {
			slots[i] = []JobStatus{job}
		}
		for _, slot := range slots[i] {
			reads = append(reads, zkconn.ReadsOf(o.tree.HistoryPages(slot.Name)...)...)
		}
	}
	results, err := o.readMany(ctx, reads)
	if err != nil {
		return nil, err
	}
	all := make([][]history.Entry, len(jobs))
	for i := range jobs {
		pasts := make([]past, len(slots[i]))
		for k, slot := range slots[i] {
			p := past{job: slot}
			history, _, err := historyOf(results[:zkrec.HistoryPages])
			if p.history, p.historyErr = history, err; errors.Is(err, ErrDenied) {
				p.historyErr = denied(err)
			} else if errors.Is(err, zkconn.ErrNoNode) {
				p.historyErr = nil
			}
			pasts[k], results = p, results[zkrec.HistoryPages:]
		}
		all[i] = merged(pasts)
	}
	return all, nil
}

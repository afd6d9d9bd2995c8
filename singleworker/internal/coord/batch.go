package coord

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// How many groups of operations, and how many bytes, travel in one
// transaction: the server hangs up on a frame of more than 1 MB.
const (
	maxBatch      = 500
	maxBatchBytes = 512 << 10
)

// maxRefusals is how many groups of one batch may be refused, each at the cost
// of a round trip, before the rest is reported as unknown and read again.
const maxRefusals = 16

// result is what became of one group of operations.
type result struct {
	err     error
	refused int           // index in the group of the operation that refused it, or -1
	stats   []zkconn.Stat // of the group's operations, when err is nil
	sentAt  lease.Instant // read before the request was sent
}

var errTooManyRefusals = errors.Join(zkconn.ErrLost, errors.New("too many refusals in one batch"))

// applyBatches sends many groups of operations in few transactions, and calls
// done, in the loop, for each: a group that is refused does not keep the
// others back.
func (c *Coordinator) applyBatches(groups [][]zkconn.Op, done func(i int, r result)) {
	for first, chunk := range chunks(groups) {
		c.async("batch", func(ctx context.Context) func() {
			results := c.applyBatch(ctx, chunk)
			return func() {
				for i, r := range results {
					done(first+i, r)
				}
			}
		})
	}
}

// chunks divides the groups into such as fit in one transaction, each with the
// index of its first.
func chunks(groups [][]zkconn.Op) iter.Seq2[int, [][]zkconn.Op] {
	return func(yield func(int, [][]zkconn.Op) bool) {
		for first := 0; first < len(groups); {
			chunk := groups[first : first+fitting(groups[first:])]
			if !yield(first, chunk) {
				return
			}
			first += len(chunk)
		}
	}
}

// fitting counts how many of the groups, at least one, fit in one transaction.
func fitting(groups [][]zkconn.Op) int {
	bytes := 0
	for n, group := range groups {
		for _, op := range group {
			bytes += op.Size()
		}
		if n > 0 && (n == maxBatch || bytes > maxBatchBytes) {
			return n
		}
	}
	return len(groups)
}

func (c *Coordinator) applyBatch(ctx context.Context, groups [][]zkconn.Op) []result {
	results := make([]result, len(groups))
	open := make([]int, len(groups)) // indices of the groups still to be applied
	for i := range groups {
		open[i] = i
	}
	for refusals := 0; len(open) > 0; refusals++ {
		sentAt := c.cfg.Clock.Now()
		var ops []zkconn.Op
		for _, i := range open {
			ops = append(ops, groups[i]...)
		}
		stats, err := c.conn.Multi(ctx, ops...)
		var refusal *zkconn.MultiError
		switch {
		case err == nil:
			for _, i := range open {
				n := len(groups[i])
				results[i] = result{stats: stats[:n], sentAt: sentAt, refused: -1}
				stats = stats[n:]
			}
			return results
		case !errors.As(err, &refusal) || refusals == maxRefusals:
			if refusal != nil {
				err = errTooManyRefusals
			}
			for _, i := range open {
				results[i] = result{err: err, sentAt: sentAt, refused: -1}
			}
			return results
		}
		at, op := locate(groups, open, refusal.Index)
		results[open[at]] = result{err: refusal.Err, sentAt: sentAt, refused: op}
		open = append(open[:at], open[at+1:]...)
	}
	return results
}

// together runs n requests side by side and waits for them: the connection
// pipelines, so that they cost one round trip, not n.
func (c *Coordinator) together(ctx context.Context, n int, request func(ctx context.Context, i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Add(1)
		c.tasks.Go("request", func(context.Context) error {
			defer all.Done()
			request(ctx, i)
			return nil
		})
	}
	all.Wait()
}

// locate finds which open group, and which of its operations, stands at index
// in the transaction.
func locate(groups [][]zkconn.Op, open []int, index int) (at, op int) {
	for at, i := range open {
		if index < len(groups[i]) {
			return at, index
		}
		index -= len(groups[i])
	}
	return len(open) - 1, 0 // not reached: the index is of an operation we sent
}

package session

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

// Result is what became of one group of operations.
type Result struct {
	Err     error
	Refused int           // index in the group of the operation that was refused, or -1
	Stats   []zkconn.Stat // of the group's operations, when Err is nil
	SentAt  lease.Instant // read before the request was sent
}

// writing is a group of operations that travels with others.
type writing struct {
	ops  []zkconn.Op
	done func(Result)
}

// Write sends ops, all or none of them, together with what else is written in this turn, and then
// calls done on the loop.
func (l *Loop) Write(ops []zkconn.Op, done func(Result)) {
	l.writes = append(l.writes, &writing{ops, done})
}

// flush sends what was written in one turn.
func (l *Loop) flush() {
	if len(l.writes) == 0 {
		return
	}
	writes := l.writes
	l.writes = nil
	groups := make([][]zkconn.Op, len(writes))
	for i, w := range writes {
		groups[i] = w.ops
	}
	l.WriteAll(groups, func(i int, r Result) { writes[i].done(r) })
}

// ErrTooManyRefusals is the outcome, unknown, of groups that were not tried because too many others of
// their transaction were refused.
var ErrTooManyRefusals = errors.Join(zkconn.ErrLost, errors.New("too many refusals in one batch"))

// WriteAll sends many groups of operations in few transactions and calls done, on the loop, for
// each. A group that is refused does not hold back the others.
func (l *Loop) WriteAll(groups [][]zkconn.Op, done func(i int, r Result)) {
	for first, chunk := range chunks(groups, l.Conn.Size) {
		l.Async("batch", func(ctx context.Context) func() {
			results := l.apply(ctx, chunk)
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
func chunks(groups [][]zkconn.Op, size func(zkconn.Op) int) iter.Seq2[int, [][]zkconn.Op] {
	return func(yield func(int, [][]zkconn.Op) bool) {
		for first := 0; first < len(groups); {
			chunk := groups[first : first+fitting(groups[first:], size)]
			if !yield(first, chunk) {
				return
			}
			first += len(chunk)
		}
	}
}

// fitting counts how many of the groups, at least one, fit in one transaction.
func fitting(groups [][]zkconn.Op, size func(zkconn.Op) int) int {
	bytes := 0
	for n, group := range groups {
		for _, op := range group {
			bytes += size(op)
		}
		if n > 0 && (n == maxBatch || bytes > maxBatchBytes) {
			return n
		}
	}
	return len(groups)
}

// Apply is WriteAll for a request that runs beside the loop. It waits for the answers.
func (l *Loop) Apply(ctx context.Context, groups [][]zkconn.Op) []Result {
	var results []Result
	for _, chunk := range chunks(groups, l.Conn.Size) {
		results = append(results, l.apply(ctx, chunk)...)
	}
	return results
}

// apply sends one transaction, and again without each group that is refused.
func (l *Loop) apply(ctx context.Context, groups [][]zkconn.Op) []Result {
	results := make([]Result, len(groups))
	open := make([]int, len(groups)) // indices of the groups still to be applied
	for i := range groups {
		open[i] = i
	}
	for refusals := 0; len(open) > 0; refusals++ {
		sentAt := l.Clock.Now()
		var ops []zkconn.Op
		for _, i := range open {
			ops = append(ops, groups[i]...)
		}
		stats, err := l.Conn.Multi(ctx, ops...)
		var refusal *zkconn.MultiError
		switch {
		case err == nil:
			for _, i := range open {
				n := len(groups[i])
				results[i] = Result{Stats: stats[:n], SentAt: sentAt, Refused: -1}
				stats = stats[n:]
			}
			return results
		case !errors.As(err, &refusal) || refusals == maxRefusals:
			if refusal != nil {
				err = ErrTooManyRefusals
			}
			for _, i := range open {
				results[i] = Result{Err: err, SentAt: sentAt, Refused: -1}
			}
			return results
		}
		at, op := locate(groups, open, refusal.Index)
		results[open[at]] = Result{Err: refusal.Err, SentAt: sentAt, Refused: op}
		open = append(open[:at], open[at+1:]...)
	}
	return results
}

// Together runs n requests at once and waits for them: the connection pipelines them, so that they
// cost one round trip, not n. It is called beside the loop.
func (l *Loop) Together(ctx context.Context, n int, request func(ctx context.Context, i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Add(1)
		l.tasks.Go("request", func(context.Context) error {
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

package session

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// How many groups of operations, and how many bytes, travel in one
// transaction: the server hangs up on a frame of more than 1 MB.
const (
	maxBatch      = 500
	maxBatchBytes = 512 << 10
)

// fanOut is into how many pieces groups are divided that were refused again and again although
// nothing could be read that refuses them.
const fanOut = 8

// Result is the outcome of one group of operations.
type Result struct {
	Err     error
	Refused int           // index in the group of the operation that was refused, or -1
	Stats   []zkconn.Stat // of the group's operations, when Err is nil
	SentAt  lease.Instant // read before the request was sent; not set if a reading has refused the group
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
		results = append(results, l.apply(ctx, chunk, 0)...)
	}
	return results
}

// apply sends one transaction, and again without the refused group, if one is. That costs one
// request if it was the only one. A second refusal is unlikely to be the last of hundreds: then the
// nodes are read, which tell all that are, in few requests. A group that is refused nevertheless,
// because a node may not be read, say, has the others sent in pieces.
func (l *Loop) apply(ctx context.Context, groups [][]zkconn.Op, refusals int) []Result {
	results := make([]Result, len(groups))
	tx := combine(groups)
	sentAt := l.Clock.Now()
	stats, err := l.Server.Multi(ctx, tx.ops...)
	var refusal *zkconn.MultiError
	if !errors.As(err, &refusal) {
		for g := range groups {
			results[g] = Result{Err: err, Refused: -1, SentAt: sentAt}
			if err == nil {
				results[g].Stats = tx.statsOf(g, stats)
			}
		}
		return results
	}
	var rest []int // indices of groups
	for g := range groups {
		if refused := slices.Index(tx.at[g], refusal.Index); refused >= 0 {
			results[g] = Result{Err: refusal.Err, Refused: refused, SentAt: sentAt}
		} else {
			rest = append(rest, g)
		}
	}
	size := max(1, len(rest)) // of a piece
	switch {
	case refusals == 0:
	case len(rest) <= fanOut || refusals > 1:
		size = (size + fanOut - 1) / fanOut
	default:
		rest = tx.refuse(ctx, l.Conn, rest, results)
	}
	pieces := slices.Collect(slices.Chunk(rest, size))
	Together(len(pieces), func(i int) {
		piece := make([][]zkconn.Op, len(pieces[i]))
		for n, g := range pieces[i] {
			piece[n] = groups[g]
		}
		for n, r := range l.apply(ctx, piece, refusals+1) {
			results[pieces[i][n]] = r
		}
	})
	return results
}

// transaction is groups of operations as they are sent. A check that several groups make is made
// once: if it is refused, all of them are.
type transaction struct {
	ops    []zkconn.Op
	at     [][]int // by group: where each of its operations is in ops
	shared bool    // some check is several groups'; otherwise those of a group stand together
}

func combine(groups [][]zkconn.Op) transaction {
	n := 0
	for _, group := range groups {
		n += len(group)
	}
	tx := transaction{ops: make([]zkconn.Op, 0, n), at: make([][]int, len(groups))}
	indices := make([]int, 0, n)
	latest := make(map[string]int) // by path, of nodes that are checked: the index of the latest operation
	for g, group := range groups {
		for _, op := range group {
			at, found := latest[op.Path()]
			if !found || !op.SameCheck(tx.ops[at]) {
				at = len(tx.ops)
				tx.ops = append(tx.ops, op)
				if isCheck := op.SameCheck(op); found || isCheck {
					latest[op.Path()] = at
				}
			}
			indices = append(indices, at)
		}
		tx.at[g] = indices[len(indices)-len(group):]
	}
	tx.shared = len(tx.ops) < n
	return tx
}

// refuse reads the nodes of a refused transaction, answers the groups of some that they refuse, and
// returns the others.
func (tx transaction) refuse(ctx context.Context, conn *zkconn.Conn, some []int, results []Result) (rest []int) {
	var reads []zkconn.Read
	nodes := make(map[string]zkconn.ReadResult) // by path
	for _, g := range some {
		for _, at := range tx.at[g] {
			path := tx.ops[at].Path()
			if _, twice := nodes[path]; !twice {
				nodes[path] = zkconn.ReadResult{}
				reads = append(reads, zkconn.Read{Path: path})
			}
		}
	}
	for i, read := range conn.ReadMany(ctx, reads) {
		nodes[reads[i].Path] = read
	}
	refusals := tx.refusals(nodes)
	for _, g := range some {
		refused := slices.IndexFunc(tx.at[g], func(at int) bool { return refusals[at] != nil })
		if refused < 0 {
			rest = append(rest, g)
		} else {
			results[g] = Result{Err: refusals[tx.at[g][refused]], Refused: refused}
		}
	}
	return rest
}

// refusals is, by operation, why nodes as they were read refuse it; nil where they do not tell,
// because one before it changes its node, say.
func (tx transaction) refusals(nodes map[string]zkconn.ReadResult) []error {
	errs := make([]error, len(tx.ops))
	changed := make(map[string]bool)
	for at, op := range tx.ops {
		path := op.Path()
		if node, read := nodes[path]; read && !changed[path] {
			errs[at] = op.RefusedBy(node)
		}
		changed[path] = changed[path] || !op.SameCheck(op)
	}
	return errs
}

// statsOf picks the answers to a group's operations.
func (tx transaction) statsOf(g int, stats []zkconn.Stat) []zkconn.Stat {
	at := tx.at[g]
	if !tx.shared && len(at) > 0 {
		return stats[at[0] : at[0]+len(at)]
	}
	own := make([]zkconn.Stat, len(at))
	for i, at := range at {
		own[i] = stats[at]
	}
	return own
}

// togetherAtOnce is how many requests of one Together are under way.
const togetherAtOnce = 32

// Together makes n requests, 32 at once, and waits for them: the connection pipelines them, so that
// they cost n/32 round trips, not n. It is called beside the loop.
func Together(n int, request func(i int)) { task.Together(togetherAtOnce, n, request) }

package session

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Lane is a queue of writes. The server answers a session in the order of its requests, so a write
// waits for everything that is under way before it. That is bounded per lane.
type Lane int

// The lanes, in the order in which they are served.
const (
	// Beats is for heartbeats, which never wait: leases depend on them.
	Beats Lane = iota
	// Claims is for the writes that a run waits for: its claim, and the way of its slot from one owner
	// to the next.
	Claims
	// Limited is for claims that take places of limits. Two of them may want the same place, and one
	// that is refused costs another request, for which other claims do not wait.
	Limited
	// Others is for everything else, such as results. It waits for Claims, up to patience.
	Others
)

// underWay limits the transactions of a lane that are under way. Writes that come meanwhile go
// together with the next one; two keep the server busy. So a heartbeat has at most four
// transactions before it.
var underWay = [...]int{Beats: math.MaxInt, Claims: 2, Limited: 1, Others: 1}

// patience is how long writes of Others wait while there are claims. They gather meanwhile.
const patience = 25 * time.Millisecond

// lane is the queue of a Lane, with the transactions under way.
type lane struct {
	waiting  []writing
	underWay []time.Duration // Mono: of each transaction, when its first group of operations came
}

// writing is a group of operations that travels with others.
type writing struct {
	ops  []zkconn.Op
	i    int
	at   time.Duration // Mono: when it came
	done func(i int, r Result)
}

// lanes are the queues by Lane.
type lanes [len(underWay)]lane

// Write sends ops, all or none of them, together with other writes of this lane, and then calls
// done on the loop.
func (l *Loop) Write(to Lane, ops []zkconn.Op, done func(Result)) {
	q := &l.lanes[to]
	q.waiting = append(q.waiting, writing{ops: ops, at: l.Now(), done: func(_ int, r Result) { done(r) }})
}

// WriteAll sends many groups of operations in few transactions and calls done, on the loop, for
// each. A group that is refused does not hold back the others.
func (l *Loop) WriteAll(to Lane, groups [][]zkconn.Op, done func(i int, r Result)) {
	now := l.Now()
	q := &l.lanes[to]
	q.waiting = slices.Grow(q.waiting, len(groups))
	for i, ops := range groups {
		q.waiting = append(q.waiting, writing{ops, i, now, done})
	}
}

func (q *lane) empty() bool { return len(q.waiting) == 0 && len(q.underWay) == 0 }

// Waited is for how long the oldest write of a lane has not been answered. It is 0 if there is no
// such write.
func (l *Loop) Waited(in Lane) time.Duration {
	switch q := &l.lanes[in]; {
	case len(q.underWay) > 0:
		return l.Now() - slices.Min(q.underWay)
	case len(q.waiting) > 0:
		return l.Now() - q.waiting[0].at
	}
	return 0
}

// flush sends the writes of each lane that may be sent.
func (ls *lanes) flush(l *Loop) {
	for to := range ls {
		q := &ls[to]
		for len(q.waiting) > 0 && len(q.underWay) < underWay[to] && ls.heldUntil(Lane(to)) <= l.Now() {
			q.send(l, Lane(to))
		}
	}
}

// heldUntil is, on Mono, when to send the waiting writes of a lane although there are claims.
func (ls *lanes) heldUntil(to Lane) time.Duration {
	if to != Others || ls[Claims].empty() {
		return 0
	}
	return ls[to].waiting[0].at + patience
}

// next is, on Mono, when something may be sent although nothing has happened.
func (ls *lanes) next() time.Duration {
	if len(ls[Others].waiting) == 0 || len(ls[Others].underWay) == underWay[Others] {
		return math.MaxInt64
	}
	return ls.heldUntil(Others)
}

// send sends one transaction of a lane.
func (q *lane) send(l *Loop, to Lane) {
	groups := make([][]zkconn.Op, min(len(q.waiting), maxBatch))
	for i := range groups {
		groups[i] = q.waiting[i].ops
	}
	n := fitting(groups, l.Conn.Size)
	sent := q.waiting[:n:n]
	if q.waiting = q.waiting[n:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	since := sent[0].at
	q.underWay = append(q.underWay, since)
	l.tasks.Go("batch", func(ctx context.Context) error {
		results := l.apply(ctx, groups[:n], 0)
		then := func() {
			at := slices.Index(q.underWay, since)
			q.underWay = slices.Delete(q.underWay, at, at+1)
			answer(sent, func(i int) Result { return results[i] })
			clear(sent) // what is left of the queue may wait for long
			l.drain()
		}
		if to == Beats {
			l.box.PostFirst(then) // renews leases, which must not lapse because the loop is busy
		} else {
			l.box.Post(then)
		}
		return nil
	})
}

func answer(writes []writing, result func(i int) Result) {
	for i, w := range writes {
		w.done(w.i, result(i))
	}
}

// drop answers the writes that were not sent before the connection was lost. Their writers must
// learn first which nodes have changed meanwhile.
func (ls *lanes) drop(now lease.Instant) {
	lost := Result{Err: zkconn.ErrLost, Refused: -1, SentAt: now}
	for to := range ls {
		waiting := ls[to].waiting
		ls[to].waiting = nil
		answer(waiting, func(int) Result { return lost })
	}
}

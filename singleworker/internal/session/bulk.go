package session

import (
	"context"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// readWindow is how many requests of zkconn.MaxReads are under way. Other requests wait for those
// at most: some thousand reads, which a server answers in some 20 ms.
const readWindow = 4

// A reader sends a loop's reads in few requests.
type reader struct {
	loop     *Loop
	queue    []reading // in the order of asking; some of the first may be sent
	underWay int       // requests
}

// A reading is the reads of one call of Read.
type reading struct {
	*outcome

	reads []zkconn.Read
	sent  int // of the reads
}

// An outcome collects the results of a reading.
type outcome struct {
	n       int                 // reads
	open    int                 // of those, without a result
	results []zkconn.ReadResult // nil as long as all are open: thousands of readings may wait at the same time
	done    func([]zkconn.ReadResult)
}

// take takes in the results from the given one on.
func (o *outcome) take(first int, part []zkconn.ReadResult) {
	if len(part) == o.n {
		o.done(part)
		return
	}
	if o.results == nil {
		o.results = make([]zkconn.ReadResult, o.n)
	}
	copy(o.results[first:], part)
	if o.open -= len(part); o.open == 0 {
		o.done(o.results)
	}
}

// Read reads nodes together with the other reads of this turn, and then calls done on the loop,
// with the results in the order of reads. The errors are ReadMany's, which this uses: there is one
// error for each read.
//
// It costs one request of 256 reads, or two if they are to be watched, for as many nodes. At most
// four such requests are under way. The oldest reads are sent first, so that who reads many nodes
// keeps those waiting that read after it, but no writes. done gets the results of all its reads at
// once.
//
// The watches end with the connection: who relies on them reads again when the instance has joined
// again. A read with a watch in an earlier connection is answered with ErrLost, even if its answer
// has come.
func (r *reader) Read(reads []zkconn.Read, done func([]zkconn.ReadResult)) {
	if len(reads) == 0 {
		r.loop.Defer(func() { done(nil) })
		return
	}
	r.queue = append(r.queue, reading{&outcome{n: len(reads), open: len(reads), done: done}, reads, 0})
}

// send sends reads until the window is full.
func (r *reader) send() {
	for r.underWay < readWindow && len(r.queue) > 0 {
		reads, deliver := r.take()
		r.underWay++
		connection := r.loop.connection
		r.loop.Async("reads", func(ctx context.Context) func() {
			results := r.loop.Conn.ReadMany(ctx, reads)
			return func() {
				r.underWay--
				if connection != r.loop.connection {
					loseWatches(reads, results)
				}
				deliver(results)
			}
		})
	}
}

// loseWatches makes the results of reads unknown whose watch has ended.
func loseWatches(reads []zkconn.Read, results []zkconn.ReadResult) {
	for i, read := range reads {
		if read.Watch && results[i].Err == nil {
			results[i] = zkconn.ReadResult{Err: &zkconn.OpError{Op: "read", Path: read.Path, Err: zkconn.ErrLost}}
		}
	}
}

// take takes the reads of one request from the queue. deliver hands out their results.
func (r *reader) take() (reads []zkconn.Read, deliver func([]zkconn.ReadResult)) {
	type part struct {
		to    *outcome
		first int // in its results
		n     int
	}
	var parts []part
	for len(r.queue) > 0 && len(reads) < zkconn.MaxReads {
		next := &r.queue[0]
		n := min(len(next.reads)-next.sent, zkconn.MaxReads-len(reads))
		reads = append(reads, next.reads[next.sent:next.sent+n]...)
		parts = append(parts, part{next.outcome, next.sent, n})
		if next.sent += n; next.sent == len(next.reads) {
			*next = reading{} // for the garbage collector
			r.queue = r.queue[1:]
		}
	}
	if len(r.queue) == 0 {
		r.queue = nil // it may have been long
	}
	return reads, func(results []zkconn.ReadResult) {
		for _, p := range parts {
			p.to.take(p.first, results[:p.n:p.n])
			results = results[p.n:]
		}
	}
}

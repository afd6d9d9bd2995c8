package admin

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// lookout wakes up who awaits something when a node changes that was watched with it.
type lookout struct {
	observer

	changed chan struct{} // buffers one signal

	mu    sync.Mutex
	paths map[string]bool // of these nodes
}

// watch reads nodes, and has their next change wake up who awaits it.
func (l *lookout) watch(ctx context.Context, reads ...zkconn.Read) ([]zkconn.ReadResult, error) {
	l.mu.Lock()
	for i := range reads {
		reads[i].Watch = true
		l.paths[reads[i].Path] = true
	}
	l.mu.Unlock()
	return l.readMany(ctx, reads)
}

// hear also does so when the connection was lost, and with it the watches.
func (l *lookout) hear(ev zkconn.Event) {
	l.mu.Lock()
	meant := ev.Kind != zkconn.NodeChanged || l.paths[ev.Path]
	l.mu.Unlock()
	if !meant {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// await calls look until it is done or ctx is: when a node changes that it watches with the
// lookout, and every second. It waits out an unreachable server; if the server is unreachable when
// ctx is done, the error is ErrUnavailable, as the present state is unknown.
func (o observer) await(ctx context.Context, look func(l *lookout) (done bool, err error)) error {
	const lookAgain = time.Second // sooner if a watch fires
	ctx, stop := o.conn.WhileOpen(ctx)
	defer stop()
	l := &lookout{observer: o, changed: make(chan struct{}, 1), paths: make(map[string]bool)}
	defer o.conn.Subscribe(l.hear)()
	seen := time.Time{}
	for {
		err := o.conn.Retry(ctx, func() error {
			done, err := look(l)
			if err == nil && done {
				return errDone
			}
			return err
		})
		switch {
		case errors.Is(err, errDone):
			return nil
		case err == nil:
			seen = time.Now()
		case seen.IsZero() || !errors.Is(err, ErrUnavailable):
			return err
		}
		select {
		case <-ctx.Done():
			if err != nil && time.Since(seen) > 2*lookAgain { // otherwise ctx ended the latest look
				return err
			}
			return context.Cause(ctx)
		case <-l.changed:
		case <-time.After(lookAgain):
		}
	}
}

// errDone ends await.
var errDone = errors.New("done")

// openRun is a run that is waited for.
type openRun struct {
	slot   string
	path   string        // of the node that changes when the run ends
	last   history.Entry // as it was last seen
	reason string        // why it is not done
	done   bool
}

func newOpenRun(slot past, path string, run history.Entry) *openRun {
	if slot.job.Shard != nil {
		run.Shard = &slot.job.Shard.Index
	}
	return &openRun{slot: slot.slot, path: path, last: run}
}

// follow calls look for the runs that are not done, to update them; gone says that the node at
// their path is missing. It returns whether all are done.
func (l *lookout) follow(ctx context.Context, name string, runs []*openRun, look func(run *openRun, slot past, gone bool)) (done bool, err error) {
	var open []*openRun
	var reads []zkconn.Read
	for _, run := range runs {
		if !run.done {
			open, reads = append(open, run), append(reads, zkconn.Read{Path: run.path})
		}
	}
	nodes, err := l.watch(ctx, reads...) // before the runs' records
	if err != nil {
		return false, err
	}
	_, pasts, err := l.pasts(ctx, name)
	if err != nil {
		return false, err
	}
	done = true
	for i, run := range open {
		gone := errors.Is(nodes[i].Err, zkconn.ErrNoNode)
		if nodes[i].Err != nil && !gone {
			return false, nodes[i].Err
		}
		// A shard that no longer exists has left no records.
		if k := slices.IndexFunc(pasts, func(p past) bool { return p.slot == run.slot }); k >= 0 {
			look(run, pasts[k], gone)
		} else {
			run.last.State, run.done = history.StateUnknown, true
		}
		done = done && run.done
	}
	return done, nil
}

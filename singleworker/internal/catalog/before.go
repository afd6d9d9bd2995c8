package catalog

import (
	"context"
	"errors"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// missing names a handler that this instance lacks to run a job, or is "". An instance without
// BeforeTick runs none of the shards: any of them may become the one that calls it.
func missing(handlers Handlers, spec *zkrec.Spec) string {
	if handler := spec.Job.HandlerName(); !handlers.Has(handler) {
		return handler
	}
	if before := spec.ActiveLayout().BeforeTick; before != "" && !handlers.Has(before) {
		return before
	}
	return ""
}

// publishing lists the members that publish all handlers that the job needs.
func publishing(who *member.Able, spec *zkrec.Spec) []string {
	able := who.With(spec.Job.HandlerName())
	before := spec.ActiveLayout().BeforeTick
	if before == "" {
		return able
	}
	return slices.DeleteFunc(slices.Clone(able), func(sid string) bool {
		_, found := slices.BinarySearch(who.With(before), sid)
		return !found
	})
}

// WaitsFor is the slot whose records tell which ticks have begun, if slot waits for another one.
func (j *Job) WaitsFor(slot string) (first string, waits bool) {
	return j.Spec.ActiveLayout().WaitsFor(slot)
}

// ReadsOfGate lists the reads for ParseGate, of a job's first shard: the record first.
func ReadsOfGate(tree zkrec.Tree, first string) []zkconn.Read {
	return zkconn.ReadsOf(append([]string{tree.Tick(first)}, tree.HistoryPages(first)...)...)
}

// ParseGate parses the records of a job's first shard, as ReadsOfGate lists them, into the gate of
// the other shards. If they cannot be read, the others wait.
func ParseGate(tree zkrec.Tree, first string, results []zkconn.ReadResult) (*ticks.Gate, error) {
	tick := results[0]
	history, err := zkconn.DataOf(results[1 : 1+zkrec.HistoryPages])
	if err := errors.Join(tick.Err, err); err != nil {
		return nil, err
	}
	record, err := zkrec.ParseTick(tick.Data, tick.Stat.Mtime)
	if err != nil {
		return nil, session.ReadError(tree.Tick(first), err)
	}
	entries, err := zkrec.ParseHistory(history)
	if err != nil {
		return nil, session.ReadError(tree.History(first), err)
	}
	return ticks.GateOf(record, entries, tick.Stat.Mtime), nil
}

// WatchGate reads the nodes for ParseGate, and watches the record. It is called beside the loop.
// The history is read after the record: if it were older, a tick that has begun could pass for one
// that has not.
func WatchGate(ctx context.Context, l *session.Loop, first string) (*ticks.Gate, error) {
	var tick zkconn.ReadResult
	tick.Data, tick.Stat, tick.Err = l.Conn.GetW(ctx, l.Tree.Tick(first))
	if tick.Err != nil {
		return nil, tick.Err
	}
	pages := l.Conn.ReadMany(ctx, ReadsOfGate(l.Tree, first)[1:])
	return ParseGate(l.Tree, first, append([]zkconn.ReadResult{tick}, pages...))
}

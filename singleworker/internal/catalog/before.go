package catalog

import (
	"context"
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

// WaitsFor lists the slots whose records tell which ticks have begun, if slot waits for others: the
// job's parents, of which each is one slot, or its first shard.
func (j *Job) WaitsFor(slot string) []string {
	if j.IsChild() {
		return j.Spec.Job.After
	}
	if first, waits := j.Spec.ActiveLayout().WaitsFor(slot); waits {
		return []string{first}
	}
	return nil
}

// IsChild reports whether the job runs after others, its parents.
func (j *Job) IsChild() bool { return len(j.Spec.Job.After) > 0 }

// ReadGate lists the reads that tell which ticks have begun, if slot waits for others, and parses
// their results. If they cannot be read, the gate is nil, and the slot waits. Of parents they are
// the records alone: these tell of the last tick, which is nearly always the one that is waited
// for.
func (j *Job) ReadGate(tree zkrec.Tree, slot string) (reads []zkconn.Read, parse func([]zkconn.ReadResult) *ticks.Gate) {
	others, child := j.WaitsFor(slot), j.IsChild()
	for _, other := range others {
		if reads = append(reads, zkconn.Read{Path: tree.Tick(other)}); !child {
			reads = append(reads, zkconn.ReadsOf(tree.HistoryPages(other)...)...)
		}
	}
	return reads, func(results []zkconn.ReadResult) *ticks.Gate {
		switch {
		case len(others) == 0:
			return nil
		case !child:
			gate, _ := parseGate(tree, Followed{Slot: others[0]}, results)
			return gate
		}
		parents := make([]*ticks.Gate, len(others))
		for i, other := range others {
			if record, err := parseTick(tree, other, results[i]); err == nil {
				parents[i] = ticks.ParentGate(other, record, zkrec.History{}, results[i].Stat.Mtime)
			}
		}
		return ticks.AllOf(parents)
	}
}

func parseTick(tree zkrec.Tree, slot string, tick zkconn.ReadResult) (zkrec.Tick, error) {
	if tick.Err != nil {
		return zkrec.Tick{}, tick.Err
	}
	record, err := zkrec.ParseTick(tick.Data, tick.Stat.Mtime)
	return record, session.ReadError(tree.Tick(slot), err)
}

// parseGate parses the record of a slot, and the pages of its history.
func parseGate(tree zkrec.Tree, of Followed, results []zkconn.ReadResult) (*ticks.Gate, error) {
	record, err := parseTick(tree, of.Slot, results[0])
	if err != nil {
		return nil, err
	}
	pages, err := zkconn.DataOf(results[1 : 1+zkrec.HistoryPages])
	if err != nil {
		return nil, err
	}
	entries, err := zkrec.ParseHistory(pages)
	if err != nil {
		return nil, session.ReadError(tree.History(of.Slot), err)
	}
	if of.Parent {
		return ticks.ParentGate(of.Slot, record, entries, results[0].Stat.Mtime), nil
	}
	return ticks.GateOf(record, entries, results[0].Stat.Mtime), nil
}

// Followed is a slot for whose ticks others wait.
type Followed struct {
	Slot   string
	Parent bool // they are of the job's children; otherwise it is their own first shard
}

// GateRead is a reading by WatchGate.
type GateRead struct {
	Gate    *ticks.Gate
	created int64      // the transaction that has created the record
	mark    zkrec.Mark // of the history, by the record
}

// WatchGate reads the nodes that tell which ticks of a slot have begun, and watches its record. It
// is called beside the loop. The history is read after the record: if it were older, a tick that
// has begun could pass for one that has not. A parent's history is not read if the record says that
// it is as it was before: a claim does not change it.
func WatchGate(ctx context.Context, l *session.Loop, of Followed, before GateRead) (read GateRead, err error) {
	var tick zkconn.ReadResult
	tick.Data, tick.Stat, tick.Err = l.Conn.GetW(ctx, l.Tree.Tick(of.Slot))
	record, err := parseTick(l.Tree, of.Slot, tick)
	if err != nil {
		return GateRead{}, err
	}
	read = GateRead{created: tick.Stat.Czxid, mark: record.History}
	if of.Parent && before.Gate != nil && before.created == read.created && before.mark == read.mark {
		read.Gate = ticks.ParentGate(of.Slot, record, before.Gate.History(), tick.Stat.Mtime)
		return read, nil
	}
	pages := l.Conn.ReadMany(ctx, zkconn.ReadsOf(l.Tree.HistoryPages(of.Slot)...))
	read.Gate, err = parseGate(l.Tree, of, append([]zkconn.ReadResult{tick}, pages...))
	return read, err
}

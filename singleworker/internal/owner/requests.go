package owner

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// ReadManual reads the manual runs that wait for a slot's owner, without those that are unreadable,
// and without backfills, which have time: the oldest MaxRequests. They are dated by ZooKeeper's
// clock. done is called on the loop.
func ReadManual(l *session.Loop, slot string, done func([]ticks.Request, error)) {
	list := zkconn.Read{Path: l.Tree.Requests(slot), Children: true}
	l.Read([]zkconn.Read{list}, func(results []zkconn.ReadResult) {
		if err := results[0].Err; err != nil {
			done(nil, err)
			return
		}
		ids := results[0].Names
		slices.Sort(ids) // they begin with the time
		ids = ids[:min(len(ids), zkrec.MaxRequests)]
		reads := make([]zkconn.Read, len(ids))
		for i, id := range ids {
			reads[i] = zkconn.Read{Path: l.Tree.Request(slot, id)}
		}
		l.Read(reads, func(results []zkconn.ReadResult) { done(manualRuns(ids, results), nil) })
	})
}

func manualRuns(ids []string, results []zkconn.ReadResult) (runs []ticks.Request) {
	for i, result := range results {
		if result.Err != nil {
			continue
		}
		request, err := zkrec.ParseRequest(result.Data)
		request.At = result.Stat.Ctime
		if r := (ticks.Request{ID: ids[i], Request: request}); err == nil && r.IsRun() && !r.IsBackfill() {
			runs = append(runs, r)
		}
	}
	return runs
}

package journal

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// lossWithin is how old a result is at most that servers lose although they have acknowledged it:
// too few of them had written it to their disks when they died.
const lossWithin = time.Minute

// mayBeLost reports whether n's last result may be one that servers have lost.
func (n *node) mayBeLost(now time.Duration) bool { return n.ended > 0 && now-n.ended < lossWithin }

// findLost finds out whether the servers have lost writes of an owned slot that they had
// acknowledged: the record that was read is older than the one that was known. A request that was
// removed with them is there again. The result of a run is written again: else the run would count
// as interrupted, and perhaps be repeated.
func (f fetching) findLost(read Stored) {
	n, known, record := f.n, f.n.record, read.record
	if n.own == nil || known == nil || read.version >= n.version {
		return
	}
	n.own.requests.done, n.own.requests.taken = nil, nil
	f.ReadRequests(n.slot)
	isResult := !known.Open() && record.Open() && known.RunID == record.RunID
	n.own.lost = n.own.loading && (!isResult || known.Watermark != record.Watermark)
	if !isResult {
		return
	}
	f.loop.Log.Warn("ZooKeeper has lost the result of a run: it is recorded again", "job", n.slot, "run_id", record.RunID)
	plan := ticks.Plan{Change: true, Record: *known, Entries: []zkrec.Entry{{Run: known.Run}}}
	plan.Record.Watermark = record.Watermark // rows of later ticks are lost, too
	if known.NextAttempt == "" {
		plan.Request = known.Manual
	}
	again := &write{kind: commit, commit: &ticks.Commit{Slot: n.slot, From: *record, Plan: plan}, done: func(*zkrec.Tick, error) {}}
	again.since = f.loop.Clock.Now().Elapsed
	n.queue = slices.Insert(n.queue, 0, again)
}

package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Breaches for random groups with jobs that always run, jobs that run on every instance, limits,
// labels and wrong clocks.

// configure gives an instance the configuration of the breach; there may be none.
func (b *breach) configure(cfg *singleworker.Config) {
	switch {
	case b == nil:
		return
	case b.unlimited:
		cfg.MaxRunning = 0
	case b.anyClock:
		cfg.MaxClockOffset = singleworker.NoClockLimit
	case b.falseLabels:
		cfg.Labels = map[string]string{"zone": map[string]string{"a": "b", "b": "a"}[cfg.Labels["zone"]]}
	}
}

func (b *breach) begin(w *world) {
	if b != nil && b.first != nil {
		b.first(w)
	}
}

func (b *breach) end(w *world) {
	if b != nil && b.last != nil {
		b.last(w)
	}
}

func wrongClocks(p *profile) { p.Clocks, p.ClockLimit = true, 1500*time.Millisecond }

// serverClock has ZooKeeper's clock leap, for longer than it takes the group to find that out.
func serverClock(p *profile) {
	p.ServerClock, p.Clocks, p.ClockLimit = true, false, 1500*time.Millisecond
	p.Noise, p.FaultEvery = 3*time.Minute, 3*time.Second
}

// unpublished has instances not say how far their clocks are off.
func unpublished(path string, data []byte) []byte {
	record, err := zkrec.ParseInstance(data)
	if err != nil || !strings.Contains(path, "/_instances/") {
		return data
	}
	record.ClockOffset, record.ClockBound = 0, 0
	return record.Encode()
}

func anyClocks(p *profile) { p.Clocks, p.ClockLimit = true, singleworker.NoClockLimit }

func everywhere(p *profile) { p.Everywhere = true }

func placed(p *profile) { p.Placed = true }

// restarts has the next run of a job that always runs come sooner or later than it should, but not
// before the end of the last one.
func restarts(by time.Duration) func(path string, data []byte) []byte {
	return func(path string, data []byte) []byte {
		record, err := zkrec.ParseTick(data, time.Now())
		if err != nil || !strings.HasSuffix(path, "/tick") || record.RestartAt == 0 {
			return data
		}
		record.RestartAt = max(record.RestartAt+by.Milliseconds(), record.Ended)
		return record.Encode()
	}
}

// refusedParts has claims for the parts of jobs on every instance check versions that nodes do not
// have.
func refusedParts(op zkdev.Op, path string, version int32) (string, int32) {
	if op == zkdev.OpSetData && strings.Contains(path, "/everywhere/") && strings.HasSuffix(path, "/tick") {
		return path, version + 1<<20
	}
	return path, version
}

// absent has the history of a part say of all ticks that were not run that its instance was away.
func absent(path string, data []byte) []byte {
	if _, err := zkrec.ParseLog([][]byte{data}); err != nil || !strings.Contains(path, "/everywhere/") || !strings.Contains(path, "/history") {
		return data
	}
	return replaced(data, func(e *zkrec.Entry) {
		if e.RunID == "" {
			e.State, e.Reason = history.StateSkipped, history.ReasonAbsent
		}
	})
}

// loseParts deletes the records of the instances' parts of jobs.
func loseParts(w *world) {
	w.read()
	for _, slot := range slices.Sorted(maps.Keys(w.ledger.accounts)) {
		if _, sid, part := zkrec.SplitInstance(slot); part && w.processOf(sid) != nil {
			_ = w.cluster.Delete(context.Background(), w.cluster.Tree().Tick(slot)) // may be gone
		}
	}
}

// hideOrders has the server say that there are no orders for jobs.
func hideOrders(w *world) {
	list := w.cluster.Tree().Exclusions()
	for _, op := range []zkdev.Op{zkdev.OpGetChildren, zkdev.OpGetChildren2} {
		w.cluster.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
			if r.Path == list {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
	}
}

func windows(p *profile) { p.Windows = true }

// runs has claims write another number of runs than there were.
func runs(change func(n int) int) func(path string, data []byte) []byte {
	return func(path string, data []byte) []byte {
		record, err := zkrec.ParseTick(data, time.Now())
		if err != nil || !strings.HasSuffix(path, "/tick") || record.Runs == 0 || !record.Open() {
			return data
		}
		record.Runs = change(record.Runs)
		return record.Encode()
	}
}

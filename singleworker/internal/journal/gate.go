package journal

import (
	"context"
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// gate is the state of a first shard. It is of a job that exists: that the record was deleted is
// reported before anything of another job of that name.
type gate struct {
	known   *ticks.Gate // nil: nothing is, and the shards wait
	before  *ticks.Gate // what was known before the change that is being read; nil if nothing was, in this connection
	reading session.OnePerTime
}

// Gates follows the first shards of jobs with BeforeTick, of which this instance owns other shards.
type Gates struct {
	journal *Journal
	byFirst map[string]*gate // by the slot of the first shard
}

// Changed reads the first shard of a job again, if other shards are owned that wait for it.
func (gs *Gates) Changed(first string) {
	g := gs.byFirst[first]
	if g == nil {
		return
	}
	g.known = nil
	if len(gs.waiting(first)) == 0 {
		delete(gs.byFirst, first)
		return
	}
	gs.read(first, g)
}

// of is the gate of the first shard that slot waits for, if it does. It begins to follow that.
func (gs *Gates) of(job *catalog.Job, slot string) *ticks.Gate {
	first, waits := job.WaitsFor(slot)
	if !waits {
		return nil
	}
	g := gs.byFirst[first]
	if g == nil {
		g = &gate{}
		gs.byFirst[first] = g
	}
	if g.known == nil && !g.reading.Running() {
		gs.read(first, g)
	}
	return g.known
}

func (gs *Gates) read(first string, g *gate) {
	j := gs.journal
	if !j.loop.Joined() || !g.reading.Begin() {
		return // continued when joined again
	}
	j.loop.Async("read the first shard", func(ctx context.Context) func() {
		known, err := catalog.WatchGate(ctx, j.loop, first)
		return func() {
			again := g.reading.End()
			j.catalog.Report(first, err, j.loop.Tree.Tick(first), j.loop.Tree.History(first))
			switch {
			case gs.byFirst[first] != g:
			case again: // it has changed; or it is that of another connection, or of a job that is gone
				gs.read(first, g)
			case err != nil:
				j.loop.Log.Debug("first shard not read: the others wait", "job", first, "err", err) // the next sync tries again
			default:
				if g.before != nil {
					known = known.SeenSince(g.before, j.loop.Clock.Wall())
				}
				g.known, g.before = known, known
				for _, slot := range gs.waiting(first) {
					j.runner.Begun(slot, g.known)
				}
			}
		}
	})
}

// waiting lists the owned slots that wait for a job's first shard.
func (gs *Gates) waiting(first string) (slots []string) {
	job := gs.journal.catalog.JobOf(first)
	if job == nil {
		return nil
	}
	for _, slot := range job.Slots {
		if of, waits := job.WaitsFor(slot); waits && of == first && gs.journal.nodes.owned(slot) != nil {
			slots = append(slots, slot)
		}
	}
	return slots
}

// forget has everything read again that is followed: the watches have ended with the connection.
func (gs *Gates) forget() {
	for _, first := range slices.Sorted(maps.Keys(gs.byFirst)) {
		gs.byFirst[first].before = nil
		gs.Changed(first)
	}
}

// retry reads again the first shards that could not be read.
func (gs *Gates) retry() {
	for _, first := range slices.Sorted(maps.Keys(gs.byFirst)) {
		if g := gs.byFirst[first]; g.known == nil && !g.reading.Running() {
			gs.Changed(first)
		}
	}
}

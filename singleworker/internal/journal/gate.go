package journal

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
)

// gate is the state of a slot for which others wait. It is of a job that exists: that the record
// was deleted is reported before anything of another job of that name.
type gate struct {
	known   *ticks.Gate      // nil: nothing is, and the others wait
	before  catalog.GateRead // what was known before the change that is being read; nothing if nothing was, in this connection
	reading session.OnePerTime
}

// Gates follows the slots for which this instance's own wait: the first shards of jobs with
// BeforeTick, and the parents of jobs after jobs.
type Gates struct {
	journal  *Journal
	followed map[catalog.Followed]*gate
	proofs   proofs
}

func newGates(j *Journal) *Gates {
	return &Gates{j, make(map[catalog.Followed]*gate), proofs{j, make(map[string]*proof)}}
}

// Changed reads a slot again, if others are owned that wait for it.
func (gs *Gates) Changed(slot string) {
	gs.changed(catalog.Followed{Slot: slot})
	gs.changed(catalog.Followed{Slot: slot, Parent: true})
}

func (gs *Gates) changed(of catalog.Followed) {
	g := gs.followed[of]
	if g == nil {
		return
	}
	g.known = nil
	if len(gs.waiting(of)) == 0 {
		delete(gs.followed, of)
		return
	}
	gs.read(of, g)
}

// of is the gate of the slots that slot waits for, if it does, and nil if one is not known. It
// begins to follow them.
func (gs *Gates) of(job *catalog.Job, slot string) *ticks.Gate {
	others := job.WaitsFor(slot)
	if len(others) == 0 {
		return nil
	}
	gates := make([]*ticks.Gate, len(others))
	for i, other := range others {
		of := catalog.Followed{Slot: other, Parent: job.IsChild()}
		g := gs.followed[of]
		if g == nil {
			g = &gate{}
			gs.followed[of] = g
		}
		if g.known == nil && !g.reading.Running() {
			gs.read(of, g)
		}
		gates[i] = g.known
	}
	if !job.IsChild() {
		return gates[0]
	}
	if _, known := gs.proofs.of(job.Version.Named); !known {
		return nil
	}
	return ticks.AllOf(gates)
}

// proven tells the slots that wait for a proof of a job.
func (gs *Gates) proven(ancestor string) {
	for slot, job := range gs.children() {
		for named := range job.Version.Named.Jobs() {
			if named == ancestor {
				gs.journal.runner.Begun(slot, gs.of(job, slot))
			}
		}
	}
}

// children are the owned slots of jobs that run after others.
func (gs *Gates) children() iter.Seq2[string, *catalog.Job] {
	return func(yield func(string, *catalog.Job) bool) {
		for _, slot := range slices.Sorted(maps.Keys(gs.journal.nodes.bySlot)) {
			job := gs.journal.catalog.JobOf(slot)
			if gs.journal.nodes.owned(slot) != nil && job != nil && job.Valid() && job.IsChild() && !yield(slot, job) {
				return
			}
		}
	}
}

func (gs *Gates) read(of catalog.Followed, g *gate) {
	j := gs.journal
	if !j.loop.Joined() || !g.reading.Begin() {
		return // continued when joined again
	}
	before, attempt := g.before, j.loop.Attempt()
	j.loop.Async("read what others wait for", func(ctx context.Context) func() {
		read, err := catalog.WatchGate(ctx, j.loop, of, before)
		return func() {
			again := g.reading.End()
			j.catalog.Report(of.Slot, err, j.loop.Tree.Tick(of.Slot), j.loop.Tree.History(of.Slot))
			switch {
			case gs.followed[of] != g:
			case again: // it has changed; or it is of another connection, or of a job that is gone
				gs.read(of, g)
			case err != nil:
				j.loop.Log.Debug("records not read that others wait for", "job", of.Slot, "err", err) // the next sync tries again
			default:
				if g.before.Gate != nil {
					read.Gate = read.Gate.SeenSince(g.before.Gate, j.loop.Clock.Wall())
				}
				read.Gate.Attempt = attempt
				g.known, g.before = read.Gate, read
				for _, slot := range gs.waiting(of) {
					j.runner.Begun(slot, gs.of(j.catalog.JobOf(slot), slot))
				}
			}
		}
	})
}

// waiting lists the owned slots that wait for one.
func (gs *Gates) waiting(of catalog.Followed) (slots []string) {
	jobs := gs.journal.catalog.Parents.Children(of.Slot)
	if job := gs.journal.catalog.JobOf(of.Slot); !of.Parent {
		jobs = []*catalog.Job{job}
	}
	for _, job := range jobs {
		if job == nil || job.IsChild() != of.Parent {
			continue
		}
		for _, slot := range job.Slots {
			if slices.Contains(job.WaitsFor(slot), of.Slot) && gs.journal.nodes.owned(slot) != nil {
				slots = append(slots, slot)
			}
		}
	}
	return slots
}

// forget has everything read again that is followed: the watches have ended with the connection.
func (gs *Gates) forget() {
	for _, of := range gs.sorted() {
		gs.followed[of].before = catalog.GateRead{}
		gs.changed(of)
	}
}

// retry reads again the slots that could not be read, and makes proofs that could not be made.
func (gs *Gates) retry() {
	gs.proofs.sync()
	for _, of := range gs.sorted() {
		if g := gs.followed[of]; g.known == nil && !g.reading.Running() {
			gs.changed(of)
		}
	}
}

func (gs *Gates) sorted() []catalog.Followed {
	return slices.SortedFunc(maps.Keys(gs.followed), func(a, b catalog.Followed) int {
		if a.Slot == b.Slot && a.Parent {
			return 1
		}
		return cmp.Compare(a.Slot, b.Slot)
	})
}

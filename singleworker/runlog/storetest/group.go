package storetest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// group is a group that is made up, with the truth about what happened in it. It is a runlog.Source
// in which time passes only while it is read.
type group struct {
	r     *rand.Rand
	left  int // steps
	kind  groupKind
	now   time.Time
	zxid  int64
	slots []*slot
	truth map[string]string // what became of each tick, by identity
	stop  func()

	amended map[string]bool // the runs whose result came late
	gone    map[string]bool // the incarnations that were removed, perhaps before their end was read

	backup   []slot            // of a group that is restored, and the truth at that time
	then     map[string]string //
	lost     map[string]string // the runs that were forgotten by restores, with their last state
	restores int
}

// groupKind is what happens in a group beside that its jobs run.
type groupKind int

const (
	steady   groupKind = iota // jobs are submitted once more
	forgets                   // more happens between two readings than a history holds
	restored                  // from a backup, now and then
)

type slot struct {
	name        string
	incarnation int64
	log         zkrec.Log
	watermark   int64
	changed     bool
}

func newGroup(seed uint64, steps int, kind groupKind) *group {
	g := &group{
		r: rand.New(rand.NewPCG(seed, 1)), left: steps, kind: kind, truth: make(map[string]string), amended: make(map[string]bool), gone: make(map[string]bool),
		lost: make(map[string]string), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, name := range []string{"nightly", "report[0]", "report[1]", "sweep/app-1", "Nightly"} {
		g.slots = append(g.slots, &slot{name: name})
		g.submit(g.slots[len(g.slots)-1])
	}
	return g
}

// submit submits a job again, if it is there.
func (g *group) submit(s *slot) {
	if s.incarnation != 0 {
		g.gone[fmt.Sprintf("%s@%d ", s.name, s.incarnation)] = true
		g.truth[identity(s.name, s.incarnation, "gone")] = string(runlog.Gone)
	}
	g.zxid++
	s.incarnation, s.log, s.watermark, s.changed = g.zxid, zkrec.Log{}, g.now.UnixMilli(), true
}

// step lets something happen to one slot.
func (g *group) step() {
	s := g.slots[g.r.IntN(len(g.slots))]
	g.now = g.now.Add(time.Second)
	g.zxid++
	s.changed = true
	tick := g.now.UnixMilli()
	switch n := g.r.IntN(100); {
	case n == 0 && g.kind == steady: // who is not there sees neither that a job was gone nor what it did
		g.submit(s)
	case n == 0 && g.kind == restored:
		g.restore()
	case n < 20 && g.amend(s):
	case n < 45: // all that the log has not yet
		e := zkrec.Entry{Run: zkrec.Run{Tick: s.watermark + 1000, State: history.StateSkipped, Ended: tick}, Reason: []history.Reason{history.ReasonPaused, history.ReasonOverlap}[g.r.IntN(2)]}
		if tick > e.Tick {
			e.To, e.Count = tick, int(tick-e.Tick)/1000+1
		}
		g.add(s, e)
	default:
		states := []history.State{history.StateOK, history.StateFailed, history.StateInterrupted, history.StateLost}
		g.add(s, zkrec.Entry{Run: zkrec.Run{
			Tick: tick, RunID: fmt.Sprintf("run-%d", g.zxid), State: states[g.r.IntN(len(states))], Attempt: 1, SID: "app-1",
			Token: g.zxid, Started: tick + 3, Ended: tick + 5, Error: "é\x00'\"\\ <b>",
		}})
	}
}

func (g *group) add(s *slot, e zkrec.Entry) {
	s.log = s.log.Add(zkrec.MinHistory, s.watermark, e)
	s.watermark = g.now.UnixMilli()
	entries := s.log.History().Entries
	g.tell(s, entries[len(entries)-1])
}

// amend lets the result of a run come late.
func (g *group) amend(s *slot) bool {
	recent := s.log.History().Entries
	recent = recent[max(0, len(recent)-zkrec.MinHistory/2):] // they are read before they are forgotten
	i := slices.IndexFunc(recent, func(e zkrec.Entry) bool { return e.State == history.StateInterrupted || e.State == history.StateLost })
	if i < 0 {
		return false
	}
	e := recent[i]
	e.State, e.Ended = history.StateOK, e.Ended+1
	s.log, _ = s.log.Amend(e)
	g.amended[identity(s.name, s.incarnation, e.RunID)] = true
	g.tell(s, e)
	return true
}

// restore has the server forget writes after a backup, and makes the next one.
func (g *group) restore() {
	if g.backup != nil {
		g.restores++
		for id, what := range g.truth {
			if g.then[id] != what && strings.Contains(id, " run-") {
				g.lost[id] = what
			}
		}
		g.truth = g.then
		for i, was := range g.backup {
			*g.slots[i] = was
			g.slots[i].changed = true
		}
	}
	g.backup, g.then = nil, maps.Clone(g.truth)
	for _, s := range g.slots {
		g.backup = append(g.backup, *s)
	}
}

func (g *group) tell(s *slot, e zkrec.Entry) {
	key := e.RunID
	if key == "" {
		key = fmt.Sprintf("tick:%d", e.Tick)
	}
	g.truth[identity(s.name, s.incarnation, key)] = fmt.Sprintf("%s x%d to %d", e.State, e.Ticks(), e.Last())
}

func identity(slot string, incarnation int64, key string) string {
	return fmt.Sprintf("%s@%d %s", slot, incarnation, key)
}

// WatchHistories implements runlog.Source.
func (g *group) WatchHistories(ctx context.Context, _ admin.WatchHistoriesOptions) iter.Seq2[admin.HistoryReading, error] {
	return func(yield func(admin.HistoryReading, error) bool) {
		for _, s := range g.slots {
			s.changed = true
		}
		for yield(g.reading(), nil) {
			if g.left == 0 {
				g.stop()
			}
			if ctx.Err() != nil {
				yield(admin.HistoryReading{}, ctx.Err())
				return
			}
			steps := 1 + g.r.IntN(10)
			if g.kind == forgets && g.r.IntN(5) == 0 {
				steps = 200
			}
			for range min(steps, g.left) {
				g.step()
				g.left--
			}
		}
	}
}

func (g *group) reading() admin.HistoryReading {
	r := admin.HistoryReading{Cursor: g.zxid, Whole: true}
	for _, s := range g.slots {
		if !s.changed {
			continue
		}
		s.changed = false
		history := s.log.History()
		h := admin.SlotHistory{
			Name: s.name, Incarnation: s.incarnation, Written: g.now, Rev: history.Rev, Number: history.Number, Dropped: history.Dropped,
		}
		for _, e := range history.Entries {
			h.Entries = append(h.Entries, e.Public())
		}
		r.Slots = append(r.Slots, h)
	}
	return r
}

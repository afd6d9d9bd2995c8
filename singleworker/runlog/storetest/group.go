package storetest

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// group is a group that is made up, with the truth about what happened in it. It is a runlog.Source in which time passes only
// while it is read.
type group struct {
	r     *rand.Rand
	left  int  // steps
	holes bool // more may happen between two readings than a history holds
	now   time.Time
	zxid  int64
	slots []*slot
	truth map[string]string // what became of each tick, by identity
	stop  func()

	amended map[string]bool // the runs whose result came late
	gone    map[string]bool // the incarnations that were removed, perhaps before their end was read
}

type slot struct {
	name        string
	incarnation int64
	history     zkrec.History
	watermark   int64
	changed     bool
}

func newGroup(seed uint64, steps int, holes bool) *group {
	g := &group{
		r: rand.New(rand.NewPCG(seed, 1)), left: steps, holes: holes, truth: make(map[string]string), amended: make(map[string]bool), gone: make(map[string]bool),
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
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
	s.incarnation, s.history, s.watermark, s.changed = g.zxid, zkrec.History{}, g.now.UnixMilli(), true
}

// step lets something happen to one slot.
func (g *group) step() {
	s := g.slots[g.r.IntN(len(g.slots))]
	g.now = g.now.Add(time.Second)
	g.zxid++
	s.changed = true
	tick := g.now.UnixMilli()
	switch n := g.r.IntN(100); {
	case n == 0 && !g.holes: // who is not there sees neither that a job was gone nor what it did
		g.submit(s)
	case n < 20 && g.amend(s):
	case n < 45:
		e := zkrec.Entry{Run: zkrec.Run{Tick: tick, State: zkrec.TickSkipped, Ended: tick}, Reason: "paused"}
		if g.r.IntN(2) == 0 {
			e.To, e.Count = tick+500, 2
		}
		s.history = s.history.Add(s.watermark, e)
		s.watermark = e.Last()
		g.tell(s, s.history.Entries[len(s.history.Entries)-1])
	default:
		states := []string{zkrec.RunOK, zkrec.RunFailed, zkrec.RunInterrupted, zkrec.RunLost}
		e := zkrec.Entry{Run: zkrec.Run{
			Tick: tick, RunID: fmt.Sprintf("run-%d", g.zxid), State: states[g.r.IntN(len(states))], Attempt: 1, SID: "app-1",
			Token: g.zxid, Started: tick + 3, Ended: tick + 5, Error: "é\x00'\"\\ <b>",
		}}
		s.history, s.watermark = s.history.Add(s.watermark, e), tick
		g.tell(s, e)
	}
}

// amend lets the result of a run come late.
func (g *group) amend(s *slot) bool {
	recent := s.history.Entries[max(0, len(s.history.Entries)-zkrec.MaxHistory/2):] // they are read before they are forgotten
	i := slices.IndexFunc(recent, func(e zkrec.Entry) bool { return e.State == zkrec.RunInterrupted || e.State == zkrec.RunLost })
	if i < 0 {
		return false
	}
	e := recent[i]
	e.State, e.Ended = zkrec.RunOK, e.Ended+1
	s.history, _ = s.history.Amend(e)
	g.amended[identity(s.name, s.incarnation, e.RunID)] = true
	g.tell(s, e)
	return true
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
			if g.holes && g.r.IntN(5) == 0 {
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
		h := admin.SlotHistory{Name: s.name, Incarnation: s.incarnation, Written: g.now, Full: len(s.history.Entries) >= zkrec.MaxHistory}
		for _, e := range s.history.Entries {
			h.Entries = append(h.Entries, entryOf(e))
		}
		r.Slots = append(r.Slots, h)
	}
	return r
}

func entryOf(e zkrec.Entry) admin.Entry {
	at := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms).UTC()
	}
	return admin.Entry{Run: admin.Run{
		Tick: at(e.Tick), State: e.State, InstanceID: e.SID, Token: e.Token, RunID: e.RunID, Attempt: e.Attempt,
		Started: at(e.Started), Ended: at(e.Ended), Error: e.Error,
	}, To: at(e.Last()), Count: e.Ticks(), Reason: admin.Reason(e.Reason)}
}

package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Entries of a history beyond the tick record that was read before it are new, and missing ones are
// a gap, once.
func TestFollow(t *testing.T) {
	t.Parallel()
	entry := func(id string) zkrec.Entry {
		e := zkrec.Entry{Run: zkrec.Run{Tick: 1, RunID: id, State: history.StateOK}}
		if e.RunID == "" {
			e = zkrec.Entry{Run: zkrec.Run{Tick: 10, State: history.StateSkipped}, To: 12, Count: 3}
		}
		return e
	}
	logOf := func(keep int, ids ...string) (log zkrec.Log) {
		for _, id := range ids {
			log = log.Add(keep, 0, entry(id))
		}
		return log
	}
	open := func(id string, log zkrec.Log) zkrec.Tick {
		return zkrec.Tick{Run: zkrec.Run{Tick: 1, RunID: id, State: history.StateRunning}, History: log.Mark()}
	}
	closed := func(id string, log zkrec.Log) zkrec.Tick {
		return zkrec.Tick{Run: entry(id).Run, History: log.Mark()}
	}
	late := entry("a")
	late.State = history.StateFailed
	amended, _ := logOf(9, "a", "b").Amend(late)
	skipped, _ := logOf(9, "a", "").Amend(late)
	type read struct {
		tick zkrec.Tick
		log  zkrec.Log
	}
	a, ab, abc := logOf(9, "a"), logOf(9, "a", "b"), logOf(9, "a", "b", "c")
	forgot := logOf(1, "a", "b", "c", "d", "e", "f", "g", "h") // a and b
	var rest []string
	for _, id := range []string{"c", "d", "e", "f", "g", "h"} {
		rest = append(rest, "run_begun "+id, "run_ended "+id+" ok")
	}
	known := strings.Join(rest, ", ")
	rows := logOf(9, "")
	longer, other := entry(""), entry("")
	other.Tick++
	most := entry("")
	most.Count = zkrec.MaxCount - 1
	many := zkrec.Log{}.Add(9, 0, most)
	longer.Tick, longer.To, longer.Count = 13, 14, 2
	for what, c := range map[string]struct {
		begin zkrec.Tick
		reads []read
		want  string
	}{
		"the run had ended when the history was read": {open("b", a), []read{{closed("c", abc), abc}}, "run_ended b ok, run_begun c, run_ended c ok"},
		"the tick record is older":                    {open("b", a), []read{{open("b", a), abc}}, "run_ended b ok, run_begun c, run_ended c ok"},
		"nothing is told twice":                       {closed("a", a), []read{{open("b", a), a}, {closed("b", ab), abc}, {closed("c", abc), abc}}, "run_begun b, run_ended b ok, run_begun c, run_ended c ok"},
		"a row grows":                                 {zkrec.Tick{}, []read{{zkrec.Tick{}, rows}, {zkrec.Tick{}, rows.Add(9, 12, longer)}}, "ticks_skipped  x3, ticks_skipped  x2 continued"},
		"a row that is not known grows":               {zkrec.Tick{History: rows.Mark()}, []read{{zkrec.Tick{}, rows.Add(9, 12, longer)}}, "ticks_skipped  x0 continued"},
		"more is forgotten than was told":             {closed("a", a), []read{{closed("h", forgot), forgot}}, "gap, " + known},
		"what was told is forgotten":                  {closed("b", ab), []read{{closed("h", forgot), forgot}}, known},
		"the end of a run is forgotten": {
			open("b", a), []read{{closed("h", forgot), forgot}, {open("i", forgot), forgot}},
			"gap, " + known + ", run_begun i",
		},
		"a run was replaced":              {open("b", a), []read{{open("c", a), a}}, "gap, run_begun c"},
		"a late result":                   {closed("b", ab), []read{{closed("b", amended), amended}}, "run_ended a failed amended superseded"},
		"a late result of what is untold": {zkrec.Tick{}, []read{{closed("b", amended), amended}}, "run_begun a, run_ended a failed amended superseded, run_begun b, run_ended b ok"},
		"a late result before a row":      {closed("a", logOf(9, "a", "")), []read{{closed("a", skipped), skipped}}, "run_ended a failed amended"},
		"a restored history":              {closed("c", abc), []read{{closed("a", a), a}, {closed("d", ab), logOf(9, "a", "d")}}, "gap, run_begun d, run_ended d ok"},
		"another row is at the place of one": {
			zkrec.Tick{}, []read{{zkrec.Tick{}, rows}, {zkrec.Tick{}, zkrec.Log{}.From(zkrec.Mark{Rev: 1}).Add(9, 0, other)}},
			"ticks_skipped  x3, gap, ticks_skipped  x0 continued",
		},
		"a row is at the place of one before the last": {
			zkrec.Tick{}, []read{{closed("b", rows), rows.Add(9, 12, entry("b"))}, {zkrec.Tick{}, zkrec.Log{}.From(zkrec.Mark{Rev: 5}).Add(9, 0, other)}},
			"ticks_skipped  x3, run_begun b, run_ended b ok, gap, ticks_skipped  x0 continued",
		},
		"a row has more ticks than are counted": {
			zkrec.Tick{}, []read{{zkrec.Tick{}, many}, {zkrec.Tick{}, many.Add(9, 12, longer)}}, "ticks_skipped  x9999, ticks_skipped  x0 continued",
		},
		"the end of a run is lost with the history": {
			open("b", a), []read{{closed("b", ab), zkrec.Log{}.From(ab.Mark())}, {open("c", ab), zkrec.Log{}.From(ab.Mark())}}, "gap, run_begun c",
		},
		"a restored history that is further again": {
			closed("a", a), []read{{closed("b", ab), ab}, {closed("e", abc), logOf(9, "a", "d", "e")}},
			"run_begun b, run_ended b ok, gap, run_begun e, run_ended e ok",
		},
	} {
		var texts []string
		var watched watchedTicks
		watched.begin(c.begin, c.begin.History)
		for _, r := range c.reads {
			events, last, whole := watched.follow(r.tick, r.log.History())
			if !whole {
				texts = append(texts, "gap")
			}
			for _, ev := range append(events, last...) {
				texts = append(texts, eventText(ev))
			}
		}
		if got := strings.Join(texts, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

// When something happened is what ZooKeeper says of the last write, and what the instance says of
// others, unless its clock is ahead.
func TestFollowTellsWhen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	h, stat := zkrec.History{Mark: zkrec.Mark{Rev: 3}}, zkconn.Stat{Mtime: at}
	for what, c := range map[string]struct {
		rev     int64
		kind    EventKind
		started time.Duration // from at
		ended   time.Duration
		want    time.Duration
	}{
		"the last write":             {3, EventRunEnded, -5, -4, 0},
		"the begin of its run":       {3, EventRunBegun, -5, -4, -5},
		"a write before":             {2, EventRunEnded, -5, -4, -4},
		"a row of a write before":    {2, EventTicksSkipped, -5, -4, -4},
		"of a clock that is ahead":   {2, EventRunEnded, -5, 4, 0},
		"a begin, likewise":          {2, EventRunBegun, 5, 6, 0},
		"of an entry without a time": {2, EventRunEnded, -5, -1 << 40, 0},
	} {
		ev := Event{Kind: c.kind, Entry: &history.Entry{Rev: c.rev, Run: history.Run{Started: at.Add(c.started), Ended: at.Add(c.ended)}}}
		if c.ended == -1<<40 {
			ev.Entry.Ended = time.Time{}
		}
		if got := happened(ev, h, stat); !got.Equal(at.Add(c.want)) {
			t.Errorf("%s: %s, want %s", what, got, at.Add(c.want))
		}
	}
}

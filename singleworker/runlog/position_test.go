package runlog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// keep is how many entries the histories of these tests have.
const keep = 6

// writes has so many things happen to a history, each of which is a write. A second passes with
// each.
func writes(r *rand.Rand, l zkrec.Log, now *int64, watermark *int64, times int) zkrec.Log {
	for range times {
		*now += 1000
		old := l.History().Entries
		runs := slices.DeleteFunc(slices.Clone(old), func(e zkrec.Entry) bool { return e.RunID == "" })
		switch {
		case r.IntN(3) == 0 && len(runs) > 0:
			e := runs[r.IntN(len(runs))]
			e.Failures++
			l, _ = l.Amend(e)
		case r.IntN(2) == 0:
			l = l.Add(keep, *watermark, zkrec.Entry{Run: zkrec.Run{Tick: *watermark + 1000, State: history.StateSkipped}, To: *now, Count: 2})
			*watermark = *now
		default:
			l = l.Add(keep, *watermark, zkrec.Entry{Run: zkrec.Run{Tick: *now, State: history.StateOK, RunID: fmt.Sprint("run-", *now)}},
				zkrec.Entry{Run: zkrec.Run{Tick: *now + 1000, State: history.StateMissed}})
			*now += 1000
			*watermark = *now
		}
	}
	return l
}

func slotHistory(l zkrec.Log) admin.SlotHistory {
	h := l.History()
	s := admin.SlotHistory{Name: "job", Incarnation: 1, Written: time.UnixMilli(1), Rev: h.Rev, Number: h.Number, Dropped: h.Dropped}
	for _, e := range h.Entries {
		s.Entries = append(s.Entries, history.Entry{
			Number: e.Number, Rev: e.Rev, To: zkrec.Time(e.Last()), Count: e.Ticks(),
			Run: history.Run{Tick: zkrec.Time(e.Tick), RunID: e.RunID, State: e.State, Failures: e.Failures},
		})
	}
	return s
}

// A log that ends after any of its news continues with the others. Entries that the history has
// forgotten until then are a hole.
func TestNewsInParts(t *testing.T) {
	t.Parallel()
	holes, changes := 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 0))
		var now, watermark int64 = 1000, 1000
		l := writes(r, zkrec.Log{}, &now, &watermark, r.IntN(8))
		p := Position{}
		for _, e := range p.news(slotHistory(l)) {
			p = p.After(e)
		}
		l = writes(r, l, &now, &watermark, r.IntN(25))
		h := slotHistory(l)
		later := slotHistory(writes(r, l, &now, &watermark, r.IntN(9)))
		news := p.news(h)
		for i, e := range news {
			if e.Kind == Hole {
				holes++
			} else if e.Amended {
				changes++
			}
			p = p.After(e)
			rest := news[i+1:]
			if !p.continuedBy(h) || !p.continuedBy(later) {
				t.Fatalf("seed %d: %+v is not continued by %+v", seed, p, h)
			}
			same := func(a, b Entry) bool { return a.Key == b.Key && a.Rev == b.Rev && a.Kind == b.Kind }
			if then := p.news(h); !slices.EqualFunc(then, rest, same) {
				t.Fatalf("seed %d: after %d of\n%+v\nthe news are\n%+v", seed, i+1, news, then)
			}
			then := p.news(later)
			hole := slices.ContainsFunc(then, func(e Entry) bool { return e.Kind == Hole })
			for _, e := range rest {
				if !hole && e.Kind != Hole && !slices.ContainsFunc(then, func(o Entry) bool { return o.Key == e.Key && o.Rev >= e.Rev }) {
					t.Fatalf("seed %d: after %d of\n%+v\n%+v is missing in\n%+v", seed, i+1, news, e, then)
				}
			}
		}
		if then := p.news(h); len(then) > 0 {
			t.Fatalf("seed %d: after all of\n%+v\nthe news are\n%+v", seed, news, then)
		}
	}
	if holes < 50 || changes < 50 {
		t.Errorf("%d holes, %d changes: this tests nothing", holes, changes)
	}
}

package zkrec_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// row is an entry for ticks that were not run: one, or those from first to last.
func row(first, last int64, count int) zkrec.Entry {
	e := zkrec.Entry{Run: zkrec.Run{
		Tick: first, SID: "a", Token: 7, State: zkrec.TickMissed, Ended: last + 1,
	}, Reason: zkrec.ReasonStalled}
	if count > 1 {
		e.To, e.Count = last, count
	}
	return e
}

// Rows are joined if they are alike and nothing is between them.
func TestRowsAreJoined(t *testing.T) {
	t.Parallel()
	joined := row(10, 40, 4)
	if got := (zkrec.History{}).Add(0, row(10, 20, 2)).Add(20, row(30, 40, 2)); !reflect.DeepEqual(got.Entries, []zkrec.Entry{joined}) {
		t.Errorf("joined to %+v, want %+v", got.Entries, joined)
	}
	for what, change := range map[string]func(e *zkrec.Entry, watermark *int64){
		"another instance's":  func(e *zkrec.Entry, _ *int64) { e.SID = "b" },
		"of another token":    func(e *zkrec.Entry, _ *int64) { e.Token = 8 },
		"of another state":    func(e *zkrec.Entry, _ *int64) { e.State = zkrec.TickSkipped },
		"for another reason":  func(e *zkrec.Entry, _ *int64) { e.Reason = zkrec.ReasonNoOwner },
		"a run":               func(e *zkrec.Entry, _ *int64) { e.RunID = "r1" },
		"after what was run":  func(_ *zkrec.Entry, watermark *int64) { *watermark = 25 },
		"before the last row": func(_ *zkrec.Entry, watermark *int64) { *watermark = 15 },
	} {
		next, watermark := row(30, 40, 2), int64(20)
		change(&next, &watermark)
		if got := (zkrec.History{}).Add(0, row(10, 20, 2)).Add(watermark, next); len(got.Entries) != 2 {
			t.Errorf("%s: joined to %+v", what, got.Entries)
		}
	}
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	t.Parallel()
	var h zkrec.History
	for k := range zkrec.MaxHistory + 5 {
		h = h.Add(0, zkrec.Entry{Run: zkrec.Run{RunID: fmt.Sprintf("r%d", k)}})
	}
	if n := len(h.Entries); n != zkrec.MaxHistory || h.Entries[0].RunID != "r5" {
		t.Errorf("%d entries, the first of %s; want %d, from r5 on", n, h.Entries[0].RunID, zkrec.MaxHistory)
	}
}

// A late result replaces the entry of its run, wherever that is, and no other.
func TestAmend(t *testing.T) {
	t.Parallel()
	var h zkrec.History
	for _, id := range []string{"r1", "r2", "r3"} {
		h = h.Add(0, zkrec.Entry{Run: zkrec.Run{RunID: id, State: zkrec.RunInterrupted}})
	}
	amended, ok := h.Amend(zkrec.Entry{Run: zkrec.Run{RunID: "r2", State: zkrec.RunOK}})
	if got := amended.Entries; !ok || got[0] != h.Entries[0] || got[1].State != zkrec.RunOK || got[2] != h.Entries[2] {
		t.Errorf("amended to %+v, %v", got, ok)
	}
	if h.Entries[1].State != zkrec.RunInterrupted {
		t.Error("the history that was given has changed")
	}
	if unchanged, ok := h.Amend(zkrec.Entry{Run: zkrec.Run{RunID: "r9"}}); ok || !reflect.DeepEqual(unchanged, h) {
		t.Errorf("the result of a run that is not there makes it %+v", unchanged)
	}
}

package zkrec_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// A log is read back as it was written, however it came about. Its entries have consecutive
// numbers, none is of a later write than the log, and no entry that is gone is of a later write
// than it owns to have forgotten.
func TestLogIsReadBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var l zkrec.Log
		var through int64
		pages := make([][]byte, zkrec.HistoryPages) // as they are in ZooKeeper
		for step := range 90 {
			before, was := l.History(), through
			if random.IntN(5) == 0 && len(before.Entries) > 0 {
				late := before.Entries[random.IntN(len(before.Entries))]
				late.State, late.Error = history.StateOK, "late \xff"
				l, _ = l.Amend(late)
			} else {
				l = l.Add(zkrec.MinHistory, was, randomEntries(random, &through)...)
			}
			for _, page := range l.Changed() {
				pages[page] = l.Encode(page)
			}
			h, err := zkrec.ParseHistory(pages)
			if err != nil || h.Rev != before.Rev+1 || !reflect.DeepEqual(h, l.History()) {
				t.Fatalf("seed %d, step %d: read back as\n%+v, %v, want\n%+v", seed, step, h, err, l.History())
			}
			for i, e := range h.Entries {
				if e.Number != h.Number-int64(len(h.Entries)-1-i) {
					t.Fatalf("seed %d, step %d: entry %d of %d has number %d, the last one %d", seed, step, i, len(h.Entries), e.Number, h.Number)
				}
			}
			for _, e := range before.Entries {
				if gone := !slices.ContainsFunc(h.Entries, func(kept zkrec.Entry) bool { return kept.Number == e.Number }); gone && e.Rev > h.Dropped {
					t.Fatalf("seed %d, step %d: entry %d, of write %d, is gone, and %d is dropped", seed, step, e.Number, e.Rev, h.Dropped)
				}
			}
			if random.IntN(4) == 0 { // another owner reads it
				if l, err = zkrec.ParseLog(pages); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// randomEntries are a run, or some rows, with long errors once in a while.
func randomEntries(random *rand.Rand, through *int64) (entries []zkrec.Entry) {
	if random.IntN(2) == 0 {
		run := zkrec.Run{RunID: fmt.Sprint("r", random.IntN(1000)), State: history.StateFailed, Tick: *through}
		run.Error = strings.Repeat("<é>", max(0, random.IntN(12)-9)*500)
		return []zkrec.Entry{{Run: run}}
	}
	for range 1 + random.IntN(3) {
		first := *through + 10
		entries = append(entries, row(first, first+10, 1+random.IntN(2)))
		*through = entries[len(entries)-1].Last()
	}
	return entries
}

// Rows are joined if they are alike and nothing is between them.
func TestRowsAreJoined(t *testing.T) {
	t.Parallel()
	joined := row(10, 40, 4)
	joined.Number, joined.Rev = 1, 2
	first := zkrec.Log{}.Add(zkrec.MinHistory, 0, row(10, 20, 2))
	if got := first.Add(zkrec.MinHistory, 20, row(30, 40, 2)).History().Entries; !reflect.DeepEqual(got, []zkrec.Entry{joined}) {
		t.Errorf("joined to %+v, want %+v", got, joined)
	}
	together := zkrec.Log{}.Add(zkrec.MinHistory, 0, row(10, 20, 2), row(30, 40, 2)).History()
	if joined.Rev = 1; len(together.Entries) != 1 || together.Entries[0] != joined {
		t.Errorf("added together they are %+v, want %+v", together.Entries, joined)
	}
	if nothing := first.Add(zkrec.MinHistory, 20); !reflect.DeepEqual(nothing, first) {
		t.Errorf("with nothing added it is %+v", nothing)
	}
	ahead := first.From(zkrec.Mark{Rev: 5, Number: 5})
	if got := ahead.Add(zkrec.MinHistory, 20, row(30, 40, 2)).History().Entries; len(got) != 2 || got[1].Number != 6 {
		t.Errorf("after entries that are gone it is joined to %+v", got)
	}
	for what, change := range map[string]func(e *zkrec.Entry, watermark *int64){
		"another instance's":  func(e *zkrec.Entry, _ *int64) { e.SID = "b" },
		"of another token":    func(e *zkrec.Entry, _ *int64) { e.Token = 8 },
		"of another state":    func(e *zkrec.Entry, _ *int64) { e.State = history.StateSkipped },
		"for another reason":  func(e *zkrec.Entry, _ *int64) { e.Reason = history.ReasonNoOwner },
		"a run":               func(e *zkrec.Entry, _ *int64) { e.RunID = "r1" },
		"after what was run":  func(_ *zkrec.Entry, watermark *int64) { *watermark = 25 },
		"before the last row": func(_ *zkrec.Entry, watermark *int64) { *watermark = 15 },
	} {
		next, watermark := row(30, 40, 2), int64(20)
		change(&next, &watermark)
		if got := first.Add(zkrec.MinHistory, watermark, next).History().Entries; len(got) != 2 {
			t.Errorf("%s: joined to %+v", what, got)
		}
	}
}

// A log keeps as many entries as it is to, and at most a page more, whatever its numbers are.
func TestLogKeepsTheNewest(t *testing.T) {
	t.Parallel()
	for _, keep := range []int{zkrec.MinHistory, 21, 24, 200} {
		var l zkrec.Log
		const written = 1000
		for k := range written {
			l = l.Add(keep, 0, ran(strconv.Itoa(k), history.StateOK))
			if n := len(l.History().Entries); n < min(k+1, keep) || n > zkrec.HistoryPages*((keep+3)/4) {
				t.Fatalf("%d entries of %d, want at least %d", n, k+1, keep)
			}
		}
		h := l.History()
		if last := h.Entries[len(h.Entries)-1]; last.RunID != strconv.Itoa(written-1) || h.Dropped != written-int64(len(h.Entries)) {
			t.Errorf("the last is %s of %d, dropped %d", last.RunID, len(h.Entries), h.Dropped)
		}
	}
}

func TestLogRefusesWhatIsNoHistory(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"{garbage", `{"schema":99}`, `{"schema":1,"rev":1,"first":1,"entries":[1]}`} {
		if l, err := zkrec.ParseLog([][]byte{nil, []byte(data)}); err == nil {
			t.Errorf("%s is read as %+v", data, l)
		}
	}
	for _, data := range []string{"", " ", `{"schema":1,"entries":null}`, `{"schema":1,"entries":[]}`} {
		if l, err := zkrec.ParseLog([][]byte{[]byte(data)}); err != nil || len(l.History().Entries) > 0 || !l.IsEmpty() {
			t.Errorf("%q is read as %+v, %v", data, l, err)
		}
	}
}

// A page is full when it becomes too long, and takes one entry however long that is.
func TestLongPagesAreFullSooner(t *testing.T) {
	t.Parallel()
	var l zkrec.Log
	for i := range 3 * zkrec.MinHistory {
		l = l.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: zkrec.Run{RunID: strconv.Itoa(i), Error: strings.Repeat("x", 4096)}})
		for _, page := range l.Changed() {
			if n := len(l.Encode(page)); n > zkrec.MaxPageBytes+200 {
				t.Fatalf("a page of %d bytes", n)
			}
		}
	}
	if n := len(l.History().Entries); n < 3*(zkrec.HistoryPages-1) {
		t.Errorf("%d entries are kept", n)
	}
	l = l.Add(zkrec.MinHistory, 0, zkrec.Entry{Run: zkrec.Run{RunID: "long", Error: strings.Repeat("<", 4096)}})
	if last := l.History().Entries; last[len(last)-1].RunID != "long" {
		t.Errorf("a long entry is not kept")
	}
}

// Fields that a page says once, or leaves out, are read back: entries of other owners, other
// attempts, other IDs, without times.
func TestEntriesAreReadBack(t *testing.T) {
	t.Parallel()
	const id = "0198c5e2-0000-7000-8000-000000000001"
	run := zkrec.Run{Tick: 1000, RunID: id, SID: "a", Token: 7, Attempt: 1, Started: 1003, State: history.StateOK, Ended: 1010}
	other, retried, odd, upper, none := run, run, run, run, run
	other.SID, other.Token = "b", 9
	retried.Attempt, retried.Failures, retried.State, retried.Error = 3, 2, history.StateFailed, "no route"
	odd.RunID, odd.Started, odd.Ended = "odd", 990, 0
	upper.RunID = strings.ToUpper(id)
	none.SID, none.Token, none.Attempt = "", 0, 0
	full := zkrec.Run{
		Tick: 1, Manual: "m", RunID: id, SID: "a", Token: 7, Attempt: 2, Failures: 1, Started: 2, State: history.StateLost, Ended: 3, Error: "e", TakenFrom: "b",
		Delayed: 4, Passed: 5, NotBegun: true, Always: true, Restarts: 6,
		Effects: zkrec.EffectsOf(history.Effects{RunID: "r", InstanceID: "b", At: time.Unix(1, 5e8)}, time.Time{}),
	}
	missed := row(10, 40, 4)
	var want []zkrec.Entry
	var l zkrec.Log
	for i, e := range []zkrec.Entry{{Run: run}, {Run: other}, {Run: retried}, {Run: odd}, {Run: upper}, {Run: none}, {Run: full}, missed} {
		l = l.Add(100, 0, e)
		e.Number, e.Rev = int64(i+1), int64(i+1)
		want = append(want, e)
	}
	h, err := zkrec.ParseHistory([][]byte{l.Encode(0)})
	if err != nil || !reflect.DeepEqual(h.Entries, want) {
		t.Errorf("read back as\n%+v, %v, want\n%+v", h.Entries, err, want)
	}
	if usual := len(zkrec.Log{}.Add(100, 0, zkrec.Entry{Run: run}, zkrec.Entry{Run: run}).Encode(0)) -
		len(zkrec.Log{}.Add(100, 0, zkrec.Entry{Run: run}).Encode(0)); usual > 64 {
		t.Errorf("an entry takes %d bytes", usual)
	}
}

// A late result replaces the entry of its run, wherever that is, and no other; and the log that was
// given stays as it is.
func TestAmend(t *testing.T) {
	t.Parallel()
	var l zkrec.Log
	for _, id := range []string{"r1", "r2", "r3"} {
		l = l.Add(zkrec.MinHistory, 0, ran(id, history.StateInterrupted))
	}
	amended, ok := l.Amend(ran("r2", history.StateOK))
	was, got := l.History().Entries, amended.History().Entries
	if !ok || got[0] != was[0] || got[1].State != history.StateOK || got[1].Number != 2 || got[1].Rev != 4 || got[2] != was[2] {
		t.Errorf("amended to %+v, %v", got, ok)
	}
	if late := ran("r2", history.StateOK); l.Says(late) || !amended.Says(late) || amended.Says(ran("r9", history.StateOK)) {
		t.Error("what the history says of a run is not known")
	}
	if was[1].State != history.StateInterrupted {
		t.Error("the log that was given has changed")
	}
	if unchanged, ok := l.Amend(ran("r9", "")); ok || !reflect.DeepEqual(unchanged, l) {
		t.Errorf("the result of a run that is not there makes it %+v", unchanged)
	}
	const keep = zkrec.HistoryPages - 1
	l = zkrec.Log{}.Add(keep, 0, ran("r1", history.StateInterrupted))
	if _, ok = l.Amend(ran("r1", history.StateOK)); !ok { // which nobody writes
		t.Error("r1 is not there")
	}
	for range zkrec.HistoryPages {
		l = l.Add(keep, 0, ran("next", history.StateOK))
	}
	if h := l.History(); h.Dropped != 1 {
		t.Errorf("it has forgotten write %d, want 1", h.Dropped)
	}
}

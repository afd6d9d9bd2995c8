package effects

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// A fakeDB has its markers in memory.
type fakeDB struct {
	Database

	fences  []Fence
	markers []Marker
	has     int // how often it was asked for one
}

func (f *fakeDB) Fences(context.Context, string) ([]Fence, error) { return f.fences, nil }

func (f *fakeDB) Markers(context.Context, string) iter.Seq2[Marker, error] {
	return func(yield func(Marker, error) bool) {
		for _, m := range f.markers {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (f *fakeDB) Has(_ context.Context, _, slot string, tick time.Time, request string) (bool, error) {
	f.has++
	return slices.ContainsFunc(f.markers, func(m Marker) bool { return m.Slot == slot && m.Tick.Equal(tick) && m.Request == request }), nil
}

// sort has the markers in their order.
func (f *fakeDB) sort() {
	slices.SortStableFunc(f.markers, func(a, b Marker) int {
		return keyOf(a).compare(keyOf(b))
	})
}

func keyOf(m Marker) key { return key{m.Slot, m.Tick.UnixMilli(), m.Request} }

// A fakeLog has its entries in memory, the oldest first.
type fakeLog struct {
	runlog.Store

	entries []runlog.Entry
}

func (f *fakeLog) Entries(_ context.Context, q runlog.Query) iter.Seq2[runlog.Entry, error] {
	return func(yield func(runlog.Entry, error) bool) {
		for _, e := range slices.Backward(f.entries) {
			if q.Matches(e) && !yield(e, nil) {
				return
			}
		}
	}
}

// ran is the entry of a run that began with its tick and took a second.
func ran(slot string, tick time.Time, state history.State) runlog.Entry {
	run := history.Run{Tick: tick, State: state, RunID: "run-" + slot + "-" + strconv.FormatInt(tick.Unix(), 10), InstanceID: "app-1", Token: 7, Started: tick, Ended: tick.Add(time.Second)}
	return runlog.Entry{Slot: slot, Job: slot, Kind: runlog.Ran, At: run.Ended, Entry: history.Entry{Run: run, To: tick, Count: 1}}
}

func markerOf(e runlog.Entry) Marker {
	return Marker{Slot: e.Slot, Tick: e.Tick, Request: e.Manual, RunID: e.RunID, InstanceID: e.InstanceID, At: e.Ended}
}

// pair has both sides of five hours of a job, every minute, all of which are ok.
func pair() (*fakeDB, *fakeLog) {
	db, log := &fakeDB{fences: []Fence{{Slot: "pay", Token: 7, First: start}}}, &fakeLog{}
	for i := range 300 {
		e := ran("pay", start.Add(time.Duration(i)*time.Minute), history.StateOK)
		log.entries = append(log.entries, e)
		db.markers = append(db.markers, markerOf(e))
	}
	return db, log
}

func at(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(db *fakeDB, log *fakeLog)
		since  time.Time
		want   []string // side that lacks it, slot, minute, request, state
	}{
		"alike":                          {func(*fakeDB, *fakeLog) {}, time.Time{}, nil},
		"a marker is missing":            {func(db *fakeDB, _ *fakeLog) { db.markers = slices.Delete(db.markers, 100, 101) }, time.Time{}, []string{"database pay 100  "}},
		"it is before the time asked of": {func(db *fakeDB, _ *fakeLog) { db.markers = slices.Delete(db.markers, 100, 101) }, at(101), nil},
		"it is after":                    {func(db *fakeDB, _ *fakeLog) { db.markers = slices.Delete(db.markers, 100, 101) }, at(99), []string{"database pay 100  "}},
		"all markers are missing": {func(db *fakeDB, log *fakeLog) {
			db.markers, db.fences[0].First = nil, time.Time{}
			log.entries = log.entries[298:]
		}, time.Time{}, []string{"database pay 299  ", "database pay 298  "}},
		"no run had that fence": {func(db *fakeDB, _ *fakeLog) { db.markers, db.fences[0] = nil, Fence{Slot: "pay", Token: 8} }, time.Time{}, nil},
		"a run is lost":         {func(_ *fakeDB, log *fakeLog) { log.entries[100] = ran("pay", at(100), history.StateLost) }, time.Time{}, []string{"log pay 100  lost"}},
		"a run is not logged":   {func(_ *fakeDB, log *fakeLog) { log.entries = slices.Delete(log.entries, 100, 101) }, time.Time{}, []string{"log pay 100  "}},
		"it is in a hole": {func(_ *fakeDB, log *fakeLog) {
			log.entries[100] = runlog.Entry{Slot: "pay", Kind: runlog.Hole, At: at(100), Entry: history.Entry{Run: history.Run{Tick: at(99)}, To: at(101)}}
		}, time.Time{}, nil},
		"it is in a hole of all jobs": {func(_ *fakeDB, log *fakeLog) {
			log.entries[100] = runlog.Entry{Kind: runlog.Hole, At: at(100), Entry: history.Entry{Run: history.Run{Tick: at(99)}, To: at(101)}}
		}, time.Time{}, nil},
		"the job was gone": {func(_ *fakeDB, log *fakeLog) {
			log.entries[100] = runlog.Entry{Slot: "pay", Kind: runlog.Gone, At: at(101)}
		}, time.Time{}, nil},
		"the last run is not logged yet": {func(_ *fakeDB, log *fakeLog) { log.entries = log.entries[:299] }, time.Time{}, nil},
		"the log begins later":           {func(_ *fakeDB, log *fakeLog) { log.entries = log.entries[100:] }, time.Time{}, nil},
		"markers were pruned": {func(db *fakeDB, _ *fakeLog) {
			db.markers, db.fences[0].Pruned, db.fences[0].First = slices.Delete(db.markers[100:], 0, 1), at(100), at(101)
		}, time.Time{}, []string{"database pay 100  "}},
		"the job uses once later": {func(db *fakeDB, _ *fakeLog) { db.markers, db.fences[0].First = db.markers[100:], at(100) }, time.Time{}, nil},
		"another job does not": {func(_ *fakeDB, log *fakeLog) {
			log.entries = slices.Insert(log.entries, 100, ran("mail", at(100), history.StateOK))
		}, time.Time{}, nil},
		"a tick is ok twice": {func(_ *fakeDB, log *fakeLog) { log.entries = slices.Insert(log.entries, 200, log.entries[100]) }, time.Time{}, nil},
		"a tick is ok in a rerun": {func(_ *fakeDB, log *fakeLog) {
			log.entries = slices.Insert(log.entries, 100, ran("pay", at(100), history.StateInterrupted))
		}, time.Time{}, nil},
		"steps alone": {func(db *fakeDB, log *fakeLog) {
			db.markers[100].Step, db.markers[101].Step = true, true
			log.entries[101] = ran("pay", at(101), history.StateFailed)
		}, time.Time{}, nil},
		"a manual run has no marker": {func(_ *fakeDB, log *fakeLog) {
			e := ran("pay", at(100).Add(time.Second), history.StateOK)
			e.Manual = "q1"
			log.entries = slices.Insert(log.entries, 101, e)
		}, time.Time{}, []string{"database pay 100 q1 "}},
		"a manual run is not logged": {func(db *fakeDB, _ *fakeLog) {
			m := db.markers[100]
			m.Request = "q1"
			db.markers = append(db.markers, m)
		}, time.Time{}, []string{"log pay 100 q1 "}},
		"a past tick has its key": {func(_ *fakeDB, log *fakeLog) {
			e := ran("pay", at(100), history.StateOK)
			e.Manual, e.At = "q1", at(280)
			e.Started = at(280)
			log.entries = slices.Insert(slices.Delete(log.entries, 100, 101), 280, e)
		}, time.Time{}, nil},
		"a past tick has no marker": {func(db *fakeDB, log *fakeLog) {
			e := ran("pay", at(100), history.StateOK)
			e.Manual, e.At = "q1", at(280)
			e.Started = at(280)
			log.entries = slices.Insert(slices.Delete(log.entries, 100, 101), 280, e)
			db.markers = slices.Delete(db.markers, 100, 101)
		}, time.Time{}, []string{"database pay 100 q1 "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, log := pair()
			test.change(db, log)
			db.sort()
			for i := range log.entries {
				log.entries[i].Seq = int64(i + 1)
			}
			r, err := Compare(t.Context(), db, log, "billing", test.since)
			if err != nil {
				t.Fatal(err)
			}
			if got := told(r); !slices.Equal(got, test.want) || r.Found != len(got) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func told(r Report) (differences []string) {
	for _, d := range r.Differences {
		differences = append(differences, fmt.Sprintf("%s %s %d %s %s", d.Missing, d.Slot, int(d.Tick.Sub(start).Minutes()), d.Request, d.State))
	}
	return differences
}

// Each tick that is planted on one side alone is found, and no other, whatever the order in which
// runs end, and hardly any is looked for on its own.
func TestCompareFindsAll(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		db, log := &fakeDB{}, &fakeLog{}
		want := make(map[string]bool)
		for j := range 1 + r.IntN(6) {
			slot := "job-" + strconv.Itoa(j)
			db.fences = append(db.fences, Fence{Slot: slot, First: start})
			for i := range 600 {
				e := ran(slot, at(i), history.StateOK)
				e.At = e.At.Add(time.Duration(r.ExpFloat64() * float64(20*time.Minute)))
				first, begins, last := i == 0, i < 150, i > 550 // whether those are on one side is not known
				switch n := r.IntN(100); {
				case n == 0 && !first:
					want["database "+slot+" "+strconv.Itoa(i)] = true
					log.entries = append(log.entries, e)
				case n == 1 && !begins && !last:
					want["log "+slot+" "+strconv.Itoa(i)] = true
					db.markers = append(db.markers, markerOf(e))
				default:
					log.entries = append(log.entries, e)
					db.markers = append(db.markers, markerOf(e))
				}
			}
		}
		db.sort()
		slices.SortStableFunc(log.entries, func(a, b runlog.Entry) int { return a.At.Compare(b.At) })
		for i := range log.entries {
			log.entries[i].Seq = int64(i + 1)
		}
		found, err := Compare(t.Context(), db, log, "billing", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]bool)
		for _, d := range found.Differences {
			got[fmt.Sprintf("%s %s %d", d.Missing, d.Slot, int(d.Tick.Sub(start).Minutes()))] = true
		}
		for d := range want {
			if !got[d] {
				t.Errorf("seed %d: %s is not found", seed, d)
			}
			delete(got, d)
		}
		if len(got) > 0 {
			t.Fatalf("seed %d: found, and not planted: %v", seed, got)
		}
		if many := len(log.entries)/4 + len(want); db.has > many {
			t.Errorf("seed %d: %d of %d runs were looked for on their own", seed, db.has, len(log.entries))
		}
	}
}

// Both sides are of different groups: that is said before the memory is full.
func TestStrangers(t *testing.T) {
	t.Parallel()
	db, log := pair()
	db.markers = nil
	c := comparison{db: db, held: make(map[key]*marker), ahead: make(map[key]bool)}
	for i := range maxHeld {
		c.held[key{tick: int64(-i)}] = &marker{}
	}
	if err := c.take(Marker{Slot: "pay", Tick: at(1)}); !errors.Is(err, errStrangers) {
		t.Errorf("%v, want errStrangers", err)
	}
	if _, err := Compare(t.Context(), db, log, "billing", time.Time{}); err != nil {
		t.Error(err)
	}
}

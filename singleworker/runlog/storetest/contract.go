package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// run is an entry whose time is its number in minutes.
func run(seq int, slot, key string, state history.State) runlog.Entry {
	at := midnight.Add(time.Duration(seq) * time.Minute)
	name, _, _ := strings.Cut(slot, "[")
	return runlog.Entry{
		Seq: int64(seq), Slot: slot, Job: name, Incarnation: 7, Key: key, Kind: runlog.Ran, At: at,
		Entry: history.Entry{Number: int64(seq), Rev: 2 * int64(seq), To: at, Count: 1, Run: history.Run{
			Tick: at, State: state, InstanceID: "app-1", Token: 1 << 40, RunID: key, Attempt: 2, Failures: 1, Started: at,
			Ended: at.Add(1500 * time.Millisecond), Error: "multi\nline é '\"\\", TakenFrom: "app-2", DelayedMillis: 3, Restarts: 4,
			Asked:  history.Asked{AskedBy: "ann", AskedReason: "again", Past: history.PastFailed, StoppedBy: "bob", StoppedReason: "too slow"},
			Manual: "m", NotBegun: true, Effects: history.Effects{RunID: "f", InstanceID: "d", At: time.UnixMilli(86_400_007).UTC()},
		}},
	}
}

// Contract tests what every Store promises. open opens the same store each time.
func Contract(t *testing.T, open func() runlog.Store) {
	t.Helper()
	store := open()
	defer store.Close()
	ctx := t.Context()
	const group = "contract"
	state, err := store.Load(ctx, group)
	if err != nil || state.Seq != 0 || len(state.Positions) != 0 {
		t.Fatalf("an empty log is %+v, %v", state, err)
	}
	row := run(3, "report[1]", "tick:1", history.StateSkipped)
	row.Kind, row.RunID, row.Reason, row.Count = runlog.NotRun, "", history.ReasonPaused, 3
	first := []runlog.Entry{
		run(1, "report[0]", "a", history.StateOK), run(2, "report[1]", "a", history.StateInterrupted), row,
		run(4, "Report", "b", history.StateFailed), run(5, "other", "c", history.StateOK),
	}
	positions := make(map[string]runlog.Position)
	for _, e := range first {
		positions[e.Slot] = positions[e.Slot].After(e)
	}
	must(t, store.Append(ctx, group, runlog.Batch{Cursor: 17, Entries: first, Positions: positions}))
	if err := store.Append(ctx, group, runlog.Batch{Cursor: 18, Entries: []runlog.Entry{run(1, "x", "x", "ok")}}); !errors.Is(err, runlog.ErrConflict) {
		t.Errorf("the append of who has not seen the last one: %v", err)
	}
	amended, grown := run(6, "report[1]", "a", history.StateOK), row
	amended.Amended, amended.Number, grown.Amended, grown.Seq, grown.Count, grown.Rev = true, first[1].Number, true, 7, 4, 14
	gone := runlog.Entry{Seq: 8, Slot: "other", Job: "other", Incarnation: 7, Key: "gone", Kind: runlog.Gone, At: midnight.Add(8 * time.Minute)}
	hole := runlog.Entry{Seq: 9, Kind: runlog.Hole, Key: "jobs:1", At: midnight.Add(9 * time.Minute), Entry: history.Entry{Number: 3, Rev: 4}}
	positions["report[1]"] = positions["report[1]"].After(amended).After(grown)
	must(t, store.Append(ctx, group, runlog.Batch{
		After: 5, Cursor: 19, Entries: []runlog.Entry{amended, grown, gone, hole}, Positions: map[string]runlog.Position{"report[1]": positions["report[1]"]},
	}))
	delete(positions, "other")
	must(t, store.Append(ctx, group, runlog.Batch{After: 9, Cursor: 20}))
	wantState(t, store, group, runlog.State{Seq: 9, Cursor: 20, Positions: positions})

	all := []runlog.Entry{hole, gone, grown, amended, first[4], first[3], first[0]}
	queries(t, store, group, all)
	// A result that replaces an entry does not make it two, also after the store is opened again.
	second := open()
	defer second.Close()
	wantEntries(t, "another Store", second, runlog.Query{Group: group}, all)
	if seq, err := second.Seq(ctx, group); seq != 9 || err != nil {
		t.Errorf("Seq: %d, %v", seq, err)
	}
}

// Voids tests that a row of ticks goes when it is void, also if it is told again at once.
func Voids(t *testing.T, open func() runlog.Store) {
	t.Helper()
	store := open()
	defer store.Close()
	const group = "voids"
	_, err := store.Load(t.Context(), group)
	must(t, err)
	of := func(seq int, key string, kind runlog.Kind) runlog.Entry {
		e := run(seq, "report", key, history.StateSkipped)
		e.Kind, e.RunID, e.Manual = kind, "", ""
		return e
	}
	kept := run(2, "report", "run-2", history.StateOK)
	first := []runlog.Entry{of(1, "tick:1", runlog.NotRun), kept, of(3, "tick:3", runlog.NotRun), of(4, "tick:4", runlog.NotRun)}
	position := func(of runlog.Position, entries []runlog.Entry) map[string]runlog.Position {
		for _, e := range entries {
			of = of.After(e)
		}
		return map[string]runlog.Position{"report": of}
	}
	was := position(runlog.Position{}, first)
	must(t, store.Append(t.Context(), group, runlog.Batch{Cursor: 1, Entries: first, Positions: was}))
	hole := runlog.Entry{
		Seq: 7, Slot: "report", Job: "report", Incarnation: 7, Kind: runlog.Hole, Key: "hole:1", At: midnight, Entry: history.Entry{Number: 1, Rev: 2, To: midnight},
	}
	again := []runlog.Entry{of(5, "tick:3", runlog.Void), of(6, "tick:4", runlog.Void), hole, of(8, "tick:4", runlog.NotRun)}
	must(t, store.Append(t.Context(), group, runlog.Batch{After: 4, Cursor: 2, Entries: again, Positions: position(was["report"], again)}))
	want := []runlog.Entry{again[3], hole, kept, first[0]}
	wantEntries(t, "voids", store, runlog.Query{Group: group}, want)
	must(t, store.Close())
	second := open()
	defer second.Close()
	wantState(t, second, group, runlog.State{Seq: 8, Cursor: 2, Positions: map[string]runlog.Position{
		"report": {Incarnation: 7, Rev: 16, Number: 8, Key: "tick:4", Through: again[3].To.UnixMilli()},
	}})
	_, err = second.Prune(t.Context(), group, runlog.Retention{PerSlot: 10})
	must(t, err)
	wantEntries(t, "voids, pruned", second, runlog.Query{Group: group}, want)
}

// queries asks for the entries 9 to 6, 5, 4, and 1.
func queries(t *testing.T, store runlog.Store, group string, all []runlog.Entry) {
	t.Helper()
	for name, test := range map[string]struct {
		q    runlog.Query
		want []runlog.Entry
	}{
		"all":        {runlog.Query{}, all},
		"a limit":    {runlog.Query{Limit: 2}, all[:2]},
		"a job":      {runlog.Query{Slot: "report"}, []runlog.Entry{all[2], all[3], all[6]}},
		"a shard":    {runlog.Query{Slot: "report[0]"}, all[6:]},
		"its case":   {runlog.Query{Slot: "Report"}, all[5:6]},
		"failed":     {runlog.Query{Failed: true}, []runlog.Entry{all[0], all[5]}},
		"since":      {runlog.Query{Since: midnight.Add(8 * time.Minute)}, all[:2]},
		"until":      {runlog.Query{Until: midnight.Add(4 * time.Minute)}, []runlog.Entry{all[2], all[6]}},
		"after":      {runlog.Query{After: 6}, all[:3]},
		"nothing":    {runlog.Query{Slot: "report", Failed: true}, nil},
		"a wildcard": {runlog.Query{Slot: "repor_"}, nil},
	} {
		test.q.Group = group
		wantEntries(t, name, store, test.q, test.want)
	}
	wantEntries(t, "another group", store, runlog.Query{Group: "Contract"}, nil)
	for _, err := range store.Entries(t.Context(), runlog.Query{Group: group}) {
		must(t, err)
		break // leaves nothing open
	}
}

// Prunes tests that old entries go, and that a reader does not notice. exact is false if a store
// may keep more than it has to.
func Prunes(t *testing.T, open func() runlog.Store, entries int, exact bool) {
	t.Helper()
	store := open()
	defer store.Close()
	ctx := t.Context()
	const group = "prunes"
	state, err := store.Load(ctx, group)
	must(t, err)
	for seq := 1; seq <= entries; seq++ {
		e := run(seq, []string{"a", "b", "rare"}[min(seq%50, 2)], fmt.Sprint("run-", seq), history.StateOK)
		if seq%50 > 2 {
			e = run(seq, []string{"a", "b"}[seq%2], e.Key, history.StateOK)
		}
		p := state.Positions[e.Slot].After(e)
		must(t, store.Append(ctx, group, runlog.Batch{After: int64(seq - 1), Cursor: int64(seq), Entries: []runlog.Entry{e}, Positions: map[string]runlog.Position{e.Slot: p}}))
		state.Positions[e.Slot], state.Seq, state.Cursor = p, int64(seq), int64(seq)
	}
	since := midnight.Add(time.Duration(entries/2) * time.Minute)
	for _, r := range []runlog.Retention{{}, {Since: since}, {PerSlot: 2}} {
		before := collect(t, store, runlog.Query{Group: group})
		n, err := store.Prune(ctx, group, r)
		must(t, err)
		after := collect(t, store, runlog.Query{Group: group})
		if len(before)-len(after) != n {
			t.Errorf("%+v: %d entries, then %d, and %d were removed", r, len(before), len(after), n)
		}
		per := make(map[string]int)
		var want []runlog.Entry
		for _, e := range before {
			per[e.Slot]++
			if !e.At.Before(r.Since) && (r.PerSlot == 0 || per[e.Slot] <= r.PerSlot) {
				want = append(want, e)
			}
		}
		missing := slices.DeleteFunc(slices.Clone(want), func(e runlog.Entry) bool { return slices.Contains(keys(after), e.Key) })
		if len(missing) > 0 || exact && len(after) != len(want) || n == 0 && len(want) < len(before)*2/3 {
			t.Errorf("%+v: %d of %d entries are left, want %d; missing: %v", r, len(after), len(before), len(want), keys(missing))
		}
	}
	wantState(t, store, group, state)
	must(t, store.Close())
	second := open()
	defer second.Close()
	wantState(t, second, group, state)
}

// Race has several readers append to one log at a time, which all of them can open: each number is
// given once.
func Race(t *testing.T, open func() runlog.Store) {
	t.Helper()
	const readers, each = 4, 20
	ctx := t.Context()
	var all sync.WaitGroup
	for reader := range readers {
		all.Go(func() {
			store := open()
			defer store.Close()
			for done := 0; done < each; {
				state, err := store.Load(ctx, "race")
				if err != nil {
					t.Error(err)
					return
				}
				e := run(int(state.Seq)+1, fmt.Sprint("job-", reader), fmt.Sprint("run-", done), history.StateOK)
				err = store.Append(ctx, "race", runlog.Batch{
					After: state.Seq, Cursor: 1, Entries: []runlog.Entry{e}, Positions: map[string]runlog.Position{e.Slot: state.Positions[e.Slot].After(e)},
				})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, runlog.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	store := open()
	defer store.Close()
	numbers := make(map[int64]bool)
	for _, e := range collect(t, store, runlog.Query{Group: "race"}) {
		numbers[e.Seq] = true
	}
	if len(numbers) != readers*each {
		t.Errorf("%d entries, want %d", len(numbers), readers*each)
	}
}

func keys(entries []runlog.Entry) (keys []string) {
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func collect(t *testing.T, store runlog.Store, q runlog.Query) (all []runlog.Entry) {
	t.Helper()
	for e, err := range store.Entries(t.Context(), q) {
		must(t, err)
		all = append(all, e)
	}
	return all
}

func wantEntries(t *testing.T, what string, store runlog.Store, q runlog.Query, want []runlog.Entry) {
	t.Helper()
	got := collect(t, store, q)
	if !slices.EqualFunc(got, want, func(a, b runlog.Entry) bool { return a == b }) {
		t.Errorf("%s: got\n%+v\nwant\n%+v", what, got, want)
	}
}

func wantState(t *testing.T, store runlog.Store, group string, want runlog.State) {
	t.Helper()
	got, err := store.Load(t.Context(), group)
	must(t, err)
	same := func(a, b runlog.Position) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
	if got.Seq != want.Seq || got.Cursor != want.Cursor || !maps.EqualFunc(got.Positions, want.Positions, same) {
		t.Errorf("the state is\n%+v, want\n%+v", got, want)
	}
}

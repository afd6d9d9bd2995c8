package runlog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
	"github.com/swjobs/singleworker/singleworker/runlog/jsonl"
	"github.com/swjobs/singleworker/singleworker/swtest"
)

func open(t *testing.T, dir string) runlog.Store {
	t.Helper()
	s, err := jsonl.Open(dir, jsonl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, s) })
	return s
}

// start runs a reader until stop is called.
func start(t *testing.T, source runlog.Source, store runlog.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := runlog.Run(ctx, source, store, runlog.Options{Group: "billing"}); err != nil {
			t.Error(err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func entries(t *testing.T, store runlog.Store, q runlog.Query) (all []runlog.Entry) {
	t.Helper()
	q.Group = "billing"
	for e, err := range store.Entries(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// A real group runs for hours, and the log has each of its ticks, also of the time in which no
// reader ran, as far as ZooKeeper has it.
func TestRunsOfAGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{SessionTimeout: time.Minute})
		handlers := map[string]singleworker.Handler{
			"every-minute": func(_ context.Context, run *singleworker.Run) error {
				if run.Tick.Minute()%10 == 0 {
					return errors.New("the tenth minute")
				}
				return nil
			},
		}
		began := time.Now()
		one := c.Start("one", handlers, singleworker.Job{Name: "every-minute", Schedule: "0 * * * * ?"})
		c.Start("two", handlers)
		cfg := c.ManagerConfig("reader")
		client, err := admin.Dial(t.Context(), admin.Config{Servers: cfg.Servers, ServerType: cfg.ServerType, Dial: cfg.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		store := open(t, dir)
		stop := start(t, client, store)
		time.Sleep(90 * time.Minute)
		one.Kill()
		time.Sleep(30 * time.Minute)
		stop()
		closed(t, store)
		time.Sleep(10 * time.Minute)
		store = open(t, dir)
		stop = start(t, client, store)
		time.Sleep(time.Minute)
		stop()

		ticks := make(map[int64]int)
		for _, e := range entries(t, store, runlog.Query{Slot: "every-minute"}) {
			if e.Kind != runlog.Ran {
				t.Errorf("%+v", e)
			}
			ticks[e.Tick.Unix()]++
		}
		for tick := began.Truncate(time.Minute).Add(time.Minute); tick.Before(time.Now().Add(-time.Minute)); tick = tick.Add(time.Minute) {
			if ticks[tick.Unix()] != 1 {
				t.Errorf("the run of %v is %d times in the log", tick, ticks[tick.Unix()])
			}
		}
		sums, err := runlog.Summarize(store.Entries(t.Context(), runlog.Query{Group: "billing"}))
		if err != nil || len(sums) != 1 {
			t.Fatal(sums, err)
		}
		if s := sums[0]; s.Runs < 130 || s.OK+s.Failed != s.Runs || s.Failed < 12 || s.Streak > 1 || s.LastError != "the tenth minute" || s.Lateness.Count != s.Runs {
			t.Errorf("%+v", s)
		}
	})
}

// A history of another size keeps more, and the log is complete after a longer absence.
func TestLongerHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{SessionTimeout: time.Minute})
		cfg := c.ManagerConfig("one")
		cfg.HistorySize = 50
		m, err := singleworker.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(
			m.Handle("every-minute", func(context.Context, *singleworker.Run) error { return nil }),
			m.Schedule(singleworker.Job{Name: "every-minute", Schedule: "0 * * * * ?"}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		client, err := admin.Dial(t.Context(), admin.Config{Servers: cfg.Servers, ServerType: cfg.ServerType, Dial: cfg.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		store := open(t, dir)
		for _, away := range []time.Duration{45 * time.Minute, 100 * time.Minute} { // of which the second leaves a hole
			time.Sleep(away)
			stopReader := start(t, client, store)
			time.Sleep(time.Second)
			stopReader()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		kinds := make(map[runlog.Kind]int)
		for _, e := range entries(t, store, runlog.Query{}) {
			kinds[e.Kind]++
		}
		if kinds[runlog.Ran] < 90 || kinds[runlog.Hole] != 1 {
			t.Errorf("%v, want 95 runs and a hole", kinds)
		}
	})
}

// script is a Source that follows a script.
type script chan admin.HistoryReading

func (s script) WatchHistories(ctx context.Context, _ admin.WatchHistoriesOptions) iter.Seq2[admin.HistoryReading, error] {
	return func(yield func(admin.HistoryReading, error) bool) {
		for {
			select {
			case r := <-s:
				if !yield(r, nil) {
					return
				}
			case <-ctx.Done():
				yield(admin.HistoryReading{}, ctx.Err())
				return
			}
		}
	}
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// historyOf is one of a few runs, each of which was a write.
func historyOf(name string, runs ...string) admin.SlotHistory {
	return later(admin.SlotHistory{Name: name, Incarnation: 1}, 0, runs...)
}

// later is a history after some more runs, and without its oldest entries.
func later(h admin.SlotHistory, forgets int, runs ...string) admin.SlotHistory {
	h.Entries, h.Written = slices.Clone(h.Entries), began.Add(time.Hour)
	for _, id := range runs {
		h.Rev++
		h.Number++
		tick := began
		if n := len(h.Entries); n > 0 {
			tick = h.Entries[n-1].To.Add(time.Millisecond)
		}
		h.Entries = append(h.Entries, history.Entry{
			Number: h.Number, Rev: h.Rev, To: tick, Count: 1, Run: history.Run{RunID: id, State: history.StateOK, Tick: tick, Ended: tick},
		})
	}
	for _, e := range h.Entries[:forgets] {
		h.Dropped = max(h.Dropped, e.Rev)
	}
	h.Entries = h.Entries[forgets:]
	return h
}

// The second of two readers waits, and takes over when the first one is gone; what both have read
// is once in the log.
func TestAnotherReaderWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		one, two := make(script), make(script)
		first := open(t, dir)
		stop := start(t, one, first)
		one <- admin.HistoryReading{Cursor: 5, Whole: true, Slots: []admin.SlotHistory{historyOf("job", "a")}}
		synctest.Wait()
		second := open(t, dir)
		stopSecond := start(t, two, second)
		defer stopSecond()
		time.Sleep(time.Hour)
		stop()
		closed(t, first)
		two <- admin.HistoryReading{Cursor: 6, Whole: true, Slots: []admin.SlotHistory{historyOf("job", "a", "b")}}
		synctest.Wait()
		var got []string
		for _, e := range entries(t, second, runlog.Query{}) {
			got = append(got, e.Key)
		}
		if fmt.Sprint(got) != "[b a]" {
			t.Errorf("the log has %v", got)
		}
	})
}

// failing is a Store that cannot be reached, for a while; or, every other time, cannot say that it
// was.
type failing struct {
	runlog.Store

	fails int
}

func (f *failing) Append(ctx context.Context, group string, b runlog.Batch) error {
	if f.fails--; f.fails < 0 {
		return f.Store.Append(ctx, group, b)
	}
	if f.fails%2 == 0 {
		return errors.Join(f.Store.Append(ctx, group, b), errors.New("the answer is lost"))
	}
	return errors.New("no route to host")
}

// A store that is away is tried again, and its entries are asked for first.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		source, store := make(script), &failing{Store: open(t, dir), fails: 6}
		stop := start(t, source, store)
		for i := range 6 {
			runs := []string{"a", "b", "c", "d", "e", "f", "g"}[:i+2]
			source <- admin.HistoryReading{Cursor: int64(i), Whole: true, Slots: []admin.SlotHistory{historyOf("job", runs...)}}
			time.Sleep(time.Minute)
		}
		stop()
		var got []string
		for _, e := range entries(t, store, runlog.Query{}) {
			got = append(got, e.Key)
		}
		if text := strings.Join(got, " "); text != "g f e d c b a" {
			t.Errorf("the log has %s", text)
		}
	})
}

// Jobs that are gone, unseen, and unreadable are in the log, or not said to be gone.
func TestWhatIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		source, store := make(script), open(t, dir)
		stop := start(t, source, store)
		source <- admin.HistoryReading{Cursor: 5, Whole: true, Slots: []admin.SlotHistory{
			historyOf("a", "1"), historyOf("b", "2"), historyOf("c[0]", "3"), historyOf("d", "4"),
		}}
		again := historyOf("d", "5")
		again.Incarnation = 2
		source <- admin.HistoryReading{Cursor: 6, Whole: true, Gone: []string{"a", "never-seen"}, Slots: []admin.SlotHistory{again}}
		synctest.Wait()
		stop()
		stop = start(t, source, store)
		source <- admin.HistoryReading{Cursor: 7, Slots: []admin.SlotHistory{again}, Unreadable: map[string]error{"c": errors.New("denied")}}
		source <- admin.HistoryReading{Cursor: 8, Whole: true, UnseenJobs: true}
		synctest.Wait()
		stop()
		if text := told(t, store); text != "a:run:1 b:run:2 c[0]:run:3 d:run:4 d:gone: d:run:5 a:gone: b:gone: :hole:" {
			t.Errorf("the log has %s", text)
		}
	})
}

// A job that was undeleted has the history of before, which the log has, or continues if it lacks
// the last of it.
func TestUndeletedHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		source, store := make(script), open(t, dir)
		stop := start(t, source, store)
		seen, missed := historyOf("seen", "1", "2"), historyOf("missed", "3")
		source <- admin.HistoryReading{Cursor: 5, Whole: true, Slots: []admin.SlotHistory{seen, missed}}
		source <- admin.HistoryReading{Cursor: 6, Whole: true, Gone: []string{"seen"}}
		undeleted := func(h admin.SlotHistory, incarnation int64) admin.SlotHistory {
			h.Inherited = admin.Inherited{Incarnation: h.Incarnation, Rev: h.Rev, Number: h.Number}
			h.Incarnation = incarnation
			return h
		}
		seen = undeleted(seen, 2)
		source <- admin.HistoryReading{Cursor: 7, Whole: true, Slots: []admin.SlotHistory{seen}}
		source <- admin.HistoryReading{Cursor: 8, Whole: true, Slots: []admin.SlotHistory{later(seen, 0, "5")}}
		missed = undeleted(later(missed, 0, "4"), 3)
		source <- admin.HistoryReading{Cursor: 9, Whole: true, Slots: []admin.SlotHistory{missed}}
		source <- admin.HistoryReading{Cursor: 10, Whole: true, Slots: []admin.SlotHistory{later(missed, 0, "6")}}
		lost := undeleted(historyOf("missed"), 4) // without its past
		lost.Inherited.Incarnation = 3
		source <- admin.HistoryReading{Cursor: 11, Whole: true, Slots: []admin.SlotHistory{later(lost, 0, "7")}}
		synctest.Wait()
		stop()
		want := "missed:run:3 seen:run:1 seen:run:2 seen:gone: seen:run:5 missed:gone: missed:run:4 missed:run:6 missed:gone: missed:run:7"
		if text := told(t, store); text != want {
			t.Errorf("the log has %s\nwant %s", text, want)
		}
	})
}

// told are the entries of the log, oldest first.
func told(t *testing.T, store runlog.Store) string {
	t.Helper()
	var all []string
	for _, e := range slices.Backward(entries(t, store, runlog.Query{})) {
		all = append(all, fmt.Sprintf("%s:%s:%s", e.Slot, e.Kind, e.RunID))
	}
	return strings.Join(all, " ")
}

// Entries that a history has forgotten before it was read are a hole, however few it has, and
// nothing else is.
func TestForgottenHistoryIsAHole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		source, store := make(script), open(t, dir)
		stop := start(t, source, store)
		cut, kept := historyOf("cut", "1", "2"), later(historyOf("kept", "0", "1"), 1)                               // before the log has begun
		emptied := admin.SlotHistory{Name: "emptied", Incarnation: 1, Rev: 4, Number: 3, Dropped: 4, Written: began} // its owner continues the numbers
		late := historyOf("late", "1", "2")
		late.Entries[0].State = history.StateLost
		changed := later(late, 0, "3")
		changed.Rev, changed.Dropped, changed.Entries = 4, 4, changed.Entries[1:] // write 4 was the result of the first run
		for i, slots := range [][]admin.SlotHistory{
			{cut, historyOf("emptied", "1"), kept, late},
			{later(cut, 4, "3", "4", "5"), {Name: "emptied", Incarnation: 1, Written: began}, later(kept, 1, "2"), changed, later(historyOf("new", "0", "1"), 1)},
			{later(cut, 4, "3", "4", "5", "6"), later(emptied, 0, "9"), later(kept, 1, "2"), later(kept, 2, "2", "3"), later(changed, 1, "4")},
		} {
			source <- admin.HistoryReading{Cursor: int64(5 + i), Whole: true, Slots: slots}
		}
		synctest.Wait()
		stop()
		want := "cut:run:1 cut:run:2 emptied:run:1 kept:run:1 late:run:1 late:run:2 " +
			"cut:hole: cut:run:5 kept:run:2 late:hole: late:run:3 new:hole: new:run:1 cut:run:6 emptied:hole: emptied:run:9 kept:run:3 late:run:4"
		if text := told(t, store); text != want {
			t.Errorf("the log has %s\nwant        %s", text, want)
		}
		for _, e := range entries(t, store, runlog.Query{Slot: "cut"}) {
			if e.Kind == runlog.Hole && (e.Number != 4 || e.Error != "2 entries of the history, up to number 4, were forgotten before they were read") {
				t.Errorf("%+v", e)
			}
		}
	})
}

// rowOf is a history after ticks, so many seconds after the group began, were skipped.
func rowOf(h admin.SlotHistory, from, to int) admin.SlotHistory {
	h = later(h, 0, "")
	e := &h.Entries[len(h.Entries)-1]
	e.State, e.Reason, e.Count = history.StateSkipped, history.ReasonPaused, to-from+1
	e.Tick, e.To = began.Add(time.Duration(from)*time.Second), began.Add(time.Duration(to)*time.Second)
	return h
}

// A history that ZooKeeper has of an earlier time, or that continues in another way than the log,
// is told again from where both agree on: runs stay, rows go.
func TestRestoredHistory(t *testing.T) {
	t.Parallel()
	backup := rowOf(historyOf("job", "1"), 1, 5)
	was := rowOf(later(rowOf(backup, 6, 9), 0, "4"), 20, 29)
	forgotten := rowOf(later(backup, 0, "a", "b", "c", "d"), 25, 40)
	forgotten.Dropped, forgotten.Entries = 6, forgotten.Entries[6:]
	grown := later(backup, 0)
	grown.Entries[1].To, grown.Entries[1].Rev, grown.Rev = began.Add(40*time.Second), 3, 3
	early := historyOf("job", "1")
	again := rowOf(later(early, 0, "2", "3", "4"), 30, 40)
	asRow := later(rowOf(early, 1, 40), 0, "a") // the row has other ticks after as many writes
	interrupted := later(early, 0, "4")
	interrupted.Entries[1].State = history.StateInterrupted
	for name, test := range map[string]struct {
		was, is admin.SlotHistory
		want    string
	}{
		"nothing came since":         {was, backup, "1 row1-5 4 hole2"},
		"and some came":              {was, rowOf(later(backup, 0, "a"), 6, 40), "1 row1-5 4 hole2 a row6-40"},
		"as many":                    {was, rowOf(later(backup, 0, "a", "b"), 6, 40), "1 row1-5 4 hole2 a b row6-40"},
		"more than the history has":  {was, forgotten, "1 row1-5 row6-9 4 hole6 row25-40"},
		"and the log ends with runs": {later(was, 0, "6"), forgotten, "1 row1-5 row6-9 4 6 hole6 row25-40"},
		"a row grows in another way": {was, grown, "1 4 hole1 row1-40"},
		"and others follow":          {backup, asRow, "1 hole1 row1-40 a"},
		"the run is there again":     {was, rowOf(interrupted, 30, 40), "1 hole1 4 row30-40"},
		"of the same number":         {was, again, "1 hole1 2 3 4 row30-40"},
		"another run of its number":  {later(early, 0, "2"), later(early, 0, "a", "b"), "1 2 hole1 a b"},
		"an older job": {
			was, admin.SlotHistory{Name: "job", Incarnation: 0, Rev: 1, Number: 1, Entries: early.Entries, Written: began},
			"1 row1-5 row6-9 4 row20-29 gone hole0 1",
		},
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			source, store := make(script), open(t, dir)
			stop := start(t, source, store)
			source <- admin.HistoryReading{Cursor: 5, Whole: true, Slots: []admin.SlotHistory{test.was}}
			for i := range 2 { // it is told once
				source <- admin.HistoryReading{Cursor: int64(6 + i), Whole: true, Slots: []admin.SlotHistory{test.is}}
			}
			synctest.Wait()
			stop()
			var got []string
			for _, e := range slices.Backward(entries(t, store, runlog.Query{})) {
				switch text := string(e.Kind); e.Kind {
				case runlog.Ran:
					if got = append(got, e.RunID); e.State != history.StateOK { // as it was before the restore
						t.Errorf("%s: %+v", name, e)
					}
				case runlog.NotRun:
					got = append(got, fmt.Sprintf("row%.0f-%.0f", e.Tick.Sub(began).Seconds(), e.To.Sub(began).Seconds()))
				case runlog.Hole:
					if got = append(got, fmt.Sprint(text, e.Number)); e.To.Before(e.Tick) || !strings.Contains(e.Error, "restore") {
						t.Errorf("%s: %+v", name, e)
					}
				case runlog.Gone, runlog.Void, runlog.Mark:
					got = append(got, text)
				}
			}
			if text := strings.Join(got, " "); text != test.want {
				t.Errorf("%s: the log has %s, want %s", name, text, test.want)
			}
		})
	}
}

// resumed notes from where a Source is read.
type resumed struct {
	script

	since *[]int64
}

func (r resumed) WatchHistories(ctx context.Context, o admin.WatchHistoriesOptions) iter.Seq2[admin.HistoryReading, error] {
	*r.since = append(*r.since, o.Since)
	return r.script.WatchHistories(ctx, o)
}

// A reader that ends before it has read all of the group begins the next time where the last one
// that had was: jobs that came and went meanwhile are seen to be missing.
func TestCursorWaitsForTheWholeGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var since []int64
		source, store := resumed{make(script), &since}, open(t, dir)
		for _, readings := range [][]admin.HistoryReading{
			{{Cursor: 5, Whole: true, Slots: []admin.SlotHistory{historyOf("a", "1")}}},
			{{Cursor: 7, Slots: []admin.SlotHistory{historyOf("a", "1", "2")}}},
			{{Cursor: 8, Slots: []admin.SlotHistory{historyOf("b", "1")}}, {Cursor: 9, Whole: true}},
			{},
		} {
			stop := start(t, source, store)
			for _, r := range readings {
				source.script <- r
			}
			synctest.Wait()
			stop()
		}
		if want := []int64{0, 5, 5, 9}; !slices.Equal(since, want) {
			t.Errorf("read from %d, want %d", since, want)
		}
	})
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []runlog.Options{{}, {Group: strings.Repeat("x", 300)}, {Group: "g", Keep: -1}, {Group: "g", KeepPerSlot: -1}} {
		if err := runlog.Run(t.Context(), nil, nil, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func closed(t *testing.T, store runlog.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// A history that nobody's instance has written, long and without entries, or with times that no
// store holds, ends no reader, and no entry is appended again.
func TestHistoriesThatNobodyWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		source, store := make(script), open(t, dir)
		stop := start(t, source, store)
		far := time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)
		odd := historyOf("odd")
		odd.Rev, odd.Number = 2, 2
		odd.Entries = []history.Entry{{Number: 1, Rev: 1, Run: history.Run{RunID: "x", State: history.StateLost, Tick: far, Ended: far}, To: far}, {Number: 2, Rev: 2, To: far}}
		source <- admin.HistoryReading{Cursor: 5, Whole: true, Slots: []admin.SlotHistory{historyOf("job", "1")}}
		source <- admin.HistoryReading{Cursor: 6, Whole: true, Slots: []admin.SlotHistory{{Name: "blank", Incarnation: 1}, odd}}
		source <- admin.HistoryReading{Cursor: 7, Whole: true, Slots: []admin.SlotHistory{odd, historyOf("job", "1", "2")}}
		synctest.Wait()
		stop()
		if text := told(t, store); text != "job:run:1 odd:run:x odd:ticks: job:run:2" {
			t.Errorf("the log has %s", text)
		}
	})
}

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

// A real group runs for hours, and the log has each of its ticks, also of the time in which no reader ran, as far as ZooKeeper has it.
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

// script is a Source that says what it is told.
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

func history(name string, runs ...string) admin.SlotHistory {
	h := admin.SlotHistory{Name: name, Incarnation: 1, Written: time.Now()}
	for _, id := range runs {
		h.Entries = append(h.Entries, admin.Entry{Run: admin.Run{RunID: id, State: admin.RunOK, Tick: time.Now(), Ended: time.Now()}, To: time.Now(), Count: 1})
	}
	return h
}

// The second of two readers waits, and takes over when the first one is gone; what both have read is once in the log.
func TestAnotherReaderWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		one, two := make(script), make(script)
		first := open(t, dir)
		stop := start(t, one, first)
		one <- admin.HistoryReading{Cursor: 5, Whole: true, Slots: []admin.SlotHistory{history("job", "a")}}
		synctest.Wait()
		second := open(t, dir)
		stopSecond := start(t, two, second)
		defer stopSecond()
		time.Sleep(time.Hour)
		stop()
		closed(t, first)
		two <- admin.HistoryReading{Cursor: 6, Whole: true, Slots: []admin.SlotHistory{history("job", "a", "b")}}
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

// failing is a Store that cannot be reached, for a while; or, every other time, cannot say that it was.
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

// A store that is away is tried again, and what it has is asked for first.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		source, store := make(script), &failing{Store: open(t, dir), fails: 6}
		stop := start(t, source, store)
		for i := range 6 {
			runs := []string{"a", "b", "c", "d", "e", "f", "g"}[:i+2]
			source <- admin.HistoryReading{Cursor: int64(i), Whole: true, Slots: []admin.SlotHistory{history("job", runs...)}}
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

// What is gone, unseen, and unreadable is in the log, or is not said to be gone.
func TestWhatIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		source, store := make(script), open(t, dir)
		stop := start(t, source, store)
		source <- admin.HistoryReading{Cursor: 5, Whole: true, Slots: []admin.SlotHistory{
			history("a", "1"), history("b", "2"), history("c[0]", "3"), history("d", "4"),
		}}
		again := history("d", "5")
		again.Incarnation = 2
		source <- admin.HistoryReading{Cursor: 6, Whole: true, Gone: []string{"a", "never-seen"}, Slots: []admin.SlotHistory{again}}
		synctest.Wait()
		stop()
		stop = start(t, source, store)
		source <- admin.HistoryReading{Cursor: 7, Slots: []admin.SlotHistory{again}, Unreadable: map[string]error{"c": errors.New("denied")}}
		source <- admin.HistoryReading{Cursor: 8, Whole: true, UnseenJobs: true}
		synctest.Wait()
		stop()
		var got []string
		for _, e := range slices.Backward(entries(t, store, runlog.Query{})) {
			got = append(got, fmt.Sprintf("%s:%s:%s", e.Slot, e.Kind, e.RunID))
		}
		if text := strings.Join(got, " "); text != "a:run:1 b:run:2 c[0]:run:3 d:run:4 d:gone: d:run:5 a:gone: b:gone: :hole:" {
			t.Errorf("the log has %s", text)
		}
	})
}

// A history that was emptied, or has forgotten what the log has last, leaves a hole, however few entries it has.
func TestForgottenHistoryIsAHole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		source, store := make(script), open(t, dir)
		stop := start(t, source, store)
		for i, slots := range [][]admin.SlotHistory{
			{history("cut", "1", "2"), history("emptied", "1"), history("kept", "1")},
			{history("cut", "7"), history("emptied"), history("kept", "1", "2")},
			{history("cut", "7", "8"), history("emptied", "9"), history("kept", "2")},
		} {
			source <- admin.HistoryReading{Cursor: int64(5 + i), Whole: true, Slots: slots}
		}
		synctest.Wait()
		stop()
		var got []string
		for _, e := range slices.Backward(entries(t, store, runlog.Query{})) {
			got = append(got, fmt.Sprintf("%s:%s:%s", e.Slot, e.Kind, e.RunID))
		}
		want := "cut:run:1 cut:run:2 emptied:run:1 kept:run:1 cut:hole: cut:run:7 emptied:hole: kept:run:2 cut:run:8 emptied:run:9"
		if text := strings.Join(got, " "); text != want {
			t.Errorf("the log has %s, want %s", text, want)
		}
	})
}

// A history that is older than what the log has, after a restore, leaves a hole that does not end before it begins, and says that the log may
// have some entries twice.
func TestRestoredHistoryIsAHole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		source, store := make(script), open(t, dir)
		stop := start(t, source, store)
		emptied := history("emptied")
		old := history("restored", "1")
		time.Sleep(time.Hour)
		for i, slots := range [][]admin.SlotHistory{
			{old, history("emptied", "1")}, {history("restored", "2")}, {old, emptied},
		} {
			source <- admin.HistoryReading{Cursor: int64(5 + i), Whole: true, Slots: slots}
			synctest.Wait()
			time.Sleep(time.Minute)
		}
		stop()
		holes, older := 0, 0
		for _, e := range entries(t, store, runlog.Query{}) {
			if e.Kind != runlog.Hole {
				continue
			}
			holes++
			if e.To.Before(e.Tick) {
				t.Errorf("the hole of %s begins at %v and ends at %v", e.Slot, e.Tick, e.To)
			}
			if strings.Contains(e.Error, "twice") {
				older++
			}
		}
		if holes != 3 || older != 2 { // the second reading of restored lacks the first run, too
			t.Errorf("%d holes, %d of them of a history that is older than the log, want 3 and 2", holes, older)
		}
	})
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

// A reader that ends before it has read all of the group begins the next time where the last one that had was: what came and went meanwhile
// is seen to be missing.
func TestCursorWaitsForTheWholeGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var since []int64
		source, store := resumed{make(script), &since}, open(t, dir)
		for _, readings := range [][]admin.HistoryReading{
			{{Cursor: 5, Whole: true, Slots: []admin.SlotHistory{history("a", "1")}}},
			{{Cursor: 7, Slots: []admin.SlotHistory{history("a", "1", "2")}}},
			{{Cursor: 8, Slots: []admin.SlotHistory{history("b", "1")}}, {Cursor: 9, Whole: true}},
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

// A history that nobody's instance has written, long and without entries, or with times that no store holds, ends no reader, and
// what is in the log is not appended again.
func TestHistoriesThatNobodyWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		source, store := make(script), open(t, dir)
		stop := start(t, source, store)
		far := time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)
		odd := history("odd")
		odd.Entries = []admin.Entry{{Run: admin.Run{RunID: "x", State: admin.RunLost, Tick: far, Ended: far}, To: far}, {To: far}}
		source <- admin.HistoryReading{Cursor: 5, Whole: true, Slots: []admin.SlotHistory{history("job", "1")}}
		source <- admin.HistoryReading{Cursor: 6, Whole: true, Slots: []admin.SlotHistory{{Name: "blank", Incarnation: 1, Full: true}, odd}}
		source <- admin.HistoryReading{Cursor: 7, Whole: true, Slots: []admin.SlotHistory{odd, history("job", "1", "2")}}
		synctest.Wait()
		stop()
		var got []string
		for _, e := range slices.Backward(entries(t, store, runlog.Query{})) {
			got = append(got, fmt.Sprintf("%s:%s:%s", e.Slot, e.Kind, e.RunID))
		}
		if text := strings.Join(got, " "); text != "job:run:1 odd:run:x odd:ticks: job:run:2" {
			t.Errorf("the log has %s", text)
		}
	})
}

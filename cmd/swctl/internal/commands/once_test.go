package commands

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/effects"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// A fakeEffects is an application's database, and a run log.
type fakeEffects struct {
	runlog.Store

	fences  []effects.Fence
	markers []effects.Marker
	entries []runlog.Entry
	lowered int64
}

func (f *fakeEffects) Fences(context.Context, string) ([]effects.Fence, error) { return f.fences, nil }

func (f *fakeEffects) Markers(context.Context, string) iter.Seq2[effects.Marker, error] {
	return func(yield func(effects.Marker, error) bool) {
		for _, m := range f.markers {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (f *fakeEffects) Has(_ context.Context, _, slot string, tick time.Time, _ string) (bool, error) {
	return slices.ContainsFunc(f.markers, func(m effects.Marker) bool { return m.Slot == slot && m.Tick.Equal(tick) }), nil
}

func (f *fakeEffects) Lower(_ context.Context, _ string, token int64) (int64, error) {
	f.lowered = token
	return 1, nil
}

func (f *fakeEffects) Entries(context.Context, runlog.Query) iter.Seq2[runlog.Entry, error] {
	return func(yield func(runlog.Entry, error) bool) {
		for _, e := range f.entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (f *fakeEffects) Close() error { return nil }

// newFakeEffects has four hours of a job, every hour. Two are on one side alone.
func newFakeEffects() *fakeEffects {
	f := &fakeEffects{fences: []effects.Fence{
		{Slot: "nightly", Token: 4294967399, First: testNow.Add(-4 * time.Hour)}, {Slot: "レポート[1]", Token: 8589934592},
	}}
	for i := range 4 {
		tick := testNow.Add(-time.Duration(i+1) * time.Hour)
		run := history.Run{Tick: tick, State: history.StateOK, RunID: "r-" + string(rune('a'+i)), InstanceID: "app-1", Started: tick, Ended: tick.Add(time.Second)}
		if i == 2 {
			run.State = history.StateLost
		}
		f.entries = append(f.entries, runlog.Entry{Slot: "nightly", Job: "nightly", Kind: runlog.Ran, At: run.Ended, Entry: history.Entry{Run: run, To: tick, Count: 1}})
		if i != 1 {
			f.markers = append(f.markers, effects.Marker{Slot: "nightly", Tick: tick, RunID: run.RunID, InstanceID: run.InstanceID, At: run.Ended})
		}
	}
	return f
}

func (h *harness) withEffects(f *fakeEffects) {
	h.app.stores = stores{"fake": func(*url.URL) (runlog.Store, error) { return f, nil }}
	h.app.databases = databases{"fake": func(address *url.URL, _ bool) (effects.Database, error) {
		if address.Opaque == "bad" {
			return nil, errors.New("want fake:DB")
		}
		return f, nil
	}}
	h.Commands = h.app.commands()
	h.vars[envStore] = "fake:log"
}

func TestOnceGolden(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	h := newHarness(t)
	line := func(args ...string) { text.WriteString(h.transcript(args...) + "\n") }
	line("once", "check", "--db", "fake:db")
	f := newFakeEffects()
	h.withEffects(f)
	for _, args := range [][]string{
		{"check"}, {"check", "x"}, {"check", "--db", "other:db"}, {"check", "--db", "fake:bad"}, {"check", "--db", "fake://u:pw@db/x"},
		{"check", "--db", "fake:db"}, {"check", "--db", "fake:db", "-o", "json"},
		{"reset", "--db", "fake:db", "--dry-run"}, {"reset", "--db", "fake:db"}, {"reset", "--db", "fake:db", "--yes"},
	} {
		line(append([]string{"once"}, args...)...)
	}
	if f.lowered != 0 {
		t.Errorf("fences were lowered to %d while instances run", f.lowered)
	}
	h.fake.instances = nil
	line("once", "reset", "--db", "fake:db", "--yes", "-o", "json")
	if f.lowered != h.fake.Zxid() {
		t.Errorf("fences were lowered to %d, want %d", f.lowered, h.fake.Zxid())
	}
	f.fences, f.lowered = nil, 0
	line("once", "reset", "--db", "fake:db", "--yes")
	f.markers = nil
	line("once", "check", "--db", "fake:db")
	golden(t, "once", text.String())
}

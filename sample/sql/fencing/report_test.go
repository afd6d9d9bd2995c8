package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/once"
)

func runOf(instance string, tick, token int64) *singleworker.Run {
	return &singleworker.Run{ID: "run", Job: job, InstanceID: instance, Tick: time.Unix(tick, 0), Token: token}
}

func newStore(t *testing.T, fenced bool) *store {
	t.Helper()
	s, err := openStore(filepath.Join(t.TempDir(), "name with % and ?.db"), fenced)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSave(t *testing.T) {
	t.Parallel()
	type write struct{ tick, token int64 }
	for name, c := range map[string]struct {
		fenced bool
		writes []write
		want   int // index of the one whose row is there in the end
		saved  int // how many were written
	}{
		"first":                   {true, []write{{1, 5}}, 0, 1},
		"one owner writes again":  {true, []write{{1, 5}, {2, 5}}, 1, 2},
		"a later owner":           {true, []write{{1, 5}, {2, 6}}, 1, 2},
		"a late owner":            {true, []write{{1, 5}, {2, 6}, {3, 5}}, 1, 2},
		"all 64 bits":             {true, []write{{1, 1<<62 + 1}, {2, 1 << 62}}, 0, 1},
		"a rerun":                 {true, []write{{1, 5}, {1, 6}, {2, 6}}, 2, 2},
		"without a fence, a late": {false, []write{{1, 5}, {2, 6}, {1, 5}}, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, saved := newStore(t, c.fenced), 0
			for i, w := range c.writes {
				err := s.save(t.Context(), runOf("app", w.tick, w.token), int64(i))
				switch {
				case err == nil:
					saved++
				case !errors.Is(err, once.ErrFenced) && !errors.Is(err, once.ErrDone):
					t.Fatal(err)
				}
			}
			got, history, err := s.load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.Total != int64(c.want) || saved != c.saved || history["app"] != c.saved {
				t.Errorf("the row is by write %d, %d were accepted, %d are in the history; want %d, %d, %d",
					got.Total, saved, history["app"], c.want, c.saved, c.saved)
			}
		})
	}
}

func TestReportJob(t *testing.T) {
	t.Parallel()
	s := newStore(t, true)
	for _, amount := range []int64{60, 40} {
		if err := s.order(t.Context(), amount); err != nil {
			t.Fatal(err)
		}
	}
	handler := reportJob(s.sum, s.save)
	for range 2 { // the second time, it is done
		if err := handler(t.Context(), runOf("app-2", 1, 9)); err != nil {
			t.Fatal(err)
		}
	}
	err := handler(t.Context(), runOf("app-1", 1, 8))
	if !errors.Is(err, once.ErrFenced) {
		t.Errorf("the handler of an earlier owner returned %v, want %v", err, once.ErrFenced)
	}
	got, history, err := s.load(t.Context())
	if want := (report{Name: job, Total: 100, Writer: "app-2", Token: 9}); err != nil || got != want || history["app-2"] != 1 {
		t.Errorf("got %+v, written %d times, %v, want %+v, once", got, history["app-2"], err, want)
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := handler(over, runOf("app-2", 2, 9)); !errors.Is(err, context.Canceled) {
		t.Errorf("the handler returned %v when its context had ended", err)
	}
}

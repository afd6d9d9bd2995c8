package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/swjobs/singleworker/singleworker"
)

func newStore(t *testing.T, write string) *store {
	t.Helper()
	s, err := openStore(filepath.Join(t.TempDir(), "name with % and ?.db"), write)
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
	for name, c := range map[string]struct {
		write  string
		tokens []int64 // of the runs that write, one after the other
		want   int     // index of the one whose row is there in the end
		saved  int     // how many were written
	}{
		"first":                       {upsert + fence, []int64{5}, 0, 1},
		"one owner writes again":      {upsert + fence, []int64{5, 5}, 1, 2},
		"a later owner":               {upsert + fence, []int64{5, 6}, 1, 2},
		"a late owner":                {upsert + fence, []int64{5, 6, 5}, 1, 2},
		"all 64 bits":                 {upsert + fence, []int64{1<<62 + 1, 1 << 62}, 0, 1},
		"without a condition, a late": {upsert, []int64{5, 6, 5}, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, saved := newStore(t, c.write), 0
			for i, token := range c.tokens {
				err := s.save(t.Context(), report{Name: job, Total: int64(i), Writer: "app", Token: token})
				switch {
				case err == nil:
					saved++
				case !errors.Is(err, errFenced):
					t.Fatal(err)
				}
			}
			got, history, err := s.load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.Total != int64(c.want) || saved != c.saved || history["app"] != c.saved {
				t.Errorf("the row is that of write %d, %d were accepted, %d are in the history; want %d, %d, %d",
					got.Total, saved, history["app"], c.want, c.saved, c.saved)
			}
		})
	}
}

func TestReportJob(t *testing.T) {
	t.Parallel()
	s := newStore(t, upsert+fence)
	for _, amount := range []int64{60, 40} {
		if err := s.order(t.Context(), amount); err != nil {
			t.Fatal(err)
		}
	}
	handler := reportJob(s.sum, s.save)
	if err := handler(t.Context(), &singleworker.Run{Job: job, InstanceID: "app-2", Token: 9}); err != nil {
		t.Fatal(err)
	}
	err := handler(t.Context(), &singleworker.Run{Job: job, InstanceID: "app-1", Token: 8})
	if !errors.Is(err, errFenced) {
		t.Errorf("the handler of an earlier owner returned %v, want %v", err, errFenced)
	}
	got, _, err := s.load(t.Context())
	if want := (report{Name: job, Total: 100, Writer: "app-2", Token: 9}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := handler(over, &singleworker.Run{Job: job}); !errors.Is(err, context.Canceled) {
		t.Errorf("the handler returned %v when its context had ended", err)
	}
}

package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

const rowsInTest = 60

func newStore(t *testing.T, token string) *store {
	t.Helper()
	s, err := openStore(filepath.Join(t.TempDir(), "name with % and ?.db"), token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.create(t.Context(), rowsInTest); err != nil {
		t.Fatal(err)
	}
	return s
}

func runOf(index int, id string, token int64, tick time.Time) *singleworker.Run {
	return &singleworker.Run{
		Job: jobName, InstanceID: id, Token: token, Tick: tick, Shard: singleworker.Shard{Index: index, Total: shards},
	}
}

// TestToken has an owner mark a row, and two others begin and mark one, in the order of tokens.
func TestToken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token  string
		tokens []int64 // of the runs, one after the other
		want   []int64 // of those that are accepted
	}{
		"first":                       {put + fence, []int64{5}, []int64{5}},
		"one owner writes again":      {put + fence, []int64{5, 5}, []int64{5, 5}},
		"a later owner":               {put + fence, []int64{5, 6}, []int64{5, 6}},
		"a late owner":                {put + fence, []int64{5, 6, 5}, []int64{5, 6}},
		"all 64 bits":                 {put + fence, []int64{1<<62 + 1, 1 << 62}, []int64{1<<62 + 1}},
		"without a condition, a late": {put, []int64{5, 6, 5}, []int64{5, 6, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, tick := newStore(t, c.token), time.UnixMilli(2000)
			var accepted []int64
			for _, token := range c.tokens {
				err := s.mark(t.Context(), runOf(1, "app", token, tick), []int64{1})
				switch {
				case err == nil:
					accepted = append(accepted, token)
				case !errors.Is(err, errFenced):
					t.Fatal(err)
				}
			}
			parts, twice, err := s.load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(accepted, c.want) || len(parts) != 1 || parts[0].Rows != len(c.want) || (twice == 1) != (len(c.want) > 1) {
				t.Errorf("accepted %v, want %v; done %+v, %d rows twice", accepted, c.want, parts, twice)
			}
		})
	}
}

// A token applies to its shard only.
func TestTokensOfShards(t *testing.T) {
	t.Parallel()
	s, tick := newStore(t, put+fence), time.UnixMilli(2000)
	if err := s.begin(t.Context(), runOf(1, "app", 9, tick)); err != nil {
		t.Error(err)
	}
	if err := s.begin(t.Context(), runOf(2, "app", 8, tick)); err != nil {
		t.Error(err)
	}
}

// TestBegin: the late write is refused as soon as a later owner has begun, though that has not
// yet written a row.
func TestBegin(t *testing.T) {
	t.Parallel()
	s, tick := newStore(t, put+fence), time.UnixMilli(2000)
	if err := s.begin(t.Context(), runOf(1, "app-2", 9, tick)); err != nil {
		t.Fatal(err)
	}
	if err := s.mark(t.Context(), runOf(1, "app-1", 8, tick), []int64{1}); !errors.Is(err, errFenced) {
		t.Errorf("%v, want %v", err, errFenced)
	}
	if left, err := s.left(t.Context(), runOf(1, "app-2", 9, tick), 2); err != nil || !slices.Equal(left, []int64{1, 7}) {
		t.Errorf("left is %d, %v; want the first two", left, err)
	}
}

// failing is a table whose process dies instead of its nth batch.
type failing struct {
	*store

	n int
}

var errDied = errors.New("died")

func (f *failing) mark(ctx context.Context, run *singleworker.Run, ids []int64) error {
	if f.n--; f.n == 0 {
		return errDied
	}
	return f.store.mark(ctx, run, ids)
}

// TestRowsJob has every shard process a tick; one dies after its first batch, and another
// owner continues.
func TestRowsJob(t *testing.T) {
	t.Parallel()
	s, tick := newStore(t, put+fence), time.UnixMilli(2000)
	dead := runOf(3, "app-1", 8, tick)
	dead.Shard.Parameter = "4"
	if err := rowsJob(&failing{s, 2})(t.Context(), dead); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	for index := range shards {
		if err := rowsJob(s)(t.Context(), runOf(index, "app-2", 9, tick)); err != nil {
			t.Error(err)
		}
	}
	parts, twice, err := s.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []part{
		{2000, 0, "app-2", 10},
		{2000, 1, "app-2", 10},
		{2000, 2, "app-2", 10},
		{2000, 3, "app-1", 4},
		{2000, 3, "app-2", 6},
		{2000, 4, "app-2", 10},
		{2000, 5, "app-2", 10},
	}
	if !slices.Equal(parts, want) || twice != 0 {
		t.Errorf("done %+v, %d rows twice; want %+v", parts, twice, want)
	}

	if err := rowsJob(s)(t.Context(), runOf(3, "app-1", 8, tick.Add(period))); !errors.Is(err, errFenced) {
		t.Errorf("the handler of an earlier owner returned %v, want %v", err, errFenced)
	}
}

func TestParameterIsTheSizeOfBatches(t *testing.T) {
	t.Parallel()
	s, tick := newStore(t, put+fence), time.UnixMilli(2000)
	for _, parameter := range []string{"many", "0", "-1"} {
		run := runOf(0, "app", 5, tick)
		run.Shard.Parameter = parameter
		if err := rowsJob(s)(t.Context(), run); err == nil {
			t.Errorf("%q was accepted", parameter)
		}
	}
}

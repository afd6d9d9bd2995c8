package simkit_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		n    int
		bad  []uint64
		want uint64 // 0: none is found
	}{
		{"the only one", 100, []uint64{70}, 70},
		{"the last one", 100, []uint64{100}, 100},
		{"one beyond the end", 100, []uint64{101}, 0},
		{"none of none", 0, []uint64{1}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			tried := make(map[uint64]int)
			found, ok := simkit.Search(tt.n, func(seed uint64) bool {
				mu.Lock()
				defer mu.Unlock()
				tried[seed]++
				return slices.Contains(tt.bad, seed)
			})
			if found != tt.want || ok != (tt.want != 0) {
				t.Errorf("found %d, %v; want %d", found, ok, tt.want)
			}
			if tt.want == 0 && len(tried) != tt.n {
				t.Errorf("%d seeds tried, want %d", len(tried), tt.n)
			}
			for seed, times := range tried {
				if times != 1 || seed < 1 || seed > uint64(tt.n) {
					t.Errorf("seed %d was tried %d times", seed, times)
				}
			}
		})
	}
}

// A call that ends its goroutine, as t.FailNow does, ends no other.
func TestSearchGoesOnWithoutACall(t *testing.T) {
	t.Parallel()
	found, _ := simkit.Search(50, func(seed uint64) bool {
		if seed < 50 {
			runtime.Goexit()
		}
		return true
	})
	if found != 50 {
		t.Errorf("found %d, want 50", found)
	}
}

// draw fails in its seed 3.
type draw struct {
	simkit.Story

	seed uint64
}

func (d *draw) Run() {
	d.Note("a", "a begins")
	d.Note("b", "b begins")
	d.Note("", "noise")
	if d.seed == 3 {
		d.Fail("a", "(7) a broke")
		d.Fail("b", "(8) b broke")
	}
	d.Note("a", "a ends")
}

func TestStory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		seed     uint64
		record   bool
		lines    int
		failure  string
		wantTold string
	}{
		{"unrecorded", 3, false, 9, "(7) a broke", "p\n"},
		{"of the subject that failed", 3, true, 9, "(7) a broke", "p\na begins\nnoise\na ends"},
		{"the newest", 3, true, 2, "(7) a broke", "p\nnoise\na ends"},
		{"of all, if none failed", 1, true, 9, "", "p\na begins\nb begins\nnoise\na ends"},
	} {
		d := &draw{Story: simkit.Story{Profile: "p"}, seed: tt.seed}
		if tt.record {
			d.Record()
		}
		d.Run()
		if told := d.Tell(tt.lines); told != tt.wantTold || d.Failure() != tt.failure {
			t.Errorf("%s: %q and %q, want %q and %q", tt.name, d.Failure(), told, tt.failure, tt.wantTold)
		}
	}
}

func TestCaught(t *testing.T) {
	t.Parallel()
	draws := func(seed uint64) *draw { return &draw{seed: seed} }
	simkit.Caught(t, 10, draws, "(1)", "(7)")
	passed := 0
	if ran := simkit.Test(t, 20, func(uint64) *draw { return draws(1) }, func(*draw) { passed++ }); ran != passed || ran == 0 {
		t.Errorf("%d of %d passed", passed, ran)
	}
	if one, twenty := simkit.Share(1), simkit.Share(20); one != 1 || twenty != 2 && twenty != 20 {
		t.Errorf("the shares of 1 and of 20 are %d and %d", one, twenty)
	}
}

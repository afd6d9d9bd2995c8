package simkit_test

import (
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// ladder is a world of rungs: ways lists where each rung leads. A way to a later rung takes time.
type ladder struct {
	ways    map[int][]int
	settled map[int]bool
	broken  map[int]bool
	at      int
}

func (l ladder) Moves() []simkit.Move {
	var moves []simkit.Move
	for _, to := range l.ways[l.at] {
		moves = append(moves, simkit.Move{Arg: int8(to), Passes: to > l.at})
	}
	return moves
}

func (l ladder) After(m simkit.Move) ladder { l.at = int(m.Arg); return l }
func (l ladder) Key(to []byte) []byte       { return append(to, byte(l.at)) }
func (l ladder) Settled() bool              { return l.settled[l.at] }
func (l ladder) Tell(m simkit.Move) string {
	return string(rune('0'+l.at)) + ">" + string(rune('0'+m.Arg))
}

func (l ladder) Failure() string {
	if l.broken[l.at] {
		return "broken"
	}
	return ""
}

func TestExplore(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		world     ladder
		limit     int
		states    int
		depth     int
		complete  bool
		unsettled int
		failure   string
		story     string
	}{
		{"a ring that settles", ladder{ways: map[int][]int{0: {1}, 1: {2, 3}, 2: {3}, 3: {0}}, settled: map[int]bool{0: true}}, 99, 4, 2, true, 2, "", ""},
		{"the shortest way to a violation", ladder{ways: map[int][]int{0: {1, 2}, 1: {2}, 2: {3}, 3: {3}}, broken: map[int]bool{3: true}}, 99, 4, 1, false, 0, "broken", "0>2 2>3"},
		{"no way out", ladder{ways: map[int][]int{0: {1}}}, 99, 2, 1, false, 0, "nothing can happen", "0>1"},
		{"never settled", ladder{ways: map[int][]int{0: {1}, 1: {2}, 2: {1}}, settled: map[int]bool{0: true}}, 99, 3, 2, true, 0, "unsettled for ever", "0>1 (again and again) 1>2 (again and again) 2>1"},
		{"no time passes", ladder{ways: map[int][]int{0: {0}}, settled: map[int]bool{0: true}}, 99, 1, 0, true, 0, "stand still", "(again and again) 0>0"},
		{"cut short", ladder{ways: map[int][]int{0: {1}, 1: {2}, 2: {3}, 3: {0}}}, 2, 2, 0, false, 0, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found := simkit.Explore(tt.world, tt.limit)
			if found.States != tt.states || found.Depth != tt.depth || found.Complete != tt.complete || found.Unsettled != tt.unsettled {
				t.Errorf("%v, want %d states, depth %d, complete %v, unsettled for %d", found, tt.states, tt.depth, tt.complete, tt.unsettled)
			}
			if story := strings.Join(found.Story, " "); !strings.Contains(found.Failure, tt.failure) || (found.Failure == "") != (tt.failure == "") || story != tt.story {
				t.Errorf("%s; want %q, after %q", found.Told(), tt.failure, tt.story)
			}
		})
	}
}

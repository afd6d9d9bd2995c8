package simkit

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// Tier says when a world is explored.
type Tier int

// The tiers: a Small world takes about a second, a Large one runs with -sim.all, and a Huge one,
// which takes minutes, with -sim.explore.
const (
	Small Tier = iota
	Large
	Huge
)

// Check skips the test unless the tier is to be explored.
func (tier Tier) Check(t *testing.T) {
	t.Helper()
	switch {
	case tier == Large && !*hugeFlag:
		Slow(t)
	case tier == Huge && !*hugeFlag:
		t.Skip("a huge world: runs with -sim.explore")
	}
}

// NoLimit lets Explore visit every state.
const NoLimit = math.MaxInt32

// Move is one thing that can happen next in a small world. Passes means that time passes by it.
type Move struct {
	Kind, Who, Arg int8
	Passes         bool
}

// Explorable is one state of a small world. It is never changed: a move makes another state.
type Explorable[W any] interface {
	// Moves lists all that can happen next.
	Moves() []Move
	// After is the state after one of the moves.
	After(m Move) W
	// Key appends the features that tell this state from others: states with equal keys have equal
	// futures.
	Key(to []byte) []byte
	// Failure is the property that is violated, or "".
	Failure() string
	// Settled reports whether all is as it should be when no fault happens. From every other state,
	// every way must lead to a settled one.
	Settled() bool
	// Tell describes a move.
	Tell(m Move) string
}

// Explored is the outcome of an exploration.
type Explored struct {
	States, Transitions int
	Depth               int  // moves from the start to the farthest state
	Complete            bool // every state that can be reached was visited
	// Unsettled is the longest time, in passing moves, for which the world can stay unsettled.
	Unsettled int
	Seconds   float64
	Failure   string // the first violation, with fewest moves, or ""
	Story     []string
}

func (e Explored) String() string {
	complete := "no"
	if e.Complete {
		complete = "yes"
	}
	return fmt.Sprintf("%9d states %10d transitions, depth %3d, unsettled for %2d, %6.1f s, complete: %s",
		e.States, e.Transitions, e.Depth, e.Unsettled, e.Seconds, complete)
}

// Explore visits every state that can be reached from start, each once, nearest first, until one
// violates a property or limit states were visited. When all were visited, it looks for a way never
// to settle.
func Explore[W Explorable[W]](start W, limit int) Explored {
	x := &explorer[W]{
		start: start, limit: limit, seen: make(map[[2]uint64]int32), began: time.Now(),
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	x.run()
	x.result.States, x.result.Transitions = len(x.from), len(x.edges)
	x.result.Seconds = time.Since(x.began).Seconds()
	return x.result
}

// explorer keeps of each state that was visited no more than a hash of its key, and how it was
// reached.
type explorer[W Explorable[W]] struct {
	start  W
	limit  int
	began  time.Time
	seeds  [2]maphash.Seed
	seen   map[[2]uint64]int32
	key    []byte
	result Explored

	// Of each state, by number.
	from    []int32
	by      []Move
	settled []bool
	first   []int32 // of its edges; the state's number is the order in which it was visited
	edges   []edge
}

// edge is a move between two visited states.
type edge struct {
	to     int32
	passes bool
}

// visit numbers a state, and reports whether it is new.
func (x *explorer[W]) visit(w W, from int32, by Move) (number int32, fresh bool) {
	x.key = w.Key(x.key[:0])
	hash := [2]uint64{maphash.Bytes(x.seeds[0], x.key), maphash.Bytes(x.seeds[1], x.key)}
	if number, seen := x.seen[hash]; seen {
		return number, false
	}
	number = int32(len(x.from))
	x.seen[hash] = number
	x.from, x.by, x.settled = append(x.from, from), append(x.by, by), append(x.settled, w.Settled())
	return number, true
}

func (x *explorer[W]) run() {
	x.visit(x.start, -1, Move{})
	for level := []W{x.start}; len(level) > 0; x.result.Depth++ {
		var next []W
		for _, w := range level {
			number := int32(len(x.first))
			x.first = append(x.first, int32(len(x.edges)))
			moves := w.Moves()
			if len(moves) == 0 {
				x.fail("nothing can happen any more", number)
				return
			}
			for _, m := range moves {
				then := w.After(m)
				to, fresh := x.visit(then, number, m)
				x.edges = append(x.edges, edge{to, m.Passes})
				if failure := then.Failure(); failure != "" {
					x.fail(failure, to)
					return
				}
				if fresh {
					next = append(next, then)
				}
			}
			if len(x.from) >= x.limit {
				return
			}
		}
		level = next
	}
	x.result.Depth--
	x.result.Complete = true
	x.judge()
}

// judge looks for the ways that never end: without time passing, or without settling.
func (x *explorer[W]) judge() {
	_, cycle := x.longest(func(_ int32, e edge) bool { return !e.passes })
	if cycle != nil {
		x.fail("time can stand still for ever", cycle...)
		return
	}
	x.result.Unsettled, cycle = x.longest(func(from int32, e edge) bool { return !x.settled[from] && !x.settled[e.to] })
	if cycle != nil {
		x.fail("it can stay unsettled for ever", cycle...)
	}
}

// longest returns the most time that passes on a way over some of the edges, or a cycle of them.
func (x *explorer[W]) longest(over func(from int32, e edge) bool) (most int, cycle []int32) {
	const unseen, underway = -2, -1
	times := make([]int32, len(x.from)) // from each state on
	for k := range times {
		times[k] = unseen
	}
	type step struct{ state, edge int32 }
	for root := range x.from {
		if times[root] != unseen {
			continue
		}
		times[root] = underway
		way := []step{{int32(root), x.first[root]}}
		for len(way) > 0 {
			at := &way[len(way)-1]
			if at.edge == x.end(at.state) {
				times[at.state] = x.timeFrom(at.state, over, times)
				most = max(most, int(times[at.state]))
				way = way[:len(way)-1]
				continue
			}
			e := x.edges[at.edge]
			at.edge++
			switch {
			case !over(at.state, e):
			case times[e.to] == unseen:
				times[e.to] = underway
				way = append(way, step{e.to, x.first[e.to]})
			case times[e.to] == underway:
				for _, at := range slices.Backward(way) {
					cycle = append(cycle, at.state)
					if at.state == e.to {
						slices.Reverse(cycle)
						return 0, append(cycle, e.to)
					}
				}
			}
		}
	}
	return most, nil
}

// end is behind the last edge of a state.
func (x *explorer[W]) end(state int32) int32 {
	if int(state)+1 < len(x.first) {
		return x.first[state+1]
	}
	return int32(len(x.edges))
}

// timeFrom is the most time that passes from a state on, when that is known of those that follow.
func (x *explorer[W]) timeFrom(state int32, over func(int32, edge) bool, times []int32) (most int32) {
	for _, e := range x.edges[x.first[state]:x.end(state)] {
		if over(state, e) {
			took := times[e.to]
			if e.passes {
				took++
			}
			most = max(most, took)
		}
	}
	return most
}

// fail tells the shortest way to a state, and from there through others.
func (x *explorer[W]) fail(failure string, through ...int32) {
	x.result.Failure = failure
	var way []Move
	for state := through[0]; x.from[state] >= 0; state = x.from[state] {
		way = append(way, x.by[state])
	}
	slices.Reverse(way)
	w := x.start
	for _, m := range way {
		x.result.Story = append(x.result.Story, w.Tell(m))
		w = w.After(m)
	}
	for _, state := range through[1:] {
		m := x.moveTo(w, state)
		x.result.Story = append(x.result.Story, "(again and again) "+w.Tell(m))
		w = w.After(m)
	}
}

// moveTo finds the move from a state to a visited one.
func (x *explorer[W]) moveTo(w W, state int32) Move {
	moves := w.Moves()
	return moves[slices.IndexFunc(moves, func(m Move) bool {
		number, _ := x.visit(w.After(m), 0, m)
		return number == state
	})]
}

// Told is the failure and the story of it, a line each.
func (e Explored) Told() string {
	return fmt.Sprintf("%s, after %d moves:\n%s", e.Failure, len(e.Story), strings.Join(e.Story, "\n"))
}

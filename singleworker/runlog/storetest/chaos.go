package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/runlog"
)

// Chaos reads a group that is made up by a seed, and whose log has the name group, with readers
// that are killed before, after, or in the middle of an append, and compares the log with the
// truth. open opens the store of the next reader; crash, which may be nil, damages it as the system
// may when a reader dies.
func Chaos(t *testing.T, seed uint64, group string, open func() runlog.Store, crash func(r *rand.Rand)) {
	t.Helper()
	g := newGroup(seed, 600, steady)
	readers := read(t, g, group, open, crash)
	told := logOf(t, group, open)
	t.Logf("%d readers, %d entries", readers, len(told))
	got := make(map[string]string)
	for _, e := range told {
		if e.Kind == runlog.Hole {
			t.Errorf("a hole where nothing is missing: %+v", e)
		}
		got[identity(e.Slot, e.Incarnation, e.Key)] = text(e)
	}
	if len(got) != len(told) {
		t.Errorf("%d of %d entries are twice in the log", len(told)-len(got), len(told))
	}
	maps.DeleteFunc(g.truth, func(id, _ string) bool {
		incarnation, _, _ := strings.Cut(id, " ")
		_, logged := got[id]
		if g.gone[incarnation+" "] && logged {
			delete(got, id)
		}
		return g.gone[incarnation+" "]
	})
	compare(t, got, g.truth)
}

// Holes is Chaos in a group in which more happens between two readings than its histories hold.
func Holes(t *testing.T, seed uint64, group string, open func() runlog.Store, crash func(r *rand.Rand)) {
	t.Helper()
	g := newGroup(seed, 500, forgets)
	read(t, g, group, open, crash)
	told := logOf(t, group, open)
	holes, lost := 0, 0
	got := make(map[string]string)
	var between [][2]string // holes, by slot and time
	for _, e := range told {
		got[identity(e.Slot, e.Incarnation, e.Key)] = text(e)
		if e.Kind == runlog.Hole {
			holes++
			between = append(between, [2]string{fmt.Sprintf("%s %d", e.Slot, e.Tick.UnixMilli()), fmt.Sprintf("%s %d", e.Slot, e.To.UnixMilli())})
		}
	}
	for id, what := range g.truth {
		if got[id] == what || got[id] != "" && g.amended[id] { // the late result of a run is forgotten with it
			continue
		}
		lost++
		slot, _, _ := strings.Cut(id, "@")
		at := slot + " " + what[strings.LastIndexByte(what, ' ')+1:]
		if !slices.ContainsFunc(between, func(h [2]string) bool { return h[0] <= at && at <= h[1] }) {
			t.Errorf("%s: %s is lost, and in no hole", id, what)
		}
	}
	if holes == 0 || lost == 0 {
		t.Errorf("%d holes, %d lost: this tests nothing", holes, lost)
	}
}

// Restores is Chaos in a group whose server is restored from backups: the log has what became of
// each tick that is on record in the end, and beside that runs that the server has forgotten. No
// tick is in two rows.
func Restores(t *testing.T, seed uint64, group string, open func() runlog.Store, crash func(r *rand.Rand)) {
	t.Helper()
	g := newGroup(seed, 500, restored)
	read(t, g, group, open, crash)
	holes := 0
	got, rows := make(map[string]string), make(map[string][]runlog.Entry)
	for _, e := range logOf(t, group, open) {
		id := identity(e.Slot, e.Incarnation, e.Key)
		switch e.Kind {
		case runlog.Hole:
			holes++
			continue
		case runlog.NotRun:
			for _, other := range rows[e.Slot] {
				if !e.Tick.After(other.To) && !other.Tick.After(e.To) {
					t.Errorf("%s has two rows about the same ticks:\n%+v\n%+v", e.Slot, e, other)
				}
			}
			rows[e.Slot] = append(rows[e.Slot], e)
		case runlog.Ran, runlog.Gone, runlog.Void, runlog.Mark:
		}
		if was, twice := got[id]; twice {
			t.Errorf("%s is twice in the log: %s, and %s", id, was, text(e))
		}
		got[id] = text(e)
	}
	for id := range g.lost {
		if got[id] != "" { // whatever the log was told of it last
			delete(got, id)
			delete(g.truth, id)
		}
	}
	compare(t, got, g.truth)
	t.Logf("%d restores, %d holes, %d runs forgotten", g.restores, holes, len(g.lost))
	if holes == 0 || len(g.lost) == 0 {
		t.Error("this tests nothing")
	}
}

// read has readers follow the group, one after the other, until its end.
func read(t *testing.T, g *group, name string, open func() runlog.Store, crash func(r *rand.Rand)) (readers int) {
	t.Helper()
	r := rand.New(rand.NewPCG(g.r.Uint64(), 2))
	for dead := true; dead; readers++ {
		ctx, stop := context.WithCancel(t.Context())
		g.stop = stop
		store := open()
		dead = false
		kill := func() {
			dead = true
			stop()
		}
		if err := runlog.Run(ctx, g, &mortal{Store: store, r: r, kill: kill}, runlog.Options{Group: name}); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if crash != nil && dead {
			crash(r)
		}
	}
	return readers
}

// logOf is the log of the group, newest first.
func logOf(t *testing.T, group string, open func() runlog.Store) []runlog.Entry {
	t.Helper()
	store := open()
	defer store.Close()
	var all []runlog.Entry
	for e, err := range store.Entries(t.Context(), runlog.Query{Group: group}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func text(e runlog.Entry) string {
	if e.Kind == runlog.Gone {
		return string(runlog.Gone)
	}
	return fmt.Sprintf("%s x%d to %d", e.State, e.Count, e.To.UnixMilli())
}

func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got[id] != want[id] {
			t.Errorf("%s: the log has %q, want %q", id, got[id], want[id])
		}
		delete(got, id)
	}
	for id, what := range got {
		t.Errorf("%s: the log has %q, which did not happen", id, what)
	}
}

// mortal is the store of a reader that is killed.
type mortal struct {
	runlog.Store

	r    *rand.Rand
	kill func()
}

var errKilled = errors.New("killed")

func (m *mortal) Append(ctx context.Context, group string, b runlog.Batch) error {
	switch m.r.IntN(12) {
	case 0:
		m.kill()
		return errKilled
	case 1:
		err := m.Store.Append(ctx, group, b)
		m.kill()
		return errors.Join(err, errKilled)
	}
	return m.Store.Append(ctx, group, b)
}

package agenda_test

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/agenda"
)

type thing struct {
	agenda.Entry

	n int
}

// world is an agenda of things, which are asleep, and its log.
type world struct {
	*agenda.Agenda[*thing]
	things []*thing
	log    bytes.Buffer
}

// at is when the first look of a test is.
const at = time.Hour

func newWorld(things int) *world {
	w := &world{}
	w.Agenda = agenda.New(slog.New(slog.NewTextHandler(&w.log, nil)), func(a, b *thing) int { return cmp.Compare(a.n, b.n) })
	for n := range things {
		w.things = append(w.things, &thing{n: n})
		w.Add(w.things[n])
	}
	w.Take(at)
	return w
}

// due takes the things that are due at a time, and lists them.
func (w *world) due(now time.Duration) (due []int) {
	w.Take(now)
	w.Due(func(x *thing) { due = append(due, x.n) })
	return due
}

// many is so many things that a look takes some 50 which are not due.
const many = 1000

func TestEachThingIsTakenAtItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(many)
	times := []time.Duration{3, 1, 2}
	for k, after := range times {
		w.By(w.things[990+k], at+after)
		w.By(w.things[990+k], at+after+10) // the earliest counts
	}
	for _, row := range []struct {
		now  time.Duration
		want []int
	}{{at + 1, []int{991}}, {at + 2, []int{992}}, {at + 4, []int{990}}, {at + 20, nil}} {
		got := slices.DeleteFunc(w.due(row.now), func(n int) bool { return n < 900 }) // the others are spare
		if !slices.Equal(got, row.want) {
			t.Errorf("at %d: %v, want %v", row.now-at, got, row.want)
		}
	}
}

func TestEverythingIsTakenInTurn(t *testing.T) {
	t.Parallel()
	for _, things := range []int{1, 16, 17, many} {
		w := newWorld(things)
		seen := make(map[int]bool)
		for range 20 {
			for _, n := range w.due(at) {
				seen[n] = true
			}
		}
		if len(seen) != things {
			t.Errorf("%d of %d things were taken in 20 looks", len(seen), things)
		}
	}
}

func TestWhatIsRemovedIsNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(3)
	w.By(w.things[0], at+1)
	w.Take(at + 1)
	w.Remove(w.things[0])
	w.Remove(w.things[0])
	w.Wake(w.things[0])
	w.By(w.things[0], at+2)
	w.Due(func(x *thing) {
		if x.n == 0 {
			t.Error("listed after it was removed")
		}
	})
	if got := w.due(at + 3); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("taken: %v, want 1 and 2", got)
	}
}

// Something is to be done now at a thing that was not due: who should have woken it has not.
func TestLateLookIsLogged(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why  string
		look func(w *world, x *thing)
		late bool
	}{
		{"nobody had asked", func(w *world, x *thing) { w.By(x, at) }, true},
		{"asked for later", func(w *world, x *thing) { w.By(x, at+2); w.Take(at + 1); w.By(x, at+1) }, true},
		{"by a wall clock", func(w *world, x *thing) { w.ByWall(x, time.Unix(1, 0), time.Unix(2, 0)) }, true},
		{"earlier than by a wall clock", func(w *world, x *thing) { w.ByWall(x, time.Unix(1, 1), time.Unix(1, 0)) }, false},
		{"woken", func(w *world, x *thing) { w.Wake(x); w.By(x, at) }, false},
		{"all woken", func(w *world, x *thing) { w.WakeAll(); w.Take(at + 1); w.By(x, at+1) }, false},
		{"due", func(w *world, x *thing) { w.By(x, at+1); w.Take(at + 1); w.By(x, at+1) }, false},
		{"wanted later", func(w *world, x *thing) { w.By(x, at+1) }, false},
	} {
		w := newWorld(2)
		w.Take(at) // nothing is due any more
		row.look(w, w.things[1])
		w.Take(at + 5)
		if logged := strings.Contains(w.log.String(), agenda.Missed); logged != row.late {
			t.Errorf("%s: logged: %v, want %v", row.why, logged, row.late)
		}
	}
}

// A wall clock and the monotonic one may come apart by half of Early before everything is woken.
func TestLookByAWallClockIsEarly(t *testing.T) {
	t.Parallel()
	w, now := newWorld(many), time.Unix(0, 0)
	for k, left := range []time.Duration{time.Minute, agenda.Early, agenda.Early / 2, 290 * 365 * 24 * time.Hour} {
		w.ByWall(w.things[990+k], now.Add(left), now)
	}
	for _, row := range []struct {
		after time.Duration
		want  string
	}{{0, "[991 992]"}, {time.Minute - agenda.Early - 1, "[]"}, {time.Minute - agenda.Early, "[990]"}, {24 * time.Hour, "[]"}} {
		got := slices.DeleteFunc(w.due(at+row.after), func(n int) bool { return n < 900 })
		if fmt.Sprint(got) != row.want {
			t.Errorf("after %v: %v, want %s", row.after, got, row.want)
		}
	}
}

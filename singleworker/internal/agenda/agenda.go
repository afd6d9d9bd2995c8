package agenda

import (
	"container/heap"
	"log/slog"
	"math"
	"slices"
	"time"
)

// Missed is logged when a look finds something to do that the agenda did not know of.
const Missed = "a look came late: nothing had asked for it, which is a fault of this program; please report it"

// All things are taken within so many looks, of which each takes some that are not due: at least
// leastSpare.
const (
	looksPerRound = 20
	leastSpare    = 16
)

// Never is the time of a look that nobody wants.
const Never = time.Duration(math.MaxInt64)

// far is the time of a look that is further ahead than a clock can tell.
const far = 365 * 24 * time.Hour

// Early is how much earlier than by a wall clock a look comes at least, for such a clock and the
// monotonic one do not go alike. When they have come apart by half of it, everything is to be
// woken.
const Early = time.Second

// Thing is an element of an agenda: it embeds an Entry.
type Thing interface {
	comparable
	entry() *Entry
}

// Entry is the place of a thing in an agenda. The zero value is in none.
type Entry struct {
	at    time.Duration // when to look; Never if the thing is not in the queue
	place int           // among all, counted from 1; 0: it is in no agenda
	index int           // in the queue
	look  int           // the last one that has taken it
	spare bool          // that look has taken it although it was not due
}

func (e *Entry) entry() *Entry { return e }

// Agenda holds things and when to look at each. It is used by one goroutine. Times are on one
// monotonic clock.
type Agenda[T Thing] struct {
	// Strict has a look take only things that are due: for tests, which then find the forgotten ones.
	Strict bool

	log     *slog.Logger
	compare func(a, b T) int

	all    []T // in no order
	queue  queue[T]
	next   int // in all: which is taken next although it is not due
	due    []T
	now    time.Duration
	look   int // counts them
	looks  int
	missed int
}

// New returns an empty agenda, whose things are taken in the order that compare gives.
func New[T Thing](log *slog.Logger, compare func(a, b T) int) *Agenda[T] {
	return &Agenda[T]{log: log, compare: compare}
}

// Add has the next look take a thing that was on no agenda.
func (a *Agenda[T]) Add(x T) {
	a.all = append(a.all, x)
	*x.entry() = Entry{at: Never, place: len(a.all)}
	a.Wake(x)
}

// Remove forgets a thing.
func (a *Agenda[T]) Remove(x T) {
	e, last := x.entry(), len(a.all)-1
	if e.place == 0 {
		return
	}
	if e.at != Never {
		heap.Remove(&a.queue, e.index)
	}
	moved := a.all[last]
	a.all[e.place-1] = moved
	moved.entry().place = e.place
	var none T
	a.all[last] = none // for the garbage collector
	a.all = a.all[:last]
	e.place = 0
}

// Wake has the next look take a thing. One that is not on the agenda is ignored.
func (a *Agenda[T]) Wake(x T) {
	e := x.entry()
	switch {
	case e.place == 0 || e.at == 0:
	case e.at == Never:
		e.at = 0
		heap.Push(&a.queue, x)
	default:
		e.at = 0
		heap.Fix(&a.queue, e.index)
	}
}

// WakeAll has the next look take everything.
func (a *Agenda[T]) WakeAll() {
	for _, x := range a.all {
		a.Wake(x)
	}
}

// Take takes the things that are due, and some that are not. Until the next one, Due lists it.
func (a *Agenda[T]) Take(now time.Duration) {
	if a.missed > 0 {
		a.log.Warn(Missed, "count", a.missed)
	}
	a.now, a.due, a.missed = now, a.due[:0], 0
	a.look++
	take := func(x T, spare bool) {
		if e := x.entry(); e.look != a.look {
			e.look, e.spare = a.look, spare
			a.due = append(a.due, x)
		}
	}
	for len(a.queue) > 0 && a.queue[0].entry().at <= now {
		x := heap.Pop(&a.queue).(T) //nolint:forcetypeassert // it has no others
		x.entry().at = Never
		take(x, false)
	}
	spare := min(len(a.all), max(leastSpare, len(a.all)/looksPerRound+1))
	if a.Strict {
		spare = 0
	}
	for range spare {
		a.next = (a.next + 1) % len(a.all)
		take(a.all[a.next], true)
	}
	a.looks += len(a.due)
	slices.SortFunc(a.due, a.compare)
}

// Due calls f for everything that was taken and still is on the agenda.
func (a *Agenda[T]) Due(f func(x T)) {
	for _, x := range a.due {
		if x.entry().place != 0 {
			f(x)
		}
	}
}

// By notes when somebody who looks at a taken thing wants to look at it again.
func (a *Agenda[T]) By(x T, at time.Duration) {
	e := x.entry()
	if at <= a.now {
		if e.spare && e.place != 0 && e.at > a.now {
			a.missed++
		}
		a.Wake(x)
		return
	}
	switch {
	case e.place == 0 || e.at <= at:
	case e.at == Never:
		e.at = at
		heap.Push(&a.queue, x)
	default:
		e.at = at
		heap.Fix(&a.queue, e.index)
	}
}

// ByWall is By for a time on a wall clock that shows now.
func (a *Agenda[T]) ByWall(x T, at, now time.Time) {
	switch left := at.Sub(now); {
	case left > Early:
		a.By(x, a.now+min(left-Early, far))
	case left > 0:
		a.Wake(x)
	default:
		a.By(x, a.now)
	}
}

// Looks is how many things were taken, ever.
func (a *Agenda[T]) Looks() int { return a.looks }

// queue is a heap of things by time.
type queue[T Thing] []T

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].entry().at < q[j].entry().at }
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].entry().index, q[j].entry().index = i, j
}

// Push is heap.Interface's.
func (q *queue[T]) Push(x any) {
	thing := x.(T) //nolint:forcetypeassert // it has no others
	thing.entry().index = len(*q)
	*q = append(*q, thing)
}

// Pop is heap.Interface's.
func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	var none T
	(*q)[last] = none // for the garbage collector
	*q = (*q)[:last]
	return x
}

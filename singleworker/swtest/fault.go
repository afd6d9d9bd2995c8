package swtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	Kill    Kind = "kill"    // SIGKILL; the instance is started again after Fault.For
	Stop    Kind = "stop"    // SIGSTOP, and SIGCONT after Fault.For
	Cut     Kind = "cut"     // the instance is cut off from ZooKeeper for Fault.For
	Slow    Kind = "slow"    // for Fault.For, each of its messages to ZooKeeper takes Fault.By
	Clock   Kind = "clock"   // for Fault.For, its wall clock is ahead by Fault.By
	Deploy  Kind = "deploy"  // it stops in an orderly way, and starts with the other version
	Restart Kind = "restart" // ZooKeeper is away for Fault.For
	Refuse  Kind = "refuse"  // for Fault.For, Point returns ErrRefused
)

// Fault is one fault. It strikes at a time or, if Point is set, at a place in a handler.
type Fault struct {
	Kind Kind
	// At is when it strikes, since the beginning.
	At time.Duration
	// Slot is a job, or its shard as in "report[3]". The fault strikes the instance that owns it or,
	// if Point is set, that is at the Point in a run of it. Without a Point it may be empty: any
	// instance.
	Slot string
	// Point is the name of a Point of the handler. Every handler has the points "begin" and "end",
	// before it was called and after it has returned. Effects have "append" and "appended".
	Point string
	// Nth says which time the Point is reached in a run of Slot, from 1.
	Nth int
	For time.Duration // how long it lasts
	By  time.Duration // how much, of Slow and Clock
}

// String says when and where the fault strikes.
func (f Fault) String() string {
	b := fmt.Sprintf("%s at %v", f.Kind, f.At)
	if f.Point != "" {
		b = fmt.Sprintf("%s at %q of %s, the %dth time", f.Kind, f.Point, f.Slot, f.Nth)
	} else if f.Slot != "" {
		b += ", the owner of " + f.Slot
	}
	if f.By != 0 {
		b += fmt.Sprintf(", by %v", f.By)
	}
	return fmt.Sprintf("%s, for %v", b, f.For)
}

// GoString is the fault as a Go literal.
func (f Fault) GoString() string {
	fields := []string{"Kind: swtest." + strings.ToUpper(string(f.Kind[:1])) + string(f.Kind[1:])}
	add := func(name string, value any, set bool) {
		if set {
			fields = append(fields, fmt.Sprintf("%s: %v", name, value))
		}
	}
	add("At", literal(f.At), f.At != 0)
	add("Slot", fmt.Sprintf("%q", f.Slot), f.Slot != "")
	add("Point", fmt.Sprintf("%q", f.Point), f.Point != "")
	add("Nth", f.Nth, f.Nth != 0)
	add("For", literal(f.For), f.For != 0)
	add("By", literal(f.By), f.By != 0)
	return "{" + strings.Join(fields, ", ") + "}"
}

// literal is a duration as a Go expression.
func literal(d time.Duration) string {
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"}, {time.Millisecond, "Millisecond"}} {
		if d%unit.d == 0 {
			return fmt.Sprintf("%d * time.%s", d/unit.d, unit.name)
		}
	}
	return fmt.Sprintf("%d", d)
}

// place is a Point in the runs of a slot.
type place struct{ slot, point string }

// drawer draws faults at places that a scenario without faults has reached.
type drawer struct {
	rng     *rand.Rand
	session time.Duration
	total   time.Duration
	places  []place // sorted
	hits    map[place][]time.Duration
}

// draw draws the faults of a seed: up to eight, in the order of their times. More than half of them
// strike at a Point, and most others around the time of one.
func draw(seed uint64, plan Plan, hits map[place][]time.Duration) []Fault {
	d := drawer{rng: rand.New(rand.NewPCG(seed, 0)), session: plan.SessionTimeout, total: plan.For, hits: hits}
	for p := range hits {
		d.places = append(d.places, p)
	}
	slices.SortFunc(d.places, func(a, b place) int { return strings.Compare(a.slot+"\n"+a.point, b.slot+"\n"+b.point) })
	faults := make([]Fault, 1+d.rng.IntN(8))
	for k := range faults {
		faults[k] = d.fault()
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return int(a.At - b.At) })
	return faults
}

func (d *drawer) fault() Fault {
	kinds := []Kind{Kill, Kill, Kill, Stop, Stop, Stop, Cut, Cut, Slow, Clock, Deploy, Restart, Refuse, Refuse}
	f := Fault{Kind: kinds[d.rng.IntN(len(kinds))], For: d.lasts(), At: d.upTo(d.total)}
	switch f.Kind { //nolint:exhaustive // the others have no more to say
	case Slow:
		f.By = max(d.upTo(d.session/4), time.Millisecond)
	case Clock:
		f.By = d.lasts() * time.Duration(1-2*d.rng.IntN(2))
	case Deploy:
		f.For = 0
	}
	if len(d.places) == 0 {
		return f
	}
	p := d.places[d.rng.IntN(len(d.places))]
	f.Slot = p.slot
	hits := d.hits[p]
	nth := d.rng.IntN(len(hits))
	switch d.rng.IntN(8) {
	case 0: // at any time
	case 1, 2: // around a run
		f.At = max(0, (hits[nth] + d.upTo(20*time.Second) - 10*time.Second).Round(time.Second))
	default:
		f.At, f.Point, f.Nth = 0, p.point, nth+1
	}
	return f
}

// lasts draws from a moment to an outage of an eighth of the whole time.
func (d *drawer) lasts() time.Duration {
	s := d.session
	of := []time.Duration{s / 4, s, 2 * s, 4 * s, d.total / 8}
	return of[d.rng.IntN(len(of))].Truncate(time.Second)
}

// upTo draws a number of seconds, below d.
func (d *drawer) upTo(most time.Duration) time.Duration {
	return time.Duration(d.rng.Int64N(int64(max(most, time.Second)))).Truncate(time.Second)
}

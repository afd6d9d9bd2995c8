package journal

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Places chooses the places of limits that runs of owned slots take, and has slots wait when there
// are none. A run takes all places that it needs with its claim, or none. Readings of the places
// only help to choose: a claim that takes one which another run holds is refused, as the place's
// node exists.
//
// Slots wait in the order in which their runs were due, up to a second. Of the instances with slots
// that wait, the one whose is the oldest watches the places, and the others wait for the one before
// them to go. So a place that is given back wakes one instance, and costs the others nothing. An
// instance that gives back a place itself has its own next slot take it, if that is not younger by
// more than a second than the others' oldest.
type Places struct {
	journal *Journal
	limits  map[string]*limit // that claims of this instance, in this connection, have asked for
	tending bool              // a call of tend will come
}

// limit has the places of a limit, and who waits for them, as far as this instance knows.
type limit struct {
	name      string
	reading   session.OnePerTime
	lookedAt  time.Duration   // Mono: when the last reading began
	looksSoon bool            // another one will
	readAt    time.Duration   // Mono: when held and others were read; 0: never, or they are known to have changed
	version   int32           // of the limit, as it was known when they were asked for
	held      map[int]bool    // the places that are taken
	own       map[int]bool    // those that runs of this instance hold, as far as it knows
	trying    map[int]bool    // those that claims of this instance take which have no answer yet
	parked    map[string]bool // slots whose claims wait for the reading

	waiting []waiter          // this instance's, the oldest first
	called  map[string]waiter // those whose turn it is, until they claim
	line    line              // of the instances
	idle    time.Duration     // Mono: since when places have been free for another instance; 0: they are not
}

// waiter is a slot that waits for places.
type waiter struct {
	slot string
	due  int64 // since when its run is due, Unix ms
	need int

	calledAt time.Duration // Mono
}

// fresh is for how long a reading of a limit is trusted, and by how much a younger slot may
// overtake: order among instances costs a reading.
const fresh = time.Second

// idleFor is after how long places that are free are anybody's, although another instance's slots
// come first: that instance does not take them.
const idleFor = 3 * time.Second

func newPlaces(j *Journal) *Places { return &Places{journal: j, limits: make(map[string]*limit)} }

func (ps *Places) of(name string) *limit {
	l := ps.limits[name]
	if l == nil {
		l = &limit{name: name, held: make(map[int]bool), own: make(map[int]bool), trying: make(map[int]bool), parked: make(map[string]bool), called: make(map[string]waiter)}
		ps.limits[name] = l
	}
	return l
}

func (ps *Places) isFresh(l *limit) bool {
	return l.readAt != 0 && ps.journal.loop.Now()-l.readAt < fresh && l.version == ps.limitOf(l).Version
}

func (ps *Places) limitOf(l *limit) zkrec.ReadLimit { return ps.journal.catalog.Named.Limit(l.name) }

// lacksPlaces reports whether w opens a run for which places of limits are to be chosen. They stay
// with w while its answer is not known.
func (w *write) lacksPlaces() bool {
	return w.opens() && !w.commit.Plan.Record.Places.Meet(w.commit.Limits)
}

// ready reports whether a claim of slot that takes such places can be made now. If not, it is when
// they have been read, and continues then.
func (ps *Places) ready(slot string, needs map[string]int) bool {
	all := true
	for name := range needs {
		if l := ps.of(name); !ps.isFresh(l) {
			all = false
			if l.parked[slot] = true; !l.reading.Running() {
				ps.look(l)
			}
		}
	}
	return all
}

// take chooses places for the run that a claim opens, all that it needs or none. If there are too
// few, the slot waits, and the runner is told when there may be some.
func (ps *Places) take(slot string, claim *ticks.Commit) bool {
	left := ps.remove(slot)
	var all []zkrec.Place
	for _, name := range slices.Sorted(maps.Keys(claim.Limits)) {
		l, w := ps.of(name), waiter{slot: slot, due: dueSince(claim.Plan.Record.Run), need: claim.Limits[name]}
		chosen := ps.choose(l, w)
		if chosen == nil {
			at, _ := slices.BinarySearchFunc(l.waiting, w, older)
			l.waiting = slices.Insert(l.waiting, at, w)
			if ps.queue(l); l.isBlind() {
				ps.look(l) // what it waited for came while it had its turn
			}
			ps.passOn(slices.DeleteFunc(left, func(other *limit) bool { return other == l }))
			return false
		}
		all = append(all, chosen...)
	}
	for _, place := range all {
		ps.limits[place.Limit].trying[place.Number] = true
	}
	claim.Plan.Record.Places = zkrec.PlacesOf(all...)
	return true
}

// dueSince is when a run could have begun, but for others: at its tick, or when it was decided that
// there is to be one.
func dueSince(run zkrec.Run) int64 {
	if run.Manual == "" && run.Attempt <= 1 && !run.Always {
		return run.Tick
	}
	return run.WaitsSince()
}

func older(a, b waiter) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.slot, b.slot)) }

// next is this instance's slot that comes before its others: its turn is next, or has come.
func (l *limit) next() (next waiter, waits bool) {
	if waits = len(l.waiting) > 0; waits {
		next = l.waiting[0]
	}
	for _, w := range l.called {
		if !waits || older(w, next) < 0 {
			next, waits = w, true
		}
	}
	return next, waits
}

// share is how many places this instance tries to take at the same time: so instances that begin
// at the same time do not all try all.
func (ps *Places) share(l *limit) int {
	members := max(ps.journal.member.Cleanup.Members(), 1)
	return (ps.limitOf(l).Max + members - 1) / members
}

// usable is how many places, from 0, runs may take: all, unless runs hold some beyond the limit,
// which had more when they were claimed. Those beyond count, too.
func (ps *Places) usable(l *limit) int {
	limit := ps.limitOf(l)
	if l.version != limit.Version {
		return 0
	}
	return usable(limit.Max, l.held)
}

// usable is the most places from 0 for which these and those that are held beyond them are at most
// as many as the limit allows. Claims that keep to it never take those beyond, so these only become
// fewer, and no claim by an older reading takes more than a newer one would. A reading counts that
// was asked for when the limit's version was known, as claims check that.
func usable(limit int, held map[int]bool) int {
	beyond := 0
	for place := range held {
		if place >= limit {
			beyond++
		}
	}
	places := limit
	for ; places > 0 && places+beyond > limit; places-- {
		if held[places-1] {
			beyond++
		}
	}
	return places
}

// mayTry reports whether this instance may try to take so many places, too.
func (ps *Places) mayTry(l *limit, need int) bool {
	return len(l.trying) == 0 || len(l.trying)+need <= ps.share(l)
}

func (l *limit) isFree(place int) bool { return !l.held[place] && !l.trying[place] }

// choose returns free places, or nil if there are too few, or older slots come first.
func (ps *Places) choose(l *limit, w waiter) (chosen []zkrec.Place) {
	if next, waits := l.next(); waits && older(next, w) < 0 || !ps.isTurn(l, w) {
		return nil
	}
	if !ps.mayTry(l, w.need) {
		return nil
	}
	places, share := ps.usable(l), ps.share(l)
	first := ps.journal.member.Cleanup.Rank(l.name) * share
	for k := range places {
		if n := (first + k) % places; l.isFree(n) {
			if chosen = append(chosen, zkrec.Place{Limit: l.name, Number: n}); len(chosen) == w.need {
				return chosen
			}
		}
	}
	return nil
}

// isTurn reports whether no other instance's slots come before w.
func (ps *Places) isTurn(l *limit, w waiter) bool {
	first, others := l.line.first()
	return !others || seconds(w.due) <= first.Due+1 || l.idle != 0 && ps.journal.loop.Now()-l.idle >= idleFor
}

// LeaveLine has others use the turn of a slot that waits, and wants no run any more. It may be
// called by anybody and does not block.
func (ps *Places) LeaveLine(slot string) { ps.journal.loop.Post(func() { ps.leave(slot) }) }

// leave has a slot wait no longer.
func (ps *Places) leave(slot string) { ps.passOn(ps.remove(slot)) }

// remove takes a slot out of the lines, and returns the limits for which it waited.
func (ps *Places) remove(slot string) (left []*limit) {
	for _, name := range slices.Sorted(maps.Keys(ps.limits)) {
		l := ps.limits[name]
		_, waited := l.called[slot]
		delete(l.called, slot)
		if at := slices.IndexFunc(l.waiting, func(w waiter) bool { return w.slot == slot }); at >= 0 {
			l.waiting, waited = slices.Delete(l.waiting, at, at+1), true
		}
		if waited {
			left = append(left, l)
		}
	}
	return left
}

// passOn has others use the turn of a slot that has left these limits' lines.
func (ps *Places) passOn(left []*limit) {
	for _, l := range left {
		ps.call(l, len(l.waiting))
	}
}

// settled takes in that the claim of such places was written, or not.
func (ps *Places) settled(places zkrec.Places, err error) {
	for _, place := range places.List() {
		l := ps.limits[place.Limit]
		delete(l.trying, place.Number)
		if l.held[place.Number] = true; err == nil {
			l.own[place.Number] = true
		} else {
			l.readAt = 0
		}
		if len(l.trying) == 0 && len(l.waiting) > 0 && (err != nil || ps.free(l) > 0) {
			ps.look(l) // others may have taken some at the same time
		}
		ps.queue(l)
	}
}

// given takes in that this instance has given places back.
func (ps *Places) given(changed []placeChange) {
	for _, place := range changed {
		l := ps.limits[place.Limit]
		if l == nil || place.taken {
			continue
		}
		delete(l.own, place.Number)
		delete(l.held, place.Number)
		switch {
		case len(l.waiting) == 0:
		case ps.isFresh(l):
			ps.call(l, 1)
		default:
			ps.look(l)
		}
	}
}

// call has the runner decide again on the slots that come next, as far as there are places: at most
// so many of them.
func (ps *Places) call(l *limit, atMost int) {
	free, called := ps.free(l), 0
	for _, w := range l.called {
		called += w.need
	}
	for len(l.waiting) > 0 && called < atMost {
		w := l.waiting[0]
		if called += w.need; called > free || !ps.isTurn(l, w) || called > w.need && !ps.mayTry(l, called) {
			break
		}
		l.waiting = l.waiting[1:]
		w.calledAt = ps.journal.loop.Now()
		l.called[w.slot] = w
		ps.journal.runner.Room(w.slot)
	}
	ps.queue(l)
}

func (ps *Places) free(l *limit) (n int) {
	for k := range ps.usable(l) {
		if l.isFree(k) {
			n++
		}
	}
	return n
}

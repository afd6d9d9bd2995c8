package journal

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// line is the place of this instance among those whose slots wait for a limit. Each has a node,
// whose name says since when its oldest slot waits.
type line struct {
	others  []zkrec.Waiter // the other instances, the first in line first
	mine    string         // the name of this instance's node; "" if there is none
	readAt  time.Duration  // Mono: when others was read; 0: never, or it is known to have changed
	writing bool           // it is being changed
	writes  int            // how often that has begun, or ended
	stood   bool           // there has been one: servers may lose that it was deleted
	unsure  bool           // there may be others of this instance's
	watches bool           // the places are watched: this instance is the first
	before  string         // the name of the node before this instance's, which is watched
}

// first is the first of the other instances.
func (ln *line) first() (first zkrec.Waiter, found bool) {
	if len(ln.others) == 0 {
		return first, false
	}
	return ln.others[0], true
}

// isFirst reports whether this instance is in line, and no other one before it.
func (ln *line) isFirst() bool {
	first, others := ln.first()
	return ln.mine != "" && (!others || ln.mine < first.Name())
}

func seconds(ms int64) int64 { return ms / 1000 }

// queue has this instance's node say for how long it has waited.
func (ps *Places) queue(l *limit) {
	j, want := ps.journal, ""
	if w, waits := l.next(); waits {
		want = zkrec.Waiter{Due: seconds(w.due), Need: w.need, SID: j.member.ID()}.Name()
		ps.tend()
	}
	if l.line.writing || want == l.line.mine || !j.loop.Joined() {
		return
	}
	var ops []zkconn.Op
	if l.line.mine != "" {
		ops = append(ops, zkconn.DeleteOp(j.loop.Tree.Waiter(l.name, l.line.mine), zkconn.AnyVersion))
	}
	if want != "" {
		ops = append(ops, zkconn.CreateEphemeralOp(j.loop.Tree.Waiter(l.name, want), nil))
	}
	l.line.writing, l.line.stood = true, true
	l.line.writes++
	j.loop.Write(session.Others, ops, func(r session.Result) {
		l.line.writing = false
		if l.line.writes++; ps.limits[l.name] != l {
			return // of another connection
		}
		if r.Err != nil {
			l.line.mine, l.line.unsure = "", true
			ps.tend() // the next reading tells
			return
		}
		l.line.mine = want
		if ps.queue(l); want != "" && !l.line.writing { // nothing has changed meanwhile
			l.line.readAt = 0
			ps.look(l)
		}
	})
}

// inLine takes in which instances wait, and watches the node before this instance's. whole says
// that this instance's own has not changed meanwhile.
func (ps *Places) inLine(l *limit, names []string, whole bool) {
	j, found := ps.journal, false
	slices.Sort(names)
	l.line.others, l.line.readAt = nil, l.readAt
	for _, name := range names {
		w, err := zkrec.ParseWaiter(name)
		switch {
		case err != nil: // somebody else's
		case w.SID != j.member.ID():
			l.line.others = append(l.line.others, w)
		case name == l.line.mine:
			found = true
		case whole: // left by a former session, or by a change whose answer was lost
			ps.drop(l.name, name)
		}
	}
	if whole {
		if l.line.unsure = false; !found {
			l.line.mine = ""
		}
	}
	if l.line.mine == "" {
		return // queue makes it
	}
	if l.line.isFirst() {
		return
	}
	at, _ := slices.BinarySearchFunc(l.line.others, l.line.mine, func(w zkrec.Waiter, mine string) int { return cmp.Compare(w.Name(), mine) })
	before := l.line.others[at-1].Name()
	if before == l.line.before {
		return
	}
	l.line.before = before
	watch := zkconn.Read{Path: j.loop.Tree.Waiter(l.name, before), Watch: true}
	j.loop.Read([]zkconn.Read{watch}, func(results []zkconn.ReadResult) {
		if errors.Is(results[0].Err, zkconn.ErrNoNode) && l.line.before == before {
			l.line.before, l.line.readAt = "", 0
			ps.look(l)
		}
	})
}

// drop deletes a node of this instance in a line, which keeps others waiting. The next reading does
// so again if it is not known to be gone.
func (ps *Places) drop(limit, name string) {
	loop := ps.journal.loop
	loop.Write(session.Others, []zkconn.Op{zkconn.DeleteOp(loop.Tree.Waiter(limit, name), zkconn.AnyVersion)}, func(r session.Result) {
		if r.Err != nil && !errors.Is(r.Err, zkconn.ErrNoNode) {
			ps.of(limit).line.unsure = true // in another connection, perhaps
			ps.tend()
		}
	})
}

// Changed takes in that the node at a path below a limit's has changed: places, or the instance
// before this one in the line.
func (ps *Places) Changed(name, path string) {
	l := ps.limits[name]
	if l == nil {
		return
	}
	if path == ps.journal.loop.Tree.HeldPlaces(name) {
		l.line.watches = false
	} else {
		l.line.before, l.line.readAt = "", 0
	}
	if len(l.waiting) > 0 {
		ps.lookSoon(l)
	}
}

// Joined forgets everything: the watches have ended, and so may have the nodes in the lines.
func (ps *Places) Joined() {
	for _, name := range slices.Sorted(maps.Keys(ps.limits)) {
		was := ps.limits[name]
		delete(ps.limits, name)
		l := ps.of(name)
		l.waiting, l.called, l.trying, l.own = was.waiting, was.called, was.trying, was.own
		l.line.stood, l.line.unsure = was.line.stood, was.line.stood || was.line.unsure
		if l.line.unsure || len(l.waiting) > 0 {
			ps.look(l)
			ps.tend()
		}
	}
}

// calm is how long it takes from one reading that a change has caused to the next. While places
// are taken and given back all the time, few changes are news.
const calm = 10 * time.Millisecond

// lookSoon reads a limit whose places, or line, have changed.
func (ps *Places) lookSoon(l *limit) {
	wait := l.lookedAt + calm - ps.journal.loop.Now()
	switch {
	case l.looksSoon:
	case wait <= 0:
		ps.look(l)
	default:
		l.looksSoon = true
		ps.after(wait, func() {
			l.looksSoon = false
			ps.look(l)
		})
	}
}

// after calls f on the loop.
func (ps *Places) after(wait time.Duration, f func()) {
	ps.journal.loop.Async("look at limits", func(ctx context.Context) func() {
		session.Wait(ctx, wait)
		return f
	})
}

// look reads which places are held, and which instances wait unless that is known.
func (ps *Places) look(l *limit) {
	loop := ps.journal.loop
	if ps.limits[l.name] != l || !loop.Joined() || !l.reading.Begin() {
		return
	}
	l.lookedAt = loop.Now()
	version, watch, writes := ps.limitOf(l).Version, l.lacksWatch(), l.line.writes
	l.line.watches = l.line.watches || watch
	reads := []zkconn.Read{{Path: loop.Tree.HeldPlaces(l.name), Children: true, Watch: watch}}
	if l.line.readAt == 0 || l.lookedAt-l.line.readAt >= fresh {
		reads = append(reads, zkconn.Read{Path: loop.Tree.Waiting(l.name), Children: true})
	}
	loop.Read(reads, func(results []zkconn.ReadResult) {
		again := l.reading.End()
		var err error
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		switch {
		case ps.limits[l.name] != l:
			return // of another connection
		case errors.Is(err, zkconn.ErrNoNode):
			for _, path := range []string{loop.Tree.HeldPlaces(l.name), loop.Tree.Waiting(l.name)} {
				loop.Write(session.Others, []zkconn.Op{zkconn.CreateOp(path, nil)}, func(session.Result) {})
			}
			fallthrough
		case err != nil:
			l.line.watches = false
			ps.tend()
			return
		}
		l.readAt, l.version = loop.Now(), version
		l.holds(results[0].Names)
		if len(results) > 1 {
			ps.inLine(l, results[1].Names, !l.line.writing && l.line.writes == writes)
		}
		ps.known(l)
		if again {
			ps.look(l)
		}
	})
}

// lacksWatch reports whether the places are to be watched: this instance is the first in line, and
// others hold some.
func (l *limit) lacksWatch() bool {
	isOthers := func() bool {
		for place := range l.held {
			if !l.own[place] {
				return true
			}
		}
		return false
	}
	return !l.line.watches && l.line.isFirst() && isOthers()
}

// isBlind reports whether this instance is in line, and nothing tells it when its turn comes.
func (l *limit) isBlind() bool {
	return l.lacksWatch() || l.line.mine != "" && !l.line.isFirst() && l.line.before == ""
}

// holds takes in which places are held.
func (l *limit) holds(names []string) {
	clear(l.held)
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			l.held[n] = true
		}
	}
}

// known continues with the claims and slots that have waited for a reading.
func (ps *Places) known(l *limit) {
	switch first, others := l.line.first(); {
	case !others || ps.free(l) < first.Need || len(l.waiting) == 0:
		l.idle = 0
	case l.idle == 0:
		l.idle = l.readAt
	}
	parked := slices.Sorted(maps.Keys(l.parked))
	clear(l.parked)
	for _, slot := range parked {
		ps.journal.Advance(slot)
	}
	if ps.call(l, len(l.waiting)); len(l.waiting) > 0 && l.lacksWatch() {
		ps.look(l)
	}
}

// tend has tended called in a second.
func (ps *Places) tend() {
	if !ps.tending {
		ps.tending = true
		ps.after(fresh, ps.tended)
	}
}

// tended looks after the limits although nothing has happened, once a second while slots wait.
func (ps *Places) tended() {
	loop := ps.journal.loop
	ps.tending = false
	for _, name := range slices.Sorted(maps.Keys(ps.limits)) {
		l := ps.limits[name]
		maps.DeleteFunc(l.called, func(_ string, w waiter) bool { return loop.Now()-w.calledAt >= fresh }) // it wants no run any more
		if len(l.waiting)+len(l.called)+len(l.parked) == 0 && !l.line.unsure {
			ps.queue(l)
			continue
		}
		ps.tend()
		if len(l.parked) > 0 || l.line.unsure || l.idle != 0 || loop.Now()-l.readAt >= loop.SyncPeriod() {
			ps.look(l)
		} else {
			ps.call(l, len(l.waiting))
		}
	}
}

package lease

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// The kinds of moves.
const (
	pass       int8 = iota // a moment passes
	deliver                // the next event reaches the machine
	arrive                 // the next request reaches the server
	arriveLate             // the same, over a connection that is broken
	arriveOld              // the same, of the process before
	beatTimer              // the time of NextBeat has come
	syncTimer              // a sync period has passed
	notice                 // the client finds its connection broken
	connect                // it has another one
	join                   // it creates its ephemeral node, or finds it
	expire                 // the server ends the session
	expireOld              // the same, of the process before
	boot                   // the process starts
	resume                 // it no longer hangs
	sendClaim              // Arg 1: of a tick that is not run
	endRun
	// From here on, faults.
	crash
	cut
	unknownly // a request is answered without an outcome; Arg 1: it is applied
	leap
	pause
	hang
	remove
	delay
	drain
	resubmit
	overdue
)

// Moves lists the moves that can happen next. Within a moment things happen in any order, except
// that a host handles arrivals at once. That leaves out nothing: handling it changes the host alone
// and adds to the end of its requests, so it commutes with all that the server and the other hosts
// do. It does not commute with time, and the timers and the faults of that host, and those are
// listed beside it. TestTinyOrder compares with every order. In a prompt world the timers of a host
// come at once, too, after the arrivals. A moment passes when nothing is left to do in it.
func (w *tiny) Moves() []simkit.Move {
	moves := make([]simkit.Move, 0, 16)
	do := func(kind int8, k, arg int) {
		moves = append(moves, simkit.Move{Kind: kind, Who: int8(k), Arg: int8(arg)})
	}
	for k := range w.set.hosts {
		h := &w.hosts[k]
		if !h.awake() || w.set.anyOrder {
			continue
		}
		if len(h.in) > 0 {
			do(deliver, k, 0)
		}
		if w.set.prompt && len(moves) == 0 || !w.set.prompt && len(moves) > 0 {
			w.timers(k, do)
		}
		if len(moves) > 0 {
			w.faultsBefore(k, do)
			return moves
		}
	}
	for k := range w.set.hosts {
		w.duties(k, do)
	}
	if len(moves) == 0 {
		moves = append(moves, simkit.Move{Kind: pass, Passes: true})
		w.leaps(do)
	}
	if w.left.resubmits > 0 {
		do(resubmit, 0, 0)
	}
	for k := range w.set.hosts {
		w.options(k, do)
		if w.set.anyOrder && w.hosts[k].awake() && len(w.hosts[k].in) > 0 {
			w.faultsBefore(k, do)
		}
	}
	return moves
}

// timers are those that are due.
func (w *tiny) timers(k int, do func(kind int8, k, arg int)) {
	h := &w.hosts[k]
	if h.opened && w.instant(k).Mono >= h.machine.NextBeat() {
		do(beatTimer, k, 0)
	}
	if h.opened && w.now >= h.nextSync {
		do(syncTimer, k, 0)
	}
}

// awake reports whether the process handles events.
func (h *host) awake() bool { return h.up && !h.hung && !h.delayed }

// duties are the moves that have to happen in this moment.
func (w *tiny) duties(k int, do func(kind int8, k, arg int)) {
	h := &w.hosts[k]
	if h.before.alive && int(h.before.silent) > w.set.sessionOf(k) {
		do(expireOld, k, 0)
	}
	if h.session.alive && !h.linked && int(h.session.silent) > w.set.sessionOf(k) {
		do(expire, k, 0)
	}
	if !h.up {
		if h.since >= w.set.startWithin(k) {
			do(boot, k, 0)
		}
		return
	}
	switch {
	case h.asleep:
	case !h.linked && !h.noticed && h.cutFor >= w.set.noticeWithin(k):
		do(notice, k, 0)
	case !h.linked && h.noticed && h.cutFor >= w.set.outage(k):
		do(connect, k, 0)
	}
	if h.linked && len(h.out) > 0 && !h.clogged {
		do(arrive, k, 0)
	}
	if !h.awake() {
		return
	}
	if h.linked && w.joinable(k) {
		do(join, k, 0)
	}
	if len(h.in) > 0 {
		do(deliver, k, 0)
	}
	w.timers(k, do)
}

// joinable reports whether a host can become part of the group: it waits for the node of the
// process before.
func (w *tiny) joinable(k int) bool {
	h := &w.hosts[k]
	return !h.opened && !slices.ContainsFunc(h.in, isOpened) && (w.nodes[k] == 0 || w.nodes[k] == h.incarnation)
}

func isOpened(ev Event) bool { _, opened := ev.(Opened); return opened }

// options are the moves that may happen in this moment, or later.
func (w *tiny) options(k int, do func(kind int8, k, arg int)) {
	h := &w.hosts[k]
	if h.before.alive && int(h.before.silent) == w.set.sessionOf(k) {
		do(expireOld, k, 0)
	}
	if h.before.alive && len(h.before.late) > 0 {
		do(arriveOld, k, 0)
	}
	if h.session.alive && !h.linked {
		if int(h.session.silent) == w.set.sessionOf(k) {
			do(expire, k, 0)
		}
		if len(h.session.late) > 0 || slices.ContainsFunc(h.out, func(r wire) bool { return r.fate == underway }) {
			do(arriveLate, k, 0)
		}
	}
	if !h.up {
		if h.since == 0 || h.since == 2 {
			do(boot, k, 0)
		}
		return
	}
	switch {
	case h.asleep:
	case !h.linked && !h.noticed && h.cutFor < w.set.noticeWithin(k):
		do(notice, k, 0)
	case !h.linked && h.noticed && h.cutFor < w.set.outage(k):
		do(connect, k, 0)
	}
	if h.hung {
		do(resume, k, 0)
	}
	if w.mayEndRun(k) {
		do(endRun, k, 0)
	}
	w.faultsOf(k, do)
}

// faultsBefore are the faults that make a difference before a host handles its arrivals.
func (w *tiny) faultsBefore(k int, do func(kind int8, k, arg int)) {
	h := &w.hosts[k]
	if w.left.cuts > 0 && h.linked && h.opened {
		do(cut, k, 1)
		if h.session.silent > 0 {
			do(cut, k, 3)
		}
	}
	if w.left.hangs > 0 {
		do(hang, k, 0)
	}
	if w.left.pauses > 0 && h.linked {
		do(pause, k, 0)
	}
	if w.left.delays > 0 {
		do(delay, k, 0)
	}
	if w.left.overdues > 0 && w.mayRelieve(k) {
		do(overdue, k, 0)
	}
}

// faultsOf are the faults that may happen to a host that is up.
func (w *tiny) faultsOf(k int, do func(kind int8, k, arg int)) {
	h := &w.hosts[k]
	if w.left.claims > 0 && w.mayClaim(k) {
		do(sendClaim, k, 0)
	}
	if w.left.skips > 0 && w.mayClaim(k) {
		do(sendClaim, k, 1)
	}
	if w.left.overdues > 0 && h.awake() && w.mayRelieve(k) {
		do(overdue, k, 0)
	}
	if w.left.crashes > 0 {
		do(crash, k, 0)
	}
	if w.left.cuts > 0 && h.linked && h.opened {
		do(cut, k, 0)
		if h.session.silent > 0 {
			do(cut, k, 2)
		}
	}
	if w.left.unknowns > 0 && h.linked && len(h.out) > 0 {
		do(unknownly, k, 0)
		do(unknownly, k, 1)
	}
	if w.left.hangs > 0 && !h.hung {
		do(hang, k, 0)
	}
	if w.left.pauses > 0 && !h.hung && h.linked {
		do(pause, k, 0)
	}
	if w.left.removals > 0 && w.nodes[k] == h.incarnation {
		do(remove, k, 0)
	}
	if w.left.drains > 0 && h.opened && !h.hung && w.nodes[k] == h.incarnation {
		do(drain, k, 0)
	}
	if w.left.delays > 0 && h.awake() {
		do(delay, k, 0)
	}
	if w.left.delays > 0 && len(h.out) > 0 && !h.clogged {
		do(delay, k, 1)
	}
}

// leaps are leaps of clocks: within a moment it makes no difference when.
func (w *tiny) leaps(do func(kind int8, k, arg int)) {
	for k := range w.set.hosts {
		if w.left.leaps > 0 && w.hosts[k].up {
			do(leap, k, 0)
		}
	}
}

// do changes w, which must be a copy that nobody has seen yet.
func (w *tiny) do(m simkit.Move) {
	k := int(m.Who)
	h := &w.hosts[k]
	switch m.Kind {
	case pass:
		w.pass()
	case deliver:
		ev := h.in[0]
		h.in = h.in[1:]
		w.step(k, ev)
	case arrive:
		r := h.out[0]
		h.out, h.session.silent = h.out[1:], 0
		w.hand(k, w.apply(k, w.member(k), r))
	case arriveLate, arriveOld, expire, expireOld:
		w.serve(k, m.Kind)
	case beatTimer:
		w.step(k, Tick{})
	case syncTimer:
		h.nextSync = w.now + w.set.sync
		w.step(k, LookAll{})
	case notice, connect, join:
		w.connection(k, m.Kind)
	case boot:
		w.start(k)
	case resume:
		w.logf("%s continues", w.name(k))
		if h.hung = false; h.asleep {
			h.asleep = false
			w.leapt(k)
		}
	case sendClaim:
		if m.Arg == 0 {
			w.left.claims--
			w.sendClaim(k, claims)
		} else {
			w.left.skips--
			w.sendClaim(k, skips)
		}
	case endRun:
		w.endRun(k)
	default:
		w.fault(k, m)
	}
	w.tellBusy(k)
}

// hand gives a host an answer, if there is one.
func (w *tiny) hand(k int, ev Event) {
	if h := &w.hosts[k]; ev != nil {
		h.in = append(slices.Clip(h.in), ev)
	}
}

// pass lets a moment pass.
func (w *tiny) pass() {
	w.now++
	for k := range w.set.hosts {
		h := &w.hosts[k]
		h.delayed, h.clogged = false, false
		if !h.up {
			h.since++
		}
		if h.before.alive {
			h.before.silent++
			h.before.late = h.before.stillLate()
		}
		switch {
		case !h.session.alive:
		case h.linked:
			h.session.silent = min(h.session.silent+1, 1) // it pings
		default:
			h.session.silent++
			h.session.late = h.session.stillLate()
		}
		if h.up && !h.linked {
			h.cutFor++
		}
		if h.asleep {
			h.slept++
		}
		h.asking = false
		w.cancelRun(k)
	}
}

// stillLate are the requests that the server has received and may yet apply: it does so within a
// moment.
func (s *session) stillLate() []wire {
	if s.silent > 1 {
		return nil
	}
	return s.late
}

// start starts a process.
func (w *tiny) start(k int) {
	h := &w.hosts[k]
	h.up, h.incarnation, h.linked = true, h.incarnation+1, true
	h.session = session{of: h.incarnation, alive: true}
	w.logf("%s starts", w.name(k))
	cfg := Config{Self: w.member(k), SyncPeriod: time.Duration(w.set.sync) * oneMoment}
	if w.set.idle {
		cfg.IdleBeat = -1
	}
	h.machine = New(cfg)
	h.machine.Step(w.instant(k), w.submitted())
}

// submitted tells of the job.
func (w *tiny) submitted() Event {
	var able []string
	for k := range w.set.hosts {
		able = append(able, sidOf(k))
	}
	return SlotSet{Slot: theJob, Eligible: true, Able: able}
}

// resubmit deletes the job and submits it again: all versions start over, and nothing is guaranteed
// of the leases of before.
func (w *tiny) resubmit() {
	w.left.resubmits--
	w.logf("the job is deleted and submitted again")
	w.zxid++
	w.rec, w.tick, w.proofs, w.born = Record{Exists: true, Mzxid: w.zxid}, tickNode{}, [3]int8{}, w.zxid
	for k := range w.set.hosts {
		h := &w.hosts[k]
		h.lease.forced = true
		if h.up && h.linked && h.opened {
			h.in = append(slices.Clip(h.in), SlotGone{Slot: theJob}, w.submitted(), Look{Slot: theJob})
		}
	}
}

// connection is what happens to the connection of a host.
func (w *tiny) connection(k int, kind int8) {
	h := &w.hosts[k]
	switch kind {
	case notice:
		w.logf("%s notices that its connection is broken", w.name(k))
		h.noticed = true
		h.in = slices.Clip(h.in)
		for _, r := range h.out {
			w.hand(k, w.unknown(r))
			if h.session.alive && r.mayComeLate() {
				h.session.late = append(slices.Clip(h.session.late), r)
			}
		}
		h.out = nil
		h.in = append(h.in, Suspended{})
	case connect:
		w.logf("%s connects; the session is alive: %v", w.name(k), h.session.alive)
		h.linked, h.noticed, h.cutFor = true, false, 0
		if !h.session.alive {
			h.in = append(slices.Clip(h.in), Expired{})
		}
		h.session = session{of: h.incarnation, alive: true}
	case join:
		if w.nodes[k] == 0 {
			w.logf("%s creates its node", w.name(k))
			w.nodes[k] = h.incarnation
			w.groupChanged()
		} else {
			w.logf("%s finds its node", w.name(k))
		}
		h.in = append(slices.Clip(h.in), Opened{Session: w.length(k)})
	}
}

// fault is a move that takes from the faults that are left.
func (w *tiny) fault(k int, m simkit.Move) {
	h := &w.hosts[k]
	switch m.Kind {
	case crash:
		w.left.crashes--
		w.logf("%s dies", w.name(k))
		if h.session.alive {
			h.before = h.session
			for _, r := range h.out {
				if r.mayComeLate() {
					h.before.late = append(slices.Clip(h.before.late), r)
				}
			}
		}
		*h = host{incarnation: h.incarnation, before: h.before}
	case cut:
		w.left.cuts--
		w.logf("%s is cut off, what was on its way to it is lost: %v; it was last heard now: %v", w.name(k), m.Arg&1 != 0, m.Arg&2 == 0)
		h.linked, h.noticed, h.cutFor = false, false, 0
		if m.Arg&2 == 0 {
			h.session.silent = 0
		}
		if m.Arg&1 != 0 {
			w.dropAnswers(k)
		}
	case unknownly:
		w.left.unknowns--
		r := h.out[0]
		h.out = h.out[1:]
		w.logf("no outcome for %v; it is applied: %v", say{r.ask}, m.Arg == 1)
		if m.Arg == 1 {
			w.apply(k, w.member(k), r)
		}
		w.hand(k, w.unknown(r))
	case leap:
		w.left.leaps--
		w.logf("the clock of %s leaps", w.name(k))
		h.ahead += leapBy
		w.leapt(k)
	case pause:
		w.left.pauses--
		w.logf("the machine of %s is suspended", w.name(k))
		h.hung, h.asleep = true, true
		h.linked, h.noticed, h.cutFor = false, false, 0
	case hang:
		w.left.hangs--
		w.logf("%s hangs", w.name(k))
		h.hung = true
	case delay:
		w.left.delays--
		w.logf("%s is delayed; only its requests: %v", w.name(k), m.Arg == 1)
		h.delayed, h.clogged = h.delayed || m.Arg == 0, h.clogged || m.Arg == 1
	case drain:
		w.left.drains--
		w.logf("%s drains", w.name(k))
		h.draining = true
		w.groupChanged()
		w.step(k, Drain{})
	case resubmit:
		w.resubmit()
	case overdue:
		w.left.overdues--
		w.step(k, Overdue{Slot: theJob})
	case remove:
		w.left.removals--
		w.logf("someone deletes the node of %s", w.name(k))
		w.nodes[k] = 0
		h.lease.forced = true
		w.groupChanged()
	}
}

// leapt has a host notice that its clock has leapt.
func (w *tiny) leapt(k int) {
	h := &w.hosts[k]
	h.asking = h.run.going && !w.valid(k)
	h.in = append(slices.Clip(h.in), Leapt{})
}

// dropAnswers loses the answers that have not been delivered yet: the requests stay without an
// answer.
func (w *tiny) dropAnswers(k int) {
	h := &w.hosts[k]
	var unanswered []wire
	kept := []Event(nil)
	for _, ev := range h.in {
		switch ev.(type) {
		case Suspended, Expired, Opened, Leapt:
			kept = append(kept, ev) // the client itself tells this, or the clock
		default:
			if r, answers := askedFor(ev); answers {
				r.fate = mute
				unanswered = append(unanswered, r)
			}
		}
	}
	h.in, h.out = kept, append(unanswered, h.out...)
}

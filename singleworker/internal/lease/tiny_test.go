package lease

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// tinySetup is the equipment of a tiny world, and which faults may happen in it, each at most that
// often.
type tinySetup struct {
	hosts    int
	session  int // in moments
	longer   int // of the first host's session, in moments
	sync     int // in moments
	prompt   bool
	anyOrder bool
	// version is the owner record's at the beginning, as if the slot had been released before.
	// The new job's record has it too, once it is owned; only takes by rule (c) are looked at then,
	// see wire.read.
	version int32
	faults  faults
	breach  breach
	blind   bool // it does not matter whose leases are valid, but only who runs
	idle    bool // a slot without a run has no heartbeats, and its owner no lease
}

// faults are how often something may still happen.
type faults struct {
	crashes   int8 // a process dies; the next one of its name starts within startWithin
	cuts      int8 // a connection breaks, and loses its traffic
	unknowns  int8 // a request is answered without an outcome, though the connection lasts
	leaps     int8 // a clock is set, ahead
	pauses    int8 // a machine is suspended for a while: its monotonic clock stops, nobody pings, and its connection breaks
	hangs     int8 // a process does nothing for a while, but its session lives
	delays    int8 // an event or a request of a host waits for the next moment
	removals  int8 // someone deletes an instance's node
	drains    int8 // an instance is told to take nothing and to give up its slots
	resubmits int8 // the job is deleted and submitted again
	overdues  int8 // an instance that does not own the slot is told that a run of it is overdue, rightly or not
	claims    int8 // not a fault: a host with a lease claims a tick, and runs it
	skips     int8 // not a fault: it records a tick without running it
}

// Time passes in moments. The machine's durations are multiples of a quarter of a session, so a
// moment is no longer.
const oneMoment = time.Second

const leapBy = 2 // moments

func (s *tinySetup) sessionOf(k int) int {
	if k == 0 {
		return s.session + s.longer
	}
	return s.session
}

// The longest times, in moments, within which a client notices that its connection is broken (it
// pings thrice a session), connects again, and starts again after a crash.
func (s *tinySetup) noticeWithin(k int) int8 { return int8(s.sessionOf(k)*2/3) + 1 }
func (s *tinySetup) outage(k int) int8       { return int8(s.sessionOf(k)) + 2 }
func (s *tinySetup) startWithin(k int) int8  { return int8(s.sessionOf(k)) + 2 }

const theJob Slot = "job"

// tiny is one state of a tiny world: up to three instances and a server with one slot. The targets
// of its pointers are never changed, so that states share them.
type tiny struct {
	set  *tinySetup
	left faults
	now  int // moments

	zxid  int64
	rec   Record      // of the slot
	born  int64       // the transaction that submitted the job
	nodes [3]int8     // the incarnation of each host that has an ephemeral node; 0: none
	lives [3][4]int64 // of each host's incarnations, the transaction that wrote its sign of life last; 0: it does not exist
	tick  tickNode
	// proofs are the nodes below the tick node, as nodes; reliefs are the transactions that took the
	// slot by rule (c).
	proofs  [3]int8
	reliefs []int64
	hosts   [3]host

	failure string
	story   *[]string // what happens, if somebody wants to know
}

// host is a process that runs the machine, with its connection.
type host struct {
	incarnation int8
	up          bool
	since       int8 // moments since it went down
	hung        bool
	delayed     bool // it handles nothing for the rest of the moment
	clogged     bool // its requests do not reach the server for the rest of the moment
	ahead       int  // moments by which its clock has leapt
	asleep      bool // its machine is suspended; hung, too
	slept       int  // moments by which its monotonic clock is behind
	asking      bool // its clock has leapt: its run continues until the end of the moment
	machine     *Machine
	opened      bool // Opened was delivered, and no Suspended after it
	nextSync    int

	linked  bool
	noticed bool // it knows that the link is broken
	cutFor  int8 // moments
	session session
	before  session // of the incarnation before, which has died
	out     []wire  // requests, in the order in which they were sent
	in      []Event // answers and what watches and the session tell, in the order in which they arrive

	lease ownLease
	acked int64 // the last transaction that was known to have taken the slot, or renewed the lease
	claim claimView
	run   run

	draining bool
	saw      [3]int8 // the nodes that were there when it last asked for the slot
}

// session is a connection, as the server knows it.
type session struct {
	of     int8 // the incarnation
	alive  bool
	silent int8   // moments since the server heard from it
	late   []wire // requests that may still be applied although nobody waits for the answer
}

// wire is a request on its way.
type wire struct {
	ask  Action
	sent Instant
	fate fate
	read int64 // with tinySetup.version, what an ordinary Take rests on: it is refused when the job was submitted again
}

// fate is what becomes of a request.
type fate int8

const (
	underway fate = iota // it reaches the server, unless the connection breaks
	void                 // it does not: the connection is broken
	mute                 // it was applied, and the answer is lost
)

// ownLease is the lease that the machine has reported.
type ownLease struct {
	held    bool
	token   int64
	version int32
	until   time.Duration // Elapsed
	forced  bool          // somebody deleted the instance's node, or the job: the lease guarantees nothing
}

func newTiny(set *tinySetup) *tiny {
	w := &tiny{set: set, left: set.faults, now: 100, zxid: 1, born: 1}
	w.rec = Record{Exists: true, Mzxid: 1, Version: set.version}
	for k := range set.hosts {
		w.hosts[k].since = 0
	}
	w.start(0)
	return w
}

// newSettled is a world in which all have joined and one owns the slot: the faults are still to
// come.
func newSettled(set *tinySetup) *tiny {
	calm := *set
	calm.faults, calm.breach = faults{}, sound
	w := newTiny(&calm)
	for quiet := 0; quiet < 3*set.session; {
		m := w.Moves()[0]
		if m.Passes {
			quiet++
		}
		w = w.After(m)
	}
	w.set, w.left = set, set.faults
	for k := range set.hosts {
		w.hosts[k].claim.known = w.hosts[k].lease.held // of a tick record that is new
	}
	return w
}

func sidOf(k int) string { return string(rune('a' + k)) }

var incarnations = [3][4]string{{"", "a1", "a2", "a3"}, {"", "b1", "b2", "b3"}, {"", "c1", "c2", "c3"}}

func (w *tiny) member(k int) Member {
	return Member{sidOf(k), incarnations[k][w.hosts[k].incarnation]}
}

func (w *tiny) instant(k int) Instant {
	return Instant{
		Mono:    time.Duration(w.now-w.hosts[k].slept) * oneMoment,
		Elapsed: time.Duration(w.now+w.hosts[k].ahead) * oneMoment,
	}
}

func (w *tiny) length(k int) time.Duration { return time.Duration(w.set.sessionOf(k)) * oneMoment }

// valid reports whether a host would start a run now.
func (w *tiny) valid(k int) bool {
	h := &w.hosts[k]
	return h.up && h.lease.held && w.instant(k).Elapsed < h.lease.until
}

// sid is the name of a host's process, for the story.
func (w *tiny) name(k int) string { return incarnations[k][w.hosts[k].incarnation] }

func (w *tiny) logf(format string, args ...any) {
	if w.story != nil {
		*w.story = append(*w.story, fmt.Sprintf(format, args...))
	}
}

func (w *tiny) failf(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

// Failure is the property that is violated.
func (w *tiny) Failure() string { return w.failure }

// Settled reports whether the slot is owned: by a live instance that neither hangs nor drains, with
// a valid lease and the only heartbeat.
func (w *tiny) Settled() bool {
	for k := range w.set.hosts {
		if w.rec.Owner == w.member(k) {
			holds := w.valid(k) || w.set.idle && w.hosts[k].lease.held
			return holds && !w.hosts[k].hung && !w.hosts[k].draining && len(w.rec.Beats) == 1 && w.rec.Beats[0].SID == sidOf(k)
		}
	}
	return false
}

// Tell describes a move.
func (w *tiny) Tell(m simkit.Move) string {
	var story []string
	told := *w
	told.story = &story
	told.do(m)
	return fmt.Sprintf("%3d %s", w.now, strings.Join(story, "; "))
}

// After is the state after a move.
func (w *tiny) After(m simkit.Move) *tiny {
	then := *w
	then.do(m)
	return &then
}

// step has a host's machine handle an event, and carries out its actions.
func (w *tiny) step(k int, ev Event) {
	h := &w.hosts[k]
	switch ev := ev.(type) {
	case Opened:
		h.opened, h.nextSync = true, w.now
	case Suspended:
		h.opened = false
	case Expired:
		h.opened, h.lease.until, h.lease.forced = false, 0, false
	case GroupRead:
		if _, listed := ev.Peers[sidOf(k)]; ev.Outcome == Done && !listed && h.opened {
			w.step(k, Expired{}) // someone deleted the node
		}
	case TakeDone:
		h.acked = max(h.acked, ev.Mzxid)
	case BeatDone:
		h.acked = max(h.acked, ev.Mzxid)
	case Claimed:
		h.acked = max(h.acked, ev.Mzxid)
	case claimDone:
		w.logf("%s: %v", w.name(k), say{ev})
		w.claimDone(k, ev)
		return
	case proved, inspected, relieved, dropped:
		w.logf("%s: %v", w.name(k), say{ev})
		w.goOn(k, ev)
		return
	}
	w.logf("%s: %v", w.name(k), say{ev})
	h.machine = h.machine.clone()
	actions := h.machine.Step(w.instant(k), w.told(k, ev))
	w.twist(k, ev)
	for _, a := range actions {
		w.act(k, a)
	}
	w.cancelRun(k)
	if _, again := ev.(Opened); again {
		w.readTick(k)
	}
}

// tellBusy tells a host's machine whether a run of the slot is in progress, or is about to be, in a
// world in which that matters.
func (w *tiny) tellBusy(k int) {
	h := &w.hosts[k]
	if !h.up || !w.set.idle {
		return
	}
	busy := h.claim.underway || h.run.going || h.run.stopped
	if s := h.machine.slots[theJob]; s != nil && s.busy != busy {
		w.step(k, Busy{Slot: theJob, Busy: busy})
	}
}

// say is printed as its type and its value.
type say struct{ v any }

func (s say) String() string { return strings.TrimPrefix(fmt.Sprintf("%T%+v", s.v, s.v), "lease.") }

// act carries out one action of a machine.
func (w *tiny) act(k int, a Action) {
	h := &w.hosts[k]
	switch a := a.(type) {
	case Gained:
		h.lease = ownLease{held: true, token: a.Token, version: a.Version, until: w.leaseUntil(k, a.Until)}
		h.lease.forced = w.isForced(k)
		h.claim = claimView{}
		w.readTick(k)
		w.logf("gained until %v with token %d", a.Until, a.Token)
		w.checkToken(k)
		w.checkExclusive(k)
	case Renewed:
		h.lease.until, h.lease.forced = max(h.lease.until, w.leaseUntil(k, a.Until)), w.isForced(k)
		h.asking = h.asking && !w.valid(k)
		w.checkExclusive(k)
	case Lost:
		w.logf("lost")
		h.lease = ownLease{}
	case Take:
		w.sendTake(k, a)
	case SendBeats:
		// Nobody looks for the sign of life of an instance that owns nothing, and without one, rule (b)
		// allows more.
		if len(a.Beats) > 0 || h.lease.held {
			w.send(k, a)
		}
	default:
		w.send(k, a)
	}
}

// isForced reports whether someone has deleted the host's node, or the job that its lease is of,
// which it does not know yet.
func (w *tiny) isForced(k int) bool {
	h := &w.hosts[k]
	return h.opened && w.nodes[k] != h.incarnation && h.session.alive || h.lease.token < w.born
}

// send sends a request, or answers it at once if there is no connection.
func (w *tiny) send(k int, a Action) {
	h := &w.hosts[k]
	r := wire{ask: a, sent: w.instant(k)}
	switch {
	case h.linked:
	case !h.noticed:
		r.fate = void
	default:
		w.hand(k, w.unknown(r))
		return
	}
	w.logf("sends %v", say{a})
	if _, reads := a.(ReadSlot); reads {
		h.saw = w.nodes
	}
	h.out = append(slices.Clip(h.out), r)
}

// checkExclusive checks that nobody else has a valid lease, unless the slot was taken from an idle
// owner. A second one can only arise with Gained or Renewed.
func (w *tiny) checkExclusive(k int) {
	for other := range w.set.hosts {
		if other == k || !w.guaranteed(k) || !w.guaranteed(other) || w.set.blind {
			continue
		}
		first, then := k, other
		if w.hosts[first].lease.token > w.hosts[then].lease.token {
			first, then = then, first
		}
		switch {
		case !w.isRelieved(first, w.hosts[then].lease.token):
			w.failf("(1) %s and %s both have a valid lease", w.name(k), w.name(other))
		case w.hosts[first].run.going:
			w.failf("(1) %s and %s both have a valid lease, and a run of %s is in progress", w.name(k), w.name(other), w.name(first))
		}
	}
}

// guaranteed reports whether a host has a valid lease of which the protocol guarantees something.
func (w *tiny) guaranteed(k int) bool { return w.valid(k) && !w.hosts[k].lease.forced }

// isRelieved reports whether the slot was taken by rule (c) after all that a host's lease dates
// from, by an owner with the token or one before it.
func (w *tiny) isRelieved(k int, token int64) bool {
	return slices.ContainsFunc(w.reliefs, func(at int64) bool { return w.hosts[k].acked < at && at <= token })
}

// checkToken checks that a lease that can be used belongs to the record that is there. So tokens
// grow, because the record's do. It may also belong to an owner that was relieved before it knew
// that it was one.
func (w *tiny) checkToken(k int) {
	if l := w.hosts[k].lease; w.guaranteed(k) && l.token != w.rec.Mzxid && !w.isRelieved(k, w.rec.Mzxid) {
		w.failf("(3) %s gains a lease with token %d, the record has %d", w.name(k), l.token, w.rec.Mzxid)
	}
}

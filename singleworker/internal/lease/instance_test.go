package lease_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// instance is one incarnation of a sid: the real Machine, its clocks, its session
// and the leases that it holds.
type instance struct {
	w        *world
	member   lease.Member
	machine  *lease.Machine
	handlers map[lease.Slot]bool
	maxSlots int
	weight   int
	timeout  time.Duration // of its session

	// Clocks: individual offset and rate; Mono stops while asleep.
	offset time.Duration
	ppm    int64
	asleep time.Duration

	up         bool // neither crashed nor stopped
	stalled    bool // hung or asleep: handles no events
	stallID    int
	suspended  bool // asleep: does nothing at all
	sleptAt    time.Duration
	leap       struct{ from, to time.Duration } // Elapsed when it fell asleep last, and when it woke
	backlog    []func()
	draining   bool
	closed     bool // as published in the ephemeral node
	joined     bool // after Opened and before Suspended
	timerAt    time.Duration
	listed     map[lease.Slot]string // each job as last reported to the machine
	tail       time.Duration         // nothing is delivered before, in order
	listTail   time.Duration         // the same for the list of jobs
	sessionEnd time.Duration         // nothing is delivered before the last session event

	link     bool // the server is connected to us
	noticed  bool // whether it has noticed that the link is cut
	conn     int  // counts connections
	session  *session
	lastZxid int64
	pending  []*request

	under    map[lease.Slot]*underway
	leases   map[lease.Slot]*ownLease
	acked    map[lease.Slot]int64 // the last transaction known to have taken the slot, or renewed the lease
	ticks    map[lease.Slot]*tickView
	runs     map[lease.Slot]*handling
	busy     map[lease.Slot]bool
	forced   bool                 // its session was ended from outside, which it does not know yet
	best     map[lease.Slot]int64 // newest token gained
	told     map[lease.Slot]*told
	captured map[string]lease.Peer // staleGroup
}

// session is the server's side.
type session struct {
	alive   bool
	applied time.Duration // when the server last applied a request of it
	floor   int64         // reads do not go back before it
}

type underway struct {
	requests, beats, claims int
	unclear                 bool // a heartbeat may have come late, or was of an earlier session
}

// ownLease is the lease that the machine reported: Gained, Renewed, not Lost.
type ownLease struct {
	token   int64
	version int32
	until   time.Duration
	acked   int64 // see instance
	forced  bool  // its session was closed manually: the lease guarantees nothing
}

type tickView struct {
	known, claiming bool
	version         int32
	last            int64
}

// request is a request that reaches the server, is lost, or is late.
type request struct {
	apply    func() (reply func())
	unknown  func()
	conn     int
	late     bool // keeps waiting for an answer when the connection is lost
	answered bool
}

func (w *world) startInstance(sid string, in time.Duration) {
	if sid == "" {
		w.sids++
		sid = fmt.Sprintf("s%d", w.sids)
	}
	i := &instance{
		w: w, member: lease.Member{SID: sid, Incarnation: fmt.Sprintf("%s#%d", sid, len(w.insts))},
		handlers: make(map[lease.Slot]bool), maxSlots: w.maxSlots, up: true,
		offset: w.upTo(100 * time.Hour), ppm: w.rng.Int64N(20001) - 10000,
		listed: make(map[lease.Slot]string), under: make(map[lease.Slot]*underway),
		leases: make(map[lease.Slot]*ownLease), ticks: make(map[lease.Slot]*tickView), busy: make(map[lease.Slot]bool),
		best: make(map[lease.Slot]int64), acked: make(map[lease.Slot]int64), runs: make(map[lease.Slot]*handling),
		told: make(map[lease.Slot]*told),
	}
	if w.weighted {
		i.weight = 1 + w.rng.IntN(4)
	}
	if i.timeout = sessionTimeout; w.unlike && w.percent(50) {
		i.timeout = w.longestSession()
	}
	for _, slot := range w.zk.names {
		if w.alike || w.percent(80) {
			i.handlers[slot] = true
			w.zk.register(slot, sid)
		} else {
			w.zk.unregister(slot, sid)
		}
	}
	i.machine = lease.New(lease.Config{Self: i.member, SyncPeriod: w.sync, MaxSlots: i.maxSlots, Weight: i.weight, IdleBeat: w.idleBeat(i.timeout)})
	w.insts = append(w.insts, i)
	w.after(in, i.reconnect)
	w.after(in+w.upTo(w.sync), i.syncLoop)
	w.after(in, i.claimLoop)
}

func (z *server) register(slot lease.Slot, sid string) {
	z.unregister(slot, sid)
	j := z.jobs[slot]
	j.able = append(j.able, sid)
	slices.Sort(j.able)
	z.w.watchJobs()
}

func (z *server) unregister(slot lease.Slot, sid string) {
	j := z.jobs[slot]
	j.able = slices.DeleteFunc(slices.Clone(j.able), func(s string) bool { return s == sid })
}

func (i *instance) scale(d time.Duration) time.Duration {
	return d + d/1_000_000*time.Duration(i.ppm)
}

func (i *instance) instant() lease.Instant {
	return lease.Instant{Mono: i.offset + i.scale(i.w.time-i.asleep), Elapsed: 2*i.offset + i.scale(i.w.time)}
}

// untilMono returns how long it takes until the monotonic clock shows t.
func (i *instance) untilMono(t time.Duration) time.Duration {
	left := t - i.instant().Mono
	return left + left/1_000_000*time.Duration(max(-i.ppm, 0)+100) + time.Microsecond
}

// post delivers an event of the session or of a watch.
func (i *instance) post(ev lease.Event, delay time.Duration) {
	i.deliver(func() { i.step(ev) }, delay)
}

// deliver runs f in the instance, after everything delivered before unless replies
// overtake each other.
func (i *instance) deliver(f func(), delay time.Duration) {
	at := max(i.w.time+delay, i.sessionEnd)
	if !i.w.reorder {
		at = max(at, i.tail)
		i.tail = at
	}
	i.w.after(at-i.w.time, func() { i.receive(f) })
}

// postSession delivers a session event. It overtakes nothing, and no reply of a
// later connection overtakes it.
func (i *instance) postSession(ev lease.Event, delay time.Duration) {
	at := max(i.w.time+delay, i.sessionEnd)
	i.sessionEnd, i.tail = at, max(at, i.tail)
	i.w.after(at-i.w.time, func() { i.receive(func() { i.step(ev) }) })
}

func (i *instance) receive(f func()) {
	switch {
	case !i.up:
	case i.stalled:
		i.backlog = append(i.backlog, f)
	default:
		f()
	}
}

// stall stops the loop from handling events. The session's pings continue unless
// the link is cut, too.
func (i *instance) stall(d time.Duration) {
	i.stalled = true
	i.stallID++
	id := i.stallID
	i.w.after(d, func() {
		if id == i.stallID {
			i.resume()
		}
	})
}

func (i *instance) resume() {
	leapt := i.suspended
	if leapt {
		i.leap.from, i.leap.to = 2*i.offset+i.scale(i.sleptAt), i.instant().Elapsed
		i.asleep += i.w.time - i.sleptAt
	}
	i.stalled, i.suspended = false, false
	backlog := i.backlog
	i.backlog = nil
	if leapt && i.up {
		i.step(lease.Leapt{})
	}
	for _, f := range backlog {
		i.receive(f)
	}
}

// step applies an event to the machine and carries out its actions.
func (i *instance) step(ev lease.Event) {
	switch ev.(type) {
	case lease.Opened:
		i.joined = true
	case lease.Suspended:
		i.joined = false
	case lease.Expired:
		i.joined, i.forced = false, false
		i.forgetAnswers()
	case lease.TakeDone, lease.BeatDone, lease.Claimed:
		i.ack(ev)
	case lease.SlotRead:
		i.tell(ev)
	}
	if i.w.Recording() {
		slot := slotOf(ev)
		i.w.logf(slot, "%s <- %T%+v", i.member.Incarnation, ev, ev)
	}
	for _, a := range i.machine.Step(i.instant(), ev) {
		i.do(a)
	}
	i.armTimer()
}

func slotOf(ev any) lease.Slot {
	switch ev := ev.(type) {
	case lease.SlotSet:
		return ev.Slot
	case lease.SlotGone:
		return ev.Slot
	case lease.Busy:
		return ev.Slot
	case lease.Look:
		return ev.Slot
	case lease.Overdue:
		return ev.Slot
	case lease.Claiming:
		return ev.Slot
	case lease.Claimed:
		return ev.Slot
	case lease.SlotRead:
		return ev.Slot
	case lease.TakeDone:
		return ev.Slot
	case lease.BeatDone:
		return ev.Slot
	case lease.ReleaseDone:
		return ev.Slot
	case lease.YieldDone:
		return ev.Slot
	case lease.ReadSlot:
		return ev.Slot
	case lease.Take:
		return ev.Slot
	case lease.Release:
		return ev.Slot
	case lease.Yield:
		return ev.Slot
	case lease.Gained:
		return ev.Slot
	case lease.Renewed:
		return ev.Slot
	case lease.Lost:
		return ev.Slot
	}
	return ""
}

func (i *instance) armTimer() {
	if !i.joined || i.timerAt > i.w.time {
		return
	}
	in := i.untilMono(i.machine.NextBeat())
	i.timerAt = i.w.time + max(in, time.Millisecond)
	i.w.after(i.timerAt-i.w.time, func() {
		i.receive(func() { i.timerAt = 0; i.step(lease.Tick{}) })
	})
}

// syncLoop looks at everything once per sync period.
func (i *instance) syncLoop() {
	if !i.up {
		return
	}
	i.w.after(i.w.sync*9/10+i.w.upTo(i.w.sync/5), i.syncLoop)
	if i.joined && !i.stalled {
		i.listJobs()
		p := i.w.zk.peers()[i.member.SID]
		if p.Incarnation == i.member.Incarnation && p.Closed != i.closed {
			i.publish()
		}
		i.step(lease.LookAll{})
	}
}

// listJobs reports changes of the list of jobs and of the registrations to the
// machine. A job deleted and submitted again in between looks unchanged.
func (i *instance) listJobs() {
	if !i.link || !i.up {
		return
	}
	i.listTail = max(i.listTail, i.w.time+i.w.delay())
	delay := i.listTail - i.w.time
	for _, slot := range i.w.zk.names {
		j := i.w.zk.jobs[slot]
		told, known := i.listed[slot]
		if !j.now().Exists {
			if known {
				delete(i.listed, slot)
				i.post(lease.SlotGone{Slot: slot}, delay)
			}
			continue
		}
		now := fmt.Sprint(i.handlers[slot], j.able)
		if !known || told != now {
			i.listed[slot] = now
			i.post(lease.SlotSet{Slot: slot, Eligible: i.handlers[slot], Able: j.able, Group: i.w.group(slot)}, delay)
		}
	}
}

// submit sends a request over the current connection.
func (i *instance) submit(r *request) {
	r.conn = i.conn
	i.pending = append(i.pending, r)
	w := i.w
	switch {
	case w.quiet && i.link:
		w.after(w.delay(), func() { i.arrive(r, true) })
	case !i.link && w.percent(25):
		i.comeLate(r)
	case !i.link:
		w.after(w.upTo(sessionTimeout), func() { i.giveUp(r) })
	case w.percent(w.lossPercent):
		i.troubled(r)
	default:
		w.after(w.delay(), func() { i.arrive(r, true) })
	}
}

// troubled injects one of three network faults.
func (i *instance) troubled(r *request) {
	w := i.w
	giveUp := func() { i.giveUp(r) }
	switch w.rng.IntN(3) {
	case 0: // lost
		w.after(w.upTo(sessionTimeout), giveUp)
	case 1: // applied, the reply is lost
		w.after(w.delay(), func() { i.arrive(r, false) })
		w.after(w.upTo(sessionTimeout), giveUp)
	case 2:
		i.comeLate(r)
	}
}

// comeLate applies the request late, in the session of that time. The answer is
// delivered then, unless it was reported as unknown before.
func (i *instance) comeLate(r *request) {
	w := i.w
	r.late = w.percent(50)
	if !r.late {
		w.after(w.upTo(sessionTimeout/2), func() { i.giveUp(r) })
	}
	w.after(w.upTo(3*sessionTimeout), func() {
		if !i.link || w.quiet {
			i.giveUp(r)
			return
		}
		r.conn, r.late = i.conn, false
		i.arrive(r, true)
	})
}

// arrive applies the request if its connection still exists.
func (i *instance) arrive(r *request, replied bool) {
	if r.conn != i.conn || !i.link {
		return // answered when the disconnect is noticed
	}
	i.session.applied = i.w.time
	reply := r.apply()
	if !replied {
		return
	}
	i.lastZxid = i.session.floor
	conn := i.conn
	i.w.after(i.w.delay(), func() {
		if i.conn == conn && !i.link && i.w.percent(50) {
			return // lost with the connection
		}
		i.answer(r, reply)
	})
}

func (i *instance) answer(r *request, reply func()) {
	if r.answered {
		return
	}
	r.answered = true
	i.pending = slices.DeleteFunc(i.pending, func(p *request) bool { return p == r })
	i.deliver(reply, 0)
}

func (i *instance) giveUp(r *request) { i.answer(r, r.unknown) }

// reconnect tries to connect to the server, with the same session if it is alive.
func (i *instance) reconnect() {
	if !i.up || i.link {
		return
	}
	if i.suspended {
		i.w.after(sessionTimeout/4, i.reconnect)
		return
	}
	first := i.session == nil
	resumed := !first && i.session.alive
	if !first && !resumed {
		i.postSession(lease.Expired{}, 0)
	}
	i.link = true
	i.conn++
	i.w.logf("", "%s connects, same session: %v", i.member.Incarnation, resumed)
	if resumed {
		i.session.applied, i.session.floor = i.w.time, i.lastZxid
	} else {
		i.session = &session{alive: true, applied: i.w.time}
		i.lastZxid = 0
	}
	conn := i.conn
	i.w.after(i.w.delay(), func() { i.join(conn) })
}

// join creates the ephemeral node; another incarnation's must go first.
func (i *instance) join(conn int) {
	if !i.up || !i.link || i.conn != conn {
		return
	}
	z := i.w.zk
	p, exists := z.peers()[i.member.SID]
	if exists && p.Incarnation != i.member.Incarnation {
		i.w.after(sessionTimeout/8, func() { i.join(conn) })
		return
	}
	i.session.applied = i.w.time
	if !exists {
		i.publish()
		i.w.logf("", "%s has its ephemeral node", i.member.Incarnation)
	}
	i.session.floor = max(i.session.floor, z.zxid)
	i.lastZxid = i.session.floor
	i.listJobs()
	i.postSession(lease.Opened{Session: i.timeout}, i.w.delay())
}

func (i *instance) publish() {
	peer := lease.Peer{Incarnation: i.member.Incarnation, Closed: i.closed, MaxSlots: i.maxSlots, Weight: i.weight, Session: i.timeout}
	if i.w.mutant == knowsNoSessions {
		peer.Session = 0
	}
	i.w.zk.putPeers(func(peers map[string]lease.Peer) { peers[i.member.SID] = peer })
}

// cut breaks the connection. The instance notices after a while and reconnects when
// the outage is over.
func (i *instance) cut(notice, outage time.Duration) {
	if !i.link {
		return
	}
	i.link = false
	s, conn := i.session, i.conn
	heard := max(s.applied, i.w.time-i.w.upTo(i.timeout/3)) // the last ping
	slack := time.Duration(0)
	if i.w.percent(50) {
		slack = i.w.upTo(i.timeout / 2)
	}
	i.w.logf("", "%s is cut off; last heard at %.3fs", i.member.Incarnation, heard.Seconds())
	i.w.after(heard+i.timeout+slack-i.w.time, func() {
		if i.conn == conn && !i.link {
			i.expire(s)
		}
	})
	i.noticed = false
	i.w.after(notice, func() { i.notice(conn) })
	i.w.after(max(outage, notice), i.reconnect)
}

// notice makes the instance notice the disconnect: requests in flight get no answer,
// except those that wait for the next connection.
func (i *instance) notice(conn int) {
	if i.conn != conn || i.link || i.noticed || !i.up {
		return
	}
	i.noticed = true
	for _, r := range slices.Clone(i.pending) {
		if !r.late {
			i.giveUp(r)
		}
	}
	i.postSession(lease.Suspended{}, 0)
}

// expire ends a session at the server.
func (i *instance) expire(s *session) {
	if !s.alive {
		return
	}
	s.alive = false
	for _, slot := range i.w.zk.names {
		maps.DeleteFunc(i.w.zk.jobs[slot].proofs, func(_ string, of *session) bool { return of == s })
	}
	i.w.zk.unsign(i.member, s)
	i.w.logf("", "%s: session expires", i.member.Incarnation)
	if i.w.zk.peers()[i.member.SID].Incarnation == i.member.Incarnation {
		i.w.zk.putPeers(func(peers map[string]lease.Peer) { delete(peers, i.member.SID) })
	}
}

func (i *instance) sortedLeases() []lease.Slot { return slices.Sorted(maps.Keys(i.leases)) }

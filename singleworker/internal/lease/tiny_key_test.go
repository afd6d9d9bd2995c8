package lease

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"
)

// clone copies a machine. The target of a field is copied if a step changes it in place.
func (m *Machine) clone() *Machine {
	then := *m
	then.slots = make(map[Slot]*slot, len(m.slots))
	for id, s := range m.slots {
		copied := *s
		copied.beatSince.more = maps.Clone(s.beatSince.more)
		if s.mine != nil {
			mine := *s.mine
			copied.mine = &mine
		}
		then.slots[id] = &copied
	}
	then.byName, then.out = nil, nil
	then.dirty = maps.Clone(m.dirty)
	p := *m.peers
	p.past.moments = slices.Clone(p.past.moments)
	p.skipped, p.suspects, p.signs, p.asked = maps.Clone(p.skipped), maps.Clone(p.suspects), maps.Clone(p.signs), maps.Clone(p.asked)
	then.peers = &p
	return &then
}

// A scribe writes the key of a state. It has nothing but facts that can make a difference later:
// times as the time left or how long ago, up to where it no longer matters; numbers that are only
// compared, as their ranks. It goes through the state twice: first to collect those numbers.
type scribe struct {
	w       *tiny
	ranking bool
	to      []byte
	zxids   ranks
	owners  ranks    // versions of the owner record
	beats   [3]ranks // versions of each host's heartbeat
}

// ranks are the numbers of one kind, in order.
type ranks []int64

func (r *ranks) sort() {
	slices.Sort(*r)
	*r = slices.Compact(*r)
}

func (r ranks) of(n int64) int64 {
	k, _ := slices.BinarySearch(r, n)
	return int64(k)
}

// near makes no difference between distances of two and more: versions of a heartbeat grow by one,
// and start at 0 again, so small ones may come together.
func (r ranks) near(n int64) int64 {
	rank, last := int64(0), int64(0)
	for _, v := range r {
		rank += min(v-last, 2)
		if last = v; v == n {
			break
		}
	}
	return rank
}

func (s *scribe) int(n int64) {
	if !s.ranking {
		s.to = binary.AppendVarint(s.to, n)
	}
}

func (s *scribe) flag(flags ...bool) {
	bits := int64(0)
	for _, f := range flags {
		bits <<= 1
		if f {
			bits |= 1
		}
	}
	s.int(bits)
}

func (s *scribe) text(t string) {
	if !s.ranking {
		s.to = append(append(s.to, t...), 0)
	}
}

func (s *scribe) ranked(r *ranks, n int64) {
	if s.ranking {
		*r = append(*r, n)
		return
	}
	s.int(r.of(n))
}

func (s *scribe) zxid(n int64) { s.ranked(&s.zxids, n) }
func (s *scribe) version(n int32) {
	if s.ranking || s.w.set.faults.resubmits == 0 {
		s.ranked(&s.owners, int64(n))
		return
	}
	s.int(s.owners.near(int64(n))) // it starts over, too
}

func (s *scribe) beat(sid string, version int32) {
	k := int(sid[0] - 'a')
	switch {
	case version == noBeat:
		s.int(-1)
	case s.ranking:
		s.beats[k] = append(s.beats[k], int64(version))
	default:
		s.int(s.beats[k].near(int64(version)))
	}
}

// left is how long it is until a time, 0 if it is over.
func (s *scribe) left(at, now time.Duration) { s.int(int64(max(at-now, 0) / oneMoment)) }

// ago is how long ago a time was, up to a limit.
func (s *scribe) ago(at, now, limit time.Duration) { s.int(int64(min(now-at, limit) / oneMoment)) }

// Key is what tells w from other states.
func (w *tiny) Key(to []byte) []byte {
	s := scribe{w: w, ranking: true}
	s.zxids = append(make([]int64, 0, 64), 0)
	s.world()
	s.zxids.sort()
	s.owners.sort()
	for k := range s.beats {
		s.beats[k].sort()
	}
	s.ranking, s.to = false, to
	s.world()
	return s.to
}

func (s *scribe) world() {
	w := s.w
	l := w.left
	for _, left := range []int8{l.crashes, l.cuts, l.unknowns, l.leaps, l.pauses, l.hangs, l.delays, l.removals, l.drains, l.resubmits, l.overdues, l.claims, l.skips} {
		s.int(int64(left))
	}
	s.record(w.rec)
	for k := range w.set.hosts {
		s.int(int64(w.nodes[k]))
		for _, at := range w.lives[k] {
			s.zxid(at)
		}
		s.host(k)
	}
	if w.set.faults.claims > 0 {
		s.tick(w.tick)
	}
	if w.set.faults.resubmits > 0 {
		s.zxid(w.born)
	}
	for _, at := range w.reliefs {
		s.zxid(at)
	}
	for _, proof := range w.proofs {
		s.int(int64(proof))
	}
}

func (s *scribe) tick(t tickNode) {
	s.int(t.claimed)
	s.int(int64(t.version))
	if s.flag(t.open); t.open {
		s.zxid(t.token)
	}
}

func (s *scribe) record(r Record) {
	s.version(r.Version)
	s.zxid(r.Mzxid)
	s.text(r.Owner.Incarnation)
	s.text(r.Offer)
	s.text(r.Relieved.Incarnation)
	s.int(int64(len(r.Beats)))
	for _, b := range r.Beats {
		s.text(b.SID)
		s.beat(b.SID, b.Version)
		s.zxid(b.Mzxid)
	}
}

func (s *scribe) host(k int) {
	h := &s.w.hosts[k]
	valid := s.w.valid(k)
	s.flag(h.up, h.hung, h.delayed, h.clogged, h.draining, h.opened, h.linked, h.noticed, h.asleep, h.asking, valid, valid && h.lease.forced)
	s.int(int64(h.incarnation))
	s.session(k, h.before)
	if !h.up {
		s.int(int64(h.since))
		return
	}
	s.session(k, h.session)
	if !h.linked {
		s.int(int64(min(h.cutFor, s.w.set.outage(k))))
	}
	if s.w.set.breach == staleGroup {
		for _, node := range h.saw {
			s.int(int64(node))
		}
	}
	if h.opened {
		s.int(int64(max(h.nextSync-s.w.now, 0)))
	}
	if valid {
		s.left(h.lease.until, s.w.instant(k).Elapsed)
	}
	if valid && s.w.set.faults.overdues > 0 {
		s.zxid(h.acked)
		s.zxid(h.lease.token)
	}
	if h.lease.held && s.w.set.faults.claims > 0 {
		s.version(h.lease.version)
		s.zxid(h.lease.token)
		s.flag(h.claim.underway, h.claim.known)
		s.tick(h.claim.record)
		s.int(h.claim.ran)
	}
	if s.flag(h.run.going, h.run.stopped); h.run.going || h.run.stopped {
		s.zxid(h.run.token)
		s.int(int64(h.run.version))
	}
	s.machine(k)
	s.int(int64(len(h.out)))
	for _, r := range h.out {
		s.wire(k, r)
	}
	s.int(int64(len(h.in)))
	for _, ev := range h.in {
		s.event(k, ev)
	}
}

func (s *scribe) session(k int, of session) {
	if !of.alive {
		s.int(-1)
		return
	}
	s.int(int64(of.of))
	if s.w.left.cuts > 0 || !s.w.hosts[k].linked || of.of != s.w.hosts[k].incarnation {
		s.int(int64(of.silent))
	}
	s.int(int64(len(of.late)))
	for _, r := range of.late {
		s.wire(k, r)
	}
}

// wire writes the possible fates of a request. It is known that all are about the one slot.
func (s *scribe) wire(k int, r wire) {
	s.int(int64(r.fate))
	underway := r.fate == underway
	switch a := r.ask.(type) {
	case ReadSlot:
		s.int(1)
	case ReadGroup:
		s.int(2)
		s.flag(s.awaited(k, a.Asked))
	case Take:
		s.int(3)
		s.zxid(r.read)
		s.ago(r.sent.Elapsed, s.w.instant(k).Elapsed, s.w.length(k))
		if underway {
			s.take(a)
		}
	case SendBeats:
		s.int(4)
		s.ago(r.sent.Elapsed, s.w.instant(k).Elapsed, s.w.length(k))
		if underway {
			s.flag(len(a.Beats) > 0)
			s.beat(sidOf(k), a.Beats[theJob])
		}
	case ReadLives:
		s.int(12)
		for _, who := range a.Who {
			s.text(who.Incarnation)
		}
	case Release:
		s.int(5)
		if underway {
			s.version(a.Version)
			s.flag(a.Beat)
			s.text(a.Offer)
		}
	case Yield:
		s.int(6)
		if underway {
			s.text(a.Beat.SID)
			s.beat(a.Beat.SID, a.Beat.Version)
		}
	case claimTick:
		s.int(7)
		s.int(int64(a.kind))
		if a.kind == claims {
			s.ago(r.sent.Elapsed, s.w.instant(k).Elapsed, s.w.length(k))
		}
		s.zxid(a.token)
		s.version(a.version)
		s.int(a.tick)
		s.int(int64(a.known))
	case prove:
		s.int(8)
		s.take(a.take)
	case inspect:
		s.int(9)
		s.take(a.take)
	case relieve:
		s.int(10)
		s.ago(r.sent.Elapsed, s.w.instant(k).Elapsed, s.w.length(k))
		if underway {
			s.take(a.take)
			s.int(int64(a.version))
		}
	case dropProof:
		s.int(11)
	default:
		panic("no such request")
	}
}

// take writes one that may still be applied.
func (s *scribe) take(a Take) {
	s.version(a.Version)
	s.zxid(a.Mzxid)
	s.text(a.Relieves.Incarnation)
	s.int(int64(len(a.Remove)))
	for _, b := range a.Remove {
		s.text(b.SID)
		s.beat(b.SID, b.Version)
	}
}

func (s *scribe) event(k int, ev Event) {
	now := s.w.instant(k)
	switch ev := ev.(type) {
	case Opened:
		s.int(1)
	case Suspended:
		s.int(2)
	case Expired:
		s.int(3)
	case Look:
		s.int(4)
	case LookGroup:
		s.int(5)
	case SlotRead:
		s.int(6)
		s.int(int64(ev.Outcome))
		if ev.Outcome == Done {
			s.record(ev.Record)
		}
	case GroupRead:
		s.int(7)
		s.int(int64(ev.Outcome))
		s.flag(s.awaited(k, ev.Asked))
		s.peers(ev.Peers)
	case TakeDone:
		s.int(8)
		s.int(int64(ev.Outcome))
		s.version(ev.Version)
		s.zxid(ev.Mzxid)
		s.ago(ev.SentAt.Elapsed, now.Elapsed, s.w.length(k))
	case BeatDone:
		s.int(9)
		s.int(int64(ev.Outcome))
		s.beat(sidOf(k), ev.Version)
		s.zxid(ev.Mzxid)
		s.ago(ev.SentAt.Elapsed, now.Elapsed, s.w.length(k))
	case ReleaseDone:
		s.int(10)
		s.int(int64(ev.Outcome))
	case YieldDone:
		s.int(11)
	case SlotGone:
		s.int(13)
	case SlotSet:
		s.int(14)
	case claimDone:
		s.int(12)
		s.int(int64(ev.outcome))
		s.int(int64(ev.kind))
		if ev.kind == claims {
			s.ago(ev.sent.Elapsed, now.Elapsed, s.w.length(k))
			s.beat(sidOf(k), ev.beat)
			s.zxid(ev.mzxid)
		}
		s.zxid(ev.token)
		s.tick(ev.record)
	case proved:
		s.int(15)
		s.int(int64(ev.outcome))
		s.take(ev.take)
	case inspected:
		s.int(16)
		s.int(int64(ev.outcome))
		s.take(ev.take)
		s.int(int64(ev.version))
	case relieved:
		s.int(17)
		s.event(k, ev.done)
	case dropped:
		s.int(18)
	case Leapt:
		s.int(19)
	case LivesRead:
		s.int(20)
		s.int(int64(ev.Outcome))
		s.lives(ev.Lives)
	default:
		panic("no such event")
	}
}

func (s *scribe) peers(peers map[string]Peer) {
	for k := range s.w.set.hosts {
		p, live := peers[sidOf(k)]
		s.flag(live, p.Closed)
		s.text(p.Incarnation)
	}
}

// awaited reports whether a machine waits for the answer to a reading of the group: it ignores
// others.
func (s *scribe) awaited(k, asked int) bool {
	m := s.w.hosts[k].machine
	return m.phase == readingGroup && m.peers.groupAsked == asked
}

// machine writes a machine's knowledge. Limits, weights and groups do not occur in tiny worlds, so
// nobody is full. What Opened sets again makes no difference before it, and from whom a slot was
// taken is only reported.
func (s *scribe) machine(k int) {
	m, now := s.w.hosts[k].machine, s.w.instant(k)
	s.flag(m.connected, m.peers.own.Closed, m.held, m.heldUp, m.even, m.peers.live != nil)
	s.ago(m.sampledAt, now.Mono, Length(s.w.length(k)))
	s.int(int64(m.phase))
	s.int(int64(m.reads))
	s.peers(m.peers.live)
	for other := range s.w.set.hosts {
		for _, incarnation := range incarnations[other][1:] {
			who := Member{sidOf(other), incarnation}
			at, suspect := m.peers.suspects[who]
			if s.flag(suspect); suspect {
				s.zxid(at)
			}
			skip, skipped := m.peers.skipped[who]
			if s.flag(skipped); skipped {
				s.left(skip.until, now.Mono)
				s.left(skip.until+skip.lasts, now.Mono)
				s.int(int64(skip.lasts / oneMoment))
				s.zxid(skip.at)
			}
			_, asked := m.peers.asked[who]
			l := m.peers.signs[who]
			if s.flag(asked, l != nil); l != nil {
				s.sign(k, who, l)
			}
		}
	}
	if m.connected {
		s.flag(m.look || len(m.peers.asked) > 0)
		s.left(m.nextBeat, now.Mono)
		s.int(int64(len(m.dirty)))
		s.moments(k, m.peers.past.moments)
	}
	s.slot(k, m.slots[theJob])
}

// moments leaves out those that no reading can ask for: they are asked for the first one at or
// after a heartbeat that is there or on its way. The last one decides which may be added.
func (s *scribe) moments(k int, all []moment) {
	now, limit, oldest := s.w.instant(k), s.longAgo(k), s.w.zxid
	look := func(r Record) {
		for _, b := range r.Beats {
			oldest = min(oldest, b.Mzxid)
		}
	}
	look(s.w.rec)
	for other := range s.w.set.hosts {
		for incarnation, at := range s.w.lives[other] {
			l := s.w.hosts[k].machine.peers.signs[Member{sidOf(other), incarnations[other][incarnation]}]
			if at > 0 && other != k && (l == nil || l.Mzxid != at) { // a sign that is known already is not older by another reading
				oldest = min(oldest, at)
			}
		}
	}
	for _, ev := range s.w.hosts[k].in {
		if ev, reads := ev.(SlotRead); reads {
			look(ev.Record)
		}
		if ev, reads := ev.(LivesRead); reads {
			for _, read := range ev.Lives {
				if read.Exists {
					oldest = min(oldest, read.Mzxid)
				}
			}
		}
	}
	for len(all) > 1 && (all[0].zxid < oldest || now.Mono-all[1].mono >= limit) {
		all = all[1:]
	}
	if len(all) > 0 && all[0].zxid < oldest {
		limit = oneMoment
	}
	s.int(int64(len(all)))
	for _, at := range all {
		s.ago(at.mono, now.Mono, limit)
		s.zxid(at.zxid)
	}
}

// longAgo is longer than any silence that makes a difference.
func (s *scribe) longAgo(k int) time.Duration {
	return stale(max(s.w.length(k), s.w.length(0))) + oneMoment
}

func (s *scribe) slot(k int, o *slot) {
	if s.flag(o != nil); o == nil {
		return // deleted
	}
	now, limit := s.w.instant(k), s.longAgo(k)
	s.flag(o.busy, o.gone, o.opVoid, o.unsure, o.kept, o.beating, o.claiming, o.crossed, o.overtaken, o.known, o.behind, o.late, o.mine != nil)
	s.int(int64(o.op))
	epoch := s.w.hosts[k].machine.epoch
	if o.op == taking {
		s.flag(o.takeEpoch == epoch, o.overdue)
	}
	if o.beating {
		s.zxid(o.beatToken)
		s.flag(o.beatEpoch == epoch)
		s.ago(s.w.hosts[k].machine.leaptAt, now.Elapsed, s.w.length(k))
	}
	if o.claiming {
		s.zxid(o.claimToken)
		s.flag(o.claimEpoch == epoch)
	}
	m := s.w.hosts[k].machine
	if m.connected {
		s.int(int64(o.refusals))
	}
	if m.phase != resting {
		s.flag(o.readAt < m.peers.roundAt) // in a later round it is
	}
	if m.phase == readingGroup {
		s.flag(o.readAt <= m.peers.groupAsked)
	}
	if o.freeSince == never {
		s.int(-1)
	} else {
		s.ago(o.freeSince, now.Mono, time.Duration((skipPeriods+2)*s.w.set.sync+1)*oneMoment)
	}
	if o.known {
		rec := o.rec
		rec.Relieved = Member{} // who was relieved is looked at once
		s.record(rec)
		for _, sid := range [...]string{"", "a", "b", "c"} {
			since, seen := o.beatSince.of(sid)
			own := sid == sidOf(k)
			if s.flag(seen); seen && (m.connected && o.mine == nil || o.mine != nil && !own) {
				s.ago(since, now.Mono, limit)
				s.ago(since, o.readMono, limit)
			}
		}
	}
	if h := o.mine; h != nil {
		s.zxid(h.token)
		s.version(h.version)
		s.beat(s.w.member(k).SID, h.beat)
		s.left(h.until, now.Elapsed)
		s.flag(h.gained, h.leaving, h.doubtful)
		s.text(h.offer)
	}
}

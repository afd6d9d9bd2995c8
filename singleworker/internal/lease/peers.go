package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// peers is the group as this instance sees it: who is there and takes slots, who shows signs of
// life, and who is offered nothing for a while. It knows no slots.
type peers struct {
	self       Member
	own        Peer          // this instance, as the others see it
	session    time.Duration // granted to this instance
	syncPeriod time.Duration // Config's, or this session's
	idleBeat   time.Duration // how often, at least, a slot without a run has a heartbeat; less than 0 means never

	live       map[string]Peer // nil before the first reading
	groupAsked int             // step at which live was requested
	roundAt    int             // step at which the round began

	past     past
	signs    map[Member]*life    // of other owners
	asked    map[Member]struct{} // whose sign of life is to be read in the next round
	suspects map[Member]int64    // owners whose slots are to be read in the next round, and when they were relieved; see suspect
	skipped  map[Member]skipped  // instances that ignored an offer, or had to be relieved
	full     map[string]bool     // instances that own as many slots as they may, at the latest round
}

// life is an owner's sign of life, as it was read, and its age.
type life struct {
	Life
	since    time.Duration // Mono before which it was written, or since when it is missing
	readMono time.Duration
	readAt   int // step
	doubted  int // the look at which its slots were looked for last
}

func newPeers(cfg Config) *peers {
	return &peers{
		self: cfg.Self, own: Peer{MaxSlots: cfg.MaxSlots, Weight: cfg.Weight}, idleBeat: cmp.Or(cfg.IdleBeat, time.Minute),
		signs: make(map[Member]*life), asked: make(map[Member]struct{}), suspects: make(map[Member]int64), skipped: make(map[Member]skipped),
	}
}

// compare orders members, so that a step does not depend on map order.
func (who Member) compare(other Member) int {
	return cmp.Or(cmp.Compare(who.SID, other.SID), cmp.Compare(who.Incarnation, other.Incarnation))
}

// opened forgets the transactions and signs of life of an earlier connection.
func (p *peers) opened(ev Opened, syncPeriod time.Duration) {
	p.session, p.syncPeriod = ev.Session, cmp.Or(ev.SyncPeriod, syncPeriod)
	p.past.forget()
	clear(p.signs)
}

// read replaces the live instances, and reports whether they have changed.
func (p *peers) read(now Instant, live map[string]Peer) (changed bool) {
	changed = !maps.Equal(p.live, live)
	p.live = live
	maps.DeleteFunc(p.skipped, func(who Member, _ skipped) bool { return p.isForgotten(now, who) })
	return changed
}

// lives reports whether the ephemeral node of that incarnation exists.
func (p *peers) lives(who Member) bool {
	peer, live := p.live[who.SID]
	return live && (peer.Opaque || peer.Incarnation == who.Incarnation)
}

// present is the incarnation of an instance whose ephemeral node exists.
func (p *peers) present(sid string) Member { return Member{sid, p.live[sid].Incarnation} }

// isOpen reports whether an instance takes slots and, if it is another one, is alive.
func (p *peers) isOpen(sid string) bool {
	if sid == p.self.SID {
		return !p.own.Closed
	}
	peer, live := p.live[sid]
	return live && !peer.Closed
}

// peer is an instance with its weight and its limit: this one's as configured, not as it was read.
func (p *peers) peer(sid string) Peer {
	if sid == p.self.SID {
		return p.own
	}
	return p.live[sid]
}

func (p *peers) weight(sid string) int { return max(1, p.peer(sid).Weight) }

// silentAfter is how long an instance may go without a heartbeat before it counts as silent. Its
// lease is a fraction of that instance's session timeout, which may be longer than ours.
func (p *peers) silentAfter(sid string) time.Duration {
	return stale(max(p.session, p.live[sid].Session))
}

const momentsPerBeat = 4

// hear records that a transaction has been applied.
func (p *peers) hear(now Instant, zxid int64) {
	if zxid > 0 {
		p.past.hear(now.Mono, zxid, p.session/(beatsPerSession*momentsPerBeat), 2*stale(p.session))
	}
}

// ask has the sign of life of an owner read in the next round.
func (p *peers) ask(who Member) {
	if who != (Member{}) && who != p.self {
		p.asked[who] = struct{}{}
	}
}

// begin begins a round, and returns those whose sign of life it reads.
func (p *peers) begin(step int) (asked []Member) {
	p.roundAt = step
	asked = slices.SortedFunc(maps.Keys(p.asked), Member.compare)
	clear(p.asked)
	return asked
}

// livesRead records signs of life.
func (p *peers) livesRead(now Instant, step int, lives map[Member]Life) {
	latest := int64(0)
	for _, read := range lives {
		latest = max(latest, read.Mzxid)
	}
	p.hear(now, latest)
	for who, read := range lives {
		l := &life{Life: read, since: now.Mono, readMono: now.Mono, readAt: step}
		if read.Exists {
			l.since = p.past.before(now.Mono, read.Mzxid)
		}
		if before := p.signs[who]; before != nil && before.Life == read {
			l.since, l.doubted = min(l.since, before.since), before.doubted
		}
		p.signs[who] = l
	}
}

// isLifeless reports whether the sign of life of an owner was there, and old, when it was read
// last.
func (p *peers) isLifeless(who Member) bool {
	l := p.signs[who]
	return l != nil && l.Exists && l.readMono-l.since > p.silentAfter(who.SID) && !p.live[who.SID].Opaque
}

// isRecent reports whether a sign of life was so young when it was read that the next one was not
// late by half of the time between two.
func (p *peers) isRecent(l *life) bool {
	return l.Exists && l.readMono-l.since < 3*p.session/(2*beatsPerSession)
}

// isLate reports whether a sign of life was so old when it was read that it is to be read again.
func (p *peers) isLate(l *life) bool { return l.readMono-l.since >= Length(p.session) }

// askAgain asks for the signs of life that were late when they were read, and forgets the signs of
// instances that own nothing.
func (p *peers) askAgain(owners map[Member]bool) {
	for who, l := range p.signs {
		switch {
		case !owners[who] || !p.lives(who):
			delete(p.signs, who)
		case p.isLate(l):
			p.ask(who)
		}
	}
}

// neighbors is of how many other owners a sample reads the sign of life: the next ones in a ring.
// So the cost of noticing a hung instance does not grow with the group, and it is noticed even if a
// neighbor hangs, too.
const neighbors = 2

// askNeighbors asks for the signs of life of the next owners in the order of their names, beginning
// behind this instance.
func (p *peers) askNeighbors(owners map[Member]bool) {
	sorted := slices.SortedFunc(maps.Keys(owners), Member.compare)
	first := max(0, slices.IndexFunc(sorted, func(owner Member) bool { return owner.SID >= p.self.SID }))
	for k := range min(neighbors, len(sorted)) {
		p.ask(sorted[(first+k)%len(sorted)])
	}
}

// suspect has the slots of an owner read in the next round: the owner was just found to be silent,
// or the transaction at has relieved it, as a record shows that is read for the first time.
func (p *peers) suspect(owner Member, at int64) {
	if owner != (Member{}) && owner != p.self {
		p.suspects[owner] = max(p.suspects[owner], at)
		if l := p.signs[owner]; l == nil || l.readAt < p.roundAt {
			p.ask(owner)
		}
	}
}

// patience is how long a slot that has been free since then is left to the instance that is to take
// it: a sync period, since it may hang; and skipPeriods while it gives signs of life. Then it is
// only late, as all are when they take thousands of slots at once. Its slots in the hands of others
// would have to move once more, which would make all later still.
func (p *peers) patience(now Instant, since time.Duration, sid string) time.Duration {
	who := p.present(sid)
	if who.Incarnation == "" || sid == p.self.SID || p.full[sid] || now.Mono-since <= p.syncPeriod {
		return p.syncPeriod
	}
	l := p.signs[who]
	if l == nil || now.Mono-l.readMono >= p.syncPeriod {
		p.ask(who)
	}
	if l == nil || p.isRecent(l) {
		return skipPeriods * p.syncPeriod
	}
	return p.syncPeriod
}

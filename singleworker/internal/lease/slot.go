package lease

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/preference"
)

type operation uint8

const (
	idle operation = iota
	reading
	taking
	releasing
	yielding
)

// slot is the machine's view of one slot. There are thousands, so small fields stand together.
type slot struct {
	id    Slot
	hash  uint64 // see Machine.rank
	able  *crowd
	group string

	eligible  bool
	busy      bool
	always    bool
	bound     bool
	evicted   bool      // since it is busy
	gone      bool      // deleted, and kept only until requests in flight are answered
	op        operation // the request in flight
	opVoid    bool      // it was sent before the job was deleted: ignore the answer
	overdue   bool      // the latest Take is one by rule (c)
	late      bool      // a run has become overdue while the slot is being read
	unsure    bool      // the latest Take may have been applied: must be read
	kept      bool      // the latest Release was refused, or may not have been applied: must be read
	beating   bool      // a heartbeat is in flight
	claiming  bool      // a claim is in flight
	crossed   bool      // a claim may overtake the heartbeat in flight
	overtaken bool      // a claim has been acknowledged since the heartbeat in flight was sent
	known     bool      // rec was read
	behind    bool      // the latest reading was older than our take: the next one must not lag

	takeEpoch int   // of the latest Take
	beatToken int64 // of the ownership that the heartbeat in flight was sent for
	beatEpoch int

	claimToken int64 // as beatToken, of the claim in flight
	claimEpoch int

	rec       Record
	readAt    int           // step of that reading
	readMono  time.Duration // time of that reading
	beatSince beatTimes     // Mono before which a heartbeat was written
	freeSince time.Duration // Mono since when the slot is free, or never
	refusals  int           // Takes refused since the latest LookAll

	mine *holding
}

const never time.Duration = -1

// isOurs reports whether s is ours and can be released now.
func (s *slot) isOurs() bool { return s.mine != nil && s.op == idle && !s.kept }

func (s *slot) isTaking() bool { return s.op == taking && !s.opVoid }

// isOwned reports whether s is ours, is being taken, or may have been taken.
func (s *slot) isOwned() bool { return s.mine != nil || s.isTaking() || s.unsure }

// holding is a slot whose record names this incarnation. It is doubtful after a claim or a
// heartbeat without an answer: that may be written later, or be written and not be seen at a server
// that is behind. Then a heartbeat may be refused although nobody has taken the slot.
type holding struct {
	token    int64
	version  int32
	beat     int32         // version of our heartbeat; noBeat means that it must be read first
	until    time.Duration // Elapsed; 0 means no lease yet
	gained   bool          // Gained was reported
	leaving  bool          // being released
	doubtful bool          // until the next claim, a refused heartbeat only has it read
	offer    string        // instance it is released to, or "" for any
	from     string        // the owner that was relieved, if one was
}

// counts is how many slots s is in what instances share.
func (s *slot) counts() int {
	if s.bound {
		return 0
	}
	return 1
}

// isAble reports whether sid is alive, takes slots, and has the handler of s.
func (s *slot) isAble(p *peers, sid string) bool {
	if sid == p.self.SID {
		return s.eligible && p.isOpen(sid)
	}
	return p.isOpen(sid) && slices.Contains(s.able.sids, sid)
}

// preference is rank without a tally.
func (s *slot) preference(sid string) uint64 {
	return preference.Of(preference.Hash(sid), s.hash)
}

// holder returns the instance that owns s or will own it, or "".
func (s *slot) holder(p *peers) string {
	switch {
	case s.mine != nil && !s.mine.leaving, s.isTaking():
		return p.self.SID
	case s.mine != nil:
		return s.mine.offer
	case s.rec.Owner == Member{}:
		if s.isAble(p, s.rec.Offer) { // else nobody takes it: of a job that is done, say
			return s.rec.Offer
		}
	case s.rec.Owner.SID != p.self.SID && p.lives(s.rec.Owner):
		return s.rec.Owner.SID
	}
	return ""
}

// livingOwner is the owner of s, if it is alive.
func (s *slot) livingOwner(p *peers) Member {
	if p.lives(s.rec.Owner) {
		return s.rec.Owner
	}
	return Member{}
}

// isDue reports whether every periodic look reads s. Most slots have a healthy owner, or none, and
// reading them would be most of the protocol's cost. A change of their record is noticed by a
// watch, or by a refused heartbeat if the slot is ours; a hung owner by its sign of life. In any
// case, a slot is read in the round in which it is taken.
func (s *slot) isDue() bool {
	owner := s.rec.Owner
	switch {
	case !s.known, !s.rec.Exists:
		return true
	case owner == (Member{}):
		return s.rec.Offer != "" || len(s.rec.Beats) > 0 // who ignores an offer is skipped: that must not be guessed
	case len(s.rec.Beats) != 1, s.rec.Beats[0].SID != owner.SID:
		return true // a heartbeat of an instance that is not the owner
	}
	return false
}

// isFree reports whether the rules allow taking s.
func (s *slot) isFree(now Instant, p *peers) bool {
	return s.mine == nil && !s.isTaking() && !s.gone && s.takeable(now, p)
}

// refusalLimit is how many refused Takes of a slot are retried at once; then the
// slot waits for the next sync period.
const refusalLimit = 3

// mayTakeNow reports whether a slot that the rules allow taking can be requested now.
func (s *slot) mayTakeNow() bool {
	return s.eligible && s.op == idle && !s.beating && s.refusals < refusalLimit
}

// takeable reports whether the rules allow taking s now, and records since when a
// dead owner's slot has been free.
func (s *slot) takeable(now Instant, p *peers) bool {
	if !s.known || !s.rec.Exists {
		return false
	}
	owner := s.rec.Owner
	if owner != (Member{}) && !s.isGone(p) && !s.hangs(p) {
		if s.freeSince != never && p.lives(owner) {
			s.freeSince = never // the owner may have been gone or silent in between
		}
		return false
	}
	for _, b := range s.rec.Beats {
		backed := b.SID == owner.SID
		// Respect a fresh heartbeat even of an instance that is not the owner.
		if !backed && b.SID != p.self.SID && !s.isSilent(p, b.SID) {
			return false
		}
	}
	if s.freeSince == never {
		s.freeSince = now.Mono
	}
	offer := s.rec.Offer
	if owner == (Member{}) && offer != "" && offer != p.self.SID && s.isAble(p, offer) {
		return now.Mono-s.freeSince > p.patience(now, s.freeSince, offer)
	}
	return true
}

// isGone is rule (a): the ephemeral node of the owner's incarnation does not exist. The
// group must have been requested after the slot was read.
func (s *slot) isGone(p *peers) bool {
	return s.readAt <= p.groupAsked && !p.lives(s.rec.Owner)
}

// isSilent is rule (b): the heartbeat of sid was too old when it was read. How long that takes is
// not known of an instance whose record cannot be read.
func (s *slot) isSilent(p *peers, sid string) bool {
	since, seen := s.beatSince.of(sid)
	age := s.readMono - since
	// Of nearly all slots, the first comparison decides: silentAfter is no less, but has to look at
	// the peer.
	return seen && age > stale(p.session) && !p.live[sid].Opaque && age > p.silentAfter(sid)
}

// hangs is rule (b) for an owner. Its heartbeat may be old because the slot has no run, so the
// owner's sign of life tells, too. That was read in this round: otherwise an owner that is back
// would lose its idle slots.
func (s *slot) hangs(p *peers) bool {
	owner := s.rec.Owner
	if !s.isSilent(p, owner.SID) || !p.lives(owner) {
		return false
	}
	l := p.signs[owner]
	switch {
	case l == nil, p.isLifeless(owner) && l.readAt < p.roundAt:
		p.ask(owner)
		return false
	case !l.Exists: // somebody has deleted it, or it has not been written yet: the heartbeat alone tells, and may be a turn old
		since, _ := s.beatSince.of(owner.SID)
		return s.readMono-since > p.silentAfter(owner.SID)+max(0, p.idleBeat)
	}
	return p.isLifeless(owner)
}

// observe records rec, when each heartbeat was written at the latest, and since
// when the slot has been free.
func (s *slot) observe(now Instant, step int, p *peers, rec Record) {
	latest := rec.Mzxid
	for _, b := range rec.Beats {
		latest = max(latest, b.Mzxid)
	}
	p.hear(now, latest)
	sameReign := s.known && s.rec.Mzxid == rec.Mzxid
	seen := func(sid string) time.Duration { // since when it is known to be unchanged
		if at, known := s.beatSince.of(sid); known && sameReign {
			return at
		}
		return now.Mono
	}
	var since beatTimes
	if rec.beat(rec.Owner.SID) == noBeat { // an owner without a heartbeat
		at := now.Mono
		if s.rec.beat(rec.Owner.SID) == noBeat {
			at = seen(rec.Owner.SID)
		}
		since.set(rec.Owner.SID, at)
	}
	for _, b := range rec.Beats {
		at := p.past.before(now.Mono, b.Mzxid)
		if slices.Contains(s.rec.Beats, b) {
			at = min(at, seen(b.SID))
		}
		since.set(b.SID, at)
	}
	if !sameReign {
		s.offerEnded(now, p, rec)
		s.freeSince = never
		if rec.Exists && rec.Owner == (Member{}) {
			s.freeSince = now.Mono
		}
	}
	s.known, s.rec, s.beatSince = true, rec, since
	s.readAt, s.readMono, s.unsure, s.kept = step, now.Mono, false, false
}

// offerEnded records whether the instance that the slot was offered to has taken
// it, as rec shows. If more than one change has passed unseen, that is not known,
// unless the offer stood for long when it was read last. If the slot was offered
// again, and the offer had been waiting for long, it was another instance.
func (s *slot) offerEnded(now Instant, p *peers, rec Record) {
	standing := func(at time.Duration) bool { return s.freeSince != never && at-s.freeSince > p.syncPeriod/2 }
	if !standing(s.readMono) {
		waited := rec.Offer != "" && standing(now.Mono)
		if rec.Version != s.rec.Version+1 || rec.Owner == (Member{}) && !waited {
			return
		}
	}
	offered := s.rec.Offer
	if taker, is := p.skipped[rec.Owner]; is && rec.Mzxid > taker.at {
		taker.until = min(taker.until, now.Mono)
		p.skipped[rec.Owner] = taker
	}
	_, live := p.live[offered]
	if live && offered != rec.Owner.SID && offered != p.self.SID {
		p.skip(now, p.present(offered), rec.Mzxid, p.skipFor(offered))
	}
}

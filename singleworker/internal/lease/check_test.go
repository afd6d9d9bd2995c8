package lease_test

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// life returns the life of the job to which i's lease on slot belongs.
func (i *instance) life(slot lease.Slot) int { return i.w.zk.lives[i.leases[slot].token] }

// checkExclusive checks property 1. A second valid lease can only arise with a
// Gained or Renewed, so it is sufficient to check then.
func (w *world) checkExclusive(i *instance, slot lease.Slot) {
	if !i.valid(slot) || i.leases[slot].forced {
		return
	}
	for _, other := range w.insts {
		if other == i || !other.valid(slot) || other.leases[slot].forced {
			continue
		}
		if other.life(slot) != i.life(slot) {
			continue
		}
		first, then := i, other
		if first.leases[slot].token > then.leases[slot].token {
			first, then = then, first
		}
		if !w.zk.jobs[slot].isRelieved(first.leases[slot].acked, then.leases[slot].token) {
			w.failf(slot, "(1) %s and %s both have a valid lease", i.member.Incarnation, other.member.Incarnation)
		} else if first.runsNow(slot) {
			w.failf(slot, "(1) %s and %s both have a valid lease, and a run of %s is in progress",
				i.member.Incarnation, other.member.Incarnation, first.member.Incarnation)
		}
	}
}

// checkRuns checks property 9 when a run begins.
func (w *world) checkRuns(i *instance, slot lease.Slot) {
	for _, other := range w.insts {
		if other == i || !other.runsNow(slot) || other.leases[slot].forced || i.leases[slot].forced {
			continue
		}
		if other.life(slot) == i.life(slot) {
			w.failf(slot, "(9) %s and %s both have a run", i.member.Incarnation, other.member.Incarnation)
		}
	}
}

// checkLoss checks property 11.
func (i *instance) checkLoss(a lease.Lost) {
	l, rec := i.leases[a.Slot], i.w.zk.jobs[a.Slot].now()
	if l == nil || a.Reason != lease.Taken || rec.Mzxid != l.token || i.underway(a.Slot).unclear {
		return
	}
	if _, beating := beatOf(rec, i.member.SID); beating && i.w.mutant != claimsBesideBeat {
		i.w.failf(a.Slot, "(11) %s gives up token %d, which the record still names", i.member.Incarnation, l.token)
	}
}

// checkToken checks property 3.
func (w *world) checkToken(i *instance, a lease.Gained) {
	if !i.valid(a.Slot) || i.forced {
		return // ended before it was reported: nothing runs with that token
	}
	for _, other := range w.insts {
		if other == i || other.best[a.Slot] < a.Token {
			continue
		}
		if w.zk.jobs[a.Slot].isRelieved(i.acked[a.Slot], other.best[a.Slot]) {
			continue
		}
		if w.zk.lives[other.best[a.Slot]] == w.zk.lives[a.Token] {
			w.failf(a.Slot, "(3) %s got token %d after %s had %d",
				i.member.Incarnation, a.Token, other.member.Incarnation, other.best[a.Slot])
		}
	}
	i.best[a.Slot] = max(i.best[a.Slot], a.Token)
}

// unsettled returns which of properties 5, 7 and 8 does not hold, or "".
func (w *world) unsettled() (slot lease.Slot, missing string) {
	for _, slot := range w.zk.names {
		if missing := w.unsettledSlot(slot); missing != "" {
			return slot, missing
		}
	}
	return "", ""
}

func (w *world) unsettledSlot(slot lease.Slot) string {
	rec := w.zk.jobs[slot].now()
	var owner *instance
	eligible := 0
	for _, i := range w.responsive() {
		if i.handlers[slot] && !i.draining {
			eligible++
		}
		if i.member == rec.Owner {
			owner = i
		}
	}
	if !rec.Exists || eligible == 0 {
		return ""
	}
	if owner == nil {
		if w.maxSlots > 0 && w.full(slot) {
			return ""
		}
		return fmt.Sprintf("(5) owner is %v, offer %q", rec.Owner, rec.Offer)
	}
	switch {
	case !owner.handlers[slot]:
		return fmt.Sprintf("(5) %s owns it without its handler", owner.member.Incarnation)
	case owner.draining:
		return fmt.Sprintf("(8) %s drains and owns it", owner.member.Incarnation)
	case owner.leases[slot] == nil:
		return fmt.Sprintf("(5) %s does not know that it owns it", owner.member.Incarnation)
	case w.keepsLeases() && !owner.valid(slot):
		return fmt.Sprintf("(5) %s has no valid lease", owner.member.Incarnation)
	case len(rec.Beats) != 1 || rec.Beats[0].SID != owner.member.SID:
		return fmt.Sprintf("(7) heartbeats %v", rec.Beats)
	}
	for _, i := range w.insts {
		if i != owner && i.valid(slot) {
			return fmt.Sprintf("(5) %s believes to own it too", i.member.Incarnation)
		}
	}
	return ""
}

// full reports whether no instance that can run slot may take one more.
func (w *world) full(slot lease.Slot) bool {
	for _, i := range w.responsive() {
		if i.handlers[slot] && !i.draining && i.machine.Owned() < i.maxSlots {
			return false
		}
	}
	return true
}

// uneven returns how property 6 is violated for instances with the same handlers, or "".
func (w *world) uneven() string {
	groups := make(map[string][]lease.Slot) // existing slots; "" has all
	for _, slot := range w.zk.names {
		if group := w.group(slot); group != "" && w.zk.jobs[slot].now().Exists {
			groups[group] = append(groups[group], slot)
		}
	}
	groups[""] = w.zk.names
	responsive := w.responsive()
	for _, i := range responsive {
		if n := w.owned(i, w.zk.names); i.maxSlots > 0 && n > i.maxSlots {
			return fmt.Sprintf("%s owns %d, more than its limit", i.member.Incarnation, n)
		}
	}
	for _, a := range responsive {
		for _, b := range responsive {
			if a.draining || b.draining || a.maxSlots > 0 || !maps.Equal(a.handlers, b.handlers) {
				continue
			}
			for _, slot := range w.zk.names {
				if w.zk.jobs[slot].now().Owner != a.member {
					continue
				}
				ofGroup, ofAll := 0, w.gain(a, b, groups[""])
				if slots := groups[w.group(slot)]; w.group(slot) != "" && len(slots) > 1 {
					ofGroup = w.gain(a, b, slots)
				}
				if ofGroup > 0 || ofGroup == 0 && ofAll > 0 {
					return fmt.Sprintf("(6) %s at weight %d should give %s of group %q to %s at weight %d",
						a.member.Incarnation, a.weight, slot, w.group(slot), b.member.Incarnation, b.weight)
				}
			}
		}
	}
	return ""
}

// gain is positive if slots would be more even after a gave one to b, and zero if as even.
func (w *world) gain(a, b *instance, slots []lease.Slot) int {
	return (2*w.owned(a, slots)-1)*max(1, b.weight) - (2*w.owned(b, slots)+1)*max(1, a.weight)
}

func (w *world) owned(i *instance, slots []lease.Slot) (n int) {
	for _, slot := range slots {
		n += one(w.zk.jobs[slot].now().Owner == i.member)
	}
	return n
}

// ownedWithin bounds how long after the faults every slot has its proper owner,
// even if watch events are lost: 1.5 session timeouts until the server ends a dead
// owner's session; then a look, which finds it dead, plus a sync period and a look
// if the slot is beyond every instance's share; and the same for a silent
// heartbeat. There is a look at least every 1.1 sync periods. The change of a lost
// event is noticed when the slot is read in its turn. An instance that hangs
// forever costs one offer, which no other may take for a sync period.
func (w *world) ownedWithin() time.Duration {
	within := w.sync*35/10 + 3*w.longestSession()
	if w.watchLoss > 0 {
		within += 7 * max(w.sync, lease.Length(w.longestSession()))
	}
	if w.hung != "" {
		within += w.sync * 22 / 10
	}
	return within
}

// evenWithin bounds how long it takes until nothing moves any more: an instance that could not take
// an offer before all events were heard again is skipped, until the round after that. By then stray
// heartbeats are gone, too. An offer that one instance ignores may pass to up to three others, a
// sync period each, before one is found to ignore it.
func (w *world) evenWithin() time.Duration { return w.ownedWithin() + w.longestSkip() + (1+3)*w.sync }

// longestSkip is for how long an instance may be skipped: for 8 sync periods, or until its
// session would be over, and for twice as long if it has to be relieved soon after that,
// up to four times.
func (w *world) longestSkip() time.Duration {
	most := 0
	for _, n := range w.zk.relieved {
		most = max(most, n)
	}
	return max(8*w.sync, w.longestSession()*3/2) << min(most, 2)
}

// Run runs the faults and the time after them.
func (w *world) Run() {
	w.after(w.upTo(w.sync+sessionTimeout), w.faultLoop)
	if w.overdueEvery > 0 {
		w.overdueLoop()
	}
	w.run(w.noise)
	if w.Failure() != "" || w.mutant != sound {
		return // the mutants break what holds at all times
	}
	w.silence()
	start := w.time
	for w.time < start+w.evenWithin() && w.Failure() == "" {
		w.run(sessionTimeout / 8)
		w.heard = w.time-start >= w.ownedWithin()
		w.checkOwned(w.time - start)
		slot, missing := w.unsettled()
		if missing == "" {
			missing = w.uneven()
		}
		if missing != "" {
			w.even = w.time - start
			w.missingAt, w.missing = slot, missing
		}
	}
	if w.hung == "" && w.even >= w.evenWithin() {
		w.failf(w.missingAt, "%s; %v after the noise", w.missing, w.even)
	}
	w.stay()
}

// checkOwned records which slots have had their proper owner since the faults
// ended, and when the last of them got it.
func (w *world) checkOwned(since time.Duration) {
	for _, slot := range w.zk.names {
		if w.settled[slot] {
			continue
		}
		missing := w.unsettledSlot(slot)
		if w.settled[slot] = missing == "" || strings.HasPrefix(missing, "(7)"); w.settled[slot] {
			continue // it is owned; stray heartbeats are only found in samples
		}
		if w.late = since; since > w.ownedWithin() {
			w.failf(slot, "%s; %v after the noise", missing, since)
		}
	}
}

// stay checks that nothing changes any more. A hung instance still gets up to three
// offers in 20 sync periods, after which others own the slots again; an instance
// that takes one may have to pass it on.
func (w *world) stay() {
	moves := w.moves()
	owned := make(map[lease.Slot]time.Duration)
	for end := w.time + 20*w.sync; w.time < end && w.Failure() == ""; {
		w.run(sessionTimeout / 2)
		for _, slot := range w.zk.names {
			missing := w.unsettledSlot(slot)
			if _, seen := owned[slot]; missing == "" || !seen {
				owned[slot] = w.time
			}
			if missing != "" && (w.hung == "" || w.time-owned[slot] > 3*w.sync+w.longestSession()) {
				w.failf(slot, "%s; it once was settled", missing)
			}
		}
	}
	if more := w.moves() - moves; more > 0 && (w.hung == "" || more > 6*w.slots) {
		w.failf("", "(6) %d more moves", more)
	}
}

func (w *world) moves() int {
	n := 0
	for _, slot := range w.zk.names {
		n += w.zk.jobs[slot].moves
	}
	return n
}

package lease

// claimTick is a request to claim the tick after the last one that the host knows.
type claimTick struct {
	token   int64
	version int32 // of the owner record
	tick    int64
	known   int32 // version of the tick record
	reads   bool  // it only reads the tick record
}

// claimDone is the answer.
type claimDone struct {
	outcome Outcome
	record  tickNode // as it is then
	token   int64
}

func (claimTick) action() {}
func (claimDone) event()  {}

// claimView is what a host knows of the tick record.
type claimView struct {
	underway bool
	known    bool
	record   tickNode
}

func (v *claimView) done(ev claimDone) {
	*v = claimView{known: ev.outcome == Done, record: ev.record}
}

// sendClaim sends a claim, or reads what has to be known for it.
func (w *tiny) sendClaim(k int) {
	h := &w.hosts[k]
	h.claim.underway = true
	w.send(k, claimTick{
		token: h.lease.token, version: h.lease.version, reads: !h.claim.known,
		tick: h.claim.record.claimed + 1, known: h.claim.record.version,
	})
}

// claim applies a claim and checks what is guaranteed of claims.
func (w *tiny) claim(by Member, a claimTick) Event {
	if a.reads {
		return claimDone{outcome: Done, record: w.tick, token: a.token}
	}
	w.zxid++
	_, beating := beatOf(w.rec, by.SID)
	switch {
	case w.rec.Version != a.version && w.set.breach != claimsAnyVersion,
		!beating && w.set.breach != claimsWithoutBeat && w.set.breach != claimsAnyVersion,
		w.tick.version != a.known:
		return claimDone{outcome: Refused, token: a.token}
	}
	if by != w.rec.Owner {
		w.failf("(2) %s claims tick %d, the record names %s", by.Incarnation, a.tick, w.rec.Owner.Incarnation)
	}
	if a.tick <= w.tick.claimed {
		w.failf("(2) %s claims tick %d, which was claimed before", by.Incarnation, a.tick)
	}
	w.tick = tickNode{a.tick, w.tick.version + 1}
	return claimDone{outcome: Done, record: w.tick, token: a.token}
}

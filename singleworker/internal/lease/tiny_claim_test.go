package lease

// tickNode is a tick record that counts.
type tickNode struct {
	claimed int64 // the last tick that was claimed
	version int32
	open    bool  // its run is in progress, as far as the record tells
	token   int64 // of the owner that claimed it
}

// claimKind is a change of the tick record.
type claimKind int8

const (
	reads  claimKind = iota
	claims           // opens a run of the next tick; one that is open still has been interrupted
	skips            // records the next tick, which is not run
	ends             // writes the result of a run; the instance that has run it may, without owning the slot
)

// claimTick is a request to claim the tick after the last one that the host knows, or another one
// about the tick record.
type claimTick struct {
	kind    claimKind
	token   int64
	version int32 // of the owner record
	tick    int64
	known   int32 // version of the tick record
}

// claimDone is the answer.
type claimDone struct {
	kind    claimKind
	outcome Outcome
	record  tickNode // as it is then
	token   int64
	sent    Instant
	beat    int32 // version of the heartbeat after it
	mzxid   int64 // of the heartbeat after it
}

func (claimTick) action() {}
func (claimDone) event()  {}

// claimView is a host's knowledge of the tick record.
type claimView struct {
	underway bool
	known    bool
	record   tickNode
	ran      int64 // the last tick of which it has begun a run
}

// run is a run of a host's handler.
type run struct {
	going   bool
	stopped bool // it was canceled because the lease has ended, and has no result yet
	token   int64
	version int32 // of the tick record since it was claimed
}

// mayClaim reports whether a host may claim a tick now: it runs one at a time.
func (w *tiny) mayClaim(k int) bool {
	h := &w.hosts[k]
	holds := w.valid(k) || w.set.idle && h.up && h.lease.held
	return holds && h.linked && !h.hung && h.claim.known && !h.run.going
}

// readTick reads the record that a claim needs, as soon as there is a connection.
func (w *tiny) readTick(k int) {
	h := &w.hosts[k]
	if w.set.faults.claims > 0 && h.lease.held && !h.claim.known && !h.claim.underway && !h.noticed {
		w.sendClaim(k, reads)
	}
}

// sendClaim sends a claim, or another request about the tick record.
func (w *tiny) sendClaim(k int, kind claimKind) {
	h := &w.hosts[k]
	h.claim.underway, h.claim.known = true, false
	if kind == claims {
		w.step(k, Claiming{Slot: theJob})
		h = &w.hosts[k]
	}
	w.send(k, claimTick{
		kind: kind, token: h.lease.token, version: h.lease.version, tick: h.claim.record.claimed + 1, known: h.claim.record.version,
	})
}

// claimDone has a host handle an answer. Its run begins when it knows that its claim was
// applied: from the answer, or because it has read the record again.
func (w *tiny) claimDone(k int, ev claimDone) {
	h := &w.hosts[k]
	if ev.kind == claims {
		w.step(k, Claimed{Slot: theJob, Outcome: ev.outcome, Version: ev.beat, Mzxid: ev.mzxid, SentAt: ev.sent})
	}
	if ev.kind == ends && ev.outcome == Unknown && !h.run.going {
		h.run.stopped = true // it writes the result again
	}
	if !h.lease.held || ev.token != h.lease.token {
		return
	}
	ran := h.claim.ran
	h.claim = claimView{known: ev.outcome == Done, record: ev.record, ran: ran}
	if r := ev.record; ev.outcome == Done && r.open && r.token == ev.token && r.claimed > ran && w.valid(k) {
		h.claim.ran = r.claimed
		h.run = run{going: true, token: r.token, version: r.version}
		w.logf("runs tick %d", r.claimed)
		w.checkRuns(k)
	}
	w.readTick(k)
}

// checkRuns checks that nobody else runs a tick when a host begins to.
func (w *tiny) checkRuns(k int) {
	for other := range w.set.hosts {
		h := &w.hosts[other]
		excused := h.asleep || h.asking || h.lease.forced
		if other != k && h.run.going && !excused && w.guaranteed(k) {
			w.failf("(4) %s and %s both run a tick", w.name(k), w.name(other))
		}
	}
}

// cancelRun ends a host's run when its lease has ended. After a leap of the clock that may take
// until ZooKeeper has answered, but no longer than a moment.
func (w *tiny) cancelRun(k int) {
	h := &w.hosts[k]
	over := !w.valid(k) && !h.asleep && !h.asking && w.set.breach != keepsRuns
	if h.run.going && (over || h.lease.token != h.run.token) {
		w.logf("%s cancels its run", w.name(k))
		h.run.going, h.run.stopped = false, true
	}
}

func (w *tiny) mayEndRun(k int) bool {
	h := &w.hosts[k]
	return (h.run.going || h.run.stopped) && h.up && h.linked && !h.hung
}

// endRun ends a host's run, and has it write the result.
func (w *tiny) endRun(k int) {
	h := &w.hosts[k]
	w.logf("the run of %s ends", w.name(k))
	w.send(k, claimTick{kind: ends, token: h.run.token, known: h.run.version})
	h.run.going, h.run.stopped = false, false
}

// claim applies a claim and checks the guarantees of claims.
func (w *tiny) claim(by Member, a claimTick, sent Instant) Event {
	done := claimDone{kind: a.kind, outcome: Done, token: a.token, sent: sent}
	if a.kind == reads {
		done.record = w.tick
		return done
	}
	w.zxid++
	b, beating := beatOf(w.rec, by.SID)
	guarded := a.kind != ends
	switch {
	case guarded && w.rec.Version != a.version && w.set.breach != claimsAnyVersion,
		guarded && !beating && w.set.breach != claimsWithoutBeat && w.set.breach != claimsAnyVersion,
		w.tick.version != a.known:
		done.outcome = Refused
		return done
	}
	if guarded && by != w.rec.Owner {
		w.failf("(2) %s claims tick %d, the record names %s", by.Incarnation, a.tick, w.rec.Owner.Incarnation)
	}
	if guarded && a.tick <= w.tick.claimed {
		w.failf("(2) %s claims tick %d, which was claimed before", by.Incarnation, a.tick)
	}
	tick := a.tick
	if !guarded {
		tick = w.tick.claimed
	}
	w.tick = tickNode{claimed: tick, version: w.tick.version + 1, open: a.kind == claims, token: a.token}
	done.record = w.tick
	if a.kind == claims && beating {
		if w.set.breach != claimsBesideBeat {
			b.Version, b.Mzxid = b.Version+1, w.zxid
			w.rec.Beats = with(w.rec.Beats, b)
		}
		done.beat, done.mzxid = b.Version, w.zxid
	}
	return done
}

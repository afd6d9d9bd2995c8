package lease_test

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// overdueLoop tells random instances that a run of a slot is overdue, rightly or not, until the end
// of the noise.
func (w *world) overdueLoop() {
	if w.quiet {
		return
	}
	w.after(w.upTo(2*w.overdueEvery), w.overdueLoop)
	slot := w.zk.names[w.rng.IntN(len(w.zk.names))]
	i := w.anyInstance()
	if i == nil || !w.zk.jobs[slot].now().Exists || w.zk.jobs[slot].open && !w.percent(20) {
		return
	}
	i.post(lease.Overdue{Slot: slot}, w.delay())
}

// relieve carries out a Take by rule (c), in the steps in which package owner does it.
func (i *instance) relieve(a lease.Take) {
	u := i.underway(a.Slot)
	if u.requests++; u.requests > 1 {
		i.w.failf(a.Slot, "(4) %s has %d requests under way", i.member.Incarnation, u.requests)
	}
	r := &relief{instance: i, take: a, job: i.w.zk.jobs[a.Slot], under: u}
	i.submit(&request{apply: r.prove, unknown: r.refuse})
}

// relief is a Take by rule (c).
type relief struct {
	*instance

	take    lease.Take
	job     *job
	under   *underway
	version int32 // of the tick record
}

// prove creates the node below the tick node.
func (r *relief) prove() func() {
	r.w.zk.zxid++
	r.session.floor = r.w.zk.zxid
	if !r.job.now().Exists {
		return r.refuse
	}
	if r.job.proofs[r.member.Incarnation] == nil {
		r.job.proofs[r.member.Incarnation] = r.session
	}
	return func() { r.submit(&request{apply: r.inspect, unknown: r.giveUp}) }
}

// inspect reads the records.
func (r *relief) inspect() func() {
	rec := r.job.now()
	proven := r.job.proofs[r.member.Incarnation] != nil
	alone := len(rec.Beats) == 1 && rec.Beats[0].SID == rec.Owner.SID
	if !rec.Exists || rec.Mzxid != r.take.Mzxid || !alone || !proven || r.job.open && r.w.mutant != relievesOpenRuns {
		return r.giveUp
	}
	r.version, r.take.Remove = r.job.tickVersion, rec.Beats
	return func() {
		sent := r.instant()
		unknown := lease.TakeDone{Slot: r.take.Slot, SentAt: sent}
		r.submit(&request{
			apply: func() func() {
				done := r.write()
				done.SentAt = sent
				r.session.floor = r.w.zk.zxid
				return func() { r.answer(done) }
			},
			unknown: func() { r.answer(unknown) },
		})
	}
}

// write is the transaction.
func (r *relief) write() lease.TakeDone {
	z := r.w.zk
	refused := lease.TakeDone{Slot: r.take.Slot, Outcome: lease.Refused}
	if r.job.proofs[r.member.Incarnation] == nil || r.job.tickVersion != r.version && r.w.mutant != relievesAnyTick {
		z.zxid++
		return refused
	}
	take := r.take
	switch r.w.mutant {
	case relievesBesideBeat:
		take.Remove = nil
	case relievesAnyTick:
		take.Remove = r.job.now().Beats // each claim raises the heartbeat: the check of that would do
	default:
	}
	outcome, rec := z.take(r.member, take)
	r.w.logf(take.Slot, "%s: owner relieved: %v, now %+v", r.member.Incarnation, outcome, rec)
	if outcome != lease.Done {
		return refused
	}
	delete(r.job.proofs, r.member.Incarnation)
	r.job.reliefs = append(r.job.reliefs, rec.Mzxid)
	r.w.relieved(take.Slot)
	return lease.TakeDone{Slot: take.Slot, Outcome: outcome, Version: rec.Version, Mzxid: rec.Mzxid}
}

// relieved counts takes by rule (c).
func (w *world) relieved(slot lease.Slot) {
	w.reliefs++
	for _, i := range w.insts {
		if i.valid(slot) {
			w.idle++
			return
		}
	}
}

func (r *relief) answer(done lease.TakeDone) {
	if done.Outcome != lease.Done {
		r.drop()
	}
	r.under.requests--
	r.step(r.timed(done))
}

func (r *relief) refuse() {
	r.under.requests--
	r.step(lease.TakeDone{Slot: r.take.Slot, Outcome: lease.Refused})
}

func (r *relief) giveUp() {
	r.drop()
	r.refuse()
}

// drop deletes the proof.
func (r *relief) drop() {
	r.submit(&request{
		apply: func() func() {
			r.w.zk.zxid++
			delete(r.job.proofs, r.member.Incarnation)
			return func() {}
		},
		unknown: func() {},
	})
}

// ack notes the last transaction that is known to have taken a slot, or renewed its lease.
func (i *instance) ack(ev lease.Event) {
	switch ev := ev.(type) {
	case lease.TakeDone:
		i.acked[ev.Slot] = max(i.acked[ev.Slot], ev.Mzxid)
	case lease.BeatDone:
		i.acked[ev.Slot] = max(i.acked[ev.Slot], ev.Mzxid)
		if ev.Outcome == lease.Unknown {
			i.underway(ev.Slot).unclear = true
		}
	case lease.Claimed:
		i.acked[ev.Slot] = max(i.acked[ev.Slot], ev.Mzxid)
	}
}

// forgetAnswers drops the answers of the session that is over: they tell nothing of the next one.
func (i *instance) forgetAnswers() {
	for _, u := range i.under {
		u.unclear = true
	}
}

// handling is a run of a handler, until its result is written.
type handling struct {
	token    int64
	version  int32 // of the tick record since it was claimed
	canceled bool  // its lease has ended
	ended    bool
}

// runsNow reports whether a handler of i runs.
func (i *instance) runsNow(slot lease.Slot) bool {
	r := i.runs[slot]
	return r != nil && !r.ended && !r.canceled && i.valid(slot) && i.leases[slot].token == r.token
}

// begin begins a run. In the noise its slot is busy meanwhile.
func (i *instance) begin(slot lease.Slot, r *handling) {
	w := i.w
	w.runs++
	i.runs[slot] = r
	w.checkRuns(i, slot)
	lasts := w.delay()
	if !w.quiet {
		i.setBusy(slot, true)
		lasts = w.upTo(2 * tickEvery)
	}
	w.after(lasts, func() { i.receive(func() { i.end(slot, r) }) })
}

// end ends a run and writes its result, until that is known to have been written, or to come too
// late.
func (i *instance) end(slot lease.Slot, r *handling) {
	if !r.ended && i.busy[slot] {
		i.setBusy(slot, false)
	}
	r.ended = true
	again := func() { i.w.after(sessionTimeout/4, func() { i.receive(func() { i.end(slot, r) }) }) }
	i.submit(&request{
		apply: func() func() {
			i.w.zk.finish(slot, r.token, r.version)
			return func() {
				delete(i.runs, slot)
				delete(i.ticks, slot)
			}
		},
		unknown: again,
	})
}

// noteRelief notes the fate of the owner that a Take names as relieved.
func (z *server) noteRelief(a lease.Take, owner lease.Member) {
	if a.Relieves != owner {
		z.w.failf(a.Slot, "(10) %s is named as relieved, the owner was %s", a.Relieves.Incarnation, owner.Incarnation)
	}
	z.relieved[owner]++
	for _, i := range z.w.insts {
		if i.member == owner {
			z.sessions[z.zxid] = i.session
		}
	}
}

// told is an instance's reading of a slot that was taken from one that lived.
type told struct {
	at    int64 // the transaction
	since time.Duration
	known bool // the round in which it was read has ended, at since on Mono
}

// tell notes that a reading has reached the machine.
func (i *instance) tell(ev lease.Event) {
	read, is := ev.(lease.SlotRead)
	if !is || read.Outcome != lease.Done || read.Record.Owner == i.member {
		return
	}
	if t := i.told[read.Slot]; t == nil || t.at != read.Record.Mzxid {
		i.told[read.Slot] = &told{at: read.Record.Mzxid}
	}
}

// decides notes that the machine decides by all that it was told.
func (i *instance) decides() {
	for _, t := range i.told {
		if !t.known {
			t.known, t.since = true, i.instant().Mono
		}
	}
}

// checkOffer checks property 10, as long as the record of the relief stands and the session in
// which that happened lives.
func (i *instance) checkOffer(a lease.Release) {
	z := i.w.zk
	for slot, t := range i.told {
		rec := z.jobs[slot].now()
		who := rec.Relieved
		of := z.sessions[rec.Mzxid]
		if a.Offer == "" || a.Offer != who.SID || rec.Mzxid != t.at || !t.known || z.taken[who] > t.at || z.peers()[a.Offer].Incarnation != who.Incarnation {
			continue
		}
		if since := i.instant().Mono - t.since; since < 8*i.w.sync && of != nil && of.alive {
			i.w.failf(slot, "(10) %s offers %s to %s, of which it knows for %v that it was relieved", i.member.Incarnation, a.Slot, who.Incarnation, since)
		}
	}
}

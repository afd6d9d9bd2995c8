package lease_test

import (
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// do carries out one action of the machine.
func (i *instance) do(a lease.Action) {
	if i.w.Recording() {
		i.w.logf(slotOf(a), "%s -> %T%+v", i.member.Incarnation, a, a)
	}
	switch a := a.(type) {
	case lease.ReadSlot:
		i.captured = i.w.zk.peers()
		i.request(a.Slot, func() lease.Event {
			if a.Sync {
				i.session.floor = i.w.zk.zxid
			}
			return lease.SlotRead{Slot: a.Slot, Outcome: lease.Done, Record: i.read(a.Slot)}
		}, lease.SlotRead{Slot: a.Slot})
	case lease.ReadLives:
		i.readLives(a)
	case lease.ReadGroup:
		i.decides()
		i.readGroup(a)
	case lease.Take:
		if a.Overdue {
			i.relieve(a)
			return
		}
		sent := i.instant()
		i.request(a.Slot, func() lease.Event {
			outcome, rec := i.w.zk.take(i.member, a)
			i.w.logf(a.Slot, "%s: take applied: %v, now %+v", i.member.Incarnation, outcome, rec)
			return lease.TakeDone{Slot: a.Slot, Outcome: outcome, Version: rec.Version, Mzxid: rec.Mzxid, SentAt: sent}
		}, lease.TakeDone{Slot: a.Slot, SentAt: sent})
	case lease.SendBeats:
		i.sendBeats(a)
	case lease.Release:
		i.checkOffer(a)
		i.request(a.Slot, func() lease.Event {
			outcome := i.w.zk.release(i.member.SID, a)
			i.w.logf(a.Slot, "%s: release applied: %v", i.member.Incarnation, outcome)
			return lease.ReleaseDone{Slot: a.Slot, Outcome: outcome}
		}, lease.ReleaseDone{Slot: a.Slot})
	case lease.Yield:
		i.request(a.Slot, func() lease.Event {
			i.w.zk.yield(a)
			return lease.YieldDone{Slot: a.Slot}
		}, lease.YieldDone{Slot: a.Slot})
	case lease.Gained:
		i.gained(a)
	case lease.Renewed:
		i.renewed(a)
	case lease.Lost:
		i.checkLoss(a)
		delete(i.leases, a.Slot)
		if i.busy[a.Slot] { // the run ends soon
			i.w.after(i.w.delay(), func() { i.setBusy(a.Slot, false) })
		}
	}
}

// request sends one request of a slot and counts it as in flight.
func (i *instance) request(slot lease.Slot, apply func() lease.Event, unknown lease.Event) {
	u := i.underway(slot)
	if u.requests++; u.requests > 1 {
		i.w.failf(slot, "(4) %s has %d requests under way", i.member.Incarnation, u.requests)
	}
	answer := func(ev lease.Event) func() {
		return func() { u.requests--; i.step(i.timed(ev)) }
	}
	i.submit(&request{
		apply: func() func() {
			ev := apply()
			if _, read := ev.(lease.SlotRead); !read {
				i.session.floor = i.w.zk.zxid
			}
			return answer(ev)
		},
		unknown: answer(unknown),
	})
}

func (i *instance) underway(slot lease.Slot) *underway {
	u := i.under[slot]
	if u == nil {
		u = &underway{}
		i.under[slot] = u
	}
	return u
}

// timed replaces SentAt by the time of the reply for the mutant that does so.
func (i *instance) timed(ev lease.Event) lease.Event {
	if i.w.mutant != countsFromReply {
		return ev
	}
	switch e := ev.(type) {
	case lease.TakeDone:
		e.SentAt = i.instant()
		return e
	case lease.BeatDone:
		e.SentAt = i.instant()
		return e
	case lease.Claimed:
		e.SentAt = i.instant()
		return e
	}
	return ev
}

// view returns the state seen by a read of this session: it may lag, but never goes
// back.
func (i *instance) view() int64 {
	view := i.w.zk.zxid
	if i.w.lag > 0 && !i.w.quiet {
		view = max(view-i.w.rng.Int64N(int64(i.w.lag)+1), i.session.floor)
	}
	i.session.floor = view
	return view
}

// read reads the alive node and then its children until both belong to the same
// record, according to the mzxid of the second reply.
func (i *instance) read(slot lease.Slot) lease.Record {
	j := i.w.zk.jobs[slot]
	for {
		rec := j.at(i.view())
		children := j.at(i.view())
		if rec.Mzxid == children.Mzxid {
			rec.Beats = i.w.aged(children.Beats)
			return rec
		}
	}
}

// aged makes each heartbeat look old for the mutant that does so.
func (w *world) aged(beats []lease.Beat) []lease.Beat {
	if w.mutant != readsBeatsAsOld {
		return beats
	}
	beats = slices.Clone(beats)
	for k := range beats {
		beats[k].Mzxid = 1
	}
	return beats
}

func (i *instance) readGroup(a lease.ReadGroup) {
	early := i.captured
	reply := func(ev lease.Event) func() { return func() { i.step(ev) } }
	i.submit(&request{
		apply: func() func() {
			peers := i.w.zk.peersAt(i.view())
			if i.w.mutant == staleGroup && early != nil {
				peers = early
			}
			return reply(lease.GroupRead{Asked: a.Asked, Outcome: lease.Done, Peers: peers})
		},
		unknown: reply(lease.GroupRead{Asked: a.Asked}),
	})
}

func (i *instance) readLives(a lease.ReadLives) {
	reply := func(ev lease.Event) func() { return func() { i.step(ev) } }
	i.submit(&request{
		apply: func() func() {
			view := i.view()
			lives := make(map[lease.Member]lease.Life)
			for _, who := range a.Who {
				lives[who] = i.w.zk.signAt(who, view)
				if i.w.mutant == readsBeatsAsOld {
					lives[who] = lease.Life{Exists: lives[who].Exists, Mzxid: 1}
				}
			}
			return reply(lease.LivesRead{Outcome: lease.Done, Lives: lives})
		},
		unknown: reply(lease.LivesRead{}),
	})
}

// sendBeats writes the sign of life, and sends the heartbeats, in requests that fail or succeed
// independently.
func (i *instance) sendBeats(a lease.SendBeats) {
	i.submit(&request{
		apply: func() func() {
			i.w.zk.sign(i.member, i.session)
			i.session.floor = i.w.zk.zxid
			return func() {}
		},
		unknown: func() {},
	})
	slots := slices.Sorted(maps.Keys(a.Beats))
	if len(slots) == 0 {
		return
	}
	size := 1 + i.w.rng.IntN(len(slots))
	for chunk := range slices.Chunk(slots, size) {
		i.sendChunk(chunk, a.Beats)
	}
}

func (i *instance) sendChunk(slots []lease.Slot, beats map[lease.Slot]int32) {
	sent := i.instant()
	counts := make([]*underway, len(slots))
	for k, slot := range slots {
		counts[k] = i.underway(slot)
		if counts[k].beats++; counts[k].beats > 1 {
			i.w.failf(slot, "(4) %s has two heartbeats under way", i.member.Incarnation)
		}
	}
	answer := func(replies []lease.BeatDone) func() {
		return func() {
			for k, ev := range replies {
				counts[k].beats--
				i.step(i.timed(ev))
			}
		}
	}
	unknown := make([]lease.BeatDone, len(slots))
	for k, slot := range slots {
		unknown[k] = lease.BeatDone{Slot: slot, SentAt: sent}
	}
	i.submit(&request{
		apply: func() func() {
			i.w.zk.zxid++
			replies := make([]lease.BeatDone, len(slots))
			for k, slot := range slots {
				outcome, version := i.w.zk.beat(i.member.SID, slot, beats[slot])
				replies[k] = lease.BeatDone{Slot: slot, Outcome: outcome, Version: version, Mzxid: i.w.zk.zxid, SentAt: sent}
			}
			i.session.floor = i.w.zk.zxid
			return answer(replies)
		},
		unknown: answer(unknown),
	})
}

// tickEvery is the schedule of every job.
const tickEvery = sessionTimeout / 2

// claimLoop claims due ticks of the slots that are held, whether the lease lasts or not.
func (i *instance) claimLoop() {
	if !i.up {
		return
	}
	i.w.after(tickEvery/4+i.w.upTo(tickEvery), i.claimLoop)
	if i.stalled {
		return // a claim begins with an event
	}
	for _, slot := range i.sortedLeases() {
		if i.leases[slot] != nil { // an event may have had another one lost
			i.claim(slot)
		}
	}
}

func (i *instance) claim(slot lease.Slot) {
	t := i.ticks[slot]
	if t == nil {
		t = &tickView{}
		i.ticks[slot] = t
	}
	if t.claiming || i.runs[slot] != nil {
		return
	}
	j := i.w.zk.jobs[slot]
	if !t.known {
		t.claiming = true
		i.submit(&request{
			apply: func() func() {
				last, version := j.tick, j.tickVersion
				return func() { *t = tickView{known: true, version: version, last: last} }
			},
			unknown: func() { t.claiming = false },
		})
		return
	}
	c := claim{slot: slot, member: i.member, token: i.leases[slot].token, version: i.leases[slot].version,
		tick: int64((i.w.time + i.w.upTo(tickEvery)) / tickEvery), tickVersion: t.version}
	if c.tick <= t.last {
		return
	}
	t.claiming = true
	i.sendClaim(c, t)
}

// sendClaim sends a claim, possibly some time after the machine is told of it.
func (i *instance) sendClaim(c claim, t *tickView) {
	u := i.underway(c.slot)
	if u.claims > 0 {
		t.claiming = false // one of an earlier ownership
		return
	}
	u.claims++
	if !i.w.quiet {
		i.setBusy(c.slot, true)
	}
	i.step(lease.Claiming{Slot: c.slot})
	i.w.after(i.w.delay()/2, func() {
		sent := i.instant()
		answer := func(ev lease.Claimed) func() {
			ev.Slot, ev.SentAt = c.slot, sent
			return func() {
				u.claims--
				i.step(i.timed(ev))
				i.claimed(c, t, ev.Outcome)
			}
		}
		i.submit(&request{
			apply: func() func() {
				ev := i.w.zk.claim(c)
				i.session.floor = i.w.zk.zxid
				return answer(ev)
			},
			unknown: answer(lease.Claimed{}),
		})
	})
}

// claimed handles the answer to a claim. The run begins if the lease is valid now.
func (i *instance) claimed(c claim, t *tickView, outcome lease.Outcome) {
	*t = tickView{known: outcome == lease.Done, version: c.tickVersion + 1, last: c.tick}
	if l := i.leases[c.slot]; outcome == lease.Done && i.valid(c.slot) && l.token == c.token {
		i.begin(c.slot, &handling{token: c.token, version: t.version})
	} else if i.busy[c.slot] && i.runs[c.slot] == nil {
		i.setBusy(c.slot, false)
	}
}

// valid reports whether the runner would start a run of slot now.
func (i *instance) valid(slot lease.Slot) bool {
	l := i.leases[slot]
	return l != nil && i.up && i.instant().Elapsed < l.until
}

// asking reports whether runs under a lease continue although it is over, because the machine has
// just woken up and asks ZooKeeper. Here it may do so until the lease is over by the monotonic
// clock, as requests are slow.
func (i *instance) asking(until time.Duration) bool {
	return until > i.leap.from && i.instant().Elapsed < i.leap.to+until-i.leap.from
}

func (i *instance) leaseUntil(until time.Duration) time.Duration {
	if i.w.mutant == longLeases {
		return until - lease.Length(i.timeout) + i.timeout*3/2
	}
	return until
}

func (i *instance) gained(a lease.Gained) {
	i.leases[a.Slot] = &ownLease{
		token: a.Token, version: a.Version, until: i.leaseUntil(a.Until), acked: i.acked[a.Slot], forced: i.forced,
	}
	delete(i.ticks, a.Slot)
	i.w.checkToken(i, a)
	i.w.checkExclusive(i, a.Slot)
}

func (i *instance) renewed(a lease.Renewed) {
	l := i.leases[a.Slot]
	if l == nil {
		i.w.failf(a.Slot, "%s: Renewed without Gained", i.member.Incarnation)
		return
	}
	if r := i.runs[a.Slot]; r != nil && !i.valid(a.Slot) {
		if r.canceled = r.canceled || !i.asking(l.until); !r.canceled {
			i.w.kept++
		}
	}
	l.until, l.acked, l.forced = max(l.until, i.leaseUntil(a.Until)), i.acked[a.Slot], i.forced
	i.w.checkExclusive(i, a.Slot)
}

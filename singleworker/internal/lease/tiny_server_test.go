package lease

import "slices"

// serve handles a broken connection as the server does.
func (w *tiny) serve(k int, kind int8) {
	h := &w.hosts[k]
	s := &h.session
	if kind == arriveOld || kind == expireOld {
		s = &h.before
	}
	if kind == expire || kind == expireOld {
		w.logf("the session of %s ends", incarnations[k][s.of])
		if w.nodes[k] == s.of {
			w.nodes[k] = 0
			w.groupChanged()
		}
		if w.proofs[k] == s.of {
			w.proofs[k] = 0
		}
		w.lives[k][s.of] = 0
		*s = session{}
		return
	}
	if kind == arriveLate && !h.noticed {
		at := slices.IndexFunc(h.out, func(r wire) bool { return r.fate == underway })
		h.out = slices.Clone(h.out)
		w.apply(k, w.member(k), h.out[at])
		h.out[at].fate = mute
		return
	}
	r := s.late[0]
	s.late = s.late[1:]
	w.apply(k, Member{sidOf(k), incarnations[k][s.of]}, r)
}

// apply carries out a request and returns the answer.
func (w *tiny) apply(k int, by Member, r wire) Event {
	ev := w.answer(k, by, r)
	if ev == nil {
		return nil
	}
	w.logf("%s: %v", by.Incarnation, say{ev})
	return ev
}

func (w *tiny) answer(k int, by Member, r wire) Event {
	switch a := r.ask.(type) {
	case ReadSlot:
		return SlotRead{Slot: theJob, Outcome: Done, Record: w.rec}
	case ReadGroup:
		peers := make(map[string]Peer)
		for other, node := range w.listed(k) {
			if node != 0 {
				peers[sidOf(other)] = Peer{
					Incarnation: incarnations[other][node], Closed: w.hosts[other].draining, Session: w.published(other),
				}
			}
		}
		return GroupRead{Asked: a.Asked, Outcome: Done, Peers: peers}
	case Take:
		if w.set.version > 0 && r.read < w.born {
			a.Version = -1
		}
		return w.take(by, a, r.sent)
	case SendBeats:
		w.zxid++
		w.lives[k][slices.Index(incarnations[k][:], by.Incarnation)] = w.zxid
		if len(a.Beats) == 0 {
			return nil // nobody waits for it
		}
		return w.beat(by, a, r.sent)
	case ReadLives:
		read := LivesRead{Outcome: Done, Lives: make(map[Member]Life)}
		for _, who := range a.Who {
			other := int(who.SID[0] - 'a')
			at := w.lives[other][slices.Index(incarnations[other][:], who.Incarnation)]
			read.Lives[who] = Life{Exists: at > 0, Mzxid: at}
		}
		return read
	case Release:
		return w.release(by, a)
	case Yield:
		w.zxid++
		if b, exists := beatOf(w.rec, a.Beat.SID); exists && b.Version == a.Beat.Version {
			w.rec.Beats = without(w.rec.Beats, a.Beat.SID)
			w.watch(Look{Slot: theJob})
		}
		return YieldDone{Slot: theJob}
	case claimTick:
		return w.claim(by, a, r.sent)
	}
	return w.prove(k, by, r)
}

// unknown is the answer to a request whose outcome is not known.
func (w *tiny) unknown(r wire) Event {
	switch a := r.ask.(type) {
	case ReadSlot:
		return SlotRead{Slot: theJob}
	case ReadGroup:
		return GroupRead{Asked: a.Asked}
	case Take:
		return TakeDone{Slot: theJob, SentAt: r.sent}
	case SendBeats:
		if len(a.Beats) == 0 {
			return nil
		}
		return BeatDone{Slot: theJob, SentAt: r.sent}
	case ReadLives:
		return LivesRead{}
	case Release:
		return ReleaseDone{Slot: theJob}
	case Yield:
		return YieldDone{Slot: theJob}
	case claimTick:
		return claimDone{kind: a.kind, token: a.token, sent: r.sent}
	case prove:
		return proved{take: a.take}
	case inspect:
		return inspected{take: a.take}
	case relieve:
		return relieved{TakeDone{Slot: theJob, SentAt: r.sent}}
	case dropProof:
		return dropped{}
	}
	panic("no such request")
}

// askedFor is a request that an event may answer, as far as unknown needs it; nil for other events.
func askedFor(ev Event) (r wire, answers bool) {
	switch ev := ev.(type) {
	case SlotRead:
		return wire{ask: ReadSlot{Slot: theJob}}, true
	case GroupRead:
		return wire{ask: ReadGroup{Asked: ev.Asked}}, true
	case TakeDone:
		return wire{ask: Take{Slot: theJob}, sent: ev.SentAt}, true
	case BeatDone:
		return wire{ask: SendBeats{Beats: map[Slot]int32{theJob: 0}}, sent: ev.SentAt}, true
	case LivesRead:
		return wire{ask: ReadLives{}}, true
	case ReleaseDone:
		return wire{ask: Release{Slot: theJob}}, true
	case YieldDone:
		return wire{ask: Yield{Slot: theJob}}, true
	case claimDone:
		return wire{ask: claimTick{kind: ev.kind, token: ev.token}, sent: ev.sent}, true
	case proved:
		return wire{ask: prove{ev.take}}, true
	case inspected:
		return wire{ask: inspect{ev.take}}, true
	case relieved:
		return wire{ask: relieve{}, sent: ev.done.SentAt}, true
	case dropped:
		return wire{ask: dropProof{}}, true
	}
	return wire{}, false
}

func beatOf(rec Record, sid string) (Beat, bool) {
	at := slices.IndexFunc(rec.Beats, func(b Beat) bool { return b.SID == sid })
	if at < 0 {
		return Beat{}, false
	}
	return rec.Beats[at], true
}

func without(beats []Beat, sid string) []Beat {
	return slices.DeleteFunc(slices.Clone(beats), func(b Beat) bool { return b.SID == sid })
}

func with(beats []Beat, beat Beat) []Beat {
	beats = append(without(beats, beat.SID), beat)
	slices.SortFunc(beats, func(a, b Beat) int { return int(a.SID[0]) - int(b.SID[0]) })
	return beats
}

// put changes the slot's nodes and tells those who watch them.
func (w *tiny) put(version int32, mzxid int64, owner Member, offer string, beats []Beat) {
	w.rec = Record{Exists: true, Version: version, Mzxid: mzxid, Owner: owner, Offer: offer, Beats: beats}
	w.watch(Look{Slot: theJob})
}

func (w *tiny) groupChanged() {
	w.zxid++
	w.watch(LookGroup{})
}

// watch tells all that are connected. One event that waits already is as good as two.
func (w *tiny) watch(ev Event) {
	for k := range w.set.hosts {
		h := &w.hosts[k]
		if h.up && h.linked && w.nodes[k] == h.incarnation && !(len(h.in) > 0 && h.in[len(h.in)-1] == ev) {
			h.in = append(slices.Clip(h.in), ev)
		}
	}
}

func (w *tiny) take(by Member, a Take, sent Instant) TakeDone {
	w.zxid++
	if w.rec.Version != a.Version && w.set.breach != takesAnyVersion {
		return TakeDone{Slot: theJob, Outcome: Refused, SentAt: sent}
	}
	beats := w.rec.Beats
	for _, b := range a.Remove {
		now, exists := beatOf(w.rec, b.SID)
		if (!exists || now.Version != b.Version) && w.set.breach != takesAnyBeat {
			return TakeDone{Slot: theJob, Outcome: Refused, SentAt: sent}
		}
		beats = without(beats, b.SID)
	}
	if len(without(beats, by.SID)) != len(beats) {
		return TakeDone{Slot: theJob, Outcome: Refused, SentAt: sent}
	}
	w.put(w.rec.Version+1, w.zxid, by, "", with(beats, Beat{SID: by.SID, Mzxid: w.zxid}))
	w.rec.Relieved = a.Relieves
	return TakeDone{Slot: theJob, Outcome: Done, Version: w.rec.Version, Mzxid: w.zxid, SentAt: sent}
}

func (w *tiny) beat(by Member, a SendBeats, sent Instant) Event {
	b, exists := beatOf(w.rec, by.SID)
	if !exists || b.Version != a.Beats[theJob] {
		return BeatDone{Slot: theJob, Outcome: Refused, SentAt: sent}
	}
	b.Version, b.Mzxid = b.Version+1, w.zxid
	w.rec.Beats = with(w.rec.Beats, b) // nobody watches the content
	return BeatDone{Slot: theJob, Outcome: Done, Version: b.Version, Mzxid: b.Mzxid, SentAt: sent}
}

func (w *tiny) release(by Member, a Release) Event {
	w.zxid++
	_, beating := beatOf(w.rec, by.SID)
	if w.rec.Version != a.Version && w.set.breach != releasesAnyVersion || a.Beat && !beating {
		return ReleaseDone{Slot: theJob, Outcome: Refused}
	}
	beats := w.rec.Beats
	if a.Beat {
		beats = without(beats, by.SID)
	}
	w.put(w.rec.Version+1, w.zxid, Member{}, a.Offer, beats)
	return ReleaseDone{Slot: theJob, Outcome: Done}
}

// mayComeLate reports whether a request can still change something after its connection is broken.
func (r wire) mayComeLate() bool {
	switch a := r.ask.(type) {
	case ReadSlot, ReadLives, ReadGroup, inspect:
		return false
	case claimTick:
		return r.fate == underway && a.kind != reads
	default:
		return r.fate == underway
	}
}

package lease

import "time"

// breach is a rule of the protocol that is left out, which the exploration must notice: a check in
// one of its transactions, one of its durations, or something that those who carry it out must
// observe.
type breach int

const (
	sound breach = iota

	takesAnyVersion
	takesAnyBeat
	releasesAnyVersion
	claimsAnyVersion
	claimsWithoutBeat
	claimsBesideBeat // a claim is taken for a heartbeat, and writes none

	relievesOpenRuns     // a take by rule (c) has no regard for an open run
	relievesAnyTick      // its transaction checks neither the tick record nor the heartbeat, which a claim writes, too
	relievesBesideBeat   // it leaves the owner's heartbeat
	relievesWithoutProof // it has no node below the tick node

	longLeases      // they last 1.25 sessions
	hastySilence    // an owner is silent when it is read
	rareBeats       // one heartbeat in a session
	noSilence       // an owner never is silent
	countsFromReply // a lease is counted from when the answer comes
	staleGroup      // the group is answered as it was when the slot was asked for
	knowsNoSessions // nobody knows the session timeouts of the others
	keepsRuns       // a run continues, whatever the clocks say, until ZooKeeper says that the slot was taken
)

// told is an event as the machine learns of it.
func (w *tiny) told(k int, ev Event) Event {
	switch ev := ev.(type) {
	case TakeDone:
		if w.set.breach == countsFromReply {
			ev.SentAt = w.instant(k)
		}
		return ev
	case BeatDone:
		if w.set.breach == countsFromReply {
			ev.SentAt = w.instant(k)
		}
		return ev
	case Claimed:
		if w.set.breach == countsFromReply {
			ev.SentAt = w.instant(k)
		}
		return ev
	}
	return ev
}

// twist breaks a rule inside of the machine, after a step.
func (w *tiny) twist(k int, ev Event) {
	m := w.hosts[k].machine
	s := m.slots[theJob]
	if s == nil {
		return
	}
	switch w.set.breach {
	case hastySilence, noSilence:
		if read, ok := ev.(SlotRead); ok && read.Outcome == Done {
			by := 2 * w.length(k)
			if w.set.breach == noSilence {
				by = -100 * w.length(k)
			}
			s.beatSince.at -= by
			for sid, since := range s.beatSince.more {
				s.beatSince.more[sid] = since - by
			}
			break
		}
		if read, ok := ev.(LivesRead); ok && read.Outcome == Done {
			by := 2 * w.length(k)
			if w.set.breach == noSilence {
				by = -100 * w.length(k)
			}
			for who, l := range m.peers.signs {
				shifted := *l
				shifted.since -= by
				m.peers.signs[who] = &shifted
			}
		}
	case rareBeats:
		if _, due := ev.(Tick); due {
			m.nextBeat = w.instant(k).Mono + m.peers.session
		}
	default:
	}
}

// leaseUntil is how long a host believes in a lease.
func (w *tiny) leaseUntil(k int, until time.Duration) time.Duration {
	if w.set.breach == longLeases {
		return until + w.length(k)/2
	}
	return until
}

// listed are the nodes that a reading of the group shows.
func (w *tiny) listed(k int) [3]int8 {
	if w.set.breach == staleGroup {
		return w.hosts[k].saw
	}
	return w.nodes
}

// published is the session timeout in a host's node.
func (w *tiny) published(k int) time.Duration {
	if w.set.breach == knowsNoSessions {
		return 0
	}
	return w.length(k)
}

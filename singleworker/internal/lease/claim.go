package lease

// claimSent notes that a claim is on its way: its heartbeat is written whatever the version. One
// that is sent before this instance's node exists renews nothing, for by rule (a) others may take
// the slot until then, however recent its heartbeat is.
func (m *Machine) claimSent(s *slot) {
	if s == nil || s.mine == nil {
		return
	}
	s.claiming, s.claimToken, s.claimEpoch = true, s.mine.token, m.epoch
	if !m.connected {
		s.claimEpoch = -1
	}
	s.crossed = s.beating
}

// claimDone renews the lease of a slot from before its claim was sent. That nobody had taken the
// slot by then is shown by the version of the owner record, which a claim checks.
func (m *Machine) claimDone(now Instant, ev Claimed) {
	s := m.slots[ev.Slot]
	if s == nil || !s.claiming {
		return
	}
	s.claiming = false
	m.forget(s)
	if s.mine == nil || s.mine.token != s.claimToken || ev.Outcome == Refused {
		return
	}
	if ev.Outcome == Unknown || s.claimEpoch != m.epoch {
		s.mine.beat, s.mine.doubtful = noBeat, true
		m.markDirty(s)
		return
	}
	m.peers.hear(now, ev.Mzxid)
	// No heartbeat was sent after the claim: its version is the one that the claim left, also if
	// servers have lost heartbeats, and it is less than before.
	s.mine.beat, s.mine.doubtful = ev.Version, false
	s.overtaken = s.beating
	m.extend(s, ev.SentAt)
}

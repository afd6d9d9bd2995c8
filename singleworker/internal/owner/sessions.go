package owner

// Sessions knows which ownerships were seen in the present session. A server to which a backup was
// put back can know an earlier ownership of this instance, even of an earlier job of that name,
// whose nodes have the same versions: a guard does not tell them apart.
type Sessions struct {
	owner *Owner
	epoch int // counts the sessions that have expired
}

// Confirm reports whether an owned slot's record was read in this session. If it was not, it is
// read, and Confirmed tells when it is this ownership's.
func (s *Sessions) Confirm(slot string) bool {
	own := s.owner.owned[slot]
	switch {
	case own == nil || own.epoch == s.epoch:
		return true
	case own.looked != s.epoch:
		own.looked = s.epoch
		s.owner.Look(slot)
	}
	return false
}

// read takes in a reading that was asked for in a session.
func (s *Sessions) read(r *reading, epoch int) {
	own := s.owner.owned[r.slot]
	if own != nil && r.err == nil && r.rec.Mzxid == own.Token && own.epoch != epoch && epoch == s.epoch {
		own.epoch = epoch
		s.owner.loop.Tell(Confirmed{r.slot})
	}
}

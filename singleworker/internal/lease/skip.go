package lease

import "time"

// skipPeriods is for how many sync periods an instance that ignored an offer, or claimed so late
// that it was relieved of a slot, gets no further offers. Otherwise an instance that hangs while
// its session is alive would be offered slots forever, each of which would be unowned for a sync
// period. If it has died, these are over when its session is, at the latest: see skipFor. Each
// instance decides this for itself and respects the offers of others. An instance that has to be
// relieved again soon after that time gets none for twice as long, up to maxSkip times: otherwise
// the jobs of one that is always late would go to and fro.
const (
	skipPeriods = 8
	maxSkip     = 4
)

// skipped is the period during which an instance is not offered slots. It is remembered for as long
// again.
type skipped struct {
	until time.Duration // Mono
	lasts time.Duration
	at    int64 // the transaction that shows that it is to be skipped: a slot that it takes later shows that it is back
}

// skipFor is how long an instance is skipped at first. A session lasts two server ticks or more and
// may end one tick late, so a dead instance's is over by then. One that outlasts skipPeriods
// would have it offered slots once more.
func (p *peers) skipFor(sid string) time.Duration {
	return max(skipPeriods*p.syncPeriod, p.silentAfter(sid))
}

// skip offers an instance nothing for a while.
func (p *peers) skip(now Instant, who Member, at int64, lasts time.Duration) {
	p.skipped[who] = skipped{now.Mono + lasts, lasts, max(at, p.skipped[who].at)}
}

// skipRelieved is skip for an owner that was relieved of a slot.
func (p *peers) skipRelieved(now Instant, who Member, at int64) {
	base := p.skipFor(who.SID)
	lasts := base
	if before, is := p.skipped[who]; is && !p.isForgotten(now, who) {
		if lasts = before.lasts; now.Mono >= before.until { // otherwise it is relieved of many slots at once
			lasts = min(2*lasts, maxSkip*base)
		}
	}
	p.skip(now, who, at, lasts)
}

// isForgotten reports whether it no longer matters that an instance was skipped.
func (p *peers) isForgotten(now Instant, who Member) bool {
	s := p.skipped[who]
	return p.present(who.SID) != who || now.Mono >= s.until+s.lasts
}

// skipsAny reports whether some live instance is offered nothing at present.
func (p *peers) skipsAny(now Instant) bool {
	for who := range p.skipped {
		if !p.mayOffer(now, who.SID) {
			return true
		}
	}
	return false
}

// mayOffer reports whether a live instance may be offered slots.
func (p *peers) mayOffer(now Instant, sid string) bool {
	return now.Mono >= p.skipped[p.present(sid)].until
}

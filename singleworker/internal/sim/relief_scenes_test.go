package sim

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// In these scenes b takes an idle job from a, which lives: see rule (c) in package lease.

// takes reports whether a transaction takes an idle job from a.
func takes(r *zkdev.Request) bool {
	proof := func(o zkdev.Request) bool { return o.Op == zkdev.OpDelete && strings.Contains(o.Path, "/tick/") }
	return slices.ContainsFunc(r.Ops, proof) && has(r, zkdev.OpSetData, "/alive")
}

// once delays the first transaction of an instance that is of interest. happened is closed when it
// has come.
func (s *scene) once(i *swtest.Instance, d time.Duration, is func(r *zkdev.Request) bool) (happened chan struct{}) {
	happened = make(chan struct{})
	var once sync.Once
	s.onMulti(i, func(r *zkdev.Request) (action zkdev.Action) {
		if is(r) {
			once.Do(func() {
				action = zkdev.Delay(d)
				close(happened)
			})
		}
		return action
	})
	return happened
}

// claimDuringRelief has a's claim, which is late, arrive between b's reading and b's transaction,
// which must be refused because of the tick record's version.
func claimDuringRelief(s *scene, b *breach) {
	s.relieve = true
	owner, taker := s.begin(&breach{}, b)
	const late = 400 * time.Millisecond
	claiming := s.once(owner, late, isClaim)
	taking := s.once(taker, late, takes)
	s.await(claiming)
	s.await(taking)
	time.Sleep(2 * session)
}

// claimAfterRelief has a's claim arrive when b has taken the job and run it: it must be refused
// because of the owner record's version, and of the tick record's.
func claimAfterRelief(s *scene, b *breach) {
	s.relieve = true
	owner, _ := s.begin(b, &breach{})
	s.await(s.once(owner, session/2, isClaim))
	time.Sleep(session / 4)
	if now := s.Owners()[job]; now != "b" {
		s.t.Errorf("%q owns the job, want b", now)
	}
	time.Sleep(2 * session)
}

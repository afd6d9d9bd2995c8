package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A server that the session moves to, or that was restarted with another configuration, may grant a
// shorter session timeout. Leases from before must not outlive it.
func TestSessionGrantedShorter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const long, short = 40 * time.Second, 4 * time.Second
		s := &scene{
			Cluster: swtest.New(t, swtest.Config{SessionTimeout: long, Server: zkdev.Config{MaxSession: long}}),
			t:       t, schedule: "*/3 * * * * ?",
		}
		a, _ := s.begin(&breach{}, &breach{})
		s.Server.SetMaxSession(short)
		if err := s.Server.Restart(zkdev.KeepSessions); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond) // both are back
		a.Partition()
		time.Sleep(2 * long)
		a.Heal()
		time.Sleep(session)
		rights := s.end().rights
		for i, r := range rights {
			for _, other := range rights[:i] {
				if r.Job == other.Job && r.From.Before(other.Until) {
					t.Errorf("%s owns from %s on, %s until %s", r.Instance.Name, clock(r.From), other.Instance.Name, clock(other.Until))
				}
			}
		}
		if len(rights) < 2 {
			t.Errorf("%d leases, want a takeover", len(rights))
		}
	})
}

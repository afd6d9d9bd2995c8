package lease_test

import (
	"fmt"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
)

// BenchmarkRound measures the decision of one round: an instance that knows 1,200 slots and 7
// others and has nothing to give away, so that it computes the moves of all others.
func BenchmarkRound(b *testing.B) {
	for _, bm := range []struct {
		name   string
		owners int // number of others that own the slots
	}{
		{"even", 0}, {"7 joined 1", 1}, {"1 joined 7", 7},
	} {
		for _, shards := range []int{0, 2, 10, 300} {
			b.Run(fmt.Sprintf("%s, %d shards", bm.name, shards), func(b *testing.B) {
				m, peers := newLoaded(shards, func(k int) string {
					if bm.owners == 0 {
						return fmt.Sprintf("i%d", k%8)
					}
					return fmt.Sprintf("i%d", k%bm.owners)
				})
				for b.Loop() {
					decide(m, peers)
				}
			})
		}
	}
}

// newLoaded returns the machine of instance i7, and its peers.
func newLoaded(shards int, owner func(k int) string) (*lease.Machine, map[string]lease.Peer) {
	peers := make(map[string]lease.Peer)
	var sids []string
	for k := range 8 {
		sids = append(sids, fmt.Sprintf("i%d", k))
		peers[sids[k]] = lease.Peer{Incarnation: sids[k] + "1"}
	}
	m := lease.New(lease.Config{Self: lease.Member{SID: "i7", Incarnation: "i71"}, SyncPeriod: sec(10)})
	for k := range 1200 {
		group := ""
		if shards > 0 {
			group = fmt.Sprintf("group%d", k/shards)
		}
		m.Step(instant(0, 0), lease.SlotSet{Slot: lease.Slot(fmt.Sprintf("job%d", k)), Eligible: true, Able: sids, Group: group})
	}
	m.Step(instant(0, 0), opened)
	for k := range 1200 {
		sid := owner(k)
		answer(m, peers, m.Step(instant(0, 0), lease.SlotRead{Slot: lease.Slot(fmt.Sprintf("job%d", k)), Outcome: lease.Done, Record: lease.Record{
			Exists: true, Version: 1, Mzxid: 1, Owner: lease.Member{SID: sid, Incarnation: sid + "1"}, Beats: []lease.Beat{{SID: sid, Mzxid: 1}},
		}}))
	}
	return m, peers
}

// decide makes m read the group and decide.
func decide(m *lease.Machine, peers map[string]lease.Peer) {
	answer(m, peers, m.Step(instant(0, 0), lease.LookGroup{}))
}

func answer(m *lease.Machine, peers map[string]lease.Peer, actions []lease.Action) {
	for _, a := range actions {
		if g, is := a.(lease.ReadGroup); is {
			m.Step(instant(0, 0), lease.GroupRead{Asked: g.Asked, Outcome: lease.Done, Peers: peers})
		}
	}
}

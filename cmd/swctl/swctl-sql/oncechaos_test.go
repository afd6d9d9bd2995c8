package main

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

var onceChaos = flag.Duration("once.chaos", 20*time.Second, "for how long servers and instances meet faults in TestKillsAmidFaultsOfServers")

// The three servers of a real ensemble die or hang, one or all of them, while instances meet their
// own faults.
func TestKillsAmidFaultsOfServers(t *testing.T) { //nolint:paralleltest // as TestKills
	ensemble := zkserver.StartEnsemble(t, 3)
	faults := 0
	orders := func(yield func(cell) bool) {
		start, next := time.Now(), time.Now()
		for time.Since(start) < *onceChaos {
			if time.Now().After(next) {
				harm(ensemble.Servers())
				faults++
				next = time.Now().Add(time.Duration(2+rand.N(10)) * time.Second)
			}
			if !yield(matrix()[rand.N(len(matrix()))]) {
				return
			}
		}
		ensemble.Await()
	}
	testKills(t, targets(t)["postgres"].open(t), ensemble.Addr(), orders)
	t.Logf("servers met %d faults", faults)
}

// harm has one server or all of them be away for a while.
func harm(servers []*zkserver.Server) {
	if rand.N(3) > 0 {
		one := rand.N(len(servers))
		servers = servers[one : one+1]
	}
	away, back := (*zkserver.Server).Kill, (*zkserver.Server).Begin
	if rand.N(2) == 0 {
		away, back = (*zkserver.Server).Suspend, (*zkserver.Server).Resume
	}
	for _, s := range servers {
		away(s)
	}
	<-time.After(time.Second + rand.N(3*time.Second))
	for _, s := range servers {
		back(s)
	}
}

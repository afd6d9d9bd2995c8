package deputy_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
)

// The jobs of a dead owner that nobody relieves are run late when its session is over. What a deputy sees of that does not
// make it patient.
func TestClaimsAfterASessionMakeNobodyPatient(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Grace = grace
		submit(g, 60, "0,12 * * * * ?")
		a, b, c := start(g, "a", nil), start(g, "b", nil), start(g, "c", nil)
		limit := func(on bool) {
			for _, i := range []*instance{b, c} {
				i.Lock()
				i.AtLimit = on
				i.Unlock()
			}
		}
		until(119 * time.Second)
		limit(true) // which relieves nobody
		a.die()
		until(131*time.Second + 500*time.Millisecond)
		limit(false)
		zxid, lost := g.Server.Zxid(), b.Slots()
		if n := len(lost) + len(c.Slots()); n != 60 {
			g.T.Fatalf("%d slots are owned by b or c, want 60", n)
		}
		b.die()
		until(134 * time.Second)
		wantTaken(g, takes(g, zxid), lost, 132*time.Second+grace)
	})
}

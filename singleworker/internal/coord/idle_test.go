package coord

import (
	"fmt"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// A sync costs little for jobs that need nothing, at their owner and at another instance: it looks
// at a twentieth of them, and at those that are read again.
func TestSyncLooksAtFewOfTheIdleJobs(t *testing.T) {
	inGroup(t, func(g *group) {
		const idle, syncs = 500, 60
		for k := range idle {
			g.SubmitSpec(fmt.Sprintf("job%03d", k), zkrec.Spec{Job: jobs.Job{Schedule: "@yearly"}, Since: 1})
		}
		a := g.join("a")
		roomtest.Pass(10 * roomtest.SyncPeriod)
		b := g.join("b")
		roomtest.Pass(60 * roomtest.SyncPeriod)
		looks := func(m *instance) int {
			made := make(chan int, 1)
			m.loop.Post(func() { made <- m.catalog.Agenda.Looks() + m.journal.Agenda.Looks() })
			return <-made
		}
		for _, m := range []*instance{a, b} {
			before := looks(m)
			roomtest.Pass(syncs * roomtest.SyncPeriod)
			owned := m.Health().Owned
			if made, most := looks(m)-before, syncs*(idle+owned)/6; owned == 0 || made > most {
				g.T.Errorf("%d looks in %d syncs at %d jobs, of which %d are owned; want at most %d", made, syncs, idle, owned, most)
			}
		}
	})
}

package journal_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
)

// A run that was due when the slot was gained makes the instance late once it has owned the slot for a grace.
func TestLate(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		const grace = 250 * time.Millisecond
		g.Submit("job")
		roomtest.Pass(90 * time.Second) // a tick is overdue
		a := start(g, "a")
		for len(a.Slots()) == 0 {
			roomtest.Pass(time.Millisecond)
		}
		wantLate := func(after time.Duration, want bool) {
			g.T.Helper()
			roomtest.Pass(time.Until(a.Ownership().Since.Add(after)))
			a.Do(func() {
				if got := a.Journal.Late(grace); got != want {
					g.T.Errorf("late %v, %v after the slot was gained, want %v", got, after, want)
				}
			})
		}
		wantLate(grace-time.Millisecond, false)
		wantLate(grace, true)
		o := a.Ownership()
		a.MustCommit(roomtest.Claim(o, *o.Record, "r1", roomtest.Midnight.Add(time.Minute).UnixMilli()))
		wantLate(2*grace, false)
	})
}

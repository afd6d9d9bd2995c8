package member_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// A member that must not own anything gives up its place in the election at once, and queues again
// when it may.
func TestClosedMemberLeavesTheElection(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		close, open func(g *roomtest.Group, a *roomtest.Rooms)
	}{
		"drained by its program": {
			close: func(_ *roomtest.Group, a *roomtest.Rooms) {
				a.Do(func() { a.Member.Drain(make(chan struct{})) })
			},
		},
		"leaving": {close: func(_ *roomtest.Group, a *roomtest.Rooms) { a.Do(a.Member.Leave) }},
		"ordered by an operator": {
			close: func(g *roomtest.Group, a *roomtest.Rooms) {
				g.Create(g.Tree.Order("a"), string(zkrec.Order{}.Encode()))
				follow(a)
			},
			open: func(g *roomtest.Group, a *roomtest.Rooms) {
				g.Remove(g.Tree.Order("a"))
				follow(a)
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := start(g, member.Config{ID: "a", Latch: true, Instance: zkrec.Instance{Mode: zkrec.ModeLatch}})
				follow(a)
				queued := func(want int, leads bool) {
					roomtest.Pass(time.Second)
					nodes, _, err := g.Editor.Children(g.T.Context(), g.Tree.Leader())
					if _, led := a.Member.Leads(); err != nil || len(nodes) != want || led != leads {
						g.T.Errorf("nodes %v, %v, leads: %v; want %d, and that it leads: %v", nodes, err, led, want, leads)
					}
				}
				queued(1, true)
				test.close(g, a)
				queued(0, false)
				if test.open != nil {
					test.open(g, a)
					queued(1, true)
				}
			})
		})
	}
}

// A leader whose connection is lost for a moment leads again, and still owns its slots.
func TestLeaderKeepsWhatItOwnsForAMoment(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := start(g, member.Config{ID: "a", Latch: true, Instance: zkrec.Instance{Mode: zkrec.ModeLatch}})
		follow(a)
		roomtest.Pass(time.Second)
		a.Told()
		a.Client.Disconnect()
		roomtest.Pass(time.Second)
		if told := roomtest.ToldA[member.Draining](a.Loop); len(told) > 0 {
			g.T.Errorf("told %v after a short interruption", told)
		}
	})
}

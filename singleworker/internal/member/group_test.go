package member_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// reads counts a client's reads.
func reads(g *roomtest.Group, client string) *int {
	n := new(int)
	for _, op := range []zkdev.Op{zkdev.OpGetData, zkdev.OpGetChildren, zkdev.OpGetChildren2, zkdev.OpExists, zkdev.OpMultiRead} {
		g.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
			if r.Client == client {
				*n++
			}
			return zkdev.Pass()
		})
	}
	return n
}

// peer creates the node of an instance.
func peer(g *roomtest.Group, sid, incarnation string) {
	g.T.Helper()
	g.Multi(zkconn.CreateEphemeralOp(g.Tree.Instance(sid), zkrec.Instance{Incarnation: incarnation, State: zkrec.InstanceActive}.Encode()))
}

// deafen keeps watches from telling anything to a member.
func deafen(r *roomtest.Rooms) {
	r.Do(func() {
		hear := r.OnEvent
		r.OnEvent = func(ev zkconn.Event) {
			if ev.Kind != zkconn.NodeChanged {
				hear(ev)
			}
		}
	})
}

// In rest, a reading of the group costs one request, however large the group is; changed nodes are
// read.
func TestReadingsCostWhatHasChanged(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		for _, sid := range []string{"x", "y", "z"} {
			peer(g, sid, sid+"-1")
		}
		a := start(g, member.Config{ID: "a"})
		follow(a)
		n := reads(g, "a")
		for what, step := range []struct {
			change func()
			want   int
		}{
			{func() {}, 1},
			{func() {
				g.Set(g.Tree.Instance("x"), zkrec.Instance{Incarnation: "x-1", State: zkrec.InstanceStopping}.Encode())
			}, 2},
			{func() {}, 1},
			{func() { g.Create(g.Tree.Order("y"), "") }, 3},
			{func() { g.Set(g.Tree.Order("y"), zkrec.Order{Incarnation: "y-0"}.Encode()) }, 3},
			{func() {}, 1},
		} {
			step.change()
			*n = 0
			read, _ := follow(a)
			if *n != step.want {
				g.T.Errorf("step %d: %d reads, want %d", what, *n, step.want)
			}
			closed := [2]bool{read.Peers["x"].Closed, read.Peers["y"].Closed}
			if want := [2]bool{what > 0, what == 3}; closed != want || len(read.Peers) != 4 {
				g.T.Errorf("step %d: closed %v, want %v; peers %v", what, closed, want, read.Peers)
			}
		}
	})
}

// A takeover rests on which incarnations live. That is known although no watch tells of one that
// went and came between two readings.
func TestIncarnationsAreKnownWithoutWatches(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		peer(g, "x", "x-1")
		a := start(g, member.Config{ID: "a"})
		follow(a)
		deafen(a)
		for _, incarnation := range []string{"x-2", "x-1"} {
			g.Remove(g.Tree.Instance("x"))
			peer(g, "x", incarnation)
			if read, _ := follow(a); read.Peers["x"].Incarnation != incarnation {
				g.T.Errorf("peers %v, want incarnation %s", read.Peers, incarnation)
			}
		}
		g.Remove(g.Tree.Instance("x"))
		if read, _ := follow(a); len(read.Peers) != 1 {
			g.T.Errorf("peers %v, want a alone", read.Peers)
		}
	})
}

// Everything is read again in another connection, after a reading that failed, and once in a while.
func TestGroupIsReadAgain(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		between func(g *roomtest.Group, a *roomtest.Rooms)
		again   bool
	}{
		"nothing happened": {func(*roomtest.Group, *roomtest.Rooms) {}, false},
		"reconnected": {func(_ *roomtest.Group, a *roomtest.Rooms) {
			a.Client.Partition()
			roomtest.Pass(3 * roomtest.SessionTimeout / 4)
			a.Client.Heal()
			roomtest.Pass(roomtest.SessionTimeout / 2)
		}, true},
		"not read": {func(g *roomtest.Group, a *roomtest.Rooms) {
			g.Server.Control(zkdev.OpGetChildren2, func(*zkdev.Request) zkdev.Action { return zkdev.Refuse(zkdev.NoAuth) })
			follow(a)
		}, true},
		"long ago": {func(*roomtest.Group, *roomtest.Rooms) { roomtest.Pass(100 * roomtest.SyncPeriod) }, true},
		"lately":   {func(*roomtest.Group, *roomtest.Rooms) { roomtest.Pass(10 * time.Second) }, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				peer(g, "x", "x-1")
				a := start(g, member.Config{ID: "a"})
				follow(a)
				deafen(a)
				g.Set(g.Tree.Instance("x"), zkrec.Instance{Incarnation: "x-1", State: zkrec.InstanceStopping}.Encode())
				test.between(g, a)
				if read, _ := follow(a); read.Peers["x"].Closed != test.again {
					g.T.Errorf("peers %v, read again: %v, want %v", read.Peers, read.Peers["x"].Closed, test.again)
				}
			})
		})
	}
}

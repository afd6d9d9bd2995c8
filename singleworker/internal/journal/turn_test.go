package journal_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// api is the limit of the jobs of these tests, which has one place.
var api = map[string]int{"api": 1}

// sharing is an instance that owns jobs which share the place.
func sharing(g *roomtest.Group, slots ...string) *roomtest.Rooms {
	g.T.Helper()
	g.Create(g.Tree.Limits(), "")
	g.Create(g.Tree.Limit("api"), string(zkrec.Limit{Max: 1}.Encode()))
	g.Create(g.Tree.HeldPlaces("api"), "")
	g.Create(g.Tree.Waiting("api"), "")
	for _, slot := range slots {
		g.SubmitSpec(slot, zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?", Limits: api}, Since: time.Now().UnixMilli()})
	}
	a := start(g, "a")
	for a.Ownership(); !slices.Equal(a.Slots(), slots); {
		roomtest.Pass(100 * time.Millisecond)
	}
	return a
}

// claimPlace claims a tick of a job, and the place.
func claimPlace(a *roomtest.Rooms, slot string, tick int64) (zkrec.Tick, error) {
	a.Lock()
	o := a.Owned[slot]
	a.Unlock()
	c := roomtest.Claim(o, *o.Record, slot, tick)
	c.Plan.Opens, c.Limits = true, api
	return roomtest.Written(a.Journal, c)
}

// A node that the instance has left in the line keeps the others waiting: it is deleted, although
// the first try is cut off.
func TestLeftNodeInLineIsDeleted(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := sharing(g, "job")
		left := g.Tree.Waiter("api", zkrec.Waiter{Due: 1, Need: 1, SID: "a"}.Name())
		g.Create(left, "")
		g.OnMulti(left, zkdev.CutBefore())
		if _, err := claimPlace(a, "job", 60); err != nil {
			t.Fatal(err)
		}
		roomtest.Pass(roomtest.SessionTimeout)
		g.WantNodes(false, left)
	})
}

// The servers lose that the instance has left the line: it leaves it again.
func TestLostLeaveIsMadeAgain(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a := sharing(g, "job", "second")
		claimed, err := claimPlace(a, "job", 60)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := claimPlace(a, "second", 61_000); !errors.Is(err, ticks.ErrLimited) {
			t.Fatalf("claim of the second job: %v, want ticks.ErrLimited", err)
		}
		roomtest.Pass(time.Second)
		inLine := g.Tree.Waiter("api", zkrec.Waiter{Due: 61, Need: 1, SID: "a"}.Name())
		g.WantNodes(true, inLine)
		before := g.Server.Snapshot()
		a.Journal.Places.LeaveLine("second")
		roomtest.Pass(time.Second)
		g.WantNodes(false, inLine)
		if err := g.Server.Restore(before); err != nil {
			t.Fatal(err)
		}
		roomtest.Pass(roomtest.SessionTimeout)
		g.WantNodes(false, inLine)
		a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
	})
}

// Three jobs share one place. The first has it, and the second waits before the third. When the
// second gets its turn and does not use it, the third gets it: at once if it is told, else in a
// second.
func TestTurnThatIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				a := sharing(g, "job", "second", "third")
				claim := func(slot string, tick int64) (zkrec.Tick, error) { return claimPlace(a, slot, tick) }
				claimed, err := claim("job", 60)
				if err != nil {
					t.Fatal(err)
				}
				waits := func(slot string, tick int64) {
					t.Helper()
					if _, err := claim(slot, tick); !errors.Is(err, ticks.ErrLimited) {
						t.Fatalf("claim of the %s job: %v, want ticks.ErrLimited", slot, err)
					}
				}
				waits("second", 61_000)
				waits("third", 62_000)
				a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
				roomtest.Pass(100 * time.Millisecond)
				waits("third", 62_000)
				wait := 2 * time.Second
				if told {
					a.Journal.Places.LeaveLine("second")
					wait = 100 * time.Millisecond
				}
				roomtest.Pass(wait)
				a.Lock()
				called := slices.Clone(a.Rooms)
				a.Unlock()
				if want := []string{"second", "third"}; !slices.Equal(called, want) {
					t.Errorf("turns of %v, want %v", called, want)
				}
				if _, err := claim("third", 62_000); err != nil {
					t.Errorf("the third job's claim: %v", err)
				}
			})
		})
	}
}

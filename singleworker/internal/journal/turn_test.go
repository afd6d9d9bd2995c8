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
)

// Three jobs share one place. The first has it, and the second waits before the third. When the
// second gets its turn and does not use it, the third gets it: at once if it is told, else in a
// second.
func TestTurnThatIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				needs := map[string]int{"api": 1}
				for _, path := range []string{g.Tree.Limits(), g.Tree.Limit("api"), g.Tree.HeldPlaces("api"), g.Tree.Waiting("api")} {
					data := ""
					if path == g.Tree.Limit("api") {
						data = string(zkrec.Limit{Max: 1}.Encode())
					}
					g.Create(path, data)
				}
				slots := []string{"job", "second", "third"}
				for _, slot := range slots {
					g.SubmitSpec(slot, zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?", Limits: needs}, Since: time.Now().UnixMilli()})
				}
				a := start(g, "a")
				for a.Ownership(); !slices.Equal(a.Slots(), slots); {
					roomtest.Pass(100 * time.Millisecond)
				}
				claim := func(slot string, tick int64) (zkrec.Tick, error) {
					a.Runner.Lock()
					o := a.Owned[slot]
					a.Runner.Unlock()
					c := roomtest.Claim(o, *o.Record, slot, tick)
					c.Plan.Opens, c.Limits = true, needs
					return roomtest.Written(a.Journal, c)
				}
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
					a.Journal.LeaveLine("second")
					wait = 100 * time.Millisecond
				}
				roomtest.Pass(wait)
				a.Runner.Lock()
				called := slices.Clone(a.Rooms)
				a.Runner.Unlock()
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

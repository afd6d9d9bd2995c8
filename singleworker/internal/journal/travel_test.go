package journal_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Claims that are due together are one transaction, which checks the spec of a job once and writes
// no history. So are their results.
func TestShardsTravelTogether(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.SubmitSharded(3)
		a := start(g, "a")
		roomtest.Pass(10 * time.Second)
		if slots := a.Slots(); len(slots) != 3 {
			g.T.Fatalf("owns %q, want three shards", slots)
		}
		var sent []string
		g.Server.ControlKeep(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			var ops []string
			for _, op := range r.Ops {
				path := strings.TrimPrefix(op.Path, g.Tree.Job("job"))
				if op.Op == zkdev.OpCheck {
					path = "check " + path
				}
				ops = append(ops, strings.ReplaceAll(path, "/shards/", ""))
			}
			if all := strings.Join(ops, ", "); strings.Contains(all, "tick") { // not a heartbeat
				sent = append(sent, all)
			}
			return zkdev.Pass()
		})
		written := func(commits []*ticks.Commit) (records []zkrec.Tick) {
			a.Do(func() {
				a.Journal.Commit(commits, func(i int, current *zkrec.Tick, err error) {
					if err != nil {
						g.T.Errorf("%s: %v", commits[i].Slot, err)
						return
					}
					records = append(records, *current)
				})
			})
			return records
		}
		var claims, results []*ticks.Commit
		for _, slot := range a.Slots() {
			o := a.Owned[slot]
			claim := roomtest.Claim(o, *o.Record, slot, 60)
			claims = append(claims, &claim)
		}
		for i, record := range written(claims) {
			result := roomtest.Outcome(record, history.StateOK)
			result.Slot = claims[i].Slot
			results = append(results, &result)
		}
		written(results)
		want := []string{
			"check 0/alive, 0/alive/a, check , check /register, check /group/_freeze, 0/tick, check 1/alive, 1/alive/a, 1/tick, check 2/alive, 2/alive/a, 2/tick",
			"check 0/alive, check 0/alive/a, 0/tick, 0/history, check 1/alive, check 1/alive/a, 1/tick, 1/history, " +
				"check 2/alive, check 2/alive/a, 2/tick, 2/history",
		}
		if !slices.Equal(sent, want) {
			g.T.Errorf("sent\n  %s\nwant\n  %s", strings.Join(sent, "\n  "), strings.Join(want, "\n  "))
		}
	})
}

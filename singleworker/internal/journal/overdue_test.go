package journal_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// A run that was due when the slot was gained makes the instance late once it has owned the slot
// for a grace.
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

// A record that cannot be read shows no claims: it makes nobody late, and ends no instance.
func TestLateWithoutARecord(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.Submit("other")
		g.Set(g.Tree.Tick("job"), []byte("garbage"))
		a := start(g, "a")
		late := func() (is bool) {
			a.Do(func() { is = a.Journal.Late(time.Second) })
			return is
		}
		roomtest.Pass(50 * time.Second)
		if a.Owner.Owned("job") == nil || late() {
			g.T.Errorf("a owns %q, and is late before the tick", a.Slots())
		}
		roomtest.Pass(15 * time.Second)
		if !late() {
			g.T.Error("a run of the other job is unclaimed")
		}
		o := a.Owned["other"]
		a.MustCommit(roomtest.Claim(o, *o.Record, "r1", roomtest.Midnight.Add(time.Minute).UnixMilli()))
		if late() {
			g.T.Error("late because of a record that cannot be read")
		}
	})
}

// A claim tells how late the group is, without the delay of an earlier owner or of another run.
func TestClaimedTellsHowLate(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		record := *o.Record
		for what, step := range []struct {
			tick, claimed time.Duration // after midnight
			want          []journal.Claimed
		}{
			{60 * time.Second, 72 * time.Second, nil}, // its owner may have died
			{120 * time.Second, 120*time.Second + 300*time.Millisecond, []journal.Claimed{{Late: 300 * time.Millisecond}}},
			{180 * time.Second, 190 * time.Second, []journal.Claimed{{Late: 10 * time.Second}}},
			{185 * time.Second, 191 * time.Second, nil}, // the run before had not begun
			{240 * time.Second, 240 * time.Second, []journal.Claimed{{}}},
		} {
			roomtest.Pass(time.Until(roomtest.Midnight.Add(step.claimed)))
			a.Told()
			claim := roomtest.Claim(o, record, fmt.Sprint("r", what), roomtest.Midnight.Add(step.tick).UnixMilli())
			claim.Plan.Record.Started = time.Now().UnixMilli()
			record = a.MustCommit(claim)
			roomtest.Pass(0)
			if told := roomtest.ToldA[journal.Claimed](a.Loop); !slices.Equal(told, step.want) {
				g.T.Errorf("the tick %v is claimed at %v: told %v, want %v", step.tick, step.claimed, told, step.want)
			}
			record = a.MustCommit(roomtest.Outcome(record, history.StateOK))
		}
	})
}

// By its own clock, an owner knows since when a shard may begin a tick: since it has seen that the
// first one did, whatever ZooKeeper's clock says, and also when the first one has ended.
func TestShardMayBeginSinceTheFirstWasSeen(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Server.SetClock(20 * time.Second)
		g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?", Shards: 2, BeforeTick: "prepare"}, Since: roomtest.Midnight.UnixMilli()})
		a := start(g, "a")
		roomtest.Pass(time.Minute)
		first, second := a.Owned["job[0]"], a.Owned["job[1]"]
		if first.Job == nil || second.Job == nil {
			g.T.Fatalf("a owns %q", a.Slots())
		}
		wantSince := func(what string, want time.Time) {
			g.T.Helper()
			roomtest.Pass(time.Second)
			a.Lock()
			known := a.Owned["job[1]"].Gate
			a.Unlock()
			since := ticks.Unclaimed(second.Job.Of("job[1]", known), *second.Record, nil, time.Now())
			if since.Sub(want).Abs() > 100*time.Millisecond {
				g.T.Errorf("%s, the second shard may begin since %v, want %v", what, since, want)
			}
		}
		claimed := a.MustCommit(roomtest.Claim(first, *first.Record, "r1", roomtest.Midnight.Add(time.Minute).UnixMilli()))
		wantSince("while the first one prepares", time.Time{})
		roomtest.Pass(30 * time.Second)
		began := time.Now()
		passed := a.MustCommit(ticks.Commit{Slot: "job[0]", From: claimed, Plan: ticks.Pass(claimed, began)})
		wantSince("when it has begun", began)
		roomtest.Pass(30 * time.Second)
		ended := roomtest.Outcome(passed, history.StateOK)
		ended.Slot = "job[0]"
		a.MustCommit(ended)
		wantSince("when it has ended", began)
	})
}

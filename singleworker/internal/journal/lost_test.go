package journal_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
)

// wantKept expects that the runner has heard of no slot that was lost.
func wantKept(t *testing.T, a *roomtest.Rooms) {
	t.Helper()
	a.Lock()
	defer a.Unlock()
	if len(a.Disowned) > 0 {
		t.Errorf("the slot was lost: %v", a.Disowned)
	}
}

// The servers lose the result of a run that they had acknowledged. Its owner writes it again, with
// the removal of its request, and the runner hears nothing.
func TestLostResultIsWrittenAgain(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, o := asked(g)
		claimed := a.MustCommit(manualClaim(o, *o.Record, "r1"))
		before := g.Server.Snapshot()
		result := roomtest.Outcome(claimed, history.StateOK)
		result.Plan.Request = "q1"
		ended := a.MustCommit(result)
		if err := g.Server.Restore(before); err != nil {
			t.Fatal(err)
		}
		roomtest.Pass(roomtest.SessionTimeout)
		g.WantRecords(ended, "r1 ok")
		wantRequests(g)
		wantKept(t, a)
	})
}

// A connection breaks, and a claim waits for the next one. The record that is read again has it,
// and the runner knows that.
func TestReconnectTellsTheRunnerNothing(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		ended := a.MustCommit(roomtest.Outcome(a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60)), history.StateOK))
		a.Client.Partition()
		roomtest.Pass(time.Millisecond)
		answer := make(chan error, 1)
		go func() {
			_, err := roomtest.Written(a.Journal, roomtest.Claim(o, ended, "r2", 120))
			answer <- err
		}()
		roomtest.Pass(time.Millisecond)
		a.Client.Heal()
		if err := <-answer; err != nil {
			t.Errorf("the claim: %v", err)
		}
		roomtest.Pass(roomtest.SyncPeriod)
		wantKept(t, a)
	})
}

// They lose a run with its claim: its owner begins again at the record and the request that are
// there.
func TestLostRunIsForgotten(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		a, o := asked(g)
		before := g.Server.Snapshot()
		result := roomtest.Outcome(a.MustCommit(manualClaim(o, *o.Record, "r1")), history.StateOK)
		result.Plan.Request = "q1"
		a.MustCommit(result)
		if err := g.Server.Restore(before); err != nil {
			t.Fatal(err)
		}
		roomtest.Pass(roomtest.SessionTimeout)
		if again := a.Ownership(); !slices.Equal(a.Requests(), []string{"q1"}) || again.Record.RunID != "" {
			t.Errorf("the runner knows requests %q, and run %q", a.Requests(), again.Record.RunID)
		}
	})
}

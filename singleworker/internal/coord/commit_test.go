package coord

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func TestClaimAndResultAreWritten(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		g.wantRecords(claimed)
		ended := a.mustCommit(outcome(claimed, zkrec.RunOK))
		g.wantRecords(ended, "r1 ok")
	})
}

// The change is applied once, whether the request or its reply was lost.
func TestReplyIsLost(t *testing.T) {
	t.Parallel()
	for what, action := range map[string]zkdev.Action{
		"before it is applied": zkdev.CutBefore(),
		"after it is applied":  zkdev.CutAfter(),
	} {
		t.Run(what, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.submit("job")
				a := g.join("a")
				o := a.ownership()
				g.onMulti("/tick", action)
				claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
				g.onMulti("/tick", action)
				ended := a.mustCommit(outcome(claimed, zkrec.RunOK))
				g.wantRecords(ended, "r1 ok")
				if _, stat, _ := g.get(g.tree.Tick("job")); stat.Version != 2 {
					g.t.Errorf("the tick node was written %d times, want 2", stat.Version)
				}
			})
		})
	}
}

func TestCommitBasedOnAnOldRecord(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		theirs := zkrec.Tick{Watermark: 99}.Normal()
		g.set(g.tree.Tick("job"), theirs.Encode())
		current, err := a.Commit(claim(o, o.Record, "r1", 60))
		if !errors.Is(err, ticks.ErrConflict) || current != theirs {
			g.t.Errorf("Commit = %+v, %v; want ticks.ErrConflict and what is there", current, err)
		}
		g.wantRecords(theirs)
		g.wantRecords(a.mustCommit(claim(o, current, "r2", 120)))
	})
}

func TestCommitByAnInstanceThatIsNotTheOwner(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		old := claim(o, o.Record, "r1", 60)
		old.Token--
		if _, err := a.Commit(old); !errors.Is(err, owner.ErrNotOwner) {
			g.t.Errorf("under an old token: %v", err)
		}
		// Someone takes the job away manually; it makes no difference whether the instance knows already.
		g.set(g.tree.Alive("job"), zkrec.Owner{SID: "x", Incarnation: "x-1"}.Encode())
		if _, err := a.Commit(claim(o, o.Record, "r1", 60)); !errors.Is(err, owner.ErrNotOwner) {
			g.t.Errorf("after the job was taken: %v", err)
		}
		g.wantRecords(zkrec.Tick{Schema: zkrec.Schema})
	})
}

// The guards refuse a commit even if the instance does not know yet: its watch is delayed here.
func TestCommitByAFormerOwnerThatDoesNotKnow(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		// Deleted and submitted again, with an owner record of the same version.
		ops := g.cancel()
		for _, node := range g.tree.NewJob("job", zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?"}, Since: 1}) {
			ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
		}
		ops = append(ops, zkconn.SetOp(g.tree.Alive("job"), zkrec.Owner{SID: "x", Incarnation: "x-1"}.Encode(), zkconn.AnyVersion))
		a.client.Partition()
		g.multi(ops...)
		answer := make(chan error, 1)
		go func() {
			_, err := a.Commit(claim(o, o.Record, "r1", 60))
			answer <- err
		}()
		pass(time.Millisecond)
		a.client.Heal()
		if err := <-answer; !errors.Is(err, owner.ErrNotOwner) {
			g.t.Errorf("Commit = %v, want owner.ErrNotOwner", err)
		}
		g.wantRecords(zkrec.Tick{Schema: zkrec.Schema})
	})
}

// ZooKeeper is unreachable: an owner's commit is refused when its lease has lapsed, while the result of a
// run waits.
func TestLeaseLapsesWhileZooKeeperIsUnreachable(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		g.server.Stop()
		start := time.Now()
		next := claimed
		next.Watermark = 120
		if _, err := a.Commit(commit(o, claimed, next)); !errors.Is(err, leases.ErrLost) {
			g.t.Errorf("Commit by the owner = %v, want that its lease is lost", err)
		}
		if took := time.Since(start); took > sessionTimeout+syncPeriod {
			g.t.Errorf("refused after %v", took)
		}
		answer := make(chan error, 1)
		ended := outcome(claimed, zkrec.RunOK)
		go func() {
			_, err := a.Commit(ended)
			answer <- err
		}()
		pass(time.Minute)
		select {
		case err := <-answer:
			g.t.Errorf("result: %v, want it to wait", err)
		default:
		}
		if err := g.server.Restart(zkdev.DropSessions); err != nil {
			g.t.Fatal(err)
		}
		if err := <-answer; err != nil {
			g.t.Errorf("result: %v", err)
		}
		g.wantRecords(ended.Plan.Record, "r1 ok")
	})
}

func TestResultAfterTheSessionHasExpired(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		for _, s := range g.server.Sessions() {
			if s.Client == "a" {
				if err := g.server.ExpireSession(s.ID); err != nil {
					g.t.Fatal(err)
				}
			}
		}
		g.wantRecords(a.mustCommit(outcome(claimed, zkrec.RunFailed)), "r1 failed")
	})
}

// Another instance has taken the job over and recorded the run as lost: the result conflicts, and amends the
// history as long as the run is in it.
func TestLateResultAmendsTheHistory(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		a.client.Partition()
		b := g.join("b")
		taken := b.ownership()
		if taken.Record != claimed {
			g.t.Fatalf("adopted with %+v, want %+v", taken.Record, claimed)
		}
		givenUp := outcome(claimed, zkrec.RunInterrupted)
		again := claim(taken, claimed, "r2", 60)
		again.Plan.Entries = givenUp.Plan.Entries
		current := b.mustCommit(again)
		a.client.Heal()
		late := outcome(claimed, zkrec.RunOK)
		if got, err := a.Commit(late); !errors.Is(err, ticks.ErrConflict) || got != current {
			g.t.Errorf("Commit = %+v, %v; want ticks.ErrConflict and %+v", got, err, current)
		}
		if err := a.Amend("job", late.Plan.Entries[0]); err != nil {
			g.t.Errorf("Amend = %v", err)
		}
		g.wantRecords(current, "r1 ok")
		b.mustCommit(outcome(current, zkrec.RunOK)) // based on the amended history
		g.wantRecords(outcome(current, zkrec.RunOK).Plan.Record, "r1 ok", "r2 ok")
		if err := a.Amend("job", zkrec.Entry{Run: zkrec.Run{RunID: "r0"}}); !errors.Is(err, ticks.ErrSuperseded) {
			g.t.Errorf("Amend of a run that is not in the history = %v, want ticks.ErrSuperseded", err)
		}
	})
}

// The job was deleted and resubmitted during its run, and the new job's records have
// been changed as often as the old one's.
func TestResultOfADeletedJobDoesNotReachTheNewOne(t *testing.T) {
	t.Parallel()
	for what, unaware := range map[string]bool{"the instance knows": false, "the instance does not know yet": true} {
		t.Run(what, func(t *testing.T) {
			inGroup(t, func(g *group) {
				g.submit("job")
				a := g.join("a")
				o := a.ownership()
				claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
				if unaware {
					a.client.Partition()
				}
				g.multi(g.cancel()...)
				pass(time.Second)
				g.submit("job")
				fresh := zkrec.Tick{Watermark: 120, Run: zkrec.Run{
					Tick: 120, RunID: "new", SID: "b", Token: 99, Attempt: 1, State: zkrec.RunRunning,
				}}
				g.set(g.tree.Tick("job"), fresh.Encode())
				answer := make(chan error, 1)
				go func() {
					_, err := a.Commit(outcome(claimed, zkrec.RunOK))
					answer <- err
				}()
				pass(time.Second) // the request is in flight
				a.client.Heal()
				if err := <-answer; !errors.Is(err, ticks.ErrConflict) {
					g.t.Errorf("Commit = %v, want ticks.ErrConflict", err)
				}
				g.wantRecords(fresh)
				pass(sessionTimeout)
				if o := a.ownership(); o.Record != fresh.Normal() {
					g.t.Errorf("the new job is adopted with %+v, want %+v", o.Record, fresh)
				}
			})
		})
	}
}

func TestResultOfACanceledJob(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		g.multi(g.cancel()...)
		if _, err := a.Commit(outcome(claimed, zkrec.RunOK)); !errors.Is(err, owner.ErrCanceled) {
			g.t.Errorf("Commit = %v, want owner.ErrCanceled", err)
		}
	})
}

func TestCommitWhenTheCoordinatorEnds(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		a.client.Partition()
		answer := make(chan error, 1)
		go func() {
			_, err := a.Commit(outcome(claimed, zkrec.RunOK))
			answer <- err
		}()
		pass(time.Second)
		a.stop()
		if err := <-answer; !errors.Is(err, session.ErrEnded) {
			g.t.Errorf("Commit = %v, want session.ErrEnded", err)
		}
	})
}

// A job is not handed back while its run has no result.
func TestDrainWaitsForTheResult(t *testing.T) {
	inGroup(t, func(g *group) {
		g.submit("job")
		a := g.join("a")
		o := a.ownership()
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		a.Leave()
		pass(time.Minute)
		select {
		case err := <-a.ended:
			g.t.Fatalf("Run = %v before the result", err)
		default:
		}
		ended := a.mustCommit(outcome(claimed, zkrec.RunInterrupted))
		if err := <-a.ended; err != nil {
			g.t.Errorf("Run = %v", err)
		}
		g.wantRecords(ended, "r1 interrupted")
		if data, _, _ := g.get(g.tree.Alive("job")); strings.Contains(string(data), "a-1") {
			g.t.Errorf("the owner record is %q, want none", data)
		}
	})
}

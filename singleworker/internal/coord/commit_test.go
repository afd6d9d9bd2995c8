package coord

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/grant"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func TestClaimAndResultAreWritten(t *testing.T) {
	inGroup(t, func(_ *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		g.wantRecords("job", claimed)
		ended := a.mustCommit(outcome("job", claimed, zkrec.RunOK))
		g.wantRecords("job", ended, "r1 ok")
	})
}

// Whatever the connection did to the request and its answer, the change is made once.
func TestReplyIsLost(t *testing.T) {
	t.Parallel()
	for what, action := range map[string]zkdev.Action{
		"before it is applied": zkdev.CutBefore(),
		"after it is applied":  zkdev.CutAfter(),
	} {
		t.Run(what, func(t *testing.T) {
			inGroup(t, func(t *testing.T, g *group) {
				g.submit("job")
				a := g.join("a", nil)
				o := a.ownership("job")
				g.onMulti("/tick", action)
				claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
				g.onMulti("/tick", action)
				ended := a.mustCommit(outcome("job", claimed, zkrec.RunOK))
				g.wantRecords("job", ended, "r1 ok")
				if _, stat, _ := g.get(g.tree.Tick("job")); stat.Version != 2 {
					t.Errorf("the tick node was written %d times, want 2", stat.Version)
				}
			})
		})
	}
}

func TestRecordIsNotWhatTheCommitRestsOn(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		theirs := zkrec.Tick{Through: 99}.Normal()
		g.set(g.tree.Tick("job"), theirs.Encode())
		current, err := a.Commit(claim(o, o.Record, "r1", 60))
		if !errors.Is(err, ErrConflict) || current != theirs {
			t.Errorf("Commit = %+v, %v; want ErrConflict and what is there", current, err)
		}
		g.wantRecords("job", theirs)
		g.wantRecords("job", a.mustCommit(claim(o, current, "r2", 120)))
	})
}

func TestCommitByAnotherThanTheOwner(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		old := claim(o, o.Record, "r1", 60)
		old.Token--
		if _, err := a.Commit(old); !errors.Is(err, ErrNotOwner) {
			t.Errorf("under an old token: %v", err)
		}
		// A hand takes the job away; whether the instance knows already makes no difference.
		g.set(g.tree.Alive("job"), zkrec.Owner{SID: "x", Incarnation: "x-1"}.Encode())
		if _, err := a.Commit(claim(o, o.Record, "r1", 60)); !errors.Is(err, ErrNotOwner) {
			t.Errorf("after the job was taken: %v", err)
		}
		g.wantRecords("job", zkrec.Tick{Schema: zkrec.Schema})
	})
}

// The guards refuse what the instance does not know yet: the watch is held back here.
func TestCommitByAnOwnerThatDoesNotKnowItsEnd(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		// Deleted and submitted again, with an owner record of the same version.
		ops := g.cancel("job")
		for _, node := range g.tree.NewJob("job", zkrec.Spec{Schedule: "0 * * * * ?", Since: 1}) {
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
		if err := <-answer; !errors.Is(err, ErrNotOwner) {
			t.Errorf("Commit = %v, want ErrNotOwner", err)
		}
		g.wantRecords("job", zkrec.Tick{Schema: zkrec.Schema})
	})
}

// ZooKeeper is away: a change by the owner is refused when its lease has lapsed, the result of a
// run waits.
func TestLeaseLapsesWhileZooKeeperIsAway(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		g.server.Stop()
		start := time.Now()
		next := claimed
		next.Through = 120
		if _, err := a.Commit(Commit{Job: "job", Token: o.Grant.Token, From: claimed, To: next}); !errors.Is(err, grant.ErrLost) {
			t.Errorf("Commit by the owner = %v, want that its lease is lost", err)
		}
		if took := time.Since(start); took > sessionTimeout+syncPeriod {
			t.Errorf("refused after %v", took)
		}
		answer := make(chan error, 1)
		ended := outcome("job", claimed, zkrec.RunOK)
		go func() {
			_, err := a.Commit(ended)
			answer <- err
		}()
		pass(time.Minute)
		select {
		case err := <-answer:
			t.Errorf("result: %v, want it to wait", err)
		default:
		}
		if err := g.server.Restart(zkdev.DropSessions); err != nil {
			t.Fatal(err)
		}
		if err := <-answer; err != nil {
			t.Errorf("result: %v", err)
		}
		g.wantRecords("job", ended.To, "r1 ok")
	})
}

func TestResultAfterTheSessionHasExpired(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		for _, s := range g.server.Sessions() {
			if s.Client == "a" {
				if err := g.server.ExpireSession(s.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		g.wantRecords("job", a.mustCommit(outcome("job", claimed, zkrec.RunFailed)), "r1 failed")
	})
}

// Another has taken the job over and given the run up: the result conflicts, and amends the history
// as long as the run is in it.
func TestLateResultAmendsTheHistory(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		a.client.Partition()
		b := g.join("b", nil)
		taken := b.ownership("job")
		if taken.Record != claimed {
			t.Fatalf("adopted with %+v, want %+v", taken.Record, claimed)
		}
		givenUp := outcome("job", claimed, zkrec.RunInterrupted)
		again := claim(taken, claimed, "r2", 60)
		again.Entries = givenUp.Entries
		current := b.mustCommit(again)
		a.client.Heal()
		late := outcome("job", claimed, zkrec.RunOK)
		if got, err := a.Commit(late); !errors.Is(err, ErrConflict) || got != current {
			t.Errorf("Commit = %+v, %v; want ErrConflict and %+v", got, err, current)
		}
		if err := a.Amend("job", late.Entries[0]); err != nil {
			t.Errorf("Amend = %v", err)
		}
		g.wantRecords("job", current, "r1 ok")
		b.mustCommit(outcome("job", current, zkrec.RunOK)) // which finds the history as amended
		g.wantRecords("job", outcome("job", current, zkrec.RunOK).To, "r1 ok", "r2 ok")
		if err := a.Amend("job", zkrec.Entry{Run: zkrec.Run{RunID: "r0"}}); !errors.Is(err, ErrSuperseded) {
			t.Errorf("Amend of a run that is not in the history = %v, want ErrSuperseded", err)
		}
	})
}

// The job was deleted and submitted again while its run went on, and the new job's records have
// been changed as often as the old one's.
func TestResultOfADeletedJobIsNotTheNewOnes(t *testing.T) {
	t.Parallel()
	for what, unaware := range map[string]bool{"the instance knows": false, "the instance does not know yet": true} {
		t.Run(what, func(t *testing.T) {
			inGroup(t, func(t *testing.T, g *group) {
				g.submit("job")
				a := g.join("a", nil)
				o := a.ownership("job")
				claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
				if unaware {
					a.client.Partition()
				}
				g.multi(g.cancel("job")...)
				pass(time.Second)
				g.submit("job")
				fresh := zkrec.Tick{Through: 120, Run: zkrec.Run{
					Tick: 120, RunID: "new", SID: "b", Token: 99, Attempt: 1, State: zkrec.RunRunning,
				}}
				g.set(g.tree.Tick("job"), fresh.Encode())
				answer := make(chan error, 1)
				go func() {
					_, err := a.Commit(outcome("job", claimed, zkrec.RunOK))
					answer <- err
				}()
				pass(time.Second) // the request is on its way
				a.client.Heal()
				if err := <-answer; !errors.Is(err, ErrConflict) {
					t.Errorf("Commit = %v, want ErrConflict", err)
				}
				g.wantRecords("job", fresh)
				pass(sessionTimeout)
				if o := a.ownership("job"); o.Record != fresh.Normal() {
					t.Errorf("the new job is adopted with %+v, want %+v", o.Record, fresh)
				}
			})
		})
	}
}

func TestResultOfACancelledJob(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		g.multi(g.cancel("job")...)
		if _, err := a.Commit(outcome("job", claimed, zkrec.RunOK)); !errors.Is(err, ErrCanceled) {
			t.Errorf("Commit = %v, want ErrCanceled", err)
		}
	})
}

func TestCommitWhenTheCoordinatorEnds(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		a.client.Partition()
		answer := make(chan error, 1)
		go func() {
			_, err := a.Commit(outcome("job", claimed, zkrec.RunOK))
			answer <- err
		}()
		pass(time.Second)
		a.stop()
		if err := <-answer; !errors.Is(err, ErrEnded) {
			t.Errorf("Commit = %v, want ErrEnded", err)
		}
	})
}

// A job is not handed back while its run has no result.
func TestDrainWaitsForTheResult(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.submit("job")
		a := g.join("a", nil)
		o := a.ownership("job")
		claimed := a.mustCommit(claim(o, o.Record, "r1", 60))
		a.Drain()
		pass(time.Minute)
		select {
		case err := <-a.ended:
			t.Fatalf("Run = %v before the result", err)
		default:
		}
		ended := a.mustCommit(outcome("job", claimed, zkrec.RunInterrupted))
		if err := <-a.ended; err != nil {
			t.Errorf("Run = %v", err)
		}
		g.wantRecords("job", ended, "r1 interrupted")
		if data, _, _ := g.get(g.tree.Alive("job")); strings.Contains(string(data), "a-1") {
			t.Errorf("the owner record is %q, want nobody", data)
		}
	})
}

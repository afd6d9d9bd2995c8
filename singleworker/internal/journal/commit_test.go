package journal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/owner"
	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func TestClaimAndResultAreWritten(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		g.WantRecords(claimed)
		ended := a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
		g.WantRecords(ended, "r1 ok")
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
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				a := start(g, "a")
				o := a.Ownership()
				g.OnMulti("/tick", action)
				claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
				g.OnMulti("/tick", action)
				ended := a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
				g.WantRecords(ended, "r1 ok")
				if _, stat, _ := g.Get(g.Tree.Tick("job")); stat.Version != 2 {
					g.T.Errorf("the tick node was written %d times, want 2", stat.Version)
				}
			})
		})
	}
}

func TestCommitBasedOnAnOldRecord(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		theirs := zkrec.Tick{Watermark: 99}.Normal()
		g.Set(g.Tree.Tick("job"), theirs.Encode())
		current, err := roomtest.Written(a.Journal, roomtest.Claim(o, *o.Record, "r1", 60))
		if !errors.Is(err, ticks.ErrConflict) || current != theirs {
			g.T.Errorf("Commit = %+v, %v; want ticks.ErrConflict and what is there", current, err)
		}
		g.WantRecords(theirs)
		g.WantRecords(a.MustCommit(roomtest.Claim(o, current, "r2", 120)))
	})
}

// A result that was based on an old record leaves its run open: the slot is not handed over before
// that has a result.
func TestResultBasedOnAnOldRecordLeavesTheRunOpen(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		next := claimed
		next.Watermark = 120 // a tick is skipped
		current := a.MustCommit(roomtest.Commit(o, claimed, next))
		if _, err := roomtest.Written(a.Journal, roomtest.Outcome(claimed, history.StateOK)); !errors.Is(err, ticks.ErrConflict) {
			g.T.Errorf("Commit = %v, want ticks.ErrConflict", err)
		}
		a.Do(a.Member.Leave)
		roomtest.Pass(time.Second)
		if a.Owner.Owned("job") == nil {
			g.T.Error("handed over while the run is open")
		}
		a.MustCommit(roomtest.Outcome(current, history.StateOK))
		roomtest.Pass(time.Second)
		if a.Owner.Owned("job") != nil {
			g.T.Error("not handed over when the run has ended")
		}
	})
}

func TestCommitByAnInstanceThatIsNotTheOwner(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		old := roomtest.Claim(o, *o.Record, "r1", 60)
		old.Token--
		if _, err := roomtest.Written(a.Journal, old); !errors.Is(err, owner.ErrNotOwner) {
			g.T.Errorf("under an old token: %v", err)
		}
		// Someone takes the job away manually; it makes no difference whether the instance knows already.
		g.Set(g.Tree.Alive("job"), zkrec.Owner{SID: "x", Incarnation: "x-1"}.Encode())
		if _, err := roomtest.Written(a.Journal, roomtest.Claim(o, *o.Record, "r1", 60)); !errors.Is(err, owner.ErrNotOwner) {
			g.T.Errorf("after the job was taken: %v", err)
		}
		g.WantRecords(zkrec.Tick{Schema: zkrec.Schema})
	})
}

// The guards refuse a commit even if the instance does not know yet: its watch is delayed here.
func TestCommitByAFormerOwnerThatDoesNotKnow(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		// Deleted and submitted again, with an owner record of the same version.
		spec := zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?"}, Since: 1}
		ops := append(g.Cancel(), session.CreateOps(g.Tree.NewJob("job", spec))...)
		ops = append(ops, zkconn.SetOp(g.Tree.Alive("job"), zkrec.Owner{SID: "x", Incarnation: "x-1"}.Encode(), zkconn.AnyVersion))
		a.Client.Partition()
		g.Multi(ops...)
		answer := make(chan error, 1)
		go func() {
			_, err := roomtest.Written(a.Journal, roomtest.Claim(o, *o.Record, "r1", 60))
			answer <- err
		}()
		roomtest.Pass(time.Millisecond)
		a.Client.Heal()
		if err := <-answer; !errors.Is(err, owner.ErrNotOwner) {
			g.T.Errorf("Commit = %v, want owner.ErrNotOwner", err)
		}
		g.WantRecords(zkrec.Tick{Schema: zkrec.Schema})
	})
}

// ZooKeeper is unreachable: an owner's commit is refused when its lease has lapsed, while the
// result of a run waits.
func TestLeaseLapsesWhileZooKeeperIsUnreachable(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		g.Server.Stop()
		start := time.Now()
		next := claimed
		next.Watermark = 120
		if _, err := roomtest.Written(a.Journal, roomtest.Commit(o, claimed, next)); !errors.Is(err, leases.ErrLost) {
			g.T.Errorf("Commit by the owner = %v, want that its lease is lost", err)
		}
		if took := time.Since(start); took > roomtest.SessionTimeout+roomtest.SyncPeriod {
			g.T.Errorf("refused after %v", took)
		}
		answer := make(chan error, 1)
		ended := roomtest.Outcome(claimed, history.StateOK)
		go func() {
			_, err := roomtest.Written(a.Journal, ended)
			answer <- err
		}()
		roomtest.Pass(time.Minute)
		select {
		case err := <-answer:
			g.T.Errorf("result: %v, want it to wait", err)
		default:
		}
		if err := g.Server.Restart(zkdev.DropSessions); err != nil {
			g.T.Fatal(err)
		}
		if err := <-answer; err != nil {
			g.T.Errorf("result: %v", err)
		}
		g.WantRecords(ended.Plan.Record, "r1 ok")
	})
}

func TestResultAfterTheSessionHasExpired(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		for _, s := range g.Server.Sessions() {
			if s.Client == "a" {
				if err := g.Server.ExpireSession(s.ID); err != nil {
					g.T.Fatal(err)
				}
			}
		}
		g.WantRecords(a.MustCommit(roomtest.Outcome(claimed, history.StateFailed)), "r1 failed")
	})
}

// Another instance has taken the job over and recorded the run as lost: the result conflicts, and
// amends the history as long as the run is in it. Records that were read under one ownership are
// read again under the next: another owner may have changed them, although a run of ours is still
// open.
func TestRecordsAreReadAgainUnderTheNextOwnership(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		theirs := zkrec.Tick{Watermark: 120, Run: zkrec.Run{Tick: 120, RunID: "r2", SID: "b", State: history.StateOK}}.Normal()
		g.Multi( // b has died since
			zkconn.SetOp(g.Tree.Alive("job"), zkrec.Owner{SID: "b", Incarnation: "b-1"}.Encode(), zkconn.AnyVersion),
			zkconn.SetOp(g.Tree.Tick("job"), theirs.Encode(), zkconn.AnyVersion),
		)
		roomtest.Pass(2 * roomtest.SyncPeriod)
		if again := a.Ownership(); again.Lease == o.Lease || !again.Record.Same(theirs) {
			g.T.Errorf("adopted again with %+v, want %+v", *again.Record, theirs)
		}
	})
}

func TestLateResultAmendsTheHistory(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		a.Client.Partition()
		b := start(g, "b")
		taken := b.Ownership()
		if !taken.Record.Same(claimed) {
			g.T.Fatalf("adopted with %+v, want %+v", *taken.Record, claimed)
		}
		givenUp := roomtest.Outcome(claimed, history.StateInterrupted)
		again := roomtest.Claim(taken, claimed, "r2", 60)
		again.Plan.Entries = givenUp.Plan.Entries
		current := b.MustCommit(again)
		a.Client.Heal()
		late := roomtest.Outcome(claimed, history.StateOK)
		if got, err := roomtest.Written(a.Journal, late); !errors.Is(err, ticks.ErrConflict) || !got.Same(current) {
			g.T.Errorf("Commit = %+v, %v; want ticks.ErrConflict and %+v", got, err, current)
		}
		_, before, _ := g.Get(g.Tree.Tick("job"))
		if err := amended(a.Journal, "job", late.Plan.Entries[0]); err != nil {
			g.T.Errorf("Amend = %v", err)
		}
		g.WantRecords(current, "r1 ok")
		_, amendedAt, _ := g.Get(g.Tree.Tick("job"))
		if amendedAt.Version != before.Version+1 {
			g.T.Error("who follows the tick record does not hear of the result")
		}
		if err := amended(a.Journal, "job", late.Plan.Entries[0]); err != nil {
			g.T.Errorf("Amend of what was amended = %v", err)
		}
		if _, stat, _ := g.Get(g.Tree.Tick("job")); stat.Version != amendedAt.Version {
			g.T.Error("what the history says already is written again, as something new")
		}
		b.MustCommit(roomtest.Outcome(current, history.StateOK)) // based on the amended history
		g.WantRecords(roomtest.Outcome(current, history.StateOK).Plan.Record, "r1 ok", "r2 ok")
		if err := amended(a.Journal, "job", zkrec.Entry{Run: zkrec.Run{RunID: "r0"}}); !errors.Is(err, ticks.ErrSuperseded) {
			g.T.Errorf("Amend of a run that is not in the history = %v, want ticks.ErrSuperseded", err)
		}
	})
}

// The job was deleted and resubmitted during its run, and the new job's records have
// been changed as often as the old one's.
func TestResultOfADeletedJobDoesNotReachTheNewOne(t *testing.T) {
	t.Parallel()
	for what, unaware := range map[string]bool{"the instance knows": false, "the instance does not know yet": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				a := start(g, "a")
				o := a.Ownership()
				claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
				if unaware {
					a.Client.Partition()
				}
				g.Multi(g.Cancel()...)
				roomtest.Pass(time.Second)
				g.Submit("job")
				fresh := zkrec.Tick{Watermark: 120, Run: zkrec.Run{
					Tick: 120, RunID: "new", SID: "b", Token: 99, Attempt: 1, State: history.StateRunning,
				}}
				g.Set(g.Tree.Tick("job"), fresh.Encode())
				answer := make(chan error, 1)
				go func() {
					_, err := roomtest.Written(a.Journal, roomtest.Outcome(claimed, history.StateOK))
					answer <- err
				}()
				roomtest.Pass(time.Second) // the request is in flight
				a.Client.Heal()
				if err := <-answer; !errors.Is(err, ticks.ErrConflict) {
					g.T.Errorf("Commit = %v, want ticks.ErrConflict", err)
				}
				g.WantRecords(fresh)
				roomtest.Pass(roomtest.SessionTimeout)
				if o := a.Ownership(); !o.Record.Same(fresh.Normal()) {
					g.T.Errorf("the new job is adopted with %+v, want %+v", *o.Record, fresh)
				}
			})
		})
	}
}

// A result, or an amendment, is in flight without its run's ownership while the job is deleted and
// resubmitted, and the new job's records have been changed as often as the old one's.
func TestLateWriteDoesNotReachTheNewJob(t *testing.T) {
	t.Parallel()
	const inFlight = 2 * time.Second
	for what, test := range map[string]struct {
		node  string
		write func(j *journal.Journal, late ticks.Commit) error
		want  error
	}{
		"result": {"/tick", func(j *journal.Journal, late ticks.Commit) error {
			_, err := roomtest.Written(j, late)
			return err
		}, ticks.ErrConflict},
		"amendment": {"/history", func(j *journal.Journal, late ticks.Commit) error {
			late.Plan.Entries[0].Error = "amended"
			return amended(j, late.Slot, late.Plan.Entries[0])
		}, ticks.ErrSuperseded},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				a := start(g, "a")
				o := a.Ownership()
				claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
				late := roomtest.Outcome(claimed, history.StateFailed)
				if test.want == ticks.ErrSuperseded { //nolint:errorlint // the table's
					a.MustCommit(late)
				}
				_, tick, _ := g.Get(g.Tree.Tick("job"))
				_, past, _ := g.Get(g.Tree.History("job"))
				g.Multi(
					zkconn.CreateEphemeralOp(g.Tree.Instance("b"), zkrec.Instance{Incarnation: "b-1"}.Encode()), // or a takes it back
					zkconn.SetOp(g.Tree.Alive("job"), zkrec.Owner{SID: "b", Incarnation: "b-1"}.Encode(), zkconn.AnyVersion),
				)
				roomtest.Pass(time.Second)
				g.OnMulti(test.node, zkdev.Delay(inFlight))
				answer := make(chan error, 1)
				go func() { answer <- test.write(a.Journal, late) }()
				roomtest.Pass(inFlight / 2)
				g.Multi(g.Cancel()...)
				g.Submit("job")
				fresh := zkrec.Tick{Watermark: 120, Run: zkrec.Run{
					Tick: 120, RunID: "new", SID: "b", Token: 99, Attempt: 1, State: history.StateRunning,
				}}
				for range tick.Version {
					g.Set(g.Tree.Tick("job"), fresh.Encode())
				}
				for range past.Version {
					g.Set(g.Tree.History("job"), nil)
				}
				if err := <-answer; !errors.Is(err, test.want) {
					g.T.Errorf("%v, want %v", err, test.want)
				}
				g.WantRecords(fresh)
				roomtest.Pass(time.Second)
				g.WantNodes(false, g.Tree.Late("job", "r1"))
			})
		})
	}
}

func TestResultOfACanceledJob(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		g.Multi(g.Cancel()...)
		if _, err := roomtest.Written(a.Journal, roomtest.Outcome(claimed, history.StateOK)); !errors.Is(err, owner.ErrCanceled) {
			g.T.Errorf("Commit = %v, want owner.ErrCanceled", err)
		}
	})
}

// amended amends the history and waits for the answer.
func amended(j *journal.Journal, slot string, e zkrec.Entry) error {
	answers := make(chan error, 1)
	j.Amend(slot, e, func(err error) { answers <- err })
	return <-answers
}

func TestCommitWhenTheCoordinatorEnds(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		a.Client.Partition()
		answer := make(chan error, 1)
		go func() {
			_, err := roomtest.Written(a.Journal, roomtest.Outcome(claimed, history.StateOK))
			answer <- err
		}()
		roomtest.Pass(time.Second)
		a.Stop()
		if err := <-answer; !errors.Is(err, session.ErrEnded) {
			g.T.Errorf("Commit = %v, want session.ErrEnded", err)
		}
		if _, err := roomtest.Written(a.Journal, roomtest.Outcome(claimed, history.StateOK)); !errors.Is(err, session.ErrEnded) {
			g.T.Errorf("Commit after the end = %v, want session.ErrEnded", err)
		}
		if err := amended(a.Journal, "job", zkrec.Entry{Run: claimed.Run}); !errors.Is(err, session.ErrEnded) {
			g.T.Errorf("Amend after the end = %v, want session.ErrEnded", err)
		}
	})
}

// A decision under an old spec is refused; a result is not.
func TestClaimsRequireTheSpecVersion(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		g.Pause(zkrec.Pause{Since: 1})
		done := a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
		if _, err := roomtest.Written(a.Journal, roomtest.Claim(o, done, "r2", 120)); !errors.Is(err, ticks.ErrSpecChanged) {
			g.T.Errorf("a claim under the former spec = %v, want ticks.ErrSpecChanged", err)
		}
		roomtest.Pass(time.Second)
		now := a.Ownership()
		if now.Job.Version == o.Job.Version || now.Spec.Switch.Paused == nil {
			g.T.Errorf("reported %+v, want the new spec", now)
		}
		if _, err := roomtest.Written(a.Journal, roomtest.Claim(o, done, "r2", 120)); !errors.Is(err, ticks.ErrSpecChanged) {
			g.T.Errorf("the same a second later = %v, want ticks.ErrSpecChanged", err)
		}
		a.MustCommit(roomtest.Claim(now, done, "r3", 180))
	})
}

// A decision from before the group was frozen is refused, before its owner has heard of that.
func TestClaimsRequireTheFreeze(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		a := start(g, "a")
		o := a.Ownership()
		claimed := a.MustCommit(roomtest.Claim(o, *o.Record, "r1", 60))
		g.Set(g.Tree.Freeze(), zkrec.Freeze{Spans: []zkrec.Span{{Pause: zkrec.Pause{Since: 1}}}}.Encode())
		done := a.MustCommit(roomtest.Outcome(claimed, history.StateOK))
		if _, err := roomtest.Written(a.Journal, roomtest.Claim(o, done, "r2", 120)); !errors.Is(err, ticks.ErrSpecChanged) {
			g.T.Errorf("a claim by what was known before the freeze = %v, want ticks.ErrSpecChanged", err)
		}
		roomtest.Pass(time.Second)
		if now := a.Ownership(); len(now.Job.Frozen) != 1 || now.Job.Version == o.Job.Version {
			g.T.Errorf("reported %+v, want the freeze", now.Job)
		}
	})
}

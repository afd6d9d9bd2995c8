package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

func TestSubmittedJobRunsOnOneOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.start(steady())
	c.start(steady())
	submitted := time.Now()
	every := job.Job{Name: "job", Schedule: everySecond, Handler: work, Misfire: job.MisfireAll} // also those that come late on a busy machine
	if result := c.submitJob(every, admin.SubmitOptions{}); result.Outcome != admin.OutcomeCreated {
		t.Errorf("outcome %q, want %q", result.Outcome, admin.OutcomeCreated)
	}
	first := c.awaitRun("job", submitted, ended)
	t.Logf("submitted to first run: %v (the job ticks once a second)", first.At.Sub(submitted).Round(time.Millisecond))

	c.eventually("last run recorded", func() error {
		status := c.get("job")
		switch last := status.LastRun; {
		case status.State != admin.StateOwned || status.Owner == nil:
			return fmt.Errorf("state %s, owner %v", status.State, status.Owner)
		case status.Owner.InstanceID != first.SID || status.Owner.Token != first.Token:
			return fmt.Errorf("owner %v, the run had %v", status.Owner, first)
		case last == nil || last.State != "ok" || last.InstanceID != first.SID || last.Token != first.Token:
			return fmt.Errorf("last run %+v", last)
		case strings.Join(status.Registered, " ") != "a b":
			return fmt.Errorf("registered %q", status.Registered)
		case !status.NextRun.After(status.LastRun.Tick):
			return fmt.Errorf("next run %v is not after the last, %v", status.NextRun, status.LastRun.Tick)
		}
		return nil
	})
	// No tick is lost while the owner is healthy.
	fifth := first.Tick.Add(5 * time.Second)
	c.awaitRun("job", submitted, func(r run) bool { return !r.Tick.Before(fifth) })
	for k, r := range c.runs("job") {
		if want := first.Tick.Add(time.Duration(k) * time.Second); !r.Tick.Equal(want) || r.SID != first.SID {
			t.Errorf("run %d: %v, want tick %v on %s", k, r, want, first.SID)
		}
	}
}

func TestCancelEndsRunAndJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	raw := c.raw("")
	c.start(options{})
	c.start(options{})
	c.submit("job", hold)
	held := c.awaitRun("job", time.Time{})

	canceled := time.Now()
	status, err := c.admin.Cancel(t.Context(), "job")
	if err != nil || status.Owner == nil || status.Owner.InstanceID != held.SID {
		t.Errorf("cancel: %+v, %v; want the job as it was, owned by %s", status, err, held.SID)
	}
	end := c.awaitRun("job", time.Time{}, endedBy(singleworker.ErrJobCanceled))
	t.Logf("canceled to end of the run's context: %v", end.End.Sub(canceled).Round(time.Millisecond))
	c.throughout(3*syncPeriod, "the tree below the job is gone", func() error {
		if c.exists(raw, "job") {
			return errors.New("it is there")
		}
		return nil
	})
	_, err = c.admin.Get(t.Context(), "job")
	wantErr(t, "get", err, admin.ErrNotFound)
	_, err = c.admin.Cancel(t.Context(), "job")
	wantErr(t, "cancel again", err, admin.ErrNotFound)

	resubmitted := time.Now()
	c.submit("job", work)
	if next := c.awaitRun("job", resubmitted); next.Token <= held.Token {
		t.Errorf("token %#x after the job was submitted again, want more than %#x", next.Token, held.Token)
	}
}

func TestCancelAndResubmitInQuickSuccession(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	for range 3 {
		c.start(options{})
	}
	names := c.submitAll(4, "job")
	for round := range 10 {
		began := time.Now()
		for _, name := range names {
			_, err := c.admin.Cancel(t.Context(), name)
			c.must(err)
			c.submit(name, []string{work, hold}[round%2])
		}
		if round%4 == 3 {
			c.awaitRun(names[0], began)
		}
	}
	now := time.Now()
	for _, name := range names {
		_, err := c.admin.Cancel(t.Context(), name)
		c.must(err)
		c.submit(name, work)
	}
	c.awaitEven(len(names), 3)
	for _, name := range names {
		c.awaitRun(name, now)
	}
}

// A disconnected owner cannot be notified that its job was canceled: its run continues until its
// lease ends, concurrently with runs of the job that was submitted in its place. That is another
// job with the same name and larger tokens.
func TestResubmitWhileOwnerIsDisconnected(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	far := c.start(options{Proxied: true})
	c.submit("job", hold)
	old := c.awaitRun("job", time.Time{})
	near := c.start(options{})
	c.awaitEven(1, 2)

	far.proxy.Cut()
	c.ledger.add(entry{Event: expelled, SID: far.id}) // it may continue without a violation
	cut := time.Now()
	_, err := c.admin.Cancel(t.Context(), "job")
	c.must(err)
	c.submit("job", hold)
	next := c.awaitRun("job", time.Time{}, on(near.id))
	if next.Token <= old.Token {
		t.Errorf("token %#x after %#x of the job before", next.Token, old.Token)
	}
	end := c.awaitRun("job", time.Time{}, is(old), endedBy(singleworker.ErrLeaseLost))
	t.Logf("the old run ended %v after the cut, its lease is %v", end.End.Sub(cut).Round(time.Millisecond), session*3/4)
	if end.End.Sub(cut) > 2*session {
		t.Errorf("the old run ended %v after the cut, want its lease of %v", end.End.Sub(cut), session*3/4)
	}
	far.proxy.Heal()
	c.eventually("the old owner to learn that it is not", func() error {
		for _, e := range c.entries() {
			if e.Event == released && e.SID == far.id {
				return nil
			}
		}
		return errors.New("it has not released the job")
	})
	c.awaitEven(1, 2)
}

func TestSubmitKeepsExistingJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.submit("job", work)
	other := job.Job{Name: "job", Schedule: "@daily", Handler: work}

	_, err := c.admin.Submit(t.Context(), other, admin.SubmitOptions{})
	wantErr(t, "submit", err, admin.ErrExists)
	if status := c.get("job"); status.Job.Schedule != everySecond || status.Version != 0 {
		t.Errorf("job is %+v, want it as it was", status)
	}
	if again := c.submit("job", work); again.Outcome != admin.OutcomeUnchanged {
		t.Errorf("the same once more: %q, want %q", again.Outcome, admin.OutcomeUnchanged)
	}
	dry := c.submitJob(other, admin.SubmitOptions{Replace: true, DryRun: true})
	if status := c.get("job"); dry.Outcome != admin.OutcomeReplaced || status.Job.Schedule != everySecond {
		t.Errorf("dry run: %q, schedule %q; want it to be reported only", dry.Outcome, status.Job.Schedule)
	}
	replaced := c.submitJob(other, admin.SubmitOptions{Replace: true})
	if replaced.Outcome != admin.OutcomeReplaced || replaced.Before == nil || replaced.Before.Schedule != everySecond {
		t.Errorf("replace: %+v, want it to tell what was there", replaced)
	}
	if status := c.get("job"); status.Job.Schedule != "@daily" {
		t.Errorf("schedule %q, want @daily", status.Job.Schedule)
	}
}

func TestReplacedScheduleTakesEffect(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.start(options{})
	c.submitJob(job.Job{Name: "job", Schedule: "@yearly", Handler: fails}, admin.SubmitOptions{})
	c.awaitEven(1, 1)
	before := c.get("job").Owner.Token

	c.submitJob(job.Job{Name: "job", Schedule: everySecond, Handler: work, Args: map[string]string{"for": "1ms"}},
		admin.SubmitOptions{Replace: true})
	c.awaitRun("job", time.Time{}, ended)
	c.eventually("a successful run of the new handler", func() error {
		if last := c.get("job").LastRun; last == nil || last.State != "ok" {
			return fmt.Errorf("last run %+v", last)
		}
		return nil
	})
	if now := c.get("job").Owner.Token; now != before {
		t.Errorf("token %#x, want %#x: the job kept its owner", now, before)
	}
}

func TestOddNames(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.start(options{ID: "Maschine 1 (Köln)"})
	for _, name := range []string{
		"com.example.Outer$Inner", "суточный отчёт", "two words", "quota,zone=a:b;c", "100%", `back\slash"quote`,
		"alive", "register", "tick", "zookeeper", "...", strings.Repeat("x", 200), strings.Repeat("é", 100),
	} {
		c.submit(name, work)
		c.awaitRun(name, time.Time{}, ended)
		if status := c.get(name); status.State != admin.StateOwned {
			t.Errorf("%q: %+v", name, status)
		}
		_, err := c.admin.Cancel(t.Context(), name)
		c.must(err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "_instances", "tab\t", "\xff", strings.Repeat("x", 201)} {
		_, err := c.admin.Submit(t.Context(), job.Job{Name: name, Schedule: everySecond}, admin.SubmitOptions{})
		if refused := (*invalid.FieldError)(nil); !errors.As(err, &refused) || refused.Field != "Name" {
			t.Errorf("submit %q: %v, want a FieldError for the name", name, err)
		}
	}
}

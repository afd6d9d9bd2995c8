package journal_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
)

// proofsBelow lists the proofs below a job.
func proofsBelow(g *roomtest.Group, job string) (paths []string) {
	g.T.Helper()
	names, _, err := g.Editor.Children(g.T.Context(), g.Tree.Job(job))
	if err != nil {
		g.T.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "_proof-") {
			paths = append(paths, g.Tree.Job(job)+"/"+name)
		}
	}
	return paths
}

// Nothing is claimed after an ancestor was deleted and submitted again, also by an instance that
// does not know it yet: its watch is delayed here. The other job's spec has the version of the one
// that was read.
func TestAncestorIsSubmittedAgain(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		parent string
		again  bool
		want   error
	}{
		"nothing happens":   {"job", false, nil},
		"a parent":          {"job", true, ticks.ErrSpecChanged},
		"a parent's parent": {"between", true, ticks.ErrSpecChanged},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			roomtest.InGroup(t, func(g *roomtest.Group) {
				g.Submit("job")
				g.SubmitSpec("between", zkrec.Spec{Job: jobs.Job{Schedule: "@after", After: []string{"job"}}})
				g.SubmitSpec("child", zkrec.Spec{Job: jobs.Job{Schedule: "@after", After: []string{test.parent}}})
				a := start(g, "a")
				roomtest.Pass(2 * roomtest.SyncPeriod)
				a.Lock()
				o := a.Owned["child"]
				a.Unlock()
				spec := g.Spec()
				a.Client.Partition()
				if test.again {
					g.Multi(append(g.Cancel(), session.CreateOps(g.Tree.NewJob("job", spec))...)...)
				}
				answer := make(chan error, 1)
				go func() {
					_, err := roomtest.Written(a.Journal, roomtest.Claim(o, *o.Record, "r1", o.Record.Watermark+60_000))
					answer <- err
				}()
				roomtest.Pass(time.Millisecond)
				a.Client.Heal()
				if err := <-answer; !errors.Is(err, test.want) {
					g.T.Errorf("Commit = %v, want %v", err, test.want)
				}
			})
		})
	}
}

// The servers lose the result of a parent on which a decision about its child rests, after that was
// made: it is refused. Another one is made when the parent was read again.
func TestResultOfAParentIsLost(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.SubmitSpec("child", zkrec.Spec{Job: jobs.Job{Schedule: "@after", After: []string{"job"}}})
		a := start(g, "a")
		roomtest.Pass(2 * roomtest.SyncPeriod)
		commit := func() ticks.Commit {
			a.Lock()
			defer a.Unlock()
			o := a.Owned["child"]
			c := roomtest.Claim(o, *o.Record, "r1", o.Record.Watermark+60_000)
			c.Gate = o.Gate
			return c
		}
		before := commit()
		snapshot := g.Server.Snapshot()
		a.Client.Partition()
		if err := g.Server.Restore(snapshot); err != nil {
			g.T.Fatal(err)
		}
		a.Client.Heal()
		roomtest.Pass(2 * roomtest.SyncPeriod)
		if _, err := roomtest.Written(a.Journal, before); !errors.Is(err, ticks.ErrSpecChanged) {
			g.T.Errorf("a decision from before the loss: %v, want ticks.ErrSpecChanged", err)
		}
		if _, err := roomtest.Written(a.Journal, commit()); err != nil {
			g.T.Errorf("a decision after it: %v", err)
		}
	})
}

// An instance has one proof below each ancestor of the jobs that it owns, for as long as it owns
// some, also when somebody deletes it.
func TestProofs(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Submit("job")
		g.SubmitSpec("between", zkrec.Spec{Job: jobs.Job{Schedule: "@after", After: []string{"job"}}})
		for _, child := range []string{"child-1", "child-2"} {
			g.SubmitSpec(child, zkrec.Spec{Job: jobs.Job{Schedule: "@after", After: []string{"between"}}})
		}
		a := start(g, "a")
		want := func(when string, n int) {
			g.T.Helper()
			roomtest.Pass(5 * roomtest.SyncPeriod)
			for _, job := range []string{"job", "between"} {
				if got := len(proofsBelow(g, job)); got != n {
					g.T.Errorf("%s: %d proofs below %s, want %d", when, got, job, n)
				}
			}
		}
		want("at first", 1)
		a.Client.Disconnect()
		want("after a lost connection", 1)
		for _, path := range proofsBelow(g, "between") {
			g.Remove(path)
		}
		a.Lock()
		o := a.Owned["child-1"]
		a.Unlock()
		if _, err := roomtest.Written(a.Journal, roomtest.Claim(o, *o.Record, "r1", o.Record.Watermark+60_000)); !errors.Is(err, ticks.ErrSpecChanged) {
			g.T.Errorf("Commit = %v, want ticks.ErrSpecChanged", err)
		}
		want("after somebody has deleted one", 1)
		for _, child := range []string{"between", "child-1", "child-2"} {
			g.Set(g.Tree.Job(child), zkrec.Spec{Job: jobs.Job{Schedule: "@daily"}}.Encode())
		}
		want("when they run after others no more", 0)
	})
}

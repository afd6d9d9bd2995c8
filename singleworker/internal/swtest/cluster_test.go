package swtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/swtest/audit"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const (
	session = 10 * time.Second // Config's default
	settled = 15 * time.Second // more than the cluster needs without faults
)

// bubble runs a test with a cluster in virtual time.
func bubble(t *testing.T, test func(t *testing.T, c *swtest.Cluster)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, swtest.New(t, swtest.Config{})) })
}

// working is a handler that takes so long, or until its context ends.
func working(d time.Duration) singleworker.Handler {
	return func(ctx context.Context, _ *singleworker.Run) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sharing submits jobs of that schedule, and returns the settings of their instances.
func sharing(t *testing.T, c *swtest.Cluster, jobs int, schedule string, h singleworker.Handler) swtest.Setup {
	t.Helper()
	setup := swtest.Setup{Handlers: make(map[string]singleworker.Handler)}
	for k := range jobs {
		name := fmt.Sprintf("job%d", k)
		setup.Handlers[name] = h
		if err := c.Submit(t.Context(), singleworker.Job{Name: name, Schedule: schedule}); err != nil {
			t.Fatal(err)
		}
	}
	return setup
}

// group starts n instances that share jobs of that schedule.
func group(t *testing.T, c *swtest.Cluster, n, jobs int, schedule string, h singleworker.Handler) []*swtest.Instance {
	t.Helper()
	setup := sharing(t, c, jobs, schedule, h)
	var instances []*swtest.Instance
	for k := range n {
		instances = append(instances, c.Start(fmt.Sprintf("i%d", k), setup))
	}
	time.Sleep(settled)
	return instances
}

// pass expects that an audit of the runs so far finds nothing. Attempts may be missing: a run that
// was claimed by an instance that died before it called the handler is no run.
func pass(t *testing.T, c *swtest.Cluster) {
	t.Helper()
	for _, found := range audit.Runs(c.Evidence()) {
		if found.Rule != audit.Skipped {
			t.Error(found)
		}
	}
}

func TestGroupSharesJobsAndRunsThem(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		group(t, c, 3, 9, "0 * * * * ?", working(time.Second))
		if got, want := c.Shares(), map[string]int{"i0": 3, "i1": 3, "i2": 3}; !maps.Equal(got, want) {
			t.Errorf("shares %v, want %v", got, want)
		}
		time.Sleep(10 * time.Minute)
		runs := c.Runs()
		for _, r := range runs {
			if r.End().Sub(r.Started) != time.Second || r.Err != nil {
				t.Errorf("%s at %v: took %v, %v", r.Job, r.Tick, r.End().Sub(r.Started), r.Err)
			}
		}
		if len(runs) != 9*10 {
			t.Errorf("%d runs, want one per job and minute", len(runs))
		}
		pass(t, c)
	})
}

func TestKilledInstanceSaysNothingMore(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		victim := group(t, c, 2, 4, "* * * * * ?", working(time.Hour))[0]
		killed := time.Now()
		victim.Kill()
		if owners := c.Owners(); len(owners) != 4 {
			t.Errorf("at once %v: a killed instance's session must live on", owners)
		}
		time.Sleep(session + settled)
		for job, owner := range c.Owners() {
			if owner != "i1" {
				t.Errorf("%s is owned by %s", job, owner)
			}
		}
		dead := 0
		for _, r := range c.Runs() {
			if r.Instance == victim {
				dead++
				if !r.Killed || !r.Ended.Equal(killed) {
					t.Errorf("a run of the dead: killed %v, ended %v after the kill", r.Killed, r.Ended.Sub(killed))
				}
			}
		}
		if dead != 2 {
			t.Errorf("%d runs of the killed instance, want its 2 jobs'", dead)
		}
		for _, txn := range c.Server.Log() {
			if txn.Op == zkdev.OpCloseSession && !txn.Expired && !txn.Time.Before(killed) { // before: who submitted
				t.Errorf("a session was closed orderly: %+v", txn)
			}
		}
		back := c.Start("i0", swtest.Setup{Handlers: map[string]singleworker.Handler{"job0": working(time.Second)}})
		time.Sleep(settled)
		c.View(func(m *swtest.Model) {
			if m.Instances["i0"].Since.Before(killed) || back.State() != swtest.Running {
				t.Error("the name cannot be used again")
			}
		})
	})
}

func TestStoppedInstanceHandsOverAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		leaving := group(t, c, 2, 4, "0 * * * * ?", working(time.Second))[0]
		start := time.Now()
		if err := leaving.Stop(); err != nil || leaving.State() != swtest.Stopped {
			t.Errorf("Stop = %v, state %v", err, leaving.State())
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		owned := func() bool { return len(c.Owners()) == 4 && c.Shares()["i1"] == 4 }
		if !c.Await(time.Second, owned) {
			t.Errorf("a second later owned by %v", c.Owners())
		}
	})
}

// A partitioned instance loses the right to run after 0.75 sessions, and the others own
// its jobs after one.
func TestPartition(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		away := group(t, c, 2, 2, "* * * * * ?", working(time.Hour))[0]
		cut := time.Now()
		away.Partition()
		time.Sleep(session + settled)
		for _, r := range c.Runs() {
			after := r.RightEnded.Sub(cut)
			if r.Instance == away && (!errors.Is(r.Cause, singleworker.ErrLeaseLost) || after > session*3/4 || after < session/2) {
				t.Errorf("the right ended %v after the cut, by %v", after, r.Cause)
			}
		}
		if shares := c.Shares(); shares["i1"] != 2 {
			t.Errorf("shares %v", shares)
		}
		away.Heal()
		time.Sleep(settled)
		c.View(func(m *swtest.Model) {
			if _, back := m.Instances["i0"]; !back {
				t.Error("it did not come back")
			}
		})
	})
}

// Messages in flight when a connection hangs arrive when it resumes, although every deadline has
// passed meanwhile: here after the session is over.
func TestStall(t *testing.T) {
	t.Parallel()
	for _, lasts := range []time.Duration{session * 8 / 10, 2 * session} {
		t.Run(lasts.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
				hung := group(t, c, 2, 2, "* * * * * ?", working(time.Hour))[0]
				hung.Stall()
				time.Sleep(lasts)
				before := c.Server.Zxid()
				hung.Resume()
				time.Sleep(grace)
				beats := 0
				for _, txn := range c.Server.Log() {
					if txn.Zxid > before && txn.Code == zkdev.OK && txn.Op == zkdev.OpSetData && strings.HasSuffix(txn.Path, "/alive/i0") {
						beats++
					}
				}
				if late := lasts < session; (beats > 0) != late {
					t.Errorf("%d writes arrived late, want that to be %v", beats, late)
				}
				time.Sleep(settled)
				if len(c.Owners()) != 2 {
					t.Errorf("owners %v", c.Owners())
				}
			})
		})
	}
}

// A handler is the job's own by default: whether that is spelled out is no difference,
// neither to who declares the job nor to who submits it.
func TestDeclaredJobSubmittedAsItIs(t *testing.T) {
	t.Parallel()
	for declared, submitted := range map[string]string{"job0": "", "": "job0"} {
		t.Run(fmt.Sprintf("%q then %q", declared, submitted), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
				job := singleworker.Job{Name: "job0", Schedule: "@daily", Handler: declared}
				c.Start("i0", swtest.Setup{
					Handlers: map[string]singleworker.Handler{"job0": working(time.Second)},
					Jobs:     []singleworker.Job{job},
				})
				time.Sleep(settled)
				job.Handler = submitted
				if err := c.Submit(t.Context(), job); err != nil {
					t.Errorf("submitted as it was declared: %v", err)
				}
				jobs, err := c.List(t.Context())
				if err != nil || len(jobs) != 1 {
					t.Fatalf("%+v, %v; want the job", jobs, err)
				}
				if got := jobs[0]; got.Version != 0 || !got.Declared || got.Job.Handler != "job0" {
					t.Errorf("%+v, want it as it was declared, and never written again", got)
				}
			})
		})
	}
}

const grace = 10 * time.Millisecond

// Package admin, which asks the server, reports the same as the server's log.
func TestList(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		group(t, c, 3, 4, "* * * * * ?", working(time.Second))
		jobs, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		owners := make(map[string]string)
		for _, job := range jobs {
			if job.State != admin.StateOwned || len(job.Registered) != 3 || job.LastRun == nil {
				t.Errorf("%+v, want it owned, registered three times, and to have run", job)
			}
			owners[job.Name] = job.Owner.InstanceID
		}
		if want := c.Owners(); len(owners) != 4 || !maps.Equal(owners, want) {
			t.Errorf("owners %v, in the log %v", owners, want)
		}
	})
}

func TestSubmitAndCancel(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		group(t, c, 2, 2, "* * * * * ?", working(time.Hour))
		c.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "" {
				return zkdev.CutAfter()
			}
			return zkdev.Pass()
		})
		if err := c.Cancel(t.Context(), "job0"); err != nil {
			t.Errorf("cancel, with its reply lost: %v", err)
		}
		time.Sleep(settled)
		c.View(func(m *swtest.Model) {
			if m.Jobs["job0"] != nil {
				t.Error("the job is still there")
			}
		})
		for _, r := range c.Runs() {
			if r.Job == "job0" && !errors.Is(r.Cause, singleworker.ErrJobCanceled) {
				t.Errorf("the run's context ended with %v", r.Cause)
			}
		}
	})
}

// A leaving instance removes its registrations, at any point of joining.
func TestLeavingWhileJoining(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{Latency: func(string) func() zkdev.Latency {
			lag := func() time.Duration { return time.Millisecond }
			return func() zkdev.Latency { return zkdev.Latency{There: lag, Back: lag} }
		}})
		group(t, c, 1, 40, "0 * * * * ?", working(0))
		handlers := make(map[string]singleworker.Handler)
		for k := range 40 {
			handlers[fmt.Sprintf("job%d", k)] = working(0)
		}
		for after := range 40 {
			name := fmt.Sprintf("after%d", after)
			i := c.Start(name, swtest.Setup{Handlers: handlers})
			time.Sleep(time.Duration(after) * time.Millisecond)
			if err := i.Stop(); err != nil {
				t.Errorf("told to stop %d ms after its start: %v", after, err)
			}
			time.Sleep(time.Millisecond)
			left := 0
			c.View(func(m *swtest.Model) {
				for _, job := range m.Jobs {
					if job.Registered[name] {
						left++
					}
				}
			})
			if left > 0 {
				t.Errorf("told to stop %d ms after its start, it leaves %d registrations", after, left)
			}
		}
	})
}

// A run is over also when its handler panics.
func TestRunOfAHandlerThatPanicsEnds(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		group(t, c, 1, 1, "0 * * * * ?", func(context.Context, *singleworker.Run) error { panic("bad luck") })
		time.Sleep(2 * time.Minute)
		runs := c.Runs()
		if len(runs) < 2 {
			t.Fatalf("%d runs in two minutes", len(runs))
		}
		for _, r := range runs {
			if r.Ended.IsZero() || r.Err == nil {
				t.Errorf("the run at %v has ended at %v: %v", r.Started, r.Ended, r.Err)
			}
		}
	})
}

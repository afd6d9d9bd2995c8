package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The two tests that are not parallel run before all others, on an otherwise idle
// machine, because they measure documented figures.

func TestTakeoverAfterKill(t *testing.T) { //nolint:paralleltest // it measures
	const jobs = 9
	c := newCluster(t, sharedServer.get(t))
	c.submitAll(jobs, "job")
	children := []*child{}
	for range 3 {
		children = append(children, c.spawn(options{Sync: 3 * time.Second}))
	}
	c.awaitEven(jobs, 3)
	victim := children[0]
	orphans := c.ownedBy(victim.id)
	at := victim.kill()

	var times []time.Duration
	for _, job := range orphans {
		first := c.awaitRun(job, at, notOn(victim.id))
		times = append(times, first.At.Sub(at).Round(time.Millisecond))
	}
	slices.Sort(times)
	t.Logf("FIGURE kill -9 to first run elsewhere: %v (session %v; jobs tick once a second)", times, session)
	for _, e := range c.entries() {
		if e.Event == owned && e.At.After(at) {
			t.Logf("%s owned by %s after %v", e.Job, e.SID, e.At.Sub(at).Round(time.Millisecond))
		}
	}
	c.awaitEven(jobs, 2)
}

func TestCleanStopHandsOver(t *testing.T) { //nolint:paralleltest // it measures
	const jobs = 9
	c := newCluster(t, sharedServer.get(t))
	raw := c.raw("")
	names := c.submitAll(jobs, "job")
	leaver := c.start(steady())
	for range 2 {
		other := steady()
		other.Sync = singleworker.DefaultSyncPeriod
		c.start(other)
	}
	c.awaitEven(jobs, 3)
	c.awaitRun("", time.Now())
	handed := c.ownedBy(leaver.id)
	at := time.Now()
	c.must(c.stop(leaver))
	t.Logf("FIGURE clean stop to Run returned: %v", time.Since(at).Round(time.Millisecond))

	for _, name := range names {
		for _, path := range [][]string{{name, "register", leaver.id}, {name, "alive", leaver.id}} {
			if c.exists(raw, path...) {
				t.Errorf("%s is there after a clean stop", c.node(path...))
			}
		}
	}
	if c.exists(raw, "_instances", leaver.id) {
		t.Errorf("the instance is registered after a clean stop")
	}
	var times []time.Duration
	for _, job := range handed {
		c.eventually("a new owner of "+job, func() error {
			for _, e := range c.entries() {
				if e.Event == owned && e.Job == job && e.SID != leaver.id && e.At.After(at) {
					times = append(times, e.At.Sub(at).Round(time.Millisecond))
					return nil
				}
			}
			return fmt.Errorf("none of %d entries", len(c.entries()))
		})
	}
	slices.Sort(times)
	t.Logf("FIGURE clean stop to owned elsewhere: %v", times)
	if slowest := times[len(times)-1]; slowest > singleworker.DefaultSessionTimeout/2 {
		t.Errorf("handover took %v: the jobs were taken over, not handed over", slowest)
	}
	c.awaitEven(jobs, 2)
}

func TestIdleInstanceCostsLittle(t *testing.T) {
	t.Parallel()
	const jobs, window = 30, 10 * time.Second
	c := newCluster(t, sharedServer.get(t))
	for k := range jobs {
		c.submitJob(job.Job{Name: fmt.Sprintf("job-%02d", k), Schedule: "@yearly", Handler: work}, admin.SubmitOptions{})
	}
	child := c.spawn(options{Session: singleworker.DefaultSessionTimeout, Sync: singleworker.DefaultSyncPeriod})
	c.awaitEven(jobs, 1)
	began, before := time.Now(), child.cpu(t)
	c.throughout(window, "the jobs stay where they are", func() error { return nil })
	used := float64(child.cpu(t)-before) / float64(time.Since(began))
	t.Logf("FIGURE idle instance with %d jobs: %.2f %% of a core", jobs, 100*used)
	if used > 0.1 {
		t.Errorf("an idle instance uses %.2f %% of a core", 100*used)
	}
}

func TestTerminatedProcessHandsOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.submitAll(4, "job")
	first, second := c.spawn(options{}), c.spawn(options{})
	c.awaitEven(4, 2)
	c.must(first.terminate())
	c.awaitEven(4, 1)
	c.must(second.terminate())
	if live, err := c.admin.Instances(t.Context()); err != nil || len(live) != 0 {
		t.Errorf("instances after all have left: %v, %v", live, err)
	}
}

// Two owners that learn of a change some milliseconds apart compute different moves: of two
// instances that join, the first may be offered too much, and gives some back. How many jobs that
// concerns depends on who reads what when; what always holds is that it comes to rest, and soon
// enough for each change to move no more jobs than there are. Owners that pass jobs to and fro move
// more within a second, or never rest.
func TestJoinAndLeaveRebalance(t *testing.T) {
	t.Parallel()
	const jobs = 12
	c := newCluster(t, sharedServer.get(t))
	c.submitAll(jobs, "job")
	c.start(steady())
	c.start(steady())
	c.awaitRest(jobs, 2)

	check := func(what string, since time.Time, changes, instances, needed int) {
		t.Helper()
		last := c.awaitRest(jobs, instances)
		moves := c.moves(since)
		t.Logf("FIGURE %s: even after %v, %d moves, %d needed", what, last.Sub(since).Round(time.Millisecond), moves, needed)
		if moves > changes*jobs {
			t.Errorf("%s: %d moves, %d are enough", what, moves, needed)
		}
	}
	since := time.Now()
	third := c.start(steady())
	check("third joins", since, 1, 3, jobs/3)

	since = time.Now()
	c.must(c.stop(third))
	check("third leaves", since, 1, 2, jobs/3)

	since = time.Now()
	c.start(steady())
	c.start(steady())
	check("two join", since, 2, 4, jobs/2)
}

func TestHungProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	hung, other := c.spawn(options{}), c.spawn(options{})
	c.submit("held", hold)
	held := c.awaitRun("held", time.Time{})
	if held.SID != hung.id {
		hung, other = other, hung
	}
	names := append(c.submitAll(5, "job"), "held")
	c.awaitEven(len(names), 2)

	at := time.Now()
	hung.freeze(t)
	for _, name := range names {
		c.awaitRun(name, at, on(other.id))
	}
	thawed := time.Now()
	hung.thaw()
	late := c.awaitRun("held", time.Time{}, on(hung.id), endedBy(singleworker.ErrLeaseLost))
	t.Logf("thawed to end of the late run's context: %v", late.End.Sub(thawed).Round(time.Millisecond))
	c.awaitEven(len(names), 2)
	c.awaitRun(c.ownedBy(hung.id)[0], time.Now(), on(hung.id))
}

func TestSameIDAfterKillWaitsForOldSession(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.submit("job", work)
	first := c.spawn(options{ID: "same"})
	before := c.awaitRun("job", time.Time{})
	at := first.kill()
	second := c.spawn(options{ID: "same"})
	after := c.awaitRun("job", time.Now())
	t.Logf("kill -9 to first run of the same id: %v", after.At.Sub(at).Round(time.Millisecond))
	if after.Token <= before.Token {
		t.Errorf("token %#x of the second start, want more than %#x", after.Token, before.Token)
	}
	c.must(second.terminate())
}

// A server that joins the others again has the session of a dead instance renewed that began while
// it was away. The next process of that instance waits for it nevertheless.
func TestSameIDAfterKillWhileAServerJoinsAgain(t *testing.T) {
	t.Parallel()
	const session = 8 * time.Second
	e := zkserver.StartEnsemble(t, 3)
	leader := e.Leader(t.Context())
	c := newCluster(t, e.Servers()[leader])
	c.submit("job", work)
	away := e.Servers()[(leader+1)%3]
	away.Kill()
	first := c.spawn(options{ID: "same", Session: session})
	before := c.awaitRun("job", time.Time{})
	at := first.kill()
	second := c.spawn(options{ID: "same", Session: session})
	<-time.After(session / 2)
	away.Begin()
	after := c.awaitRun("job", time.Now())
	t.Logf("kill -9 to first run of the same id: %v", after.At.Sub(at).Round(time.Millisecond))
	if after.Token <= before.Token {
		t.Errorf("token %#x of the second start, want more than %#x", after.Token, before.Token)
	}
	c.must(second.terminate())
}

func TestDuplicateInstanceID(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	c.submit("job", work)
	first := steady()
	first.ID = "same"
	c.start(first)
	c.awaitRun("job", time.Time{})

	began := time.Now()
	second := c.start(options{ID: "same", Session: 2 * time.Second})
	err := c.wait(second)
	wantErr(t, "second instance", err, singleworker.ErrDuplicateInstance)
	t.Logf("refused after %v: %v", time.Since(began).Round(time.Millisecond), err)
	if err != nil && !strings.Contains(err.Error(), "same") {
		t.Errorf("error %q does not name the instance", err)
	}
	// The first one is not affected.
	for _, r := range c.runs("job") {
		if r.Token != c.get("job").Owner.Token {
			t.Errorf("the job has changed hands: %v", r)
		}
	}
	c.awaitRun("job", time.Now())
}

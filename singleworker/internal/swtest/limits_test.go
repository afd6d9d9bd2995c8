package swtest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// api are the places that a job needs which calls an API.
var api = map[string]int{"api": 1}

func setLimit(t *testing.T, c *swtest.Cluster, places int) {
	t.Helper()
	if err := c.SetLimit(t.Context(), "api", places); err != nil {
		t.Fatal(err)
	}
}

// held are the slots that hold places.
func held(c *swtest.Cluster) (slots []string) {
	c.View(func(m *swtest.Model) {
		for _, slot := range m.Held {
			slots = append(slots, slot)
		}
	})
	slices.Sort(slots)
	return slots
}

// runsOf are the runs of a job.
func runsOf(c *swtest.Cluster, name string) []swtest.Run {
	return slices.DeleteFunc(c.Runs(), func(r swtest.Run) bool { return r.Job != name })
}

// askFor asks for a run.
func askFor(t *testing.T, c *swtest.Cluster, name string) {
	t.Helper()
	err := c.Operate(t.Context(), func(client *admin.Client) error {
		_, err := client.Trigger(t.Context(), name, admin.TriggerOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Of two jobs that wait for a third one's place, in different instances, that whose tick is older
// runs first, although the other one's instance gives the place back.
func TestOlderTickTakesThePlaceFirst(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 1)
		submit(t, c,
			job.Job{Name: "long", Schedule: "0 * * * * ?", Instances: []string{"a"}, Limits: api},
			job.Job{Name: "older", Schedule: "10 * * * * ?", Instances: []string{"b"}, Limits: api, MisfireGrace: time.Hour},
			job.Job{Name: "younger", Schedule: "20 * * * * ?", Instances: []string{"a"}, Limits: api, MisfireGrace: time.Hour})
		handlers := map[string]singleworker.Handler{"long": working(40 * time.Second), "older": working(time.Second), "younger": working(time.Second)}
		for _, name := range []string{"a", "b"} {
			c.Start(name, swtest.Setup{Handlers: handlers})
		}
		time.Sleep(settled + 10*time.Minute)
		older, younger := runsOf(c, "older"), runsOf(c, "younger")
		if len(older) < 10 || len(younger) < 10 {
			t.Fatalf("%d and %d runs in ten minutes", len(older), len(younger))
		}
		for k := range 9 { // not the first, in which the instances start
			if between := younger[k+1].Started.Sub(older[k+1].End()); between < 0 || between > 100*time.Millisecond {
				t.Errorf("younger runs at %v, older from %v to %v", younger[k+1].Started, older[k+1].Started, older[k+1].End())
			}
		}
		pass(t, c)
	})
}

// A limit that is lowered ends no run. Nothing begins until fewer runs hold places than it has, and
// when it is raised those that wait begin at once.
func TestLimitIsLoweredAndRaised(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 3)
		work := working(20 * time.Second)
		handlers := make(map[string]singleworker.Handler)
		for _, name := range []string{"j0", "j1", "j2", "j3", "j4", "j5"} {
			handlers[name] = work
			submit(t, c, job.Job{Name: name, Schedule: "0 * * * * ?", Limits: api, MisfireGrace: time.Hour})
		}
		for _, name := range []string{"a", "b"} {
			c.Start(name, swtest.Setup{Handlers: handlers})
		}
		time.Sleep(time.Until(c.Begun().Truncate(time.Minute).Add(5*time.Minute + 5*time.Second)))
		running := func() int { return len(held(c)) }
		want := func(after time.Duration, n int) {
			t.Helper()
			if time.Sleep(after); running() != n {
				t.Errorf("%d runs hold places, want %d", running(), n)
			}
		}
		want(0, 3)
		setLimit(t, c, 1)
		want(10*time.Second, 3)
		want(10*time.Second, 1)
		setLimit(t, c, 2)
		want(time.Second, 2)
		pass(t, c)
	})
}

// A run that holds a place beyond a lowered limit takes one of those below from the others, and no
// more.
func TestLongRunBeyondLimit(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 3)
		names := []string{"a", "b", "long"}
		handlers := map[string]singleworker.Handler{"a": working(10 * time.Second), "b": working(10 * time.Second), "long": working(time.Hour)}
		for _, name := range names {
			submit(t, c, job.Job{Name: name, Schedule: "@manually", Limits: api})
		}
		c.Start("one", swtest.Setup{Handlers: handlers})
		time.Sleep(settled)
		want := func(slots ...string) {
			t.Helper()
			if got := held(c); !slices.Equal(got, slots) {
				t.Errorf("places are held by %v, want %v", got, slots)
			}
		}
		for _, name := range names { // in the order of places
			askFor(t, c, name)
			time.Sleep(time.Second)
		}
		setLimit(t, c, 2)
		want(names...)
		time.Sleep(20 * time.Second)
		want("long")
		askFor(t, c, "a")
		askFor(t, c, "b")
		time.Sleep(5 * time.Second)
		want("a", "long")
		time.Sleep(10 * time.Second)
		want("b", "long")
		pass(t, c)
	})
}

// A place below a limit that was lowered, which is free, is taken by nobody while as many runs as
// the limit allows hold places beyond it.
func TestLimitIsLoweredBelowPlaces(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 3)
		for _, name := range []string{"first", "second", "third", "waits"} { // places are chosen in the order of slots
			submit(t, c, job.Job{Name: name, Schedule: "0 * * * * ?", Limits: api, MisfireGrace: time.Hour})
		}
		long := working(30 * time.Second)
		c.Start("a", swtest.Setup{Handlers: map[string]singleworker.Handler{"first": working(10 * time.Second), "second": long, "third": long, "waits": working(time.Second)}})
		minute := c.Begun().Truncate(time.Minute).Add(5 * time.Minute)
		time.Sleep(time.Until(minute.Add(5 * time.Second)))
		if got := held(c); !slices.Equal(got, []string{"first", "second", "third"}) {
			t.Fatalf("places are held by %v", got)
		}
		setLimit(t, c, 1)
		time.Sleep(15 * time.Second)
		if got := held(c); !slices.Equal(got, []string{"second", "third"}) {
			t.Errorf("the limit is 1, and places are held by %v", got)
		}
		time.Sleep(15 * time.Second)
		if last := runsOf(c, "waits"); last[len(last)-1].Started.Before(minute.Add(30 * time.Second)) {
			t.Errorf("the last run of who waits began at %v", last[len(last)-1].Started)
		}
		pass(t, c)
	})
}

// A slot that waits for two places is not overtaken by others of its instance which need one, of
// which one is always free.
func TestNeedOfTwoPlacesIsMet(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 2)
		submit(t, c,
			job.Job{Name: "both", Schedule: "3 * * * * ?", Limits: map[string]int{"api": 2}, MisfireGrace: time.Hour},
			job.Job{Name: "even", Schedule: "*/10 * * * * ?", Limits: api}, job.Job{Name: "odd", Schedule: "5/10 * * * * ?", Limits: api})
		c.Start("a", swtest.Setup{Handlers: map[string]singleworker.Handler{"both": working(time.Second), "even": working(8 * time.Second), "odd": working(8 * time.Second)}})
		time.Sleep(settled + 5*time.Minute)
		if n := len(runsOf(c, "both")); n < 5 {
			t.Errorf("%d runs in five minutes, want 5", n)
		}
		pass(t, c)
	})
}

// Slots that need places of two limits, and get their turn for one while the other's are taken,
// hold up nobody who needs the first alone.
func TestTurnThatIsOfNoUseIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 1)
		if err := c.SetLimit(t.Context(), "db", 1); err != nil {
			t.Fatal(err)
		}
		submit(t, c,
			job.Job{Name: "first", Schedule: "0 * * * * ?", Limits: api},
			job.Job{Name: "db", Schedule: "1 * * * * ?", Limits: map[string]int{"db": 1}},
			job.Job{Name: "both", Schedule: "2 * * * * ?", Limits: map[string]int{"api": 1, "db": 1}, MisfireGrace: time.Hour},
			job.Job{Name: "next", Schedule: "4 * * * * ?", Limits: api, MisfireGrace: time.Hour})
		work := map[string]singleworker.Handler{"first": working(10 * time.Second), "db": working(40 * time.Second), "both": working(time.Second), "next": working(time.Second)}
		c.Start("a", swtest.Setup{Handlers: work})
		time.Sleep(settled + 5*time.Minute)
		first, next, both := runsOf(c, "first"), runsOf(c, "next"), runsOf(c, "both")
		if len(first) < 5 || len(next) < 5 || len(both) < 4 {
			t.Fatalf("%d, %d and %d runs in five minutes", len(first), len(next), len(both))
		}
		for k := range 4 {
			began := next[slices.IndexFunc(next, func(r swtest.Run) bool { return r.Started.After(first[k].Started) })].Started
			if waited := began.Sub(first[k].End()); waited > 100*time.Millisecond {
				t.Errorf("the next run begins %v after the first has given back its place", waited)
			}
		}
		pass(t, c)
	})
}

// A slot whose request is withdrawn while it waits keeps nobody waiting when a place is free.
func TestWithdrawnRequestLeavesItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 1)
		submit(t, c,
			job.Job{Name: "long", Schedule: "0 * * * * ?", Limits: api},
			job.Job{Name: "asked", Schedule: "@manually", Limits: api},
			job.Job{Name: "next", Schedule: "20 * * * * ?", Limits: api, MisfireGrace: time.Hour})
		work := working(time.Second)
		c.Start("a", swtest.Setup{Handlers: map[string]singleworker.Handler{"long": working(30 * time.Second), "asked": work, "next": work}})
		minute := c.Begun().Truncate(time.Minute).Add(3 * time.Minute)
		time.Sleep(time.Until(minute.Add(5 * time.Second)))
		askFor(t, c, "asked")
		time.Sleep(5 * time.Second)
		err := c.Operate(t.Context(), func(client *admin.Client) error {
			_, err := client.CancelRequests(t.Context(), "asked", "")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(minute.Add(40 * time.Second)))
		if last := runsOf(c, "next"); !last[len(last)-1].Started.After(minute) {
			t.Errorf("the next one has not run since %v", last[len(last)-1].Started)
		}
		pass(t, c)
	})
}

// The places of an owner that is killed are held until its heir has decided.
func TestHeirGivesPlacesBack(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 1)
		hangs := func(ctx context.Context, _ *singleworker.Run) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		handlers := map[string]singleworker.Handler{"lost": hangs, "again": hangs, "next": working(time.Second)}
		submit(t, c, job.Job{Name: "lost", Schedule: "@manually", Limits: api, Interrupted: job.InterruptedSkip})
		a := c.Start("a", swtest.Setup{Handlers: handlers})
		time.Sleep(settled)
		askFor(t, c, "lost")
		time.Sleep(time.Second)
		if got := held(c); !slices.Equal(got, []string{"lost"}) {
			t.Fatalf("places are held by %v", got)
		}
		submit(t, c, job.Job{Name: "next", Schedule: "@manually", Limits: api})
		c.Start("b", swtest.Setup{Handlers: handlers})
		time.Sleep(settled)
		askFor(t, c, "next")
		time.Sleep(settled)
		if n := len(runsOf(c, "next")); n != 0 {
			t.Fatalf("%d runs began beside one that holds the only place", n)
		}
		a.Kill()
		time.Sleep(2 * settled)
		if n := len(runsOf(c, "next")); n != 1 {
			t.Errorf("%d runs of the next job, want 1", n)
		}
		c.View(func(m *swtest.Model) {
			if last := m.Jobs["lost"].Tick; last.State != history.StateLost || last.Places != "" {
				t.Errorf("the run of the killed owner: %+v", last)
			}
		})
		if got := held(c); len(got) > 0 {
			t.Errorf("places are still held by %v", got)
		}
		pass(t, c)
	})
}

// The run of a killed owner that is to be repeated holds the only place. Its heir gives that back
// before it asks for one, else it would wait for itself.
func TestHeirRepeatsTheRunThatHoldsTheLastPlace(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 1)
		submit(t, c, job.Job{Name: "again", Schedule: "@manually", Limits: api})
		a := c.Start("a", swtest.Setup{Handlers: map[string]singleworker.Handler{"again": working(time.Minute)}})
		time.Sleep(settled)
		askFor(t, c, "again")
		time.Sleep(time.Second)
		c.Start("b", swtest.Setup{Handlers: map[string]singleworker.Handler{"again": working(time.Second)}})
		time.Sleep(settled)
		a.Kill()
		time.Sleep(2 * settled)
		if runs := runsOf(c, "again"); len(runs) != 2 || runs[1].Attempt != 2 {
			t.Errorf("runs %+v, want the killed owner's, and its heir's second attempt", runs)
		}
		if got := held(c); len(got) > 0 {
			t.Errorf("places are still held by %v", got)
		}
		pass(t, c)
	})
}

// Ticks that wait for a place for so long that the next one comes are missed, with that reason.
func TestTicksThatWaitedForAPlaceTooLong(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 1)
		submit(t, c, job.Job{Name: "long", Schedule: "0 * * * * ?", Limits: api}, job.Job{Name: "often", Schedule: "*/10 * * * * ?", Limits: api})
		c.Start("a", swtest.Setup{Handlers: map[string]singleworker.Handler{"long": working(35 * time.Second), "often": working(time.Second)}})
		time.Sleep(settled + 5*time.Minute)
		limited := 0
		c.View(func(m *swtest.Model) {
			for _, row := range m.Jobs["often"].History.Entries {
				if row.Reason == history.ReasonLimited && row.State == history.StateMissed {
					limited += max(row.Count, 1)
				}
			}
		})
		if limited < 6 {
			t.Errorf("%d ticks are missed because of the limit in five minutes, want some two a minute", limited)
		}
		pass(t, c)
	})
}

// Somebody deletes nodes of a limit by hand: a place that a run holds, and the parents of all. The
// jobs go on.
func TestNodesOfLimitsAreDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 1)
		submit(t, c, job.Job{Name: "one", Schedule: "*/10 * * * * ?", Limits: api}, job.Job{Name: "two", Schedule: "*/10 * * * * ?", Limits: api})
		for _, name := range []string{"a", "b"} {
			c.Start(name, swtest.Setup{Handlers: map[string]singleworker.Handler{"one": working(2 * time.Second), "two": working(2 * time.Second)}})
		}
		tree := c.Tree()
		time.Sleep(time.Until(c.Begun().Truncate(time.Minute).Add(3*time.Minute + 11*time.Second)))
		if err := c.Delete(t.Context(), tree.HeldPlace(zkrec.Place{Limit: "api"})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Second)
		for _, parent := range []string{tree.HeldPlaces("api"), tree.Waiting("api")} {
			if err := c.Delete(t.Context(), parent); err != nil {
				t.Fatal(err)
			}
		}
		before := len(c.Runs())
		time.Sleep(time.Minute)
		if n := len(c.Runs()) - before; n < 10 {
			t.Errorf("%d runs in a minute, want twelve", n)
		}
		pass(t, c)
	})
}

// An instance that may start no further run leaves the places to the others, also if one of its
// slots waits for longer than theirs.
func TestFullInstanceLeavesPlaces(t *testing.T) {
	bubble(t, func(t *testing.T, c *swtest.Cluster) { //nolint:thelper // the test itself
		setLimit(t, c, 1)
		submit(t, c,
			job.Job{Name: "long", Schedule: "0 * * * * ?", Instances: []string{"b"}, Limits: api},
			job.Job{Name: "waits", Schedule: "1 * * * * ?", Instances: []string{"a"}, Limits: api, MisfireGrace: time.Hour},
			job.Job{Name: "busy", Schedule: "5 * * * * ?", Instances: []string{"a"}},
			job.Job{Name: "runs", Schedule: "10 * * * * ?", Instances: []string{"b"}, Limits: api, MisfireGrace: time.Hour},
			job.Job{Name: "often", Schedule: "22-50/4 * * * * ?", Instances: []string{"b"}, Limits: api})
		short := working(time.Second)
		handlers := map[string]singleworker.Handler{"long": working(20 * time.Second), "busy": working(50 * time.Second), "waits": short, "runs": short, "often": short}
		c.Start("a", swtest.Setup{Handlers: handlers, Configure: func(cfg *singleworker.Config) { cfg.MaxRunning = 1 }})
		c.Start("b", swtest.Setup{Handlers: handlers})
		time.Sleep(settled + 5*time.Minute)
		waits, runs := runsOf(c, "waits"), runsOf(c, "runs")
		if often := runsOf(c, "often"); len(waits) < 5 || len(runs) < 5 || len(often) < 5*8 {
			t.Errorf("%d, %d and %d runs in five minutes, want 5, 5 and 40", len(waits), len(runs), len(often))
		}
		for _, run := range runs {
			if late := run.Started.Sub(run.Tick); late > 10500*time.Millisecond {
				t.Errorf("the place was free after 10 s, and the run began %v after its tick", late)
			}
		}
		pass(t, c)
	})
}

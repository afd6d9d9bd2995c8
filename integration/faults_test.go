package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func TestExpiredSession(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	raw := c.raw("")
	c.submit("held", hold)
	names := append(c.submitAll(5, "job"), "held")
	c.start(options{})
	c.start(options{})
	c.awaitEven(len(names), 2)
	sessionOf := func(sid string) int64 {
		found, stat, err := raw.Exists(c.node("_instances", sid))
		c.must(err)
		if !found {
			return 0
		}
		return stat.EphemeralOwner
	}

	at := time.Time{}
	for range 3 {
		held := c.awaitRun("held", at)
		victim := held.SID
		before := sessionOf(victim)
		if before == 0 {
			t.Fatalf("instance %s is not there", victim)
		}
		at = time.Now()
		c.ledger.add(entry{Event: expelled, SID: victim})
		c.must(c.server.ExpireSession(t.Context(), before))
		expired := time.Now()
		c.eventually("the instance in a new session", func() error {
			if now := sessionOf(victim); now == 0 || now == before {
				return fmt.Errorf("session %#x, was %#x", now, before)
			}
			return nil
		})
		back := time.Since(at).Round(time.Millisecond)
		for _, name := range names {
			c.awaitRun(name, at)
		}
		c.awaitEven(len(names), 2)
		lost := c.awaitRun("held", time.Time{}, is(held), endedBy(singleworker.ErrLeaseLost))
		t.Logf("expired to end of the run's context: %v; to back: %v", lost.End.Sub(at).Round(time.Millisecond), back)
		if lost.End.Sub(expired) > session {
			t.Errorf("a run outlived its lease: %v, session expired %v", lost, expired)
		}
		for _, name := range c.ownedBy(victim) {
			if name != "held" {
				c.awaitRun(name, at, on(victim))
			}
		}
	}
}

func TestDisconnectLongerThanSession(t *testing.T) {
	t.Parallel()
	testLostConnection(t, (*zkserver.Proxy).Cut)
}

func TestStallLongerThanSession(t *testing.T) {
	t.Parallel()
	testLostConnection(t, (*zkserver.Proxy).Stall)
}

func testLostConnection(t *testing.T, lose func(*zkserver.Proxy)) {
	t.Helper()
	c := newCluster(t, sharedServer.get(t))
	far := c.start(options{Proxied: true})
	near := c.start(options{Proxied: true})
	held := submitHeldOn(c, far.id, near.id)
	names := c.submitAll(8, "job")
	all := len(names) + 2
	c.awaitEven(all, 2)

	for round := range 2 {
		at := time.Now()
		lose(far.proxy)
		for _, name := range names {
			c.awaitRun(name, at, on(near.id))
		}
		if round == 0 {
			// The end of the test checks for all runs that it ended before the next began.
			lost := c.awaitRun(held, time.Time{}, on(far.id), endedBy(singleworker.ErrLeaseLost))
			next := c.awaitRun(held, at, on(near.id))
			t.Logf("lost to end of the run's context: %v; to next run elsewhere: %v",
				lost.End.Sub(at).Round(time.Millisecond), next.At.Sub(at).Round(time.Millisecond))
		}
		healed := time.Now()
		far.proxy.Heal()
		c.awaitEven(all, 2)
		t.Logf("healed to even: %v", time.Since(healed).Round(time.Millisecond))
		c.awaitRun(c.ownedBy(far.id)[0], healed, on(far.id))
	}
}

// submitHeldOn submits two jobs with long runs, "held" and "other", waits until each of the
// instances runs one, and returns the first instance's job.
func submitHeldOn(c *cluster, first, second string) string {
	c.t.Helper()
	c.submit("held", hold)
	c.submit("other", hold)
	c.awaitEven(2, 2)
	held, other := "held", "other"
	if c.ownedBy(first)[0] == other {
		held, other = other, held
	}
	c.awaitRun(held, time.Time{}, on(first))
	c.awaitRun(other, time.Time{}, on(second))
	return held
}

func TestShortDisconnectsLoseNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	shaky := steady() // else an idle job moves as soon as a tick is not claimed
	shaky.Proxied = true
	i := c.start(shaky)
	c.start(steady())
	names := c.submitAll(4, "job")
	c.awaitRest(len(names), 2)
	since := time.Now()
	for range 3 {
		at := time.Now()
		i.proxy.Cut()
		c.throughout(syncPeriod/2, "the owners stay", func() error { return c.even(len(names), 2) })
		i.proxy.Heal()
		for _, name := range names {
			c.awaitRun(name, at)
		}
	}
	if n := c.moves(since); n > 0 {
		t.Errorf("%d adoptions, want the jobs to stay where they are", n)
	}
}

func TestServerRestart(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	c := newCluster(t, server)
	c.start(options{Session: 2 * session})
	c.start(options{Session: 2 * session})
	c.submit("held", hold)
	names := append(c.submitAll(5, "job"), "held")
	c.awaitEven(len(names), 2)
	c.awaitRun("held", time.Time{})

	at := time.Now()
	server.Restart()
	up := time.Now()
	for _, name := range names[:5] {
		c.awaitRun(name, up)
	}
	t.Logf("server away for %v; all jobs run again after %v; %d adoptions; held job: %v",
		up.Sub(at).Round(time.Millisecond), time.Since(at).Round(time.Millisecond), c.moves(at), c.runs("held"))
	c.awaitEven(len(names), 2)
}

func TestServerOutageLongerThanSession(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	c := newCluster(t, server)
	for range 3 {
		c.start(options{})
	}
	c.submit("held", hold)
	names := append(c.submitAll(8, "job"), "held")
	c.awaitEven(len(names), 3)
	held := c.awaitRun("held", time.Time{})

	server.Kill()
	at := time.Now()
	c.awaitRun("held", time.Time{}, on(held.SID), endedBy(singleworker.ErrLeaseLost))
	c.throughout(time.Until(at.Add(session*3/2)), "nothing runs without a lease", func() error {
		for _, r := range c.runs("") {
			if r.At.After(at.Add(session)) {
				return errors.New(r.String())
			}
		}
		return nil
	})
	up := time.Now() // instances with a live session may be faster than Restart
	server.Restart()
	for _, name := range names {
		c.awaitRun(name, up)
	}
	t.Logf("server away for %v; all jobs run again %v after its return",
		up.Sub(at).Round(time.Millisecond), time.Since(up).Round(time.Millisecond))
	c.awaitEven(len(names), 3)
}

func TestServerDownAtStart(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	c := newCluster(t, server)
	c.submit("job", work)
	server.Kill()
	c.start(options{})
	c.throughout(2*time.Second, "Run keeps trying", func() error {
		select {
		case <-c.instances[0].done:
			return c.instances[0].err
		default:
			return nil
		}
	})
	server.Restart()
	c.awaitRun("job", time.Time{})
}

func TestSuspendedServer(t *testing.T) {
	t.Parallel()
	server := zkserver.Start(t)
	c := newCluster(t, server)
	for range 2 {
		c.start(options{})
	}
	c.submit("held", hold)
	names := append(c.submitAll(5, "job"), "held")
	c.awaitEven(len(names), 2)
	held := c.awaitRun("held", time.Time{})

	server.Suspend()
	at := time.Now()
	c.awaitRun("held", time.Time{}, is(held), endedBy(singleworker.ErrLeaseLost))
	c.throughout(time.Until(at.Add(session*3/2)), "nothing runs without a lease", func() error {
		for _, r := range c.runs("") {
			if r.At.After(at.Add(session)) {
				return errors.New(r.String())
			}
		}
		return nil
	})
	server.Resume()
	up := time.Now()
	for _, name := range names {
		c.awaitRun(name, up)
	}
	t.Logf("all jobs run again %v after the server's return", time.Since(up).Round(time.Millisecond))
	c.awaitEven(len(names), 2)
}

func TestStopDuringServerOutage(t *testing.T) {
	t.Parallel()
	const session = 2 * time.Second
	for name, lose := range map[string]func(*zkserver.Proxy){
		"refused": (*zkserver.Proxy).Cut, "silent": (*zkserver.Proxy).Stall,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, sharedServer.get(t))
			c.submit("job", work)
			i := c.start(options{Session: session, Proxied: true})
			c.awaitRun("job", time.Time{}, ended)
			lose(i.proxy)
			at := time.Now()
			wantErr(t, "stop", c.stop(i), singleworker.ErrNotHandedBack)
			t.Logf("%s: Run returned after %v", name, time.Since(at).Round(time.Millisecond))
			if took := time.Since(at); took > 4*session {
				t.Errorf("Run returned after %v, with a session of %v", took, session)
			}
		})
	}
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, sharedServer.get(t))
	proxy := zkserver.NewProxy(t, c.server.Addr())
	for name, lose := range map[string]func(){"refused": proxy.Cut, "silent": func() { proxy.Heal(); proxy.Stall() }} {
		lose()
		i := c.start(options{Servers: proxy.Addr()})
		c.throughout(time.Second, "Run keeps trying", func() error {
			select {
			case <-i.done:
				return fmt.Errorf("it has returned: %w", i.err)
			default:
				return nil
			}
		})
		at := time.Now()
		if err := c.stop(i); err != nil {
			t.Errorf("%s: Run after a stop: %v, want nil: there was nothing to hand back", name, err)
		}
		t.Logf("%s: Run returned %v after its context ended", name, time.Since(at).Round(time.Millisecond))

		at = time.Now()
		ctx, cancel := contextFor(t, time.Second)
		_, err := admin.Dial(ctx, admin.Config{Servers: proxy.Addr(), ServerType: c.group})
		cancel()
		wantErr(t, name+": dial", err, admin.ErrUnavailable)
		took := time.Since(at)
		t.Logf("%s: Dial failed after %v, its deadline was 1s", name, took.Round(time.Millisecond))
		if took < time.Second || took > patience {
			t.Errorf("%s: Dial failed after %v, want it at the deadline, 1s", name, took)
		}
	}
}

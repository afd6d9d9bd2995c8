package guard_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/guard"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// guarded starts an instance under a guard.
func guarded(t *testing.T, c *swtest.Cluster, setup swtest.Setup) (g *guard.Guard, victim *swtest.Instance) {
	t.Helper()
	g, err := guard.New(admin.Config{Servers: "zkdev:1", ServerType: "group", Dial: c.Server.Client("guard").Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	name, token, _ := strings.Cut(g.Env(), "=")
	t.Setenv(name, token)
	victim = c.Start("victim", setup)
	time.Sleep(time.Second)
	if err := os.Unsetenv(name); err != nil {
		t.Fatal(err)
	}
	return g, victim
}

// guardedPair starts an instance under a guard, and then another one, which
// would take over its job.
func guardedPair(t *testing.T, c *swtest.Cluster) (g *guard.Guard, victim *swtest.Instance) {
	t.Helper()
	setup := swtest.Setup{Handlers: map[string]singleworker.Handler{
		"job": func(context.Context, *singleworker.Run) error { return nil },
	}}
	g, victim = guarded(t, c, setup)
	if err := c.Submit(t.Context(), singleworker.Job{Name: "job", Schedule: "*/10 * * * * ?"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(25 * time.Second)
	c.Start("heir", setup)
	time.Sleep(5 * time.Second)
	if owner := c.Owners()["job"]; owner != "victim" {
		t.Fatalf("job is owned by %q", owner)
	}
	return g, victim
}

// deregister kills an instance, and removes its registration at once.
func deregister(t *testing.T, g *guard.Guard, victim *swtest.Instance) {
	t.Helper()
	victim.Kill()
	got, err := g.Deregister(t.Context(), func(guard.Instance) bool { return true })
	if err != nil || len(got.Removed) != 1 || got.Removed[0].ID != "victim" || len(got.Kept) > 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// touches reports whether a transaction of a client's concerns the node.
func touches(r *zkdev.Request, client *swtest.Instance, path string) bool {
	return r.Client == client.Place() && slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool { return op.Path == path })
}

// The heir takes over at once, while the session of the dead one lives on.
func TestTakeoverWithoutWaitingForTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		g, victim := guardedPair(t, c)
		deregister(t, g, victim)
		time.Sleep(time.Millisecond) // of a session timeout of 10 s
		if owner := c.Owners()["job"]; owner != "heir" {
			t.Errorf("a moment after the death the job is owned by %q", owner)
		}
	})
}

// A claim that the process has sent, and that the server gets to when the
// process is dead and its registration removed. It is to be as if the process
// had died a moment later, or sooner: the tick is run once, by the heir.
func TestClaimInFlightAtDeath(t *testing.T) {
	for name, c := range map[string]struct {
		claim, take time.Duration // how late they are applied
		attempt     int           // of the heir's run
	}{
		"applied before the takeover": {claim: time.Second, take: 2 * time.Second, attempt: 2},
		"applied after the takeover":  {claim: 2 * time.Second, attempt: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := swtest.New(t, swtest.Config{})
				g, victim := guardedPair(t, cluster)
				sent := make(chan time.Time, 1)
				cluster.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					if !touches(r, victim, "/group/job/tick") {
						return zkdev.Pass()
					}
					sent <- time.Now()
					return zkdev.Delay(c.claim)
				})
				claimed := (<-sent).Truncate(time.Second)
				heir := cluster.Instances()[1]
				cluster.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					if !touches(r, heir, "/group/job/alive/heir") {
						return zkdev.Pass()
					}
					return zkdev.Delay(c.take)
				})
				deregister(t, g, victim)
				time.Sleep(time.Minute)
				wantRunOnce(t, cluster, claimed, c.attempt)
			})
		})
	}
}

// wantRunOnce checks that no tick was run twice, and how the one was run whose
// claim was in flight.
func wantRunOnce(t *testing.T, c *swtest.Cluster, claimed time.Time, attempt int) {
	t.Helper()
	seen := make(map[time.Time]bool)
	found := false
	for _, r := range c.Runs() {
		if seen[r.Tick] {
			t.Errorf("tick %v was run again, by %s", r.Tick, r.Instance.Name)
		}
		seen[r.Tick] = true
		if r.Tick.Equal(claimed) {
			found = true
			if r.Instance.Name != "heir" || r.Attempt != attempt {
				t.Errorf("run by %s, attempt %d, want the heir's, attempt %d", r.Instance.Name, r.Attempt, attempt)
			}
		}
	}
	if !found {
		t.Errorf("tick %v was not run; runs of %v", claimed, seen)
	}
}

// A late heartbeat, too, comes before the takeover, which then is refused and
// tried again, or after it, and is refused itself.
func TestHeartbeatInFlightAtDeath(t *testing.T) {
	for _, late := range []time.Duration{time.Second, 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := swtest.New(t, swtest.Config{})
			g, victim := guardedPair(t, c)
			sent := make(chan struct{})
			c.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
				beats := len(r.Ops) == 2 && strings.HasPrefix(r.Ops[0].Path, c.Tree().Lives()+"/") // with the sign of life
				if !beats || !touches(r, victim, "/group/job/alive/victim") {
					return zkdev.Pass()
				}
				close(sent)
				return zkdev.Delay(late)
			})
			<-sent
			heir := c.Instances()[1]
			c.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
				if !touches(r, heir, "/group/job/alive/heir") {
					return zkdev.Pass()
				}
				return zkdev.Delay(2 * time.Second)
			})
			deregister(t, g, victim)
			time.Sleep(6 * time.Second)
			if owner := c.Owners()["job"]; owner != "heir" {
				t.Errorf("a heartbeat %v late: the job is owned by %q", late, owner)
			}
		})
	}
}

// While the removal is on its way the session ends, and an instance of the same
// id starts: its node has the path and the version of the old one, and stays.
func TestLateRemovalKeepsTheNextIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := swtest.New(t, swtest.Config{})
		g, victim := guarded(t, c, swtest.Setup{})
		c.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if r.Client != "guard" {
				return zkdev.Pass()
			}
			return zkdev.Delay(5 * time.Second)
		})
		victim.Kill()
		time.AfterFunc(time.Second, func() {
			for _, s := range c.Server.Sessions() {
				if slices.Contains(s.Ephemerals, "/group/_instances/victim") {
					if err := c.Server.ExpireSession(s.ID); err != nil {
						t.Error(err)
					}
				}
			}
			c.Start("victim", swtest.Setup{})
		})
		got, err := g.Deregister(t.Context(), func(guard.Instance) bool { return true })
		if err != nil || len(got.Removed)+len(got.Kept) > 0 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// Only a token is published: whatever else the variable holds stays where it is.
func TestGuardVariable(t *testing.T) {
	for value, published := range map[string]bool{"": false, "user:password": false, uuid.NewString(): true} {
		synctest.Test(t, func(t *testing.T) {
			t.Setenv(guard.EnvVar, value)
			c := swtest.New(t, swtest.Config{})
			c.Start("a", swtest.Setup{})
			time.Sleep(time.Second)
			err := c.Operate(t.Context(), func(client *admin.Client) error {
				instances, err := client.Instances(t.Context())
				if err == nil && (len(instances) != 1 || (instances[0].Guard != "") != published) {
					t.Errorf("%q: %+v", value, instances)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

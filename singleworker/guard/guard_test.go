package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// world is a server in virtual time, and a connection that writes the registrations of
// instances.
type world struct {
	*testing.T

	server *zkdev.Server
	conn   *zkconn.Conn
	tree   zkrec.Tree
	ctx    context.Context //nolint:containedctx // in place of the test's own
}

func (w *world) Context() context.Context { return w.ctx }

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, server: zkdev.Start(t, zkdev.Config{NoListen: true}), tree: zkrec.NewTree("billing")}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		t.Cleanup(cancel)
		w.ctx = ctx
		conn, err := zkconn.Open(zkconn.Config{Servers: "zkdev:1", SessionTimeout: 10 * time.Second, Dial: w.server.Dial},
			func(zkconn.Event) {})
		w.must(err)
		t.Cleanup(conn.Close)
		w.conn = conn
		test(w)
	})
}

// must ends the test, or, when that is over, a goroutine that it has left.
func (w *world) must(err error) {
	w.Helper()
	switch {
	case err == nil:
	case w.Context().Err() != nil:
		runtime.Goexit()
	default:
		w.Fatal(err)
	}
}

func (w *world) multi(ops ...zkconn.Op) {
	w.Helper()
	_, err := w.conn.Multi(w.Context(), ops...)
	w.must(err)
}

// guard makes a guard.
func (w *world) guard() *Guard {
	w.Helper()
	g, err := New(admin.Config{Servers: "zkdev:1", ServerType: "billing", Dial: w.server.Client("guard").Dial})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(g.Close)
	return g
}

// guarded starts an instance in a process that has the token, as coord does.
func (w *world) guarded(sid, token string, pid int) {
	w.Helper()
	if err := w.conn.EnsureRoot(w.Context(), w.tree.Instances()); err != nil {
		w.Fatal(err)
	}
	record := zkrec.Instance{Incarnation: fmt.Sprint(sid, "-", pid), Host: "host", PID: pid, Guard: token}
	w.multi(
		zkconn.SetOp(w.tree.Instances(), nil, zkconn.AnyVersion),
		zkconn.CreateEphemeralOp(w.tree.Instance(sid), record.Encode()),
	)
}

func (w *world) wantInstances(want ...string) {
	w.Helper()
	names, _, err := w.conn.Children(w.Context(), w.tree.Instances())
	if err != nil {
		w.Fatal(err)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		w.Errorf("instances %q, want %q", names, want)
	}
}

// text describes the work.
func text(d Deregistered) string {
	var parts []string
	for _, i := range d.Removed {
		parts = append(parts, fmt.Sprintf("removed %s (%s, %d)", i.ID, i.Incarnation, i.PID))
	}
	for _, i := range d.Kept {
		parts = append(parts, "kept "+i.ID)
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

func (w *world) deregister(g *Guard, exited func(Instance) bool) string {
	w.Helper()
	d, err := g.Deregister(w.Context(), exited)
	if err != nil {
		w.Errorf("Deregister: %v", err)
	}
	return text(d)
}

func yes(Instance) bool { return true }

// Whatever has another token, or none, or cannot be read, is not the guard's.
func TestOnlyTheGuardsRegistrationsAreRemoved(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g, other := w.guard(), w.guard()
		if got := w.deregister(g, yes); got != "" {
			w.Errorf("of a group that never was: %s", got)
		}
		w.guarded("a", g.token, 1)
		w.guarded("b", other.token, 1)
		w.guarded("c", "", 1)
		w.guarded("d", g.token, 4)
		w.guarded("e", g.token, 5)
		w.multi(zkconn.CreateOp(w.tree.Instance("f"), []byte(g.token)))
		got := w.deregister(g, func(i Instance) bool {
			if i.Host != "host" || !slices.Contains([]string{"a", "d", "e"}, i.ID) {
				w.Errorf("asked about %+v", i)
			}
			return i.PID != 4
		})
		if want := "kept d; removed a (a-1, 1); removed e (e-5, 5)"; got != want {
			w.Errorf("got %s, want %s", got, want)
		}
		w.wantInstances("b", "c", "d", "f")
		if name, token, _ := strings.Cut(g.Env(), "="); name != EnvVar || token != g.token {
			w.Errorf("environment %q", g.Env())
		}
	})
}

// A registration that may not be read hides no other; alone it may be the child's, which is not
// kept secret.
func TestRegistrationThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g := w.guard()
		w.guarded("a", g.token, 1)
		w.guarded("hidden", "", 1)
		w.server.ControlKeep(zkdev.OpGetData, func(r *zkdev.Request) zkdev.Action {
			if r.Path == w.tree.Instance("hidden") {
				return zkdev.Refuse(zkdev.NoAuth)
			}
			return zkdev.Pass()
		})
		if got, want := w.deregister(g, yes), "removed a (a-1, 1)"; got != want {
			w.Errorf("got %q, want %q", got, want)
		}
		if _, err := g.Deregister(w.Context(), yes); !errors.Is(err, admin.ErrDenied) {
			w.Errorf("with nothing left that may be read: %v, want ErrDenied", err)
		}
	})
}

// The node of the next incarnation has the same path, and the same version: a removal must apply
// only to the node that was read, however late it arrives.
func TestTheNextIncarnationIsKept(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]func() zkdev.Action{
		"late": func() zkdev.Action { return zkdev.Delay(time.Second) },
		"lost": zkdev.CutBefore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(w *world) {
				g := w.guard()
				w.guarded("a", g.token, 1)
				w.guarded("b", g.token, 2)
				done := make(chan string)
				met := make(chan bool)
				w.server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
					if r.Client != "guard" || !strings.HasSuffix(r.Ops[1].Path, "/a") {
						return zkdev.Pass()
					}
					close(met)
					return action()
				})
				go func() { done <- w.deregister(g, yes) }()
				<-met
				w.multi(zkconn.DeleteOp(w.tree.Instance("a"), zkconn.AnyVersion)) // it left in order, at the last moment
				w.guarded("a", "", 1)
				if got, want := <-done, "removed b (b-2, 2)"; name == "late" && got != want {
					w.Errorf("got %s, want %s", got, want)
				}
				w.wantInstances("a")
			})
		})
	}
}

// A removal whose answer was lost was one.
func TestRemovalWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g := w.guard()
		w.guarded("a", g.token, 1)
		w.server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
			if r.Client == "guard" {
				return zkdev.CutAfter()
			}
			return zkdev.Pass()
		})
		if got, want := w.deregister(g, yes), "removed a (a-1, 1)"; got != want {
			w.Errorf("got %s, want %s", got, want)
		}
		w.wantInstances()
	})
}

// The record is written again and again while its process lives; its last
// write may arrive after it has died.
func TestRegistrationThatChanges(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g := w.guard()
		w.guarded("a", g.token, 1)
		asked := 0
		got := w.deregister(g, func(Instance) bool {
			if asked++; asked == 1 {
				w.multi(zkconn.SetOp(w.tree.Instance("a"), zkrec.Instance{Incarnation: "a-1", PID: 1, Owned: 3, Guard: g.token}.Encode(), zkconn.AnyVersion))
			}
			return true
		})
		if want := "removed a (a-1, 1)"; got != want || asked != 2 {
			w.Errorf("got %s, want %s; asked %d times", got, want, asked)
		}
	})
}

// It tries until its context ends, and succeeds when the server is back.
func TestServerAway(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g := w.guard()
		w.guarded("a", g.token, 1)
		away := w.server.Client("guard")
		away.Partition()
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		d, err := g.Deregister(ctx, yes)
		if !errors.Is(err, admin.ErrUnavailable) || text(d) != "" || time.Since(began) != 5*time.Second {
			w.Errorf("after %v: %v, %s", time.Since(began), err, text(d))
		}
		time.AfterFunc(20*time.Second, away.Heal)
		if got, want := w.deregister(g, yes), "removed a (a-1, 1)"; got != want {
			w.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestGuardConfig(t *testing.T) {
	t.Parallel()
	_, err := New(admin.Config{Servers: "zk:1", ServerType: "a/b"})
	if refused := (*invalid.FieldError)(nil); !errors.As(err, &refused) || refused.Field != "ServerType" {
		t.Errorf("%v", err)
	}
}

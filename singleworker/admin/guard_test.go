package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// guard makes a guard.
func (w *world) guard() *Guard {
	w.Helper()
	g, err := NewGuard(Config{Servers: "zkdev:1", ServerType: "billing", Dial: w.server.Client("guard").Dial})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(g.Close)
	return g
}

// guarded starts an instance in a process that has the token, as coord does.
func (w *world) guarded(sid, token string, pid int) {
	w.Helper()
	if err := w.hand.conn.EnsureRoot(w.Context(), w.c.tree.Instances()); err != nil {
		w.Fatal(err)
	}
	record := zkrec.Instance{Incarnation: fmt.Sprint(sid, "-", pid), Host: "host", PID: pid, Guard: token}
	w.multi(
		zkconn.SetOp(w.c.tree.Instances(), nil, zkconn.AnyVersion),
		zkconn.CreateEphemeralOp(w.c.tree.Instance(sid), record.Encode()),
	)
}

func (w *world) wantInstances(want ...string) {
	w.Helper()
	names, _, err := w.hand.conn.Children(w.Context(), w.c.tree.Instances())
	if err != nil {
		w.Fatal(err)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		w.Errorf("instances %q, want %q", names, want)
	}
}

// told describes a burial.
func told(b Burial) string {
	var parts []string
	for _, i := range b.Removed {
		parts = append(parts, fmt.Sprintf("removed %s (%s, %d)", i.ID, i.Incarnation, i.PID))
	}
	for _, s := range b.Spared {
		parts = append(parts, fmt.Sprintf("spared %s: %v", s.ID, s.Why))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

func (w *world) bury(g *Guard, isDead func(Instance) error) string {
	w.Helper()
	b, err := g.Bury(w.Context(), isDead)
	if err != nil {
		w.Errorf("Bury: %v", err)
	}
	return told(b)
}

func surely(Instance) error { return nil }

// Whatever has another token, or none, or cannot be read, is not the guard's.
func TestBuryRemovesItsOwn(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g, other := w.guard(), w.guard()
		if got := w.bury(g, surely); got != "" {
			w.Errorf("of a group that never was: %s", got)
		}
		w.guarded("a", g.token, 1)
		w.guarded("b", other.token, 1)
		w.guarded("c", "", 1)
		w.guarded("d", g.token, 4)
		w.guarded("e", g.token, 5)
		w.multi(zkcreate(w.c.tree.Instance("f"), []byte(g.token)))
		lives := errors.New("it lives")
		got := w.bury(g, func(i Instance) error {
			if i.Guard != g.token {
				w.Errorf("asked about %+v", i)
			}
			if i.PID == 4 {
				return lives
			}
			return nil
		})
		if want := "removed a (a-1, 1); removed e (e-5, 5); spared d: it lives"; got != want {
			w.Errorf("got %s, want %s", got, want)
		}
		w.wantInstances("b", "c", "d", "f")
		if name, token, _ := strings.Cut(g.Env(), "="); name != zkrec.GuardEnv || token != g.token {
			w.Errorf("environment %q", g.Env())
		}
	})
}

// The node of the next incarnation has the same path, and the same version: what
// was read must be what is removed, however late the removal arrives.
func TestBuryLeavesTheNextIncarnation(t *testing.T) {
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
				go func() { done <- w.bury(g, surely) }()
				<-met
				w.multi(zkdelete(w.c.tree.Instance("a"))) // it left in order, at the last moment
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
func TestBuryAnswerLost(t *testing.T) {
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
		if got, want := w.bury(g, surely), "removed a (a-1, 1)"; got != want {
			w.Errorf("got %s, want %s", got, want)
		}
		w.wantInstances()
	})
}

// The record is written again and again while its process lives; its last
// write may arrive after it has died.
func TestBuryRecordChanges(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g := w.guard()
		w.guarded("a", g.token, 1)
		asked := 0
		got := w.bury(g, func(Instance) error {
			if asked++; asked == 1 {
				w.put(w.c.tree.Instance("a"), zkrec.Instance{Incarnation: "a-1", PID: 1, Owned: 3, Guard: g.token}.Encode())
			}
			return nil
		})
		if want := "removed a (a-1, 1)"; got != want || asked != 2 {
			w.Errorf("got %s, want %s; asked %d times", got, want, asked)
		}
	})
}

// It tries until its context ends, and succeeds when the server is back.
func TestBuryServerAway(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		g := w.guard()
		w.guarded("a", g.token, 1)
		away := w.server.Client("guard")
		away.Partition()
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		b, err := g.Bury(ctx, surely)
		if !errors.Is(err, ErrUnavailable) || told(b) != "" || time.Since(began) != 5*time.Second {
			w.Errorf("after %v: %v, %s", time.Since(began), err, told(b))
		}
		time.AfterFunc(20*time.Second, away.Heal)
		if got, want := w.bury(g, surely), "removed a (a-1, 1)"; got != want {
			w.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestGuardConfig(t *testing.T) {
	t.Parallel()
	_, err := NewGuard(Config{Servers: "zk:1", ServerType: "a/b"})
	if invalid := (*InvalidError)(nil); !errors.As(err, &invalid) || invalid.Field != "ServerType" {
		t.Errorf("%v", err)
	}
}

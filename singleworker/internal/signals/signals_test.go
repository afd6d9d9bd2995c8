package signals_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/roomtest"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// A change and its signals are one transaction; a signal that cannot be given does not keep the
// change.
func TestSignalsTravelWithTheChange(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Create(g.Tree.Job("job"), "")
		_, was, _ := g.Get(g.Tree.Job("job"))
		signal := signals.OfJob(g.Tree, "job")
		change := zkconn.SetOp(g.Tree.Job("job"), []byte("@daily"), zkconn.AnyVersion)
		for what, send := range map[string]func(of []signals.Signal, op zkconn.Op) ([]zkconn.Stat, error){
			"Multi": func(of []signals.Signal, op zkconn.Op) ([]zkconn.Stat, error) {
				return signals.Multi(g.T.Context(), g.Editor, of, op)
			},
			"MultiOn": func(of []signals.Signal, op zkconn.Op) ([]zkconn.Stat, error) {
				return signals.MultiOn(g.T.Context(), g.Editor, g.Tree.Job("job"), was.Czxid, of, op)
			},
		} {
			path := signal[0].Path
			want := func(about string, told bool) {
				g.T.Helper()
				_, job, _ := g.Get(g.Tree.Job("job"))
				data, stat, _ := g.Get(path)
				if got := stat.Mzxid == job.Mzxid; string(data) != about || got != told {
					g.T.Errorf("%s: the signal says %q, in the same transaction: %v; want %q, %v", what, data, got, about, told)
				}
			}
			stats, err := send(signal, change)
			if err != nil || len(stats) != 1 {
				g.T.Errorf("%s: %v, %v, want the one stat that was asked for", what, stats, err)
			}
			want("job", true)

			g.Remove(path)
			if stats, err := send(signal, change); err != nil || len(stats) != 1 {
				g.T.Errorf("%s: without the node: %v, %v", what, stats, err)
			}
			want("job", true)
			if _, err := send([]signals.Signal{{Path: g.Tree.Changes() + "/nobody"}, signal[0]}, change); err != nil {
				g.T.Errorf("%s: where nobody listens: %v", what, err)
			}
			g.WantNodes(false, g.Tree.Changes()+"/nobody")
			want("job", true)

			_, before, _ := g.Get(path)
			if _, err := send(signal, zkconn.SetOp(g.Tree.Job("job"), nil, 1<<20)); !errors.Is(err, zkconn.ErrBadVersion) {
				g.T.Errorf("%s: a change that is refused: %v", what, err)
			}
			if _, after, _ := g.Get(path); after.Mzxid != before.Mzxid {
				g.T.Errorf("%s: a change that is refused was told of", what)
			}
		}
	})
}

// A signal that may not be set, or whose node may not be made, is left out.
func TestSignalThatIsDenied(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Create(g.Tree.Job("job"), "")
		signal := signals.OfJob(g.Tree, "job")
		var denied atomic.Int32
		for _, op := range []zkdev.Op{zkdev.OpMulti, zkdev.OpCreate} {
			g.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
				if strings.HasPrefix(r.Path, g.Tree.Changes()) || len(r.Ops) == 1 && strings.HasPrefix(r.Ops[0].Path, g.Tree.Changes()) {
					denied.Add(1)
					return zkdev.Refuse(zkdev.NoAuth)
				}
				return zkdev.Pass()
			})
		}
		g.Multi(zkconn.DeleteOp(signal[0].Path, zkconn.AnyVersion), zkconn.CheckOp(g.Tree.Root(), zkconn.AnyVersion))
		if _, err := signals.Multi(g.T.Context(), g.Editor, signal, zkconn.SetOp(g.Tree.Job("job"), []byte("@daily"), 0)); err != nil || denied.Load() == 0 {
			g.T.Errorf("%v, %d requests denied", err, denied.Load())
		}
		g.WantNodes(false, signal[0].Path)
		if data, _, _ := g.Get(g.Tree.Job("job")); string(data) != "@daily" {
			g.T.Errorf("the job is %q", data)
		}
	})
}

// Instances that start at once make the signals that do not exist.
func TestPrepare(t *testing.T) {
	t.Parallel()
	roomtest.InGroup(t, func(g *roomtest.Group) {
		g.Remove(g.Tree.Signal(3))
		g.Remove(g.Tree.Signal(63))
		g.Server.Control(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action {
			return zkdev.Refuse(zkdev.NodeExists) // another one was faster
		})
		if err := signals.Prepare(g.T.Context(), g.Editor, g.Tree); err != nil {
			g.T.Fatal(err)
		}
		names, _, err := g.Editor.Children(g.T.Context(), g.Tree.Changes())
		if err != nil || len(names) != zkrec.Signals {
			g.T.Fatalf("%d signals, %v", len(names), err)
		}
		for _, name := range names {
			n, is := g.Tree.SignalAt(g.Tree.Changes() + "/" + name)
			if !is || g.Tree.Signal(n) != g.Tree.Changes()+"/"+name {
				g.T.Errorf("%s is no signal", name)
			}
		}
		others := []string{g.Tree.Changes(), g.Tree.Changes() + "/64", g.Tree.Changes() + "/-1", g.Tree.Changes() + "/x", g.Tree.Signal(1) + "/1"}
		if slices.ContainsFunc(others, func(path string) bool { _, is := g.Tree.SignalAt(path); return is }) {
			g.T.Errorf("one of %q is a signal", others)
		}
	})
}

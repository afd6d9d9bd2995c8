package roomtest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/session"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// How the instances of a Group are configured.
const (
	SessionTimeout = 4 * time.Second
	SyncPeriod     = 3 * time.Second
)

// Midnight is when the clock of a bubble begins.
var Midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Group is the server of a group in virtual time, and a connection that edits its nodes.
type Group struct {
	T      *testing.T
	Server *zkdev.Server
	Tree   zkrec.Tree
	Editor *zkconn.Conn

	// Set these before an instance is started.
	Grace   time.Duration         // see owner.Owner.Grace; 0 unless set
	Session time.Duration         // the timeout that instances ask for; SessionTimeout unless set
	Walls   map[string]wall.Clock // of the instances whose wall clocks are off
}

// InGroup runs a test in a bubble, in which every goroutine must have ended after it.
func InGroup(t *testing.T, test func(g *Group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &Group{T: t, Tree: zkrec.NewTree("group")}
		g.Server = zkdev.Start(t, zkdev.Config{NoListen: true})
		editor, err := zkconn.Open(g.Conn(g.Server.Client("editor")), func(zkconn.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		g.Editor = editor
		t.Cleanup(editor.Close)
		for _, root := range []string{g.Tree.Instances(), g.Tree.Lives()} {
			if err := editor.EnsureRoot(t.Context(), root); err != nil {
				t.Fatal(err)
			}
		}
		if err := signals.Prepare(t.Context(), editor, g.Tree); err != nil {
			t.Fatal(err)
		}
		test(g)
	})
}

// Conn configures a connection of a client of the server.
func (g *Group) Conn(client *zkdev.Client) zkconn.Config {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := client.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return Settle(conn), nil
	}
	return zkconn.Config{Servers: "zk1", SessionTimeout: cmp.Or(g.Session, SessionTimeout), Dial: dial, Logger: slog.New(slog.DiscardHandler)}
}

// Closed returns a connection of a client, which is not open yet.
func (g *Group) Closed(client *zkdev.Client) *zkconn.Conn {
	g.T.Helper()
	conn, err := zkconn.New(g.Conn(client))
	if err != nil {
		g.T.Fatal(err)
	}
	return conn
}

// Pass lets time pass, including all events at its end.
func Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Multi runs one transaction as the editor.
func (g *Group) Multi(ops ...zkconn.Op) {
	g.T.Helper()
	if _, err := g.Editor.Multi(g.T.Context(), ops...); err != nil {
		g.T.Fatal(err)
	}
}

// asked is the operations that tell all instances of a request to the owner of the job.
func (g *Group) asked() (ops []zkconn.Op) {
	incarnations, _, err := g.Editor.Children(g.T.Context(), g.Tree.Asked())
	if err != nil {
		g.T.Fatal(err)
	}
	for _, incarnation := range incarnations {
		ops = append(ops, zkconn.SetOp(g.Tree.AskedOf(incarnation), []byte("job"), zkconn.AnyVersion))
	}
	return ops
}

// Set overwrites a node, whatever its version. If it is a job's spec or switch, its instances are
// told.
func (g *Group) Set(path string, data []byte) {
	g.T.Helper()
	g.Multi(append([]zkconn.Op{zkconn.SetOp(path, data, zkconn.AnyVersion)}, g.signal(path)...)...)
}

// signal is the operations that tell instances that a node has changed, or is gone, if it is a
// job's own, or a request.
func (g *Group) signal(path string) (ops []zkconn.Op) {
	if strings.HasPrefix(path, g.Tree.Requests("job")+"/") {
		return g.asked()
	}
	if job, is := g.Tree.Watched(path); is && (path == g.Tree.Job(job) || path == g.Tree.Register(job)) {
		for _, s := range signals.OfJob(g.Tree, job) {
			ops = append(ops, zkconn.SetOp(s.Path, []byte(s.About), zkconn.AnyVersion))
		}
	}
	return ops
}

// Create creates a node.
func (g *Group) Create(path, data string) {
	g.T.Helper()
	g.Multi(zkconn.CreateOp(path, []byte(data)))
}

// Remove deletes a node.
func (g *Group) Remove(path string) {
	g.T.Helper()
	g.Multi(append([]zkconn.Op{zkconn.DeleteOp(path, zkconn.AnyVersion)}, g.signal(path)...)...)
}

// Get reads a node; ok is false if it does not exist.
func (g *Group) Get(path string) (data []byte, stat zkconn.Stat, ok bool) {
	g.T.Helper()
	data, stat, err := g.Editor.Get(g.T.Context(), path)
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		g.T.Fatal(err)
	}
	return data, stat, err == nil
}

// Submit creates a job that is due every minute, except for the given nodes.
func (g *Group) Submit(job string, without ...string) {
	g.T.Helper()
	g.SubmitSpec(job, zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?"}, Since: time.Now().UnixMilli()}, without...)
}

// SubmitSpec creates a job, except for the given nodes.
func (g *Group) SubmitSpec(job string, spec zkrec.Spec, without ...string) {
	g.T.Helper()
	nodes := slices.DeleteFunc(g.Tree.NewJob(job, spec), func(n zkrec.Node) bool { return slices.Contains(without, n.Path) })
	g.Multi(session.CreateOps(nodes)...)
}

// SubmitSharded submits the job with the given number of shards.
func (g *Group) SubmitSharded(shards int) {
	g.T.Helper()
	g.SubmitSpec("job", zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?", Shards: shards}, Since: 1})
}

// Spec reads the job's spec.
func (g *Group) Spec() zkrec.Spec {
	g.T.Helper()
	data, _, _ := g.Get(g.Tree.Job("job"))
	spec, err := zkrec.ParseSpec("job", data)
	if err != nil {
		g.T.Fatal(err)
	}
	return spec
}

// Pause writes the job's switch.
func (g *Group) Pause(p zkrec.Pause) {
	g.T.Helper()
	g.Set(g.Tree.Register("job"), zkrec.Switch{Paused: &p}.Encode())
}

// Reshard changes the job's number of shards.
func (g *Group) Reshard(shards int) {
	g.T.Helper()
	old := g.Spec()
	spec := old
	spec.Job.Shards = shards
	g.Set(g.Tree.Job("job"), spec.Over(old).Encode())
}

// Cancel returns the operations that delete the job.
func (g *Group) Cancel() []zkconn.Op {
	g.T.Helper()
	var ops []zkconn.Op
	var below func(path string)
	below = func(path string) {
		names, _, err := g.Editor.Children(g.T.Context(), path)
		if err != nil {
			g.T.Fatal(err)
		}
		for _, name := range names {
			below(path + "/" + name)
		}
		ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion))
	}
	below(g.Tree.Job("job"))
	return append(ops, g.signal(g.Tree.Job("job"))...)
}

// Ask makes a request as an operator would.
func (g *Group) Ask(id string, r zkrec.Request) {
	g.T.Helper()
	r.At = time.Now()
	g.Multi(append([]zkconn.Op{zkconn.CreateOp(g.Tree.Request("job", id), r.Encode())}, g.asked()...)...)
}

// Records reads the job's tick and history nodes.
func (g *Group) Records() (zkrec.Tick, []zkrec.Entry) {
	g.T.Helper()
	data, _, _ := g.Get(g.Tree.Tick("job"))
	record, err := zkrec.ParseTick(data, time.Time{})
	if err != nil {
		g.T.Error(err)
	}
	pages := make([][]byte, zkrec.HistoryPages)
	for i, path := range g.Tree.HistoryPages("job") {
		pages[i], _, _ = g.Get(path)
	}
	history, err := zkrec.ParseHistory(pages)
	if err != nil {
		g.T.Error(err)
	}
	return record, history.Entries
}

// WantRecords expects the job's record, and the states in its history by run.
func (g *Group) WantRecords(want zkrec.Tick, history ...string) {
	g.T.Helper()
	record, entries := g.Records()
	if !record.Normal().Same(want.Normal()) {
		g.T.Errorf("record %+v, want %+v", record, want)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.RunID+" "+string(e.State))
	}
	if !slices.Equal(got, history) {
		g.T.Errorf("history %q, want %q", got, history)
	}
}

// WantNodes expects nodes to exist, or not.
func (g *Group) WantNodes(want bool, paths ...string) {
	g.T.Helper()
	for _, path := range paths {
		if _, _, found := g.Get(path); found != want {
			g.T.Errorf("%s exists: %v, want %v", path, found, want)
		}
	}
}

// Reads counts how often a client reads a node of slots since the last call of the function that it
// returns, by slot.
func (g *Group) Reads(client string, op zkdev.Op, node func(slot string) string) func() map[string]int {
	var mu sync.Mutex
	counts := make(map[string]int)
	g.Server.ControlKeep(op, func(r *zkdev.Request) zkdev.Action {
		mu.Lock()
		defer mu.Unlock()
		if slot, is := g.Tree.Watched(r.Path); r.Client == client && is && r.Path == node(slot) {
			counts[slot]++
		}
		return zkdev.Pass()
	})
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		defer clear(counts)
		return maps.Clone(counts)
	}
}

// OnMulti applies an action to the next transaction that writes a path with the given suffix.
func (g *Group) OnMulti(suffix string, action zkdev.Action) {
	g.Server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool {
			return strings.HasSuffix(op.Path, suffix) && op.Op != zkdev.OpCheck
		}) {
			return action
		}
		return zkdev.Pass()
	})
}

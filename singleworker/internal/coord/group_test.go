package coord

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/catalog"
	"github.com/swjobs/singleworker/singleworker/internal/journal"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const (
	sessionTimeout = 4 * time.Second
	syncPeriod     = 3 * time.Second
)

// group is a set of coordinators on their own server, in virtual time, and a client that edits nodes.
type group struct {
	t      *testing.T
	server *zkdev.Server
	tree   zkrec.Tree
	editor *zkconn.Conn
	// configure, if set, changes the config of members.
	configure func(*Config)
}

// inGroup runs a test in a bubble; every goroutine must have ended after it.
func inGroup(t *testing.T, test func(g *group)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &group{t: t, tree: zkrec.NewTree("group")}
		g.server = zkdev.Start(t, zkdev.Config{NoListen: true})
		editor, err := zkconn.Open(g.conn(g.server.Client("editor")), func(zkconn.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		g.editor = editor
		t.Cleanup(editor.Close)
		if err := editor.EnsureRoot(t.Context(), g.tree.Instances()); err != nil {
			t.Fatal(err)
		}
		test(g)
	})
}

func (g *group) conn(client *zkdev.Client) zkconn.Config {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := client.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &settling{Conn: conn}, nil
	}
	return zkconn.Config{Servers: "zk1", SessionTimeout: sessionTimeout, Dial: dial, Logger: slog.New(slog.DiscardHandler)}
}

// settling lets the client's loop settle when a connection is established: go-zookeeper
// v1.0.4 reads the last zxid then while its receiver may already write it.
type settling struct {
	net.Conn
	read, first int
	head        []byte
}

func (c *settling) Read(p []byte) (int, error) {
	const length = 4
	if c.first > 0 && c.read == c.first {
		time.Sleep(time.Nanosecond)
	}
	n, err := c.Conn.Read(p)
	c.head = append(c.head, p[:min(n, length-len(c.head))]...)
	c.read += n
	if len(c.head) == length && c.first == 0 {
		c.first = length + int(binary.BigEndian.Uint32(c.head))
	}
	return n, err
}

// multi runs one transaction as the editor.
func (g *group) multi(ops ...zkconn.Op) {
	g.t.Helper()
	if _, err := g.editor.Multi(g.t.Context(), ops...); err != nil {
		g.t.Fatal(err)
	}
}

func (g *group) set(path string, data []byte) {
	g.t.Helper()
	g.multi(zkconn.SetOp(path, data, zkconn.AnyVersion))
}

func (g *group) create(path, data string) {
	g.t.Helper()
	g.multi(zkconn.CreateOp(path, []byte(data)))
}

// get reads a node; ok is false if it does not exist.
func (g *group) get(path string) (data []byte, stat zkconn.Stat, ok bool) {
	g.t.Helper()
	data, stat, err := g.editor.Get(g.t.Context(), path)
	if err != nil && !errors.Is(err, zkconn.ErrNoNode) {
		g.t.Fatal(err)
	}
	return data, stat, err == nil
}

// submit creates a job, except for the given nodes.
func (g *group) submit(job string, without ...string) {
	g.t.Helper()
	var ops []zkconn.Op
	for _, node := range g.tree.NewJob(job, zkrec.Spec{Job: jobs.Job{Schedule: "0 * * * * ?"}, Since: time.Now().UnixMilli()}) {
		if !slices.Contains(without, node.Path) {
			ops = append(ops, zkconn.CreateOp(node.Path, node.Data))
		}
	}
	g.multi(ops...)
}

// cancel returns the operations that delete the job.
func (g *group) cancel() []zkconn.Op {
	g.t.Helper()
	var ops []zkconn.Op
	var below func(path string)
	below = func(path string) {
		names, _, err := g.editor.Children(g.t.Context(), path)
		if err != nil {
			g.t.Fatal(err)
		}
		for _, name := range names {
			below(path + "/" + name)
		}
		ops = append(ops, zkconn.DeleteOp(path, zkconn.AnyVersion))
	}
	below(g.tree.Job("job"))
	return ops
}

// records reads the job's tick and history nodes.
func (g *group) records() (zkrec.Tick, []zkrec.Entry) {
	g.t.Helper()
	data, _, _ := g.get(g.tree.Tick("job"))
	record, err := zkrec.ParseTick(data, time.Time{})
	if err != nil {
		g.t.Error(err)
	}
	data, _, _ = g.get(g.tree.History("job"))
	history, err := zkrec.ParseHistory(data)
	if err != nil {
		g.t.Error(err)
	}
	return record, history.Entries
}

// onMulti applies an action to the next transaction that writes a path with the given suffix.
func (g *group) onMulti(suffix string, action zkdev.Action) {
	g.server.Control(zkdev.OpMulti, func(r *zkdev.Request) zkdev.Action {
		if slices.ContainsFunc(r.Ops, func(op zkdev.Request) bool {
			return strings.HasSuffix(op.Path, suffix) && op.Op != zkdev.OpCheck
		}) {
			return action
		}
		return zkdev.Pass()
	})
}

// instance is a coordinator and what it reports.
type instance struct {
	*Coordinator
	g      *group
	client *zkdev.Client
	log    *logBuffer
	stop   context.CancelFunc
	ended  chan error
	sid    string

	mu        sync.Mutex
	owned     map[string]journal.Ownership
	requests  map[string][]ticks.Request
	disowned  []error
	overdue   []time.Time
	completed []string
	requested int // how often
}

// logBuffer keeps what was logged at a level that people should read.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// foreign is a job that no member can run.
const foreign = "foreign"

// handlers has the handler of every job except some.
type handlers struct{ without []string }

func (h handlers) Has(name string) bool { return !slices.Contains(h.without, name) }

// join starts a coordinator that can run every job except foreign; it ends with the test.
func (g *group) join(sid string) *instance {
	g.t.Helper()
	return g.start(sid, handlers{[]string{foreign}})
}

// bystander starts a coordinator that cannot run any of the tests' jobs.
func (g *group) bystander(sid string) *instance {
	g.t.Helper()
	return g.start(sid, handlers{[]string{foreign, "job"}})
}

func (g *group) start(sid string, h catalog.Handlers) *instance {
	g.t.Helper()
	m := &instance{
		g: g, sid: sid, client: g.server.Client(sid), log: &logBuffer{}, ended: make(chan error, 1),
		owned: make(map[string]journal.Ownership), requests: make(map[string][]ticks.Request),
	}
	clock := leases.NewClock()
	cfg := Config{
		Conn: g.conn(m.client), ServerType: "group", SyncPeriod: syncPeriod,
		Member:   member.Config{ID: sid, Instance: zkrec.Instance{Incarnation: sid + "-1"}},
		Handlers: h, Runner: m, Leases: leases.NewTable(clock), Clock: clock,
		Logger: slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if g.configure != nil {
		g.configure(&cfg)
	}
	m.Coordinator = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	tasks := task.NewGroup(context.Background())
	tasks.Go("member", func(context.Context) error {
		m.ended <- m.Run(ctx)
		return nil
	})
	g.t.Cleanup(func() {
		m.client.Heal()
		cancel()
		if err := tasks.Wait(); err != nil {
			g.t.Error(err)
		}
	})
	synctest.Wait()
	return m
}

func (m *instance) Own(o journal.Ownership) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned[o.Slot], m.requests[o.Slot] = o, o.Requests
}

func (m *instance) Requested(job string, requests []ticks.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[job] = requests
	m.requested++
}

func (m *instance) Disown(job string, cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.owned, job)
	m.disowned = append(m.disowned, cause)
}

func (m *instance) Overdue(_ string, tick time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overdue = append(m.overdue, tick)
}

func (m *instance) Completed(job string, _ zkrec.Spec, c ticks.Completion) {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := make([]string, len(c.Shards))
	for i, e := range c.Shards {
		states[i] = e.State
	}
	m.completed = append(m.completed, fmt.Sprintf("%s at %d: %s", job, c.Tick, strings.Join(states, " ")))
}

// ownership waits until the member owns the job.
func (m *instance) ownership() journal.Ownership {
	m.g.t.Helper()
	for range 300 {
		m.mu.Lock()
		o, ok := m.owned["job"]
		m.mu.Unlock()
		if ok {
			return o
		}
		pass(100 * time.Millisecond)
	}
	m.g.t.Fatalf("%s does not own the job", m.sid)
	return journal.Ownership{}
}

// ids lists the requests that the member knows.
func (m *instance) ids() (ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests["job"] {
		ids = append(ids, r.ID)
	}
	return ids
}

// pass lets time pass, including what happens at its end.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// commit is an owner's change of the record.
func commit(o journal.Ownership, from, to zkrec.Tick) ticks.Commit {
	return ticks.Commit{
		Slot: o.Slot, Token: o.Lease.Token, SpecVersion: o.Job.SpecVersion, From: from, Plan: ticks.Plan{Record: to},
	}
}

// claim is a commit that opens a run of a tick.
func claim(o journal.Ownership, from zkrec.Tick, id string, tick int64) ticks.Commit {
	return commit(o, from, zkrec.Tick{
		Watermark: tick, Run: zkrec.Run{
			Tick: tick, RunID: id, SID: "a", Token: o.Lease.Token, Attempt: 1, Started: tick, State: zkrec.RunRunning,
		},
	})
}

// outcome is a commit that closes a run.
func outcome(from zkrec.Tick, state string) ticks.Commit {
	to := from
	to.State, to.Ended = state, from.Started+1
	return ticks.Commit{Slot: "job", From: from, Plan: ticks.Plan{Record: to, Entries: []zkrec.Entry{{Run: to.Run}}}}
}

// mustCommit makes a change that must succeed.
func (m *instance) mustCommit(c ticks.Commit) zkrec.Tick {
	m.g.t.Helper()
	current, err := m.Commit(c)
	if err != nil || current != c.Plan.Record.Normal() {
		m.g.t.Fatalf("Commit = %+v, %v; want %+v", current, err, c.Plan.Record)
	}
	return current
}

// wantRecords expects the job's record, and the states in its history by run.
func (g *group) wantRecords(want zkrec.Tick, history ...string) {
	g.t.Helper()
	record, entries := g.records()
	if record.Normal() != want.Normal() {
		g.t.Errorf("record %+v, want %+v", record, want)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.RunID+" "+e.State)
	}
	if !slices.Equal(got, history) {
		g.t.Errorf("history %q, want %q", got, history)
	}
}

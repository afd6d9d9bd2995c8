package swtest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// TB is the part of testing.TB that a Cluster needs.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Config configures a Cluster. Zero fields have the given defaults.
type Config struct {
	ServerType     string        // default "group"
	SessionTimeout time.Duration // default 10 s
	SyncPeriod     time.Duration // default 3 s
	StopGrace      time.Duration // default 5 s
	Names          int           // of the server, in the connect string; default 1
	Logger         *slog.Logger  // of the instances; default one that fails the test if an instance notices that it is at fault
	Server         zkdev.Config  // default: no socket; virtual time needs that
	// Latency is the latency of the instances' connections, by the name of each on the network; see
	// zkdev.Client.SetLatency. Default: none.
	Latency func(place string) func() zkdev.Latency
	Seed    uint64 // of the instances' random numbers; 0: they are the machine's
	// WatchEvery is how often instances compare their clocks; see leases.Unhurried.
	// Default leases.WatchEvery.
	WatchEvery time.Duration
}

// Cluster is a server and the instances that were started on it. Safe for concurrent use.
type Cluster struct {
	Server *zkdev.Server

	tb    TB
	cfg   Config
	begun time.Time
	tasks *task.Group // the instances
	tree  zkrec.Tree

	mu        sync.Mutex
	instances []*Instance // every one that ever was, in the order of their starts
	runs      []*Run      // in the order of their starts
	befores   []*Run      // likewise, of Setup.Before
	rights    []*Right    // in the order of their beginnings
	notes     []Note

	modelMu sync.Mutex // guards what follows; held while the server is asked for its log
	model   *Model
	applied int64 // zxid up to which the log is in it
	lost    []loss
}

// Note is something that happened to the cluster, for the report of a failure.
type Note struct {
	Time time.Time
	Text string
}

// New starts a server. It and all instances end with the test.
func New(tb TB, cfg Config) *Cluster {
	tb.Helper()
	cfg.ServerType = cmp.Or(cfg.ServerType, "group")
	cfg.SessionTimeout = cmp.Or(cfg.SessionTimeout, 10*time.Second)
	cfg.SyncPeriod = cmp.Or(cfg.SyncPeriod, 3*time.Second)
	cfg.StopGrace = cmp.Or(cfg.StopGrace, 5*time.Second)
	cfg.Names = cmp.Or(cfg.Names, 1)
	cfg.WatchEvery = cmp.Or(cfg.WatchEvery, leases.WatchEvery)
	cfg.Server.NoListen = cfg.Server.Listen == ""
	if cfg.Logger == nil {
		cfg.Logger = slog.New(faults{tb})
	}
	c := &Cluster{
		Server: zkdev.Start(tb, cfg.Server), tb: tb, cfg: cfg, begun: time.Now(),
		tasks: task.NewGroup(context.Background()), tree: zkrec.NewTree(cfg.ServerType),
	}
	tb.Cleanup(c.Close)
	return c
}

// servers is the connect string. Its names are never resolved because Dial is set.
func (c *Cluster) servers() string {
	names := make([]string, c.cfg.Names)
	for k := range names {
		names[k] = fmt.Sprintf("zkdev%d:2181", k+1)
	}
	return strings.Join(names, ",")
}

// Tree gives the paths of the group's records.
func (c *Cluster) Tree() zkrec.Tree { return c.tree }

// Begun returns when the cluster was created.
func (c *Cluster) Begun() time.Time { return c.begun }

// Close ends all instances, orderly where the server can be reached, and waits for
// them. Idempotent.
func (c *Cluster) Close() {
	instances := c.Instances()
	for _, i := range instances {
		i.Resume()
		i.Leave()
	}
	for _, i := range instances {
		i.cancel()
	}
	if err := c.tasks.Wait(); err != nil {
		c.tb.Errorf("swtest: %v", err)
	}
}

// Note adds a line to the report of a failure.
func (c *Cluster) Note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, Note{Time: time.Now(), Text: text})
}

// Notes lists the added lines, in order.
func (c *Cluster) Notes() []Note {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Note(nil), c.notes...)
}

// Instances lists every instance that was ever started, in order.
func (c *Cluster) Instances() []*Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Instance(nil), c.instances...)
}

// Live lists the instances that run and have not been told to stop.
func (c *Cluster) Live() []*Instance {
	var live []*Instance
	for _, i := range c.Instances() {
		if i.State() == Running {
			live = append(live, i)
		}
	}
	return live
}

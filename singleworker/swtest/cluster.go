package swtest

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// TB is the part of testing.TB that is needed: a *testing.T or *testing.B.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Config is what a Cluster is like. The zero value of every field means its default.
type Config struct {
	// ServerType names the group. Default "test".
	ServerType string
	// SessionTimeout is how long a killed instance's jobs wait for another one.
	// Default 1 s.
	SessionTimeout time.Duration
	// SyncPeriod is Config.SyncPeriod of the instances. Default a quarter of
	// SessionTimeout.
	SyncPeriod time.Duration
	// Patience is how long the methods that await something do so before they fail
	// the test. Default 20 SessionTimeouts.
	Patience time.Duration
	// Logger gets what happens to the instances. Default: none.
	Logger *slog.Logger
}

// The defaults of Config.
const (
	DefaultServerType     = "test"
	DefaultSessionTimeout = time.Second
)

// Cluster is a server and the instances that were started on it. All end with the
// test. Its methods are safe for concurrent use, as far as those of the TB are.
type Cluster struct {
	tb    TB
	cfg   Config
	group *swtest.Cluster
}

// New starts a ZooKeeper server for the test. The zero Config is valid.
func New(tb TB, cfg Config) *Cluster {
	tb.Helper()
	cfg.ServerType = cmp.Or(cfg.ServerType, DefaultServerType)
	cfg.SessionTimeout = cmp.Or(cfg.SessionTimeout, DefaultSessionTimeout)
	cfg.SyncPeriod = cmp.Or(cfg.SyncPeriod, cfg.SessionTimeout/4)
	cfg.Patience = cmp.Or(cfg.Patience, 20*cfg.SessionTimeout)
	tick := cfg.SessionTimeout / 10
	return &Cluster{tb: tb, cfg: cfg, group: swtest.New(tb, swtest.Config{
		ServerType: cfg.ServerType, SessionTimeout: cfg.SessionTimeout, SyncPeriod: cfg.SyncPeriod,
		Logger: cfg.Logger, Server: zkdev.Config{Tick: tick},
	})}
}

// Server is the cluster's ZooKeeper, for what else a test does to it. It has no socket:
// connect with its Dial.
func (c *Cluster) Server() *zkdev.Server { return c.group.Server }

// ManagerConfig is the configuration with which an application's own Manager becomes an
// instance of the group, one that this package knows the ownership of and not the runs.
func (c *Cluster) ManagerConfig(name string) singleworker.Config {
	return singleworker.Config{
		Servers: "zkdev", ServerType: c.cfg.ServerType, InstanceID: name,
		SessionTimeout: c.cfg.SessionTimeout, SyncPeriod: c.cfg.SyncPeriod,
		Logger: c.cfg.Logger, Dial: c.group.Server.Dial,
	}
}

// Start starts an instance that has these handlers, and declares the jobs. Its name is
// free again when it was stopped or killed.
func (c *Cluster) Start(name string, handlers map[string]singleworker.Handler, jobs ...singleworker.Job) *Instance {
	c.tb.Helper()
	return &Instance{c.group.Start(name, swtest.Setup{Handlers: handlers, Jobs: jobs})}
}

// Submit creates a job, as an operator does. A job that is already so is left as it is; one that
// differs fails the test.
func (c *Cluster) Submit(job singleworker.Job) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Patience)
	defer cancel()
	if err := c.group.Submit(ctx, job); err != nil {
		c.tb.Fatalf("swtest: submit %s: %v", job.Name, err)
	}
}

// Cancel deletes a job, as an operator does.
func (c *Cluster) Cancel(job string) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Patience)
	defer cancel()
	if err := c.group.Cancel(ctx, job); err != nil {
		c.tb.Fatalf("swtest: cancel %s: %v", job, err)
	}
}

// Owner is the name of the instance that owns the job, or a shard of it such as "report[3]", or ""
// if no live one does. One that was killed lives, as far as anybody can know, until its session ends.
func (c *Cluster) Owner(job string) string { return c.group.Owners()[job] }

// Owners tells for each job, or each shard of one, that is owned by which instance.
func (c *Cluster) Owners() map[string]string { return c.group.Owners() }

// AwaitOwned waits until each of the jobs, or shards, has an owner.
func (c *Cluster) AwaitOwned(jobs ...string) {
	c.tb.Helper()
	var missing []string
	owned := func() bool {
		owners := c.group.Owners()
		missing = slices.DeleteFunc(slices.Clone(jobs), func(job string) bool { return owners[job] != "" })
		return len(missing) == 0
	}
	if !c.group.Await(c.cfg.Patience, owned) {
		c.tb.Fatalf("swtest: after %v nobody owns %q", c.cfg.Patience, missing)
	}
}

// AwaitOwner waits until that instance owns the job.
func (c *Cluster) AwaitOwner(job, instance string) {
	c.tb.Helper()
	if !c.group.Await(c.cfg.Patience, func() bool { return c.Owner(job) == instance }) {
		c.tb.Fatalf("swtest: after %v %s is owned by %q, want %q", c.cfg.Patience, job, c.Owner(job), instance)
	}
}

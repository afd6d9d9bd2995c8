package swtest

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// TB is the part of testing.TB that a Cluster needs.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Config configures a Cluster. The zero value of every field means its default.
type Config struct {
	// ServerType is the name of the group. Default "test".
	ServerType string
	// SessionTimeout is how long it takes until the jobs of a killed instance are taken over.
	// Default 1 s.
	SessionTimeout time.Duration
	// SyncPeriod is Config.SyncPeriod of the instances. Default SessionTimeout/4.
	SyncPeriod time.Duration
	// Timeout is how long the Await methods wait before they fail the test.
	// Default 20 × SessionTimeout.
	Timeout time.Duration
	// Logger receives the instances' messages. Default: none.
	Logger *slog.Logger
}

// Defaults of Config.
const (
	DefaultServerType     = "test"
	DefaultSessionTimeout = time.Second
)

// Cluster is a ZooKeeper server and the instances started on it. They are stopped when the test
// ends. It is as safe for concurrent use as its TB.
type Cluster struct {
	tb    TB
	cfg   Config
	group *swtest.Cluster
}

// New starts a ZooKeeper server for the test. The zero Config is valid.
func New(tb TB, cfg Config) *Cluster {
	tb.Helper()
	return newCluster(tb, cfg.withDefaults(), swtest.Config{})
}

func (cfg Config) withDefaults() Config {
	cfg.ServerType = cmp.Or(cfg.ServerType, DefaultServerType)
	cfg.SessionTimeout = cmp.Or(cfg.SessionTimeout, DefaultSessionTimeout)
	cfg.SyncPeriod = cmp.Or(cfg.SyncPeriod, cfg.SessionTimeout/4)
	cfg.Timeout = cmp.Or(cfg.Timeout, 20*cfg.SessionTimeout)
	return cfg
}

// newCluster starts a server with a configuration whose defaults are filled in, and of which the
// rest of inner follows.
func newCluster(tb TB, cfg Config, inner swtest.Config) *Cluster {
	inner.ServerType, inner.SessionTimeout, inner.SyncPeriod, inner.Logger = cfg.ServerType, cfg.SessionTimeout, cfg.SyncPeriod, cfg.Logger
	inner.WatchEvery = max(leases.WatchEvery, cfg.SessionTimeout/20)
	inner.Server = zkdev.Config{Tick: cfg.SessionTimeout / 10}
	return &Cluster{tb: tb, cfg: cfg, group: swtest.New(tb, inner)}
}

// Server returns the cluster's ZooKeeper server. It has no socket: connect with its Dial.
func (c *Cluster) Server() *zkdev.Server { return c.group.Server }

// ManagerConfig returns the configuration of a Manager that the application creates itself and that
// joins the group. The Cluster sees which jobs it owns, but not its runs.
func (c *Cluster) ManagerConfig(name string) singleworker.Config {
	return singleworker.Config{
		Servers: "zkdev", ServerType: c.cfg.ServerType, InstanceID: name,
		SessionTimeout: c.cfg.SessionTimeout, SyncPeriod: c.cfg.SyncPeriod,
		Logger: c.cfg.Logger, Dial: c.group.Server.Dial,
	}
}

// Start starts an instance with these handlers that declares these jobs. After it was stopped or
// killed, its name can be reused.
func (c *Cluster) Start(name string, handlers map[string]singleworker.Handler, jobs ...singleworker.Job) *Instance {
	c.tb.Helper()
	return &Instance{c.group.Start(name, swtest.Setup{Handlers: handlers, Jobs: jobs})}
}

// Owner returns the name of the instance that owns the job, or a shard such as "report[3]", or "".
// A killed instance counts as the owner until its session expires.
func (c *Cluster) Owner(job string) string { return c.group.Owners()[job] }

// Owners returns the owner of each job, or shard of one, that has an owner.
func (c *Cluster) Owners() map[string]string { return c.group.Owners() }

// AwaitOwned waits until each of the jobs, or shards, has an owner: of a job with shards, all of
// them.
func (c *Cluster) AwaitOwned(jobs ...string) {
	c.tb.Helper()
	var missing []string
	owned := func() bool {
		owners := c.group.Owners()
		missing = nil
		for _, job := range jobs {
			for _, slot := range c.group.Slots(job) {
				if owners[slot] == "" {
					missing = append(missing, slot)
				}
			}
		}
		return len(missing) == 0
	}
	if !c.group.Await(c.cfg.Timeout, owned) {
		c.tb.Fatalf("swtest: after %v nobody owns %q%s", c.cfg.Timeout, missing, c.reasons(missing...))
	}
}

// AwaitOwner waits until that instance owns the job.
func (c *Cluster) AwaitOwner(job, instance string) {
	c.tb.Helper()
	if !c.group.Await(c.cfg.Timeout, func() bool { return c.Owner(job) == instance }) {
		c.tb.Fatalf("swtest: after %v %s is owned by %q, want %q%s", c.cfg.Timeout, job, c.Owner(job), instance, c.reasons(job))
	}
}

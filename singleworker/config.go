package singleworker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Config configures a Manager. Servers and ServerType must be set; the zero
// value of every other field means its default.
type Config struct {
	// Servers is ZooKeeper's connect string: "host:port,host:port/chroot".
	// The port is 2181 by default; the chroot is created when it is absent, with
	// ACL, as every node is.
	Servers string
	// ServerType names the group of instances that share jobs: the
	// application's name. It is the root of the group's tree in ZooKeeper: at
	// most 200 bytes of printable characters, without '/', a blank at either end
	// or '_' at the beginning, and not "zookeeper".
	ServerType string

	// InstanceID names this instance in its group, for people and for
	// hand-over, with the characters that ServerType may have. Two live instances
	// cannot have the same; one that has just died is waited for, until its
	// session is over. Default: host name, process id and four random characters,
	// so that a restart is another instance: set it to disable one for longer.
	InstanceID string
	// Auth is "user:password" for ZooKeeper's digest scheme. Default: none.
	Auth string
	// ACL is the access control list of the nodes that this instance creates,
	// in the notation of ZooKeeper's shell: "auth::cdrwa,world:anyone:r".
	// Default: everything for Auth, or for anybody when there is no Auth.
	ACL string
	// TLS secures the connection. Default: plain TCP.
	TLS *tls.Config
	// Dial opens the connection to a server. Default: net.Dialer. An attempt, with
	// the lookup of the name, TLS and ZooKeeper's handshake, has a share of
	// SessionTimeout, so that the session outlives a server that hangs: a third with
	// one or two servers, a quarter with three, and so on, but at least 1 s where a
	// third is that much; more, the longer there has been no connection; never
	// more than 10 s. Then ctx ends, and the next server is tried.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// SessionTimeout is how long ZooKeeper waits for a silent instance before
	// its jobs are taken over; the server may grant another value, which then
	// counts. Default 10 s, at least 1 s, at most 1 h.
	SessionTimeout time.Duration
	// SyncPeriod is how often the instance looks, although nothing was reported,
	// at jobs that are free, silent or unevenly shared; at those that are well it
	// looks less often. Each period is shortened by a random part, up to a half.
	// Default 3 s, or SessionTimeout if that is less; at least 50 ms, at most
	// SessionTimeout. Where the server grants a shorter session, that counts.
	SyncPeriod time.Duration
	// StopGrace is how long running handlers may go on when Run's context
	// ends, before theirs does. Default 30 s. A process that is killed sooner, as
	// docker stop does after 10 s and Kubernetes after 30 s, leaves its jobs to
	// the session timeout.
	StopGrace time.Duration
	// Mode says how the group shares its jobs; all its instances must agree.
	// Default: LeaseMode.
	Mode Mode
	// MaxSlots is how many jobs, and shards of jobs, this instance owns at the
	// most. One that no instance has room for waits. Default 0: no limit.
	MaxSlots int
	// Weight is how large this instance's share of the jobs and shards is beside
	// those of the others: one of weight 2 gets twice as many as one of weight 1,
	// of what both can run. Default 1, at most 1000.
	Weight int

	// Logger gets what happens to the instance, and what handlers write to
	// Run.Logger. Default: slog.Default(); of what happens to the instance only
	// warnings and errors.
	Logger *slog.Logger
	// Hooks are told what happens.
	Hooks Hooks
}

// Mode is the type of Config.Mode.
type Mode string

// The modes.
const (
	// LeaseMode: each instance owns its share of the jobs.
	LeaseMode Mode = "lease"
	// LatchMode: one instance, elected as Apache Curator's LeaderLatch elects,
	// owns every job; the others stand by. When it dies, stops, or is drained or
	// disabled, the one that has waited longest takes over.
	LatchMode Mode = "latch"
)

// The defaults of Config.
const (
	DefaultSessionTimeout = 10 * time.Second
	DefaultSyncPeriod     = 3 * time.Second
	DefaultStopGrace      = 30 * time.Second
	DefaultWeight         = 1
)

const (
	minSessionTimeout = time.Second
	maxSessionTimeout = time.Hour // servers grant 20 of their ticks, 40 s by default
	minSyncPeriod     = 50 * time.Millisecond
	maxWeight         = 1000
)

// withDefaults fills in what was not set.
func (c Config) withDefaults() Config {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.SyncPeriod = cmp.Or(c.SyncPeriod, min(DefaultSyncPeriod, c.SessionTimeout))
	c.StopGrace = cmp.Or(c.StopGrace, DefaultStopGrace)
	c.Weight = cmp.Or(c.Weight, DefaultWeight)
	c.InstanceID = cmp.Or(c.InstanceID, defaultInstanceID())
	c.Mode = cmp.Or(c.Mode, LeaseMode)
	if c.Logger == nil {
		c.Logger = slog.New(warnings{slog.Default().Handler()})
	}
	return c
}

// validate checks every field, then the relations between them.
func (c Config) validate() error {
	_, _, serversErr := zkconn.ParseServers(c.Servers)
	_, aclErr := zkconn.ParseACL(c.ACL, c.Auth != "")
	checks := []struct {
		field string
		value any
		err   error
	}{
		{"Servers", c.Servers, serversErr},
		{"ServerType", c.ServerType, zkrec.CheckServerType(c.ServerType)},
		{"InstanceID", c.InstanceID, job.CheckNodeName(c.InstanceID)},
		{"Auth", "(not shown)", zkconn.CheckAuth(c.Auth)},
		{"ACL", c.ACL, aclErr},
		{"Mode", c.Mode, checkMode(c.Mode)},
		{"SessionTimeout", c.SessionTimeout, atLeast(c.SessionTimeout, minSessionTimeout)},
		{"SessionTimeout", c.SessionTimeout, atMost(c.SessionTimeout, maxSessionTimeout)},
		{"SyncPeriod", c.SyncPeriod, atLeast(c.SyncPeriod, minSyncPeriod)},
		{"StopGrace", c.StopGrace, atLeast(c.StopGrace, 0)},
		{"MaxSlots", c.MaxSlots, notNegative(c.MaxSlots)},
		{"Weight", c.Weight, checkWeight(c.Weight)},
		{"SyncPeriod", c.SyncPeriod, c.checkSyncPeriod()},
	}
	for _, check := range checks {
		if check.err != nil {
			return &ConfigError{Field: check.field, Value: check.value, Err: check.err}
		}
	}
	return nil
}

func checkMode(m Mode) error {
	if m != LeaseMode && m != LatchMode {
		return fmt.Errorf("is not known, want %s or %s", LeaseMode, LatchMode)
	}
	return nil
}

func (c Config) checkSyncPeriod() error {
	if c.SyncPeriod > c.SessionTimeout {
		return fmt.Errorf("is longer than SessionTimeout %v: a hung instance would be noticed "+
			"later than a dead one", c.SessionTimeout)
	}
	return nil
}

func atLeast(d, least time.Duration) error {
	if d < least {
		return fmt.Errorf("want at least %v", least)
	}
	return nil
}

func atMost(d, most time.Duration) error {
	if d > most {
		return fmt.Errorf("want at most %v", most)
	}
	return nil
}

func notNegative(n int) error {
	if n < 0 {
		return errors.New("want 0 for no limit, or a positive number")
	}
	return nil
}

func checkWeight(n int) error {
	if n < 1 || n > maxWeight {
		return fmt.Errorf("want 1 to %d; an instance that is to own nothing is disabled, or has no handlers", maxWeight)
	}
	return nil
}

// defaultInstanceID is readable, can be selected with a double click, and
// differs between two starts even where process ids repeat, as in containers.
func defaultInstanceID() string {
	const randomChars = 4
	random := uuid.NewString()[:randomChars]
	return fmt.Sprintf("%s-%d-%s", hostName(), os.Getpid(), random)
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil || job.CheckNodeName(host) != nil {
		return "unknown"
	}
	const keep = 100 // leaves room for the rest of an instance id
	return strings.ToValidUTF8(host[:min(len(host), keep)], "")
}

// warnings passes on what the program's own logger takes, from Warn upwards.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// handlersLogger is for what handlers write: that is the application's own, and none of it is held back.
func (c Config) handlersLogger() *slog.Logger {
	if quiet, ok := c.Logger.Handler().(warnings); ok {
		return slog.New(quiet.Handler)
	}
	return c.Logger
}

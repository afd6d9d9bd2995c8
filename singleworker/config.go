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

	"github.com/swjobs/singleworker/singleworker/internal/election"
	"github.com/swjobs/singleworker/singleworker/internal/offset"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Config configures a Manager. Servers and ServerType are required; every other
// field's zero value means its default.
type Config struct {
	// Servers is ZooKeeper's connect string: "host:port,host:port/chroot".
	// The default port is 2181. A missing chroot is created with ACL, like every
	// other node. "file:DIR" is the server whose data is in that directory of this
	// machine: swctl serve, or one that the program opens with package
	// zkdev/durable. TLS must be nil then.
	Servers string
	// ServerType names the group of instances that share jobs, usually the
	// application's name. It is the root of the group's tree in ZooKeeper: at
	// most 200 bytes of printable characters, without '/', without a leading or
	// trailing blank or a leading '_', and not "zookeeper". "_-default-_", which the
	// published sample uses if it is given none, is allowed.
	ServerType string

	// InstanceID identifies this instance in its group, with the same rules as
	// ServerType. Two live instances cannot have the same ID; if one has just died,
	// Run waits until its session is over. Default: host name, process ID and four
	// random characters, so that a restarted process is a different instance. Set
	// it if an operator's "disable" is to survive restarts.
	InstanceID string
	// Version is the program's own version: numbers such as "1.4.0" or "20261122.3", perhaps with "v",
	// a pre-release or build data. Of two declarations of a job, the newer version's wins, so that an
	// older instance that restarts in the middle of a deploy does not bring its own back; see
	// Manager.Schedule. Versions compare as in semantic versioning: by value, a missing number is 0, a
	// pre-release comes before its release, and build data do not count. Default: none.
	Version string
	// Auth is "user:password" for ZooKeeper's digest scheme. Default: none.
	Auth string
	// ACL is the access control list of the nodes that this instance creates,
	// in the notation of ZooKeeper's shell: "auth::cdrwa,world:anyone:r".
	// Default: all permissions for Auth, or for anyone if Auth is empty.
	// A group with roles (swctl acl init) has its own lists instead.
	ACL string
	// TLS secures the connection. Default: plain TCP.
	TLS *tls.Config
	// Dial opens the connection to a server. Default: net.Dialer. An attempt,
	// including name lookup, TLS and ZooKeeper's handshake, may take a share of
	// SessionTimeout, so that the session survives a server that hangs: a third with
	// one or two servers, a quarter with three, and so on, but at least 1 s if a
	// third is that long. The share grows the longer the instance has been
	// disconnected, up to 10 s. Then ctx is done, and the next server is tried.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// SessionTimeout is how long an instance may be silent before ZooKeeper ends
	// its session and its jobs are taken over. The server may grant another value,
	// which then applies. Default 10 s, at least 1 s, at most 1 h.
	SessionTimeout time.Duration
	// SyncPeriod is how often the instance polls for unowned, silent or unevenly
	// shared jobs, in addition to watches; it polls healthy jobs less often. Each
	// period is shortened by a random part of up to a half. Default 3 s, or
	// SessionTimeout if that is less; at least 50 ms, at most SessionTimeout. A
	// shorter session granted by the server is the limit as well.
	SyncPeriod time.Duration
	// HeartbeatPeriod is how often, at least, the timestamp of a job of which no run is in progress is
	// written to its heartbeat. While one is, that is four times per session timeout, and so is the
	// instance's own sign of life, which tells whether it hangs. Processes of the published sample go
	// by the timestamp alone: where they share the tree, a fifth of their limit is short enough.
	// Default 1 min, at least 50 ms.
	HeartbeatPeriod time.Duration
	// ClaimGrace is how long the owner of a job of which no run is open may leave a
	// due run unclaimed, before this instance takes the job over and runs it: the owner may have
	// crashed, hang, or be cut off. It waits longer while the group shows that it is
	// overloaded. Default 250 ms, at least 50 ms; NoTakeovers leaves a job to its owner for as long
	// as the session and the heartbeats of that last.
	ClaimGrace time.Duration
	// HistorySize is how many entries of what became of its ticks ZooKeeper keeps at least of each
	// job, or shard, that this instance runs. It keeps fewer if they would take more than 64 KiB
	// because their errors are long. Up to a fifth of them are written with each result, at some 60
	// bytes each: more make it more expensive, and give a run log (package runlog) more time to be
	// away. Default 20, which is the minimum, at most 200. Equal on all instances: one that keeps
	// fewer removes what others have kept.
	HistorySize int
	// MaxClockOffset is how far this instance's wall clock may differ from ZooKeeper's, which the
	// instance estimates from the answers to its writes. Beyond that, it hands over its jobs and
	// claims no tick until the clock is right again: see Hooks.OnClock. It never accounts for a tick
	// that is further ahead of ZooKeeper's time than that. If no instance's clock agrees with
	// ZooKeeper's, and most agree with each other, ZooKeeper's is the wrong one, and they go by
	// theirs. Default 30 s, at least 1 s; NoClockLimit leaves every clock as it is.
	MaxClockOffset time.Duration
	// StopGrace is how long running handlers may continue after Run's context is
	// done before their contexts are canceled. Default 30 s; NoGrace cancels
	// them at once. If the process is
	// killed sooner (docker stop does so after 10 s, Kubernetes after 30 s), its
	// jobs are taken over only after the session timeout.
	StopGrace time.Duration
	// StartupDelay is how long after the beginning of Run this instance takes no jobs, as one whose
	// caches are cold should not: it is a member of its group, its state is warming, and
	// Health.Ready says so, which a rolling deploy waits for. Manager.Warm ends that. It has no part
	// in the election of LatchMode meanwhile. Default 0: none. At most 1 h.
	StartupDelay time.Duration
	// Mode is how the group shares its jobs. All instances must have the same.
	// Default: LeaseMode.
	Mode Mode
	// LatchPath is where the leader of LatchMode is elected: a path below the chroot
	// of Servers and outside the group's tree. Contenders of Apache Curator's
	// LeaderLatch at the same path stand in the same queue: while one of them leads,
	// no instance of the group owns a job. All instances must have the same. Default:
	// a path of the group's own. Only with LatchMode.
	LatchPath string
	// MaxSlots is the maximum number of slots that this instance owns. A slot is
	// a job, or one shard of a job. A slot that no instance has room for waits.
	// Default 0: no limit.
	MaxSlots int
	// MaxRunning is how many runs this instance has in progress at once, manual ones included. Its
	// slots do not count: a run that is due beyond that waits for another to end, the longest waiting
	// first. A tick that has waited for more than a second is subject to Job.Misfire and
	// Job.MisfireGrace; if they drop it, it is recorded as missed, with the reason "delayed". Unless
	// ClaimGrace is NoTakeovers, an instance that has room takes over jobs that wait. Runs of jobs
	// that always run (@always) neither count nor wait. Default 0: no limit.
	MaxRunning int
	// Weight is this instance's relative share of the slots: an instance of
	// weight 2 gets twice as many as one of weight 1, among those that both can
	// run. Default 1, at most 1000.
	Weight int

	// Labels are this instance's properties, for jobs that require them (Job.Require): {"zone": "a"}.
	// At most 16, with the rules of Job.Labels. Default: none.
	Labels map[string]string
	// Address is where people reach this instance, such as the URL of its pages: up to 255 bytes of
	// printable text, which swctl instances show shows. Default: none.
	Address string

	// Logger receives the instance's log, and what handlers write to Run.Logger.
	// Default: slog.Default(), with only warnings and errors of the instance.
	Logger *slog.Logger
	// Hooks are called on events of this instance's jobs.
	Hooks Hooks
	// Middleware wraps each handler once, when it is registered, and is called by Manager.Handle: for
	// traces, say, or values that every handler needs in its context. The handler that it returns has
	// the duties of any, and the run ends with its error. To use several, call one with the result of
	// the other. Default: none.
	Middleware func(next Handler) Handler
	// Resolve is asked before a tick is run again whose run was interrupted, if its Job.Interrupted
	// asks: whether the effects of the tick are there. See Resolver. Default: none, so that nobody
	// knows.
	Resolve Resolver
}

// Mode is the type of Config.Mode.
type Mode string

// The modes.
const (
	// LeaseMode: each instance owns its share of the jobs.
	LeaseMode Mode = "lease"
	// LatchMode: one instance, elected by the protocol of Apache Curator's
	// LeaderLatch, owns every job; the others stand by. When it dies, stops, or is
	// drained or disabled, the one that has waited longest takes over.
	LatchMode Mode = "latch"
)

// The defaults of Config.
const (
	DefaultSessionTimeout  = 10 * time.Second
	DefaultSyncPeriod      = 3 * time.Second
	DefaultHeartbeatPeriod = time.Minute
	DefaultClaimGrace      = 250 * time.Millisecond
	DefaultMaxClockOffset  = offset.DefaultLimit // 30 s
	DefaultHistorySize     = zkrec.MinHistory
	DefaultStopGrace       = 30 * time.Second
	DefaultWeight          = 1
)

// NoGrace as Config.StopGrace ends the contexts of running handlers at once.
const NoGrace time.Duration = -1

// NoTakeovers as Config.ClaimGrace never takes a job from an owner that may be alive.
const NoTakeovers time.Duration = -1

// NoClockLimit as Config.MaxClockOffset runs jobs by this instance's clock however wrong it is.
const NoClockLimit time.Duration = -1

const (
	minSessionTimeout = time.Second
	maxSessionTimeout = time.Hour // servers grant 20 of their ticks, 40 s by default
	minSyncPeriod     = 50 * time.Millisecond
	minHeartbeats     = 50 * time.Millisecond
	minClaimGrace     = 50 * time.Millisecond
	minMaxClockOffset = time.Second
	maxWeight         = 1000
	maxHistorySize    = 200
	maxStartupDelay   = time.Hour
)

// Format prints the Config without Auth, which is a secret.
func (c Config) Format(f fmt.State, verb rune) {
	type plain Config // has no Format
	c.Auth = zkconn.Hidden(c.Auth)
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(c))
}

// LogValue is the Config as Format prints it.
func (c Config) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%+v", c)) }

// withDefaults replaces zero values by defaults.
func (c Config) withDefaults() Config {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.SyncPeriod = cmp.Or(c.SyncPeriod, min(DefaultSyncPeriod, c.SessionTimeout))
	c.HeartbeatPeriod = cmp.Or(c.HeartbeatPeriod, DefaultHeartbeatPeriod)
	if c.StopGrace = cmp.Or(c.StopGrace, DefaultStopGrace); c.StopGrace == NoGrace {
		c.StopGrace = 0
	}
	c.ClaimGrace = cmp.Or(c.ClaimGrace, DefaultClaimGrace)
	c.HistorySize = cmp.Or(c.HistorySize, DefaultHistorySize)
	c.MaxClockOffset = cmp.Or(c.MaxClockOffset, DefaultMaxClockOffset)
	c.Weight = cmp.Or(c.Weight, DefaultWeight)
	c.InstanceID = cmp.Or(c.InstanceID, defaultInstanceID())
	c.Mode = cmp.Or(c.Mode, LeaseMode)
	if c.Logger == nil {
		c.Logger = slog.New(warnings{slog.Default().Handler()})
	}
	return c
}

// validate checks every field, then how they relate.
func (c Config) validate() error {
	_, _, serversErr := zkconn.ParseServers(c.Servers)
	_, aclErr := zkconn.ParseACL(c.ACL, c.Auth)
	return invalid.First("singleworker.Config",
		invalid.Check("Servers", c.Servers, serversErr),
		invalid.Check("Servers", c.Servers, zkconn.CheckTLS(c.Servers, c.TLS)),
		invalid.Check("ServerType", c.ServerType, zkrec.CheckServerType(c.ServerType)),
		invalid.Check("InstanceID", c.InstanceID, job.CheckNodeName(c.InstanceID)),
		invalid.Check("Version", c.Version, zkrec.CheckVersion(c.Version)),
		invalid.Check("Auth", zkconn.Hidden(c.Auth), zkconn.CheckAuth(c.Auth)),
		invalid.Check("ACL", c.ACL, aclErr),
		invalid.Check("Mode", c.Mode, checkMode(c.Mode)),
		invalid.Check("LatchPath", c.LatchPath, c.checkLatchPath()),
		invalid.Check("SessionTimeout", c.SessionTimeout, atLeast(c.SessionTimeout, minSessionTimeout)),
		invalid.Check("SessionTimeout", c.SessionTimeout, atMost(c.SessionTimeout, maxSessionTimeout)),
		invalid.Check("SyncPeriod", c.SyncPeriod, atLeast(c.SyncPeriod, minSyncPeriod)),
		invalid.Check("HeartbeatPeriod", c.HeartbeatPeriod, atLeast(c.HeartbeatPeriod, minHeartbeats)),
		invalid.Check("ClaimGrace", c.ClaimGrace, unless(NoTakeovers, c.ClaimGrace, minClaimGrace)),
		invalid.Check("HistorySize", c.HistorySize, checkHistorySize(c.HistorySize)),
		invalid.Check("MaxClockOffset", c.MaxClockOffset, unless(NoClockLimit, c.MaxClockOffset, minMaxClockOffset)),
		invalid.Check("StopGrace", c.StopGrace, atLeast(c.StopGrace, 0)),
		invalid.Check("StartupDelay", c.StartupDelay, atLeast(c.StartupDelay, 0)),
		invalid.Check("StartupDelay", c.StartupDelay, atMost(c.StartupDelay, maxStartupDelay)),
		invalid.Check("MaxSlots", c.MaxSlots, notNegative(c.MaxSlots)),
		invalid.Check("MaxRunning", c.MaxRunning, notNegative(c.MaxRunning)),
		invalid.Check("Weight", c.Weight, checkWeight(c.Weight)),
		invalid.Check("SyncPeriod", c.SyncPeriod, c.checkSyncPeriod()),
		invalid.Check("Labels", c.Labels, job.CheckInstanceLabels(c.Labels)),
		invalid.Check("Address", c.Address, job.CheckLine(c.Address, job.MaxLabelValue)),
	)
}

func checkHistorySize(n int) error {
	if n < DefaultHistorySize || n > maxHistorySize {
		return fmt.Errorf("want %d to %d", DefaultHistorySize, maxHistorySize)
	}
	return nil
}

func checkMode(m Mode) error {
	if m != LeaseMode && m != LatchMode {
		return fmt.Errorf("is not known, want %s or %s", LeaseMode, LatchMode)
	}
	return nil
}

func (c Config) checkLatchPath() error {
	switch {
	case c.LatchPath == "":
		return nil
	case c.Mode != LatchMode:
		return fmt.Errorf("is of no use with Mode %s, want %s", c.Mode, LatchMode)
	case strings.HasPrefix(c.LatchPath+"/", "/"+c.ServerType+"/"):
		return fmt.Errorf("want a path outside /%s, where the group's jobs are", c.ServerType)
	}
	return election.CheckPath(c.LatchPath)
}

func (c Config) checkSyncPeriod() error {
	if c.SyncPeriod > c.SessionTimeout {
		return fmt.Errorf("is longer than SessionTimeout %v: a hung instance would be noticed "+
			"later than a dead one", c.SessionTimeout)
	}
	return nil
}

// unless is atLeast for a field that one value turns off.
func unless(off, d, least time.Duration) error {
	if d == off {
		return nil
	}
	return atLeast(d, least)
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
		return fmt.Errorf("want 1 to %d; to own nothing, disable the instance or register no handlers", maxWeight)
	}
	return nil
}

// defaultInstanceID returns an ID that is readable, can be selected with a double
// click, and differs between starts even if process IDs repeat, as in containers.
func defaultInstanceID() string {
	const randomChars, hostBytes = 4, 100
	random, host := uuid.NewString()[:randomChars], hostName()
	host = strings.ToValidUTF8(host[:min(len(host), hostBytes)], "")
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), random)
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil || job.CheckNodeName(host) != nil {
		return "unknown"
	}
	return host
}

// warnings passes records from Warn upwards to the wrapped handler.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// handlersLogger returns the logger for Run.Logger. It drops no level: what handlers log is the
// application's.
func (c Config) handlersLogger() *slog.Logger {
	if quiet, ok := c.Logger.Handler().(warnings); ok {
		return slog.New(quiet.Handler)
	}
	return c.Logger
}

package singleworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/swjobs/singleworker/singleworker/internal/chance"
	"github.com/swjobs/singleworker/singleworker/internal/coord"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/runner"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/internal/zones"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Manager is one instance of a group. It runs the jobs that it owns, with the
// handlers registered for them. Its methods are safe for concurrent use.
type Manager struct {
	cfg     Config
	conn    *zkconn.Conn // open while Run joins the group and runs jobs
	traffic *zkconn.Traffic

	mu       sync.Mutex
	started  bool
	drained  bool          // Drain was called
	bridge   *bridge       // nil before Run
	begun    chan struct{} // closed when Run has begun
	handlers handlers
	jobs     map[string]Job // declared before Run
}

// New validates cfg and returns a Manager, which does nothing until Run. An
// invalid field is reported as an *invalid.FieldError.
func New(cfg Config) (*Manager, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	traffic := new(zkconn.Traffic)
	conn, err := zkconn.New(zkconn.Config{
		Servers: cfg.Servers, SessionTimeout: cfg.SessionTimeout, Auth: cfg.Auth,
		ACL: cfg.ACL, TLS: cfg.TLS, Dial: cfg.Dial, Logger: cfg.Logger, Traffic: traffic, Closed: ErrNotRunning,
	})
	if err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg, conn: conn, traffic: traffic, begun: make(chan struct{}), jobs: make(map[string]Job)}, nil
}

// Session is what admin.On needs of a Manager. It is not for applications.
func (m *Manager) Session() (conn *zkconn.Conn, serverType, from string) {
	return m.conn, m.cfg.ServerType, fmt.Sprintf("%s (%s)", m.cfg.InstanceID, cmp.Or(m.cfg.Version, Version()))
}

// InstanceID returns the ID of this instance: Config.InstanceID or the generated one.
func (m *Manager) InstanceID() string { return m.cfg.InstanceID }

// Handle registers a handler under a name. A job uses the handler named like the
// job unless Job.Handler names another. On a running Manager, Handle returns at
// once; the group hears of the handler soon, or when ZooKeeper is reachable again,
// and may then give the instance jobs that need it. Errors: an *invalid.FieldError for an
// invalid or repeated name, ErrNotRunning after Run has ended.
func (m *Manager) Handle(name string, h Handler) error {
	missing := h == nil
	if !missing && m.cfg.Middleware != nil {
		h = m.cfg.Middleware(h)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	err := job.CheckNodeName(name)
	switch {
	case m.ended():
		return ErrNotRunning
	case err != nil:
	case missing:
		err = errors.New("has no function")
	case h == nil:
		err = errors.New("has no function: Config.Middleware returned nil")
	case !m.handlers.add(name, h):
		err = errors.New("is already registered")
	}
	if err != nil {
		return &invalid.FieldError{Field: "handler", Value: name, Err: err}
	}
	if m.bridge != nil {
		m.bridge.coord.Handle(name, m.handlers.names())
	}
	return nil
}

// ended reports whether Run has ended, or is about to. mu must be held.
func (m *Manager) ended() bool { return m.bridge != nil && m.bridge.life.Err() != nil }

// Schedule is ScheduleContext with context.Background. On a running Manager, it
// waits for ZooKeeper until Run has ended.
func (m *Manager) Schedule(j Job) error { return m.ScheduleContext(context.Background(), j) }

// ScheduleContext declares a job. Before Run, it only takes notice: Run declares
// the job. On a running Manager, also in a handler, it returns when ZooKeeper has
// the job; if ctx is done first, the error wraps ErrUnavailable or the cause
// of ctx, and the job may have been declared nevertheless.
//
// A job that does not exist is created. If it does, a new declaration replaces an older one; an
// operator's change stays until the declaration differs from the one that the operator changed. If
// instances declare a job differently, the one with the newer Config.Version wins: an instance
// leaves a job alone that a newer version has declared, or that a live instance of a newer version
// has the handler of. Of the same version, or without versions, the most recently started one wins.
// A job that is no longer declared stays until it is canceled; a canceled job is recreated at the
// next start of an instance that declares it. Any instance of the group with the handler may run
// the job. A declaration on a running Manager is not repeated by it when someone deletes the
// group's records.
//
// Errors: an *invalid.FieldError for an invalid job, or one declared twice before Run;
// ErrNotRunning after Run has ended; ErrNewerVersion; ErrAccessDenied; ErrFull; and the reason why
// a job cannot be replaced that a newer version of this library wrote.
func (m *Manager) ScheduleContext(ctx context.Context, j Job) error {
	if err := j.Validate(); err != nil {
		return err
	}
	of := j.Clone().Normal()
	declared := zkrec.Spec{Job: of}
	declared.Declared = declared.Fingerprint()
	if err := declared.CheckSize(); err != nil {
		return err
	}
	m.mu.Lock()
	w := m.bridge
	_, twice := m.jobs[j.Name]
	if w == nil && !twice {
		m.jobs[j.Name] = of
	}
	m.mu.Unlock()
	switch {
	case w != nil:
		return w.declare(ctx, member.Declaration{Job: of})
	case twice:
		return job.Invalid("Name", j.Name, errors.New("is already declared"))
	}
	return nil
}

// Run joins the group and runs jobs until ctx is done. Then it stops gracefully:
// it starts no new runs and hands idle jobs to other instances at once. Running
// handlers have Config.StopGrace to return before their contexts are canceled
// with ErrStopping; then their jobs follow. Run returns nil when every job is
// handed over and all of the Manager's goroutines have ended.
//
// While ZooKeeper is unreachable, at the start or later, Run keeps trying and
// logs a warning with the reason once per session timeout. It returns before
// ctx is done only with ErrDuplicateInstance, ErrAccessDenied, ErrOpenACL, ErrMode,
// the panic of a hook, or an internal error, and after a stop with a *StuckError
// or ErrNotHandedBack. A Manager runs once: a second call returns ErrStarted.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.started {
		m.mu.Unlock()
		return ErrStarted
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	w := m.wire(ctx)
	w.life = life
	m.started, m.bridge = true, w
	close(m.begun)
	m.mu.Unlock()

	// ctx does not cancel the parts: the stop is graceful, by Stop and Leave.
	tasks, hooks := task.NewGroup(context.WithoutCancel(ctx)), task.NewGroup(context.WithoutCancel(ctx))
	runs, endRuns := context.WithCancelCause(context.WithoutCancel(ctx))
	hooks.Go("hooks", func(ctx context.Context) error {
		err := task.Protect("hooks", func() error { return w.hooks.run(ctx) })
		if err != nil {
			endRuns(ErrStopping)
			w.coord.Leave() // when they have returned
		}
		return err
	})
	tasks.Go("lease watch", w.leases.Watch)
	tasks.Go("runner", func(context.Context) error { return w.runner.Run(runs) })
	tasks.Go("coordinator", func(ctx context.Context) error {
		defer tasks.Cancel(nil)
		defer endRuns(ErrStopping) // their results cannot be written now
		defer end(ErrNotRunning)
		return w.coord.Run(ctx)
	})
	stop := context.AfterFunc(ctx, func() {
		w.runner.Stop()
		w.coord.Leave()
	})
	defer stop()
	err := tasks.Wait()
	hooks.Cancel(nil) // after the last event
	if stuck := new(runner.StuckError); errors.As(err, &stuck) {
		err = &StuckError{Jobs: stuck.Jobs}
	}
	if err = errors.Join(hooks.Wait(), err); err != nil {
		return fmt.Errorf("singleworker: instance %s: %w", m.cfg.InstanceID, err)
	}
	return nil
}

// Drain releases everything this instance owns and stops it from taking anything
// new, permanently. It starts no further run, hands idle jobs over at once and
// the others when their runs end, and returns nil when the instance owns nothing
// and no run is in progress. The instance stays in its group until Run ends. A job
// that no other instance can run has no owner meanwhile.
//
// When ctx is done, Drain returns its cause, and draining continues. Drain may be called
// repeatedly. Before Run it returns nil at once: Run will not take anything.
func (m *Manager) Drain(ctx context.Context) error {
	m.mu.Lock()
	m.drained = true
	w := m.bridge
	m.mu.Unlock()
	if w == nil {
		return nil // Run will not take anything
	}
	if err := w.coord.Drain(ctx); err != nil {
		return fmt.Errorf("singleworker: instance %s still drains: %w", m.cfg.InstanceID, err)
	}
	return nil
}

// Warm ends Config.StartupDelay: the instance takes its share of the jobs from now on. It may be
// called before Run, which then begins without the delay, repeatedly, and by any goroutine. An
// instance that is drained or disabled stays so.
func (m *Manager) Warm() {
	m.mu.Lock()
	m.cfg.StartupDelay = 0 // of Run, if that comes later
	w := m.bridge
	m.mu.Unlock()
	if w != nil {
		w.coord.Warm()
	}
}

// wire builds the parts of one Run. mu must be held.
func (m *Manager) wire(ctx context.Context) *bridge {
	clock, source := leases.NewClockOf(wall.Of(ctx)), chance.Of(ctx)
	w := &bridge{
		cfg: m.cfg, handlers: &m.handlers, clock: clock, leases: leases.NewTable(clock),
		hooks: newHookCaller(m.cfg.Hooks), owned: make(map[string]*leases.Lease), shards: make(map[string]Shard), quiet: quiet{},
		counts: newCounts(),
	}
	declarations := make([]member.Declaration, 0, len(m.jobs))
	for _, name := range slices.Sorted(maps.Keys(m.jobs)) {
		declarations = append(declarations, member.Declaration{Job: m.jobs[name]})
	}
	m.jobs = nil // thousands, perhaps
	w.coord = coord.New(coord.Config{
		Conn: m.conn, ServerType: m.cfg.ServerType,
		SyncPeriod: m.cfg.SyncPeriod, HeartbeatPeriod: m.cfg.HeartbeatPeriod,
		ClaimGrace:  m.cfg.ClaimGrace,
		HistorySize: m.cfg.HistorySize,
		Member: member.Config{
			ID: m.cfg.InstanceID,
			Instance: zkrec.Instance{
				Incarnation: source.ID("incarnation"), Host: hostName(), PID: os.Getpid(),
				StartedAt: clock.Wall().UTC().Round(time.Millisecond), Version: Version(), Program: m.cfg.Version,
				MaxSlots: m.cfg.MaxSlots, MaxRunning: m.cfg.MaxRunning, Weight: m.cfg.Weight, Guard: guardToken(), Mode: modeOf(m.cfg),
				Labels: maps.Clone(m.cfg.Labels), Address: m.cfg.Address, Zones: zones.Print(), Resolves: m.cfg.Resolve != nil,
			},
			Latch: m.cfg.Mode == LatchMode, LatchPath: m.cfg.LatchPath, Drained: m.drained, Declarations: declarations,
			Handlers:       m.handlers.names(),
			MaxClockOffset: m.cfg.MaxClockOffset,
			StartupDelay:   m.cfg.StartupDelay,
		},
		Handlers: w.handlers, Runner: w, Leases: w.leases, Clock: clock, Chance: source, Logger: m.cfg.Logger,
	})
	w.runner = runner.New(runner.Config{
		InstanceID: m.cfg.InstanceID, Keeper: w.coord, Observer: w, Grace: m.cfg.StopGrace,
		MaxRunning: m.cfg.MaxRunning, Wall: wall.Of(ctx), Chance: source, Logger: m.cfg.Logger,
	})
	w.leases.OnStep = w.clockStepped
	return w
}

// modeOf returns the mode as instance records store it.
func modeOf(cfg Config) string {
	switch {
	case cfg.Mode != LatchMode:
		return ""
	case cfg.LatchPath != "":
		return zkrec.ModeLatchAt(cfg.LatchPath)
	}
	return zkrec.ModeLatch
}

// guardToken returns the token of the guard that started this process (package guard), or "".
// The instance's record publishes it so that the guard can deregister the instance when the
// process has died. An invalid token is ignored.
func guardToken() string {
	token := os.Getenv(zkrec.GuardEnv)
	if uuid.Validate(token) != nil {
		return ""
	}
	return token
}

// Version returns the version of this library in the running program, or "devel"
// if the program was not built with a released version.
func Version() string {
	const module = "github.com/swjobs/singleworker"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
}

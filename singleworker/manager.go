package singleworker

import (
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

	"github.com/swjobs/singleworker/singleworker/internal/coord"
	"github.com/swjobs/singleworker/singleworker/internal/leases"
	"github.com/swjobs/singleworker/singleworker/internal/member"
	"github.com/swjobs/singleworker/singleworker/internal/runner"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// Manager is one instance of a group: it runs the jobs that it owns and has a
// handler for. Its methods are safe for concurrent use.
type Manager struct {
	cfg Config

	mu       sync.Mutex
	started  bool
	drained  bool    // Drain was called
	bridge   *bridge // once Run was called
	handlers map[string]Handler
	jobs     map[string]zkrec.Spec // declared
}

// New checks cfg, every field and the relations between them, and returns a
// Manager that does nothing yet. A field that is refused is reported as a
// *ConfigError.
func New(cfg Config) (*Manager, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Manager{
		cfg: cfg, handlers: make(map[string]Handler), jobs: make(map[string]zkrec.Spec),
	}, nil
}

// InstanceID is the id of this instance, given or generated.
func (m *Manager) InstanceID() string { return m.cfg.InstanceID }

// Handle registers the function that runs the jobs of that handler name: by
// default the job of the same name. It must be called before Run, once for
// each name; ErrStarted or a *ConfigError says that it was not.
func (m *Manager) Handle(name string, h Handler) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := job.CheckNodeName(name)
	switch {
	case m.started:
		return ErrStarted
	case err != nil:
	case h == nil:
		err = errors.New("has no function")
	case m.handlers[name] != nil:
		err = errors.New("is registered already")
	}
	if err != nil {
		return &ConfigError{Field: "handler", Value: name, Err: err}
	}
	m.handlers[name] = h
	return nil
}

// Schedule declares a job. Run creates it when it is absent. Where it exists,
// a new declaration replaces an older one; a change made by an operator stays
// until the declaration differs from the one that it changed. Where instances
// declare it differently, the one that started last is right. A job that is
// declared no more stays until it is cancelled; one that is cancelled comes back
// with the next start of an instance that declares it. A job declared
// here may well be run by another instance. It must be called before Run, once
// for each job; ErrStarted or a *ConfigError says what is wrong.
func (m *Manager) Schedule(j Job) error {
	if err := j.Validate(); err != nil {
		return refused(err)
	}
	spec := zkrec.Spec{Job: j.Clone().Normal()}
	declared := spec
	declared.Declared = spec.Fingerprint()
	if err := declared.CheckSize(); err != nil {
		return refused(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started {
		return ErrStarted
	}
	if _, twice := m.jobs[j.Name]; twice {
		return &ConfigError{Field: "Job.Name", Value: j.Name, Err: errors.New("is declared already")}
	}
	m.jobs[j.Name] = spec
	return nil
}

// Run joins the group and runs jobs until ctx ends. Then it stops in order: no
// new runs; idle jobs go to other instances at once; running handlers have
// Config.StopGrace to return before their contexts end with ErrStopping, and
// their jobs follow. It returns nil when all is handed back and nothing of the
// manager runs any more.
//
// While ZooKeeper cannot be reached, at the start or later, Run goes on
// trying, and logs a warning that says why once per session timeout. It returns
// sooner only with ErrDuplicateInstance, ErrAccessDenied, ErrMode, the panic of a
// hook, or an error of its own making; and at a stop with a *StuckError or
// ErrNotHandedBack. A Manager runs once: a second call returns ErrStarted.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.started {
		m.mu.Unlock()
		return ErrStarted
	}
	w := m.wire()
	m.started, m.bridge = true, w
	m.mu.Unlock()

	// The stop is an orderly one: what ends is told by Stop and Drain.
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
		return w.coord.Run(ctx)
	})
	stop := context.AfterFunc(ctx, func() {
		w.runner.Stop()
		w.coord.Leave()
	})
	defer stop()
	err := tasks.Wait()
	hooks.Cancel(nil) // when all that they are to be told of has happened
	if err = errors.Join(hooks.Wait(), err); err != nil {
		return fmt.Errorf("singleworker: instance %s: %w", m.cfg.InstanceID, err)
	}
	return nil
}

// Drain has this instance own nothing from now on, and returns when that is so
// and no run goes on: it begins no run, hands idle jobs over at once and the
// others when their runs end. It stays in its group, closed, until Run ends;
// nothing opens it again. A job that no other instance can run waits.
//
// When ctx ends, Drain returns the cause, and the draining goes on. It may be
// called at any time, and again.
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

// wire builds the parts of one Run. It is called with mu held.
func (m *Manager) wire() *bridge {
	clock := leases.NewClock()
	w := &bridge{
		cfg: m.cfg, handlers: handlers(m.handlers), leases: leases.NewTable(clock),
		hooks: newHookCaller(m.cfg.Hooks), owned: make(map[string]*leases.Lease), shards: make(map[string]Shard),
	}
	var declarations []member.Declaration
	for _, name := range slices.Sorted(maps.Keys(m.jobs)) {
		declarations = append(declarations, member.Declaration{Job: name, Spec: m.jobs[name]})
	}
	w.coord = coord.New(coord.Config{
		Conn: zkconn.Config{
			Servers: m.cfg.Servers, SessionTimeout: m.cfg.SessionTimeout, Auth: m.cfg.Auth,
			ACL: m.cfg.ACL, TLS: m.cfg.TLS, Dial: m.cfg.Dial, Logger: m.cfg.Logger,
		},
		ServerType: m.cfg.ServerType,
		SyncPeriod: m.cfg.SyncPeriod,
		Member: member.Config{
			ID: m.cfg.InstanceID,
			Instance: zkrec.Instance{
				Incarnation: uuid.NewString(), Host: hostName(), PID: os.Getpid(),
				StartedAt: time.Now().UTC().Round(time.Millisecond), Version: Version(),
				MaxSlots: m.cfg.MaxSlots, Weight: m.cfg.Weight, Guard: guardToken(), Mode: modeOf(m.cfg),
			},
			Latch: m.cfg.Mode == LatchMode, Drained: m.drained, Declarations: declarations,
		},
		Handlers: w.handlers, Runner: w, Leases: w.leases, Clock: clock, Logger: m.cfg.Logger,
	})
	w.runner = runner.New(runner.Config{
		InstanceID: m.cfg.InstanceID, Keeper: w.coord, Observer: w, Grace: m.cfg.StopGrace, Logger: m.cfg.Logger,
	})
	w.leases.OnStep = w.runner.ClockStepped
	return w
}

// modeOf is the mode as instance records say it.
func modeOf(cfg Config) string {
	if cfg.Mode == LatchMode {
		return zkrec.ModeLatch
	}
	return ""
}

// guardToken is the token of the guard that started this process (package guard), or "". It
// is published with the registration so that the guard can remove that when the process has
// died. Anything but a token is ignored.
func guardToken() string {
	token := os.Getenv(zkrec.GuardEnv)
	if uuid.Validate(token) != nil {
		return ""
	}
	return token
}

// Version is the version of this library in the running program, or "devel"
// when it was not built from a released one.
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

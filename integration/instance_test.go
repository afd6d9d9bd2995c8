package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// The handlers that every instance has, unless its options say otherwise.
const (
	work   = "work"  // runs for Args["for"], by default briefly, or until its context ends
	hold   = "hold"  // runs until its context ends
	fails  = "fails" // returns errPaper
	panics = "panics"
	dies   = "dies" // kills the process that it runs in

	prepares = "prepares" // takes a moment; the first call with Args["once"], a path that does not exist, kills its process
)

var errPaper = errors.New("out of paper")

// options describe an instance, in the test's process or a separate one.
type options struct {
	ID       string
	Servers  string // default: the cluster's
	Group    string // default: the cluster's
	Auth     string // default: the cluster's
	ACL      string // default: the cluster's
	Session  time.Duration
	Sync     time.Duration
	Grace    time.Duration
	Claim    time.Duration // Config.ClaimGrace
	MaxSlots int
	Mode     singleworker.Mode
	Handlers []string // default: all
	Jobs     []singleworker.Job

	Proxied bool // its connection can be broken; only in the test's process

	// Only in the test's process.
	TLS *tls.Config `json:"-"`
	// More handlers; only in the test's process.
	Handle map[string]singleworker.Handler `json:"-"`
}

// The timing of the tests: short, but long enough for a busy machine.
const (
	session    = 4 * time.Second
	syncPeriod = time.Second
	beatLimit  = session * 3 / 2 // a heartbeat that stands still for longer is stale
)

func handlers() map[string]singleworker.Handler {
	return map[string]singleworker.Handler{
		work: func(ctx context.Context, run *singleworker.Run) error {
			d := 20 * time.Millisecond
			if text := run.Args["for"]; text != "" {
				var err error
				if d, err = time.ParseDuration(text); err != nil {
					return err
				}
			}
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		hold: func(ctx context.Context, _ *singleworker.Run) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
		fails:  func(context.Context, *singleworker.Run) error { return errPaper },
		panics: func(context.Context, *singleworker.Run) error { panic("out of ink") },
		prepares: func(ctx context.Context, run *singleworker.Run) error {
			<-time.After(100 * time.Millisecond)
			if once := run.Args["once"]; once != "" && os.Mkdir(once, 0o700) == nil {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				<-ctx.Done() // not reached
			}
			return nil
		},
		dies: func(ctx context.Context, _ *singleworker.Run) error {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			<-ctx.Done() // not reached
			return context.Cause(ctx)
		},
	}
}

// newManager returns a manager whose runs are recorded.
func newManager(o options, record func(entry), log *slog.Logger) (*singleworker.Manager, error) {
	m, err := singleworker.New(singleworker.Config{
		Servers: o.Servers, ServerType: o.Group, InstanceID: o.ID, Auth: o.Auth, ACL: o.ACL, TLS: o.TLS,
		SessionTimeout: o.Session, SyncPeriod: o.Sync, StopGrace: o.Grace, ClaimGrace: o.Claim, MaxSlots: o.MaxSlots, Mode: o.Mode,
		Logger: log.With("sid", o.ID),
		Hooks: singleworker.Hooks{
			OnOwned: func(own singleworker.Ownership) {
				record(entry{Event: owned, SID: o.ID, Job: slot(own.Job, own.Shard), Token: own.Token})
			},
			OnReleased: func(own singleworker.Ownership, cause error) {
				record(entry{Event: released, SID: o.ID, Job: slot(own.Job, own.Shard), Token: own.Token, Cause: fmt.Sprint(cause)})
			},
			OnTickMissed: func(m singleworker.Missed) {
				record(entry{Event: tickMissed, SID: o.ID, Job: slot(m.Job, m.Shard), Tick: m.Tick})
			},
			OnTickComplete: func(r singleworker.TickResult) {
				record(entry{Event: tickComplete, SID: o.ID, Job: r.Job, Tick: r.Tick, Shards: len(r.Shards)})
			},
		},
	})
	if err != nil {
		return nil, err
	}
	has := handlers()
	if o.Handlers != nil {
		all := has
		has = make(map[string]singleworker.Handler)
		for _, name := range o.Handlers {
			has[name] = all[name]
		}
	}
	maps.Copy(has, o.Handle)
	for name, h := range has {
		if err := m.Handle(name, recorded(h, record)); err != nil {
			return nil, err
		}
	}
	for _, job := range o.Jobs {
		if err := m.Schedule(job); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// slot is the name of a job or of one of its shards.
func slot(job string, shard singleworker.Shard) string {
	if shard.Total == 1 {
		return job
	}
	return fmt.Sprintf("%s[%d]", job, shard.Index)
}

// recorded wraps a handler to record its runs.
func recorded(h singleworker.Handler, record func(entry)) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		e := entry{
			Event: runStart, SID: run.InstanceID, Job: slot(run.Job, run.Shard), Token: run.Token, Shards: run.Shard.Total,
			ID: run.ID, Tick: run.Tick, Manual: run.Manual, Attempt: run.Attempt,
		}
		end := runEnd
		if run.BeforeTick {
			e.Event, end = beforeStart, beforeEnd
		}
		record(e)
		defer func() { // runs after a panic, too
			e.Event = end
			if cause := context.Cause(ctx); cause != nil {
				e.Cause = cause.Error()
			}
			record(e)
		}()
		return h(ctx, run)
	}
}

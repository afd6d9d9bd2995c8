// Command instance is an application with the library, whose handlers write down their work: the
// process that package chaos starts, kills and suspends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/integration/chaos"
	"github.com/swjobs/singleworker/integration/instance"
	"github.com/swjobs/singleworker/singleworker"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "instance:", err)
		os.Exit(1)
	}
}

func run() error {
	var cfg singleworker.Config
	instance.Flags(&cfg)
	path := flag.String("ledger", "", "`file` to append to")
	release := flag.Int("release", 1, "which release of the application this is: 1 or 2")
	flag.Parse()
	runtime.GOMAXPROCS(2) // there are several on one machine

	out, err := chaos.OpenLedger(*path)
	if err != nil {
		return err
	}
	cfg.SyncPeriod, cfg.StopGrace = time.Second, 2*time.Second
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Hooks = hooks(out)
	m, err := manager(cfg, out, *release)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	out.Write(chaos.Line{Event: chaos.Up})
	go watchStalls(out)
	err = m.Run(ctx)
	out.Write(chaos.Line{Event: chaos.Down, Cause: text(err)})
	return err
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// watchStalls records when this process did not run: it was suspended, or the machine was too busy
// for it.
func watchStalls(out *chaos.Ledger) {
	const every, most = 50 * time.Millisecond, 300 * time.Millisecond
	last := chaos.Mono()
	for range time.Tick(every) {
		now := chaos.Mono()
		if now-last > most {
			out.Write(chaos.Line{Event: chaos.Stalled, Gap: now - last})
		}
		last = now
	}
}

func hooks(out *chaos.Ledger) singleworker.Hooks {
	return singleworker.Hooks{
		OnOwned: func(o singleworker.Ownership) {
			out.Write(chaos.Line{Event: chaos.Owned, Job: slot(o.Job, o.Shard), Shards: o.Shard.Total, Token: o.Token})
		},
		OnReleased: func(o singleworker.Ownership, cause error) {
			out.Write(chaos.Line{Event: chaos.Released, Job: slot(o.Job, o.Shard), Shards: o.Shard.Total, Token: o.Token, Cause: text(cause)})
		},
		OnTickMissed: func(m singleworker.Missed) {
			out.Write(chaos.Line{Event: chaos.Missed, Job: slot(m.Job, m.Shard), Tick: m.Tick.UnixMilli()})
		},
	}
}

func slot(name string, shard singleworker.Shard) string {
	return chaos.SlotName(name, shard.Index, shard.Total)
}

// manager has the handlers, and the jobs that this release declares.
func manager(cfg singleworker.Config, out *chaos.Ledger, release int) (*singleworker.Manager, error) {
	m, err := singleworker.New(cfg)
	if err != nil {
		return nil, err
	}
	for name, handler := range map[string]singleworker.Handler{"work": work, "flaky": flaky} {
		if err := m.Handle(name, recorded(handler, out)); err != nil {
			return nil, err
		}
	}
	declared := []singleworker.Job{{Name: "declared", Schedule: "*/2 * * * * ?", Handler: "work"}}
	if release == 2 {
		declared[0].Schedule = "*/3 * * * * ?"
		declared = append(declared, singleworker.Job{Name: "declared-new", Schedule: "* * * * * ?", Handler: "work"})
	}
	for _, j := range declared {
		if err := m.Schedule(j); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// recorded wraps a handler to record its runs.
func recorded(handler singleworker.Handler, out *chaos.Ledger) singleworker.Handler {
	return func(ctx context.Context, run *singleworker.Run) error {
		line := chaos.Line{
			Event: chaos.Start, Job: slot(run.Job, run.Shard), Shards: run.Shard.Total, Tick: run.Tick.UnixMilli(),
			Manual: run.Manual, Attempt: run.Attempt, Token: run.Token, Run: run.ID,
		}
		out.Write(line)
		err := handler(ctx, run)
		line.Event, line.Cause = chaos.End, text(context.Cause(ctx))
		out.Write(line)
		return err
	}
}

// work takes as long as the job's argument says; by default it is quick.
func work(ctx context.Context, run *singleworker.Run) error {
	d := 20 * time.Millisecond
	if given, err := time.ParseDuration(run.Args["for"]); err == nil {
		d = given
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errFlaky = errors.New("this one fails")

// flaky fails in one of three runs.
func flaky(ctx context.Context, run *singleworker.Run) error {
	if err := work(ctx, run); err != nil {
		return err
	}
	sum := fnv.New32()
	_, _ = sum.Write([]byte(run.ID))
	if sum.Sum32()%3 == 0 {
		return errFlaky
	}
	return nil
}

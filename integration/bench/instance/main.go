// Command instance is an application with many jobs whose handlers do nothing, or wait: the process
// that package bench starts and stops.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/integration/bench"
	"github.com/swjobs/singleworker/integration/instance"
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
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
	jobs := flag.Int("jobs", 0, "how many jobs there are: each has a handler")
	flag.Parse()
	runtime.GOMAXPROCS(2) // there are many on one machine

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	p := &process{Speaker: bench.NewSpeaker(os.Stdout)}
	cfg.Dial = p.sent.dial
	cfg.Hooks = p.hooks()
	m, err := singleworker.New(cfg)
	if err != nil {
		return err
	}
	for k := range *jobs {
		if err := m.Handle(bench.JobName(k), p.handle); err != nil {
			return err
		}
	}
	go func() { // ends with the process
		p.Listen(os.Stdin, p.report)
		stop()
	}()
	var teller sync.WaitGroup
	teller.Go(func() { p.TellOwned(ctx) })
	defer teller.Wait()
	select {
	case <-p.Begin:
	case <-ctx.Done():
		return nil
	}
	defer stop()
	return m.Run(ctx)
}

// process is an instance's knowledge of itself.
type process struct {
	*bench.Speaker

	sent  sent
	mu    sync.Mutex
	known bench.Report // guarded by mu
}

// report returns the knowledge, and forgets the runs and rows.
func (p *process) report() bench.Report {
	p.mu.Lock()
	r := p.known
	p.known.Runs, p.known.Rows = nil, nil
	p.mu.Unlock()
	r.Pings, r.Silent = int(p.sent.pings.Load()), time.Since(time.Unix(0, p.sent.last.Load()))
	return r
}

func (p *process) hooks() singleworker.Hooks {
	return singleworker.Hooks{
		OnOwned: func(singleworker.Ownership) {
			p.Count(1)
			p.mu.Lock()
			p.known.Gained++
			p.mu.Unlock()
		},
		OnReleased: func(_ singleworker.Ownership, cause error) {
			p.Count(-1)
			if errors.Is(cause, singleworker.ErrLeaseLost) {
				p.mu.Lock()
				p.known.LeasesLost++
				p.mu.Unlock()
			}
		},
		OnRecorded: func(e singleworker.Recorded) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if e.TakenFrom != "" {
				p.known.Taken++
			}
			if e.State != history.StateSkipped && e.State != history.StateMissed {
				return // a run, which its handler has noted
			}
			p.known.Rows = append(p.known.Rows, bench.Row{Job: e.Job, From: e.Tick.Unix(), To: e.To.Unix()})
		},
	}
}

func (p *process) handle(ctx context.Context, run *singleworker.Run) error {
	ran := bench.Begun(run.Job, run.Tick, run.Attempt)
	if text, ok := run.Args[bench.ArgTakes]; ok {
		takes, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		begun := time.Now()
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		ran.Took = time.Since(begun)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Runs = append(p.known.Runs, ran)
	return nil
}

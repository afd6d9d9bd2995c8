//go:build unix

package singleworker_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// BenchmarkTicks is what a tick costs an instance that owns 1,000 jobs, each due every second, with
// the production code from gocron's alarm to the recorded result. An operation is a tick; the server's
// part is included. It runs in real time, so it takes five seconds at least.
func BenchmarkTicks(b *testing.B) {
	const jobs = 1000
	server := zkdev.Start(b, zkdev.Config{KeepLog: -1})
	m, err := singleworker.New(singleworker.Config{
		Servers: server.Addr(), ServerType: "bench", InstanceID: "a", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	var runs, until atomic.Int64
	reached := make(chan struct{}, 1)
	for i := range jobs {
		job := singleworker.Job{Name: fmt.Sprintf("job-%03d", i), Schedule: "* * * * * ?", Handler: "job"}
		if err := m.Schedule(job); err != nil {
			b.Fatal(err)
		}
	}
	if err := m.Handle("job", func(context.Context, *singleworker.Run) error {
		if runs.Add(1) == until.Load() {
			reached <- struct{}{}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	until.Store(10 * jobs)
	tasks := task.NewGroup(ctx)
	tasks.Go("instance", func(ctx context.Context) error { return m.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		_ = tasks.Wait()
	})
	<-reached
	var transactions atomic.Int64
	server.ControlKeep(zkdev.OpMulti, func(*zkdev.Request) zkdev.Action {
		transactions.Add(1)
		return zkdev.Pass()
	})
	before, cpu := runs.Load(), cpuTime(b)
	until.Store(before + max(int64(b.N), 5*jobs))
	b.ResetTimer()
	<-reached
	b.StopTimer()
	ticks := float64(runs.Load() - before)
	b.ReportMetric(float64(cpuTime(b)-cpu)/1e3/ticks, "cpu-µs/tick")
	b.ReportMetric(float64(transactions.Load())/ticks, "transactions/tick")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

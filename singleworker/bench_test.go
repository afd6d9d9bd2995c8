//go:build unix

package singleworker_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// serves is the environment variable that makes a process of this package's tests a server:
// benchmarks measure their own process.
const serves = "SINGLEWORKER_BENCH_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serves) == "" {
		os.Exit(m.Run())
	}
	server, err := zkdev.New(zkdev.Config{KeepLog: -1})
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(server.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark ends
}

// serve starts a server in a separate process and returns its address.
func serve(b *testing.B) string {
	b.Helper()
	server := exec.CommandContext(b.Context(), os.Args[0]) //nolint:gosec // this program
	server.Env = append(os.Environ(), serves+"=1")
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = server.Wait()
	})
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(addr)
}

// BenchmarkTicks measures the cost of a tick to the instances of a group of 1,000 jobs, each due
// every second, with the production code from gocron's alarm to the recorded result. An operation
// is a tick, without the server's part. It runs in real time: -benchtime 20000x takes 20 seconds.
func BenchmarkTicks(b *testing.B) {
	for _, instances := range []int{1, 3} {
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) {
			const jobs = 1000
			g := begin(b, instances, jobs, "* * * * * ?")
			g.await(5 * jobs)
			before, begun := g.runs.Load(), spentBy(b)
			b.ResetTimer()
			g.await(max(int64(b.N), 5*jobs))
			b.StopTimer()
			begun.report(b, float64(g.runs.Load()-before))
		})
	}
}

// BenchmarkBurst measures the cost to an instance of 10,000 own jobs that are all due at once. An
// operation is a tick. Late is when the last of them begins.
func BenchmarkBurst(b *testing.B) {
	const jobs, bursts, period = 10_000, 5, 4 * time.Second
	g := begin(b, 1, jobs, "0/4 * * * * ?")
	g.await(jobs)
	g.await(jobs)
	time.Sleep(time.Until(time.Now().Truncate(period).Add(period * 3 / 4)))
	before, begun := g.runs.Load(), spentBy(b)
	var late []time.Duration
	b.ResetTimer()
	for range bursts {
		g.await(jobs)
		late = append(late, time.Duration(time.Now().UnixNano()%int64(period)))
		time.Sleep(period / 2)
	}
	b.StopTimer()
	begun.report(b, float64(g.runs.Load()-before))
	slices.Sort(late)
	b.ReportMetric(float64(late[bursts/2].Microseconds())/1e3, "ms-late")
}

// benched is a group whose handlers do nothing but count.
type benched struct {
	runs, until atomic.Int64
	reached     chan struct{}
}

// begin starts a group that ends with the benchmark.
func begin(b *testing.B, instances, jobs int, schedule string) *benched {
	b.Helper()
	g := &benched{reached: make(chan struct{}, 1)}
	addr := serve(b)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	tasks := task.NewGroup(ctx)
	for i := range instances {
		m, err := singleworker.New(singleworker.Config{
			Servers: addr, ServerType: "bench", InstanceID: fmt.Sprintf("i%d", i), Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		for k := range jobs {
			job := singleworker.Job{Name: fmt.Sprintf("job-%05d", k), Schedule: schedule, Handler: "job"}
			if err := m.Schedule(job); err != nil {
				b.Fatal(err)
			}
		}
		if err := m.Handle("job", g.handle); err != nil {
			b.Fatal(err)
		}
		tasks.Go("instance", func(ctx context.Context) error { return m.Run(ctx) })
	}
	b.Cleanup(func() {
		cancel()
		_ = tasks.Wait()
	})
	return g
}

func (g *benched) handle(context.Context, *singleworker.Run) error {
	if g.runs.Add(1) == g.until.Load() {
		g.reached <- struct{}{}
	}
	return nil
}

// await waits for so many further runs to begin.
func (g *benched) await(runs int64) {
	g.until.Store(g.runs.Load() + runs)
	<-g.reached
}

// spent is this process's consumption.
type spent struct {
	cpu                time.Duration
	allocations, bytes uint64
}

func spentBy(b *testing.B) spent {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return spent{time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), m.Mallocs, m.TotalAlloc}
}

// report reports the cost of each tick since.
func (s spent) report(b *testing.B, ticks float64) {
	b.Helper()
	now := spentBy(b)
	b.ReportMetric(float64((now.cpu-s.cpu).Microseconds())/ticks, "cpu-µs/tick")
	b.ReportMetric(float64(now.allocations-s.allocations)/ticks, "allocs/tick")
	b.ReportMetric(float64(now.bytes-s.bytes)/ticks, "B/tick")
	b.ReportMetric(0, "ns/op")
}

package compare

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
)

var systemsFlag = flag.String("compare.systems", "", "which systems to run, such as gocron,river; default: all")

func TestMain(m *testing.M) { os.Exit(zkserver.Main(m.Run)) }

const (
	processes = 3
	kills     = 5
	between   = 18 * time.Second // from a kill to the next
	away      = 8 * time.Second  // from a kill until the process is started again
	steady    = 24 * time.Second // without kills, before the first
	warm      = 5 * time.Second  // after each job has run
)

// TestCompare prints a table for each work. It fails only if something could not be measured.
func TestCompare(t *testing.T) {
	programs := build(t)
	var killed, many, each []string
	for _, s := range systems(programs) {
		if !wanted(s.name) {
			continue
		}
		t.Run(s.name+"/kills", func(t *testing.T) { killed = append(killed, withKills(t, s)) })
		t.Run(s.name+"/many", func(t *testing.T) { many = append(many, withMany(t, s)) })
		t.Run(s.name+"/each", func(t *testing.T) { each = append(each, withEach(t, s)) })
	}
	fmt.Printf("\nnine jobs each second, %d processes, %d kills\n%-13s %-22s %8s %6s %6s %10s %10s %8s\n%s\n", processes, kills,
		"", "longest pause (s)", "ticks", "never", "twice", "p50 (ms)", "p99 (ms)", "RSS", strings.Join(killed, "\n"))
	fmt.Printf("\na thousand jobs every five seconds, %d processes\n%-13s %8s %6s %6s %10s %10s %10s\n%s\n", processes,
		"", "ticks", "never", "twice", "p50 (ms)", "p99 (ms)", "max (ms)", strings.Join(many, "\n"))
	fmt.Printf("\na thousand jobs each second, %d processes, and CPU of a run in us\n%-13s %8s %6s %6s %10s %10s %10s %10s\n%s\n", processes,
		"", "ticks", "never", "twice", "p50 (ms)", "p99 (ms)", "processes", "server", strings.Join(each, "\n"))
}

// wanted reports whether a system is to be run.
func wanted(system string) bool {
	return *systemsFlag == "" || slices.Contains(strings.Split(*systemsFlag, ","), system)
}

// withKills runs nine jobs each second and kills processes.
func withKills(t *testing.T, s system) (line string) {
	t.Helper()
	g := startGroup(t, s, work{jobs: 9, period: time.Second, length: 100 * time.Millisecond})
	from := time.Now().Truncate(time.Second).Add(time.Second)
	sleepUntil(from.Add(steady))
	rss := g.rss()
	var killedAt []time.Time
	for k := range kills {
		at := from.Add(steady + time.Duration(k)*between)
		at = at.Add(time.Duration(k) * 170 * time.Millisecond) // at another part of the second each
		sleepUntil(at)
		killedAt = append(killedAt, time.Now())
		g.kill(k % processes)
		sleepUntil(at.Add(away))
		g.start(k % processes)
	}
	to := from.Add(steady + kills*between)
	runs := g.runsUntil(from, to)
	var pauses []time.Duration
	for _, at := range killedAt {
		pauses = append(pauses, pause(runs, g.jobs, at, at.Add(between)))
	}
	slices.Sort(pauses)
	all, calm := settle(runs, g.work, g.jobs, from, to), settle(runs, g.work, g.jobs, from, from.Add(steady))
	line = fmt.Sprintf("%-13s %-22s %8d %6d %6d %10s %10s %7dM", s.name,
		fmt.Sprintf("%.2f / %.2f / %.2f", pauses[0].Seconds(), pauses[len(pauses)/2].Seconds(), pauses[len(pauses)-1].Seconds()),
		all.ticks, all.never, all.twice, ms(calm.percentile(50)), ms(calm.percentile(99)), rss>>20)
	fmt.Printf("BenchmarkKills/%s 1 %s longest-pause-s %s median-pause-s %d never %d twice\n", s.name,
		seconds(pauses[len(pauses)-1]), seconds(pauses[len(pauses)/2]), all.never, all.twice)
	t.Log(line)
	return line
}

// withMany runs a thousand jobs every five seconds.
func withMany(t *testing.T, s system) (line string) {
	t.Helper()
	const bursts = 3
	g := startGroup(t, s, work{jobs: 1000, period: 5 * time.Second})
	from := time.Now().Truncate(g.work.period).Add(g.work.period)
	to := from.Add(bursts * g.work.period)
	a := settle(g.runsUntil(from, to), g.work, g.jobs, from, to)
	line = fmt.Sprintf("%-13s %8d %6d %6d %10s %10s %10s", s.name, a.ticks, a.never, a.twice, ms(a.percentile(50)), ms(a.percentile(99)), ms(a.percentile(100)))
	t.Log(line)
	return line
}

// withEach runs a thousand jobs each second, and measures the processor time of that.
func withEach(t *testing.T, s system) (line string) {
	t.Helper()
	const long = 20 * time.Second
	g := startGroup(t, s, work{jobs: 1000, period: time.Second})
	from := time.Now().Truncate(time.Second).Add(2 * time.Second)
	to := from.Add(long)
	sleepUntil(from.Add(-g.work.period / 2)) // when nothing is due
	ours, theirs := g.cpu()
	sleepUntil(to.Add(-g.work.period / 2))
	ours2, theirs2 := g.cpu()
	a := settle(g.runsUntil(from, to), g.work, g.jobs, from, to)
	perRun := func(d time.Duration) int64 { return d.Microseconds() / int64(max(1, a.ticks-a.never)) }
	clients, server := perRun(ours2-ours), perRun(theirs2-theirs)
	line = fmt.Sprintf("%-13s %8d %6d %6d %10s %10s %10d %10d", s.name, a.ticks, a.never, a.twice, ms(a.percentile(50)), ms(a.percentile(99)), clients, server)
	t.Log(line)
	fmt.Printf("BenchmarkEach/%s 1 %d us/run %d us-processes/run %d us-server/run %s p99-ms %d never %d twice\n", s.name,
		clients+server, clients, server, ms(a.percentile(99)), a.never, a.twice)
	return line
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }

// group is the processes of a system.
type group struct {
	t       *testing.T
	work    work
	jobs    []string
	ledger  string
	command func(id, ledger string) *exec.Cmd
	running [processes]*exec.Cmd
	ids     [processes]string
	started int
}

// startGroup starts processes, and returns a while after each job has run. If that takes too long,
// it returns, too: the account will show it.
func startGroup(t *testing.T, s system, w work) *group {
	t.Helper()
	g := &group{t: t, work: w, ledger: filepath.Join(t.TempDir(), "ledger"), command: s.serve(t, w)}
	for k := range w.jobs {
		g.jobs = append(g.jobs, fmt.Sprintf("job-%04d", k))
	}
	if err := os.WriteFile(g.ledger, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for k := range processes {
		g.start(k)
	}
	t.Cleanup(func() {
		for k := range processes {
			g.kill(k)
		}
	})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && !g.allRan(); {
		time.Sleep(500 * time.Millisecond)
	}
	time.Sleep(warm)
	return g
}

// runsUntil waits for the ticks of a time, also for late ones, and returns all runs.
func (g *group) runsUntil(from, to time.Time) []run {
	g.t.Helper()
	const latest = 40 * time.Second
	sleepUntil(to.Add(warm))
	for {
		runs := readLedger(g.t, g.ledger)
		if settle(runs, g.work, g.jobs, from, to).never == 0 || time.Now().After(to.Add(latest)) {
			return runs
		}
		time.Sleep(time.Second)
	}
}

func (g *group) allRan() bool {
	seen := make(map[string]bool)
	for _, r := range readLedger(g.t, g.ledger) {
		seen[r.job] = true
	}
	return len(seen) == len(g.jobs)
}

func (g *group) start(k int) {
	g.t.Helper()
	g.started++
	g.ids[k] = fmt.Sprintf("p%d", g.started)
	cmd := g.command(g.ids[k], g.ledger)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.running[k] = cmd
}

// kill kills process k.
func (g *group) kill(k int) {
	_ = g.running[k].Process.Signal(syscall.SIGKILL)
	_ = g.running[k].Wait() // that it was killed is not an error
}

// cpu is the processor time of the processes, and of the server: of everything else that the test
// has started.
func (g *group) cpu() (clients, server time.Duration) {
	g.t.Helper()
	used := func(pid int) time.Duration {
		d, err := zkserver.CPU(pid)
		if err != nil {
			g.t.Fatal(err)
		}
		return d
	}
	for _, cmd := range g.running {
		clients += used(cmd.Process.Pid)
	}
	return clients, used(os.Getpid()) - clients
}

// rss is the resident set of the median process, in bytes.
func (g *group) rss() int64 {
	g.t.Helper()
	var all []int64
	for _, cmd := range g.running {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", cmd.Process.Pid))
		if err != nil {
			g.t.Fatal(err)
		}
		pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
		if err != nil {
			g.t.Fatal(err)
		}
		all = append(all, pages*int64(os.Getpagesize()))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

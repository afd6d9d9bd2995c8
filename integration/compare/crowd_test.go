package compare

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker/admin"
)

var (
	phasesFlag = flag.String("compare.phases", "2",
		"when to kill: into how many parts to divide the second, or a list such as 960ms,500ms")
	sessionsFlag = flag.String("compare.sessions", "4s", "session timeouts of singleworker, such as 4s,10s,30s")
	killsFlag    = flag.Int("compare.kills", 1, "kills in each phase")
)

const (
	crowdJobs = 600
	// allowed is how much longer than with gocron a job that had not begun may pause.
	allowed = 400 * time.Millisecond
	// tooLate is when a tick that has not been run counts as lost.
	tooLate = 3 * time.Second
	// redisLock is for how long a lock of the worker for gocron lasts.
	redisLock = 8 * time.Second
)

// TestCrowd prints the cost of each kill, and a table. It fails if something could not be measured,
// or a run had begun before its tick.
func TestCrowd(t *testing.T) {
	phases, sessions := phasesOf(t, *phasesFlag), durations(t, *sessionsFlag)
	programs := build(t)
	limit := "-"
	var rows []string
	if wanted("gocron") {
		t.Run("gocron", func(t *testing.T) {
			all := crowdOfGocron(t, programs).kill(t, phases)
			limit = seconds(all.pause + allowed)
			rows = append(rows, fmt.Sprintf("%-13s %7s %v %9s", "gocron", "-", all, "-"))
			all.print("gocron")
		})
	}
	for _, session := range sessions {
		if !wanted("singleworker") {
			break
		}
		t.Run("singleworker/"+session.String(), func(t *testing.T) {
			all := crowdOfSingleworker(t, programs, session).kill(t, phases)
			rows = append(rows, fmt.Sprintf("%-13s %7v %v %9s", "singleworker", session, all, limit))
			all.print("singleworker")
		})
	}
	fmt.Printf("\n%d jobs each second, %d processes, %d kills in each of %d phases\n%-13s %7s %6s %6s %8s %6s %6s %6s %9s %9s\n%s\n",
		crowdJobs, processes, *killsFlag, len(phases),
		"", "session", "begun", "early", "repeated", "lost", "twice", "ticks", "pause (s)", "limit (s)", strings.Join(rows, "\n"))
}

// phasesOf reads the flag.
func phasesOf(t *testing.T, text string) (phases []time.Duration) {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		return durations(t, text)
	}
	for k := range n {
		phases = append(phases, time.Duration(k)*time.Second/time.Duration(n))
	}
	return phases
}

func durations(t *testing.T, list string) (all []time.Duration) {
	t.Helper()
	for text := range strings.SplitSeq(list, ",") {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

// A crowd is a system that runs many jobs on one tick.
type crowd struct {
	system system
	// begun returns the runs that a process had begun and not ended when it was killed: jobs, and
	// their ticks if they are known. It is called a second or two later.
	begun func(t *testing.T, id string, killed time.Time) map[string]time.Time
	// holds is for how long after a kill these jobs wait.
	holds time.Duration
	// even reports whether each process has the same share.
	even func(t *testing.T) bool
}

func crowdOfSingleworker(t *testing.T, programs string, session time.Duration) crowd {
	t.Helper()
	addr := zkserver.Start(t).Addr()
	client, err := admin.Dial(t.Context(), admin.Config{Servers: addr, ServerType: "compare"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	list := func(t *testing.T) []admin.JobStatus {
		t.Helper()
		jobs, err := client.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return jobs
	}
	return crowd{
		system: system{"singleworker", func(_ *testing.T, w work) func(id, ledger string) *exec.Cmd {
			start := goWorker(programs, "singleworker", addr, w)
			return func(id, ledger string) *exec.Cmd {
				cmd := start(id, ledger)
				cmd.Args = append(cmd.Args, "-session", session.String())
				return cmd
			}
		}},
		begun: func(t *testing.T, id string, _ time.Time) map[string]time.Time {
			t.Helper()
			ticks := make(map[string]time.Time)
			for _, j := range list(t) {
				if r := j.LastRun; r != nil && r.InstanceID == id && r.Ended.IsZero() {
					ticks[j.Name] = r.Tick
				}
			}
			if live, err := client.Instances(t.Context()); err != nil {
				t.Fatal(err)
			} else if !slices.ContainsFunc(live, func(i admin.Instance) bool { return i.ID == id }) {
				t.Fatalf("the session of %s ended before all records were read", id)
			}
			return ticks
		},
		holds: session,
		even: func(t *testing.T) bool {
			t.Helper()
			shares := make(map[string]int)
			for _, j := range list(t) {
				if j.State == admin.StateOwned {
					shares[j.Owner.InstanceID]++
				}
			}
			for _, n := range shares {
				if n != crowdJobs/processes {
					return false
				}
			}
			return len(shares) == processes
		},
	}
}

func crowdOfGocron(t *testing.T, programs string) crowd {
	t.Helper()
	addr := startRedis(t)
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return crowd{
		system: system{"gocron", func(_ *testing.T, w work) func(id, ledger string) *exec.Cmd {
			return goWorker(programs, "gocron", addr, w)
		}},
		begun: func(t *testing.T, _ string, killed time.Time) map[string]time.Time {
			t.Helper()
			left, err := locksBefore(t.Context(), client, killed)
			if err != nil {
				t.Fatal(err)
			}
			return left
		},
		holds: redisLock,
		even:  func(*testing.T) bool { return true },
	}
}

// locksBefore returns the locks that were taken before a time and are still there.
func locksBefore(ctx context.Context, client *redis.Client, at time.Time) (map[string]time.Time, error) {
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	left := make(map[string]time.Time)
	for _, key := range keys {
		ttl, err := client.PTTL(ctx, key).Result()
		if err != nil {
			return nil, err
		}
		if ttl > 0 && time.Now().Add(ttl-redisLock).Before(at) {
			left[key] = time.Time{}
		}
	}
	return left, nil
}

// kill kills a process in each phase, and returns the cost of all.
func (c crowd) kill(t *testing.T, phases []time.Duration) (all toll) {
	t.Helper()
	g := startGroup(t, c.system, work{jobs: crowdJobs, period: time.Second})
	for n := range len(phases) * *killsFlag {
		phase, victim := phases[n / *killsFlag], n%processes
		c.awaitEven(t)
		second := time.Now().Truncate(time.Second).Add(3 * time.Second)
		sleepUntil(second.Add(phase))
		before := time.Now()
		g.kill(victim)
		killed := time.Now()
		// In the second half of a second nothing is due, so that reading delays no run.
		sleepUntil(killed.Add(400 * time.Millisecond).Truncate(time.Second).Add(1600 * time.Millisecond))
		begun := c.begun(t, g.ids[victim], killed)
		to := second.Add(c.holds + 2*time.Second)
		sleepUntil(to.Add(tooLate))
		one := tollOf(readLedger(t, g.ledger), g.jobs, begun, second, before, killed, to)
		t.Logf("%s killed at %s: begun %d, early %d, repeated %d; lost %d, twice %d; longest pause %s", c.system.name,
			before.Format(".000"), one.begun, one.early, one.repeated, one.lost, one.twice, seconds(one.pause))
		if one.early > 0 {
			t.Errorf("%d runs had begun before their tick", one.early)
		}
		all = all.plus(one)
		g.start(victim)
	}
	return all
}

// awaitEven waits until each process has the same share.
func (c crowd) awaitEven(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !c.even(t); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatal("the jobs are not evenly shared")
		}
	}
}

// toll is the losses and delays of kills.
type toll struct {
	begun    int           // jobs whose run was cut off
	early    int           // those among them whose tick had not come
	repeated int           // their ticks that were run more than once: a run had ended, and its result was not recorded
	lost     int           // ticks of the other jobs
	twice    int           // likewise, that were run more than once
	ticks    int           // likewise
	pause    time.Duration // longest, likewise
}

func (a toll) plus(b toll) toll {
	return toll{
		a.begun + b.begun, a.early + b.early, a.repeated + b.repeated, a.lost + b.lost, a.twice + b.twice, a.ticks + b.ticks, max(a.pause, b.pause),
	}
}

func (a toll) String() string {
	return fmt.Sprintf("%6d %6d %8d %6d %6d %6d %9s", a.begun, a.early, a.repeated, a.lost, a.twice, a.ticks, seconds(a.pause))
}

// print prints a line for benchstat.
func (a toll) print(system string) {
	fmt.Printf("BenchmarkCrowd/%s 1 %s longest-pause-s %d lost %d twice %d repeated\n", system, seconds(a.pause), a.lost, a.twice, a.repeated)
}

// tollOf judges the ticks of each second from one until before another. The process was alive at
// before, and dead at killed.
func tollOf(runs []run, jobs []string, begun map[string]time.Time, from, before, killed, to time.Time) toll {
	isBegun := func(job string) bool { _, is := begun[job]; return is }
	w := work{period: time.Second}
	twice := settle(runs, w, nil, from, to).twice
	all := toll{begun: len(begun)}
	for _, tick := range begun {
		if tick.After(killed) {
			all.early++
		}
	}
	jobs = slices.DeleteFunc(slices.Clone(jobs), isBegun)
	runs = slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return isBegun(r.job) })
	others := settle(runs, w, jobs, from, to)
	all.repeated = twice - others.twice
	all.lost, all.twice, all.ticks, all.pause = others.never, others.twice, others.ticks, pause(runs, jobs, before, to)
	return all
}

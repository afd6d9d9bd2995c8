package bench

import (
	"slices"
	"syscall"
	"time"

	"github.com/swjobs/singleworker/singleworker"
)

// secondly is a schedule by which each job is due every second.
const secondly = "* * * * * ?"

// watchCrash is for how many seconds after its end the jobs of an instance are watched: for as long
// as its session may last, with the longest one that is measured.
const watchCrash = 3

// Ways in which an instance ends, as far as its jobs are concerned.
func killed(p *process)  { p.signal(syscall.SIGKILL) }
func stopped(p *process) { p.signal(syscall.SIGSTOP) }
func cut(p *process)     { p.proxy.Stall() } // nothing arrives any more, and no connection breaks

// crash measures the cost of an instance's end for its jobs, which are due every second and idle
// when it comes.
func (b *bench) crash(name string, end func(*process)) {
	b.t.Helper()
	g := newGroup(b, b.jobs("", singleworker.Job{Schedule: secondly}))
	l := newLine(name, b.size)
	g.assemble(l)
	time.Sleep(b.settle)
	sleepToHalf()
	begun, _ := g.spent()
	time.Sleep(b.settle)
	after, calm := g.spent()
	var late []time.Duration
	var pause time.Duration
	never, twice := 0, 0
	for range b.kills {
		sleepToHalf()
		victim, last := g.victim()
		at := time.Now().Unix()
		end(victim)
		time.Sleep(watchCrash * time.Second)
		_, seen := g.spent()
		first := make(map[string]map[int64]time.Duration, len(last))
		for _, run := range seen.Runs {
			if first[run.Job] == nil {
				first[run.Job] = make(map[int64]time.Duration)
			}
			if _, again := first[run.Job][run.Tick]; again && run.Attempt == 1 {
				twice++
			}
			first[run.Job][run.Tick] = run.Late
		}
		for job, was := range last {
			before := time.Unix(was.Tick, 0).Add(was.Late)
			for tick := at + 1; tick < at+watchCrash; tick++ {
				d, ran := first[job][tick]
				if !ran {
					never++
					continue
				}
				begin := time.Unix(tick, 0).Add(d)
				if tick == at+1 {
					late = append(late, d)
				}
				pause, before = max(pause, begin.Sub(before)), begin
			}
		}
		victim.kill()
		if _, ok := g.await(g.add(1), g.balanced); !ok {
			l.remarkf("not balanced within %v after a new instance came", b.limit)
		}
	}
	slices.Sort(late)
	b.print(l.late(late).add(pause.Seconds(), "longest-pause-s").add(float64(never), "never").add(float64(twice), "twice").
		add(float64(b.kills), "ends").add(float64(after.Received-begun.Received-1)/float64(max(1, len(calm.Runs))), "req/run"))
	g.end()
}

// sleepToHalf sleeps until nothing is due, nor likely to be in progress.
func sleepToHalf() { time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(3 * time.Second / 2))) }

// victim takes the instance that owns most out of the group, and returns it with its last run of
// each job.
func (g *group) victim() (most *process, last map[string]Ran) {
	g.t.Helper()
	most = slices.MaxFunc(g.live, func(a, b *process) int { return int(a.owned.Load() - b.owned.Load()) })
	g.live = slices.DeleteFunc(g.live, func(p *process) bool { return p == most })
	g.spent() // the others forget their runs
	last = make(map[string]Ran)
	latest := int64(0)
	for _, run := range most.report().Runs {
		last[run.Job] = run
		latest = max(latest, run.Tick)
	}
	for job, run := range last {
		if run.Tick < latest {
			delete(last, job) // given away since
		}
	}
	return most, last
}

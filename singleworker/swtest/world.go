package swtest

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// World is a scenario of [Explore]: the cluster, and all that is outside of its processes. Safe for
// concurrent use.
type World struct {
	*Cluster

	// Effects are a fake of an outside system, for handlers to append to.
	Effects *Effects
	// Outside has been returned by Plan.Outside: fakes of the systems that the handlers use.
	Outside any

	plan  Plan
	begun time.Time
	quiet chan struct{}  // closed when faults end
	wrong chan struct{}  // closed when Effects have found something, which ends the scenario
	later sync.WaitGroup // ends of faults
	beats atomic.Int64   // grows while virtual time passes
	reality

	mu        sync.Mutex
	processes map[string]*process // the latest of each instance
	pending   []Fault             // that strike at a Point
	struck    []Fault
	hits      map[place][]time.Duration
	calls     map[*singleworker.Run]*call // in progress
	unsettled map[string]bool             // slots whose last run has not returned nil
	refusing  map[place]int               // the zero place: all
	away      bool                        // ZooKeeper is
	story     []string
}

// reality is the way from the bubble to real time.
type reality struct {
	bubble chan string // the goroutines' in their headers
	hung   chan error  // why it cannot end
	never  chan struct{}
}

// process is one start of an instance.
type process struct {
	world    *World
	name     string
	version  int
	instance *swtest.Instance
	ahead    atomic.Int64 // of its clock

	mu   sync.Mutex
	dead bool
	over chan struct{} // while it is stopped: closed when it goes on
}

// finding is a violation of a rule.
type finding struct{ rule, text string }

// recorder is the TB of a world.
type recorder struct {
	mu       sync.Mutex
	found    []finding
	cleanups []func()
}

// fatal is the panic that ends a scenario.
type fatal struct{}

func (*recorder) Helper()            {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(fatal{})
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = append(r.found, finding{"test", fmt.Sprintf(format, args...)})
}

// newWorld is called in a bubble.
func newWorld(tb TB, out reality, seed uint64, plan Plan, faults []Fault) *World {
	w := &World{
		plan: plan, reality: out, begun: time.Now(), quiet: make(chan struct{}), wrong: make(chan struct{}), processes: make(map[string]*process), hits: make(map[place][]time.Duration),
		calls: make(map[*singleworker.Run]*call), unsettled: make(map[string]bool), refusing: make(map[place]int),
	}
	w.Effects = &Effects{world: w}
	cfg := Config{SessionTimeout: plan.SessionTimeout, SyncPeriod: plan.SessionTimeout / 2}.withDefaults()
	w.Cluster = newCluster(tb, cfg, swtest.Config{Latency: latency(seed), Seed: cmp.Or(seed, 1)})
	for _, f := range faults {
		if f.Point != "" {
			w.pending = append(w.pending, f)
		}
	}
	return w
}

// latency has messages take up to 5 ms, as the seed says.
func latency(seed uint64) func(place string) func() zkdev.Latency {
	return func(place string) func() zkdev.Latency {
		of := fnv.New64a()
		_, _ = of.Write([]byte(place))
		var streams atomic.Uint64
		draws := func() func() time.Duration {
			rng := rand.New(rand.NewPCG(seed, of.Sum64()+streams.Add(1)))
			return func() time.Duration {
				return 200*time.Microsecond + time.Duration(rng.Int64N(int64(5*time.Millisecond)))
			}
		}
		return func() zkdev.Latency {
			return zkdev.Latency{There: draws(), Back: draws(), Order: of.Sum64() | 1}
		}
	}
}

// play runs the scenario up to the end of all processes.
func (w *World) play(faults []Fault) {
	if w.plan.Outside != nil {
		w.Outside = w.plan.Outside()
	}
	for k := range w.plan.Instances {
		w.start(nil, fmt.Sprintf("app-%d", k+1), 1)
		<-time.After(time.Second)
	}
	timed := slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return f.Point != "" })
	slices.SortStableFunc(timed, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	for _, f := range timed {
		if w.until(f.At) {
			w.strike(f, w.victim(f.Slot))
		}
	}
	settles := w.until(w.plan.For)
	w.notef("the faults end")
	close(w.quiet)
	w.later.Wait()
	if settles {
		w.settle()
	}
	w.group.Close()
	for range 1000 { // for handlers that ignore their contexts
		<-time.After(w.plan.SessionTimeout)
		if w.running() == nil {
			return
		}
	}
	w.hung <- fmt.Errorf("swtest: a run of %s has not returned %v after its context ended", w.running().Slot, 1000*w.plan.SessionTimeout)
	<-w.never // the bubble cannot end
}

// running is a run in progress, or nil.
func (w *World) running() *singleworker.Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	for run := range w.calls {
		return run
	}
	return nil
}

// until waits until so long after the beginning, and returns false if something has been found.
func (w *World) until(since time.Duration) bool {
	select {
	case <-w.wrong:
		return false
	case <-time.After(time.Until(w.begun.Add(since))):
		return true
	}
}

// settle lets interrupted runs be repeated.
func (w *World) settle() {
	<-time.After(3 * w.plan.SessionTimeout)
	for range 20 * int(w.plan.SessionTimeout/time.Second) {
		w.mu.Lock()
		settled := len(w.unsettled) == 0
		w.mu.Unlock()
		if settled {
			return
		}
		<-time.After(time.Second)
	}
}

// start starts a process of an instance in the place of another one, unless that has been replaced.
func (w *World) start(former *process, name string, version int) {
	p := &process{world: w, name: name, version: version}
	w.mu.Lock()
	if w.processes[name] != former {
		w.mu.Unlock()
		return
	}
	w.processes[name] = p
	w.mu.Unlock()
	setup := swtest.Setup{
		Handlers: make(map[string]singleworker.Handler), Before: make(map[string]singleworker.Handler), Jobs: w.plan.Jobs,
		Wall: func() time.Duration { return time.Duration(p.ahead.Load()) },
		Configure: func(cfg *singleworker.Config) {
			if cfg.Version = strconv.Itoa(version); w.plan.Configure != nil {
				w.plan.Configure(cfg)
			}
		},
	}
	if version == 2 && w.plan.NextJobs != nil {
		setup.Jobs = w.plan.NextJobs
	}
	for name, h := range w.plan.Handlers(Process{World: w, Instance: p.name, Version: version}) {
		if slices.ContainsFunc(setup.Jobs, func(j singleworker.Job) bool { return j.BeforeTick == name }) {
			setup.Before[name] = p.wraps(h)
		} else {
			setup.Handlers[name] = p.wraps(h)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instance = w.group.Start(name, setup)
}

// note adds a line to the story.
func (w *World) notef(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, clock(time.Now())+" "+fmt.Sprintf(format, args...))
}

// begins counts a call, and returns the function that ends it.
func (w *World) begins(c *call) (end func(err error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[c.run], w.unsettled[c.run.Slot] = c, true
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.calls, c.run); err == nil {
			delete(w.unsettled, c.run.Slot)
		}
	}
}

// callOf is the call of a run in progress, or of one that goes on although it has returned.
func (w *World) callOf(run *singleworker.Run) *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.calls[run]; c != nil {
		return c
	}
	return &call{process: w.processes[run.InstanceID], run: run}
}

// reached counts that a call has come to a place, and takes the faults that strike there.
func (w *World) reached(at place) (due []Fault) {
	w.beats.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hits[at] = append(w.hits[at], time.Since(w.begun))
	w.pending = slices.DeleteFunc(w.pending, func(f Fault) bool {
		strikes := f.Slot == at.slot && f.Point == at.point && f.Nth == len(w.hits[at])
		if strikes {
			due = append(due, f)
		}
		return strikes
	})
	return due
}

// refuses reports whether outside systems refuse at a place.
func (w *World) refuses(at place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refusing[at] > 0 || w.refusing[place{}] > 0
}

// lastRuns are the last runs of all jobs.
func (w *World) lastRuns() (runs []Run) {
	for _, j := range w.plan.Jobs {
		runs = append(runs, w.Runs(j.Name)...)
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return a.Started.Compare(b.Started) })
	return runs
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const serverTick = 500 * time.Millisecond

// profile configures one simulation; drawn from the seed.
type profile struct {
	Instances, Slots int // slots: jobs that are not divided, and shards, to begin with
	Session, Sync    time.Duration
	FaultEvery       time.Duration // mean
	Alike            bool          // every instance has every handler
	Weighted         bool          // the instances' weights differ
	Forced           bool          // sessions are ended from outside
	Names            int           // of the server, in the connect string
	Declared         bool          // some jobs are declared by the instances, which are of two versions
	Limited          bool          // some instances have MaxSlots
	Running          int           // each instance's MaxRunning
	Clocks           bool          // those of machines are off, and leap
	ServerClock      bool          // that of the server leaps
	ClockLimit       time.Duration // MaxClockOffset
	Lagging          bool          // instances read from servers that are behind
	Latch            bool          // the group is in latch mode
	Forgets          bool          // the servers lose transactions that they have acknowledged, once
	Resets           bool          // and come back as if these had never been: they use zxids again
	Empties          bool          // the servers lose all their data, once the group is there
	Patient          bool          // no instance takes an idle slot from an owner that lives
	Always           bool          // some jobs always run, for a time or for good
	Untimed          bool          // some run once, or when asked
	Windows          bool          // some have a beginning, an end, or a number of runs
	Calendars        bool          // some have calendars, which change
	Families         bool          // some run after others
	Shared           bool          // some need places of limits, which change
	Everywhere       bool          // some run on every instance
	Placed           bool          // some require labels, list instances, or are disabled here and there
	Noise            time.Duration
}

func drawProfile(r *rand.Rand, noise time.Duration) profile {
	p := profile{
		Instances: 2 + r.IntN(7), Slots: 5 + r.IntN(56), Noise: noise,
		Session: []time.Duration{4 * time.Second, 6 * time.Second, 10 * time.Second}[r.IntN(3)],
		Alike:   r.IntN(4) > 0, Forced: r.IntN(3) == 0,
	}
	p.Sync = p.Session / time.Duration(1+r.IntN(3))
	p.Weighted = r.IntN(3) == 0
	p.FaultEvery = p.Session * time.Duration(1+r.IntN(8)) / 4
	p.Names = 1 + r.IntN(3)
	p.Declared = r.IntN(3) == 0
	p.Limited = r.IntN(4) == 0
	p.Clocks = r.IntN(3) == 0
	p.Lagging = r.IntN(3) == 0
	p.Forgets = r.IntN(6) == 0
	p.Patient = r.IntN(4) == 0
	if r.IntN(6) == 0 {
		latchMode(&p)
	}
	if r.IntN(5) == 0 {
		p.Running = 1 + r.IntN(6)
	}
	if p.Clocks {
		p.ClockLimit = drawClockLimit(r)
	}
	return p
}

// drawLosses draws how servers forget; in some groups, they forget everything.
func (p *profile) drawLosses(r *rand.Rand) {
	p.Resets = r.IntN(2) == 0
	if r.IntN(8) == 0 {
		empties(p)
	}
}

// world is one cluster and the faults that it suffers.
type world struct {
	profile

	seed    uint64
	cluster *swtest.Cluster
	begun   time.Time
	quiet   chan struct{} // closed when the noise stops
	later   sync.WaitGroup

	// Owned by the goroutine of the noise.
	rng        *rand.Rand // of the step
	serverTill time.Time  // until when the server's clock is wrong
	plan       plan
	steps      []time.Duration  // when they came, since the beginning
	noisy      time.Duration    // when the noise ended, likewise
	shards     []int            // of each job, as last asked for; 0: it is not divided
	everywhere []bool           // of each job: it runs on every instance
	relatives  map[int]relative // the jobs that are in a family
	breach     *breach          // of every instance; nil for none
	started    int
	versions   [2][]singleworker.Job    // of the application: what it declares
	twins      map[string]bool          // ids that two live processes had
	removes    []func()                 // of controls
	ledger     *ledger                  // what the checker knows so far
	holds      bool                     // the log is not read, because servers are about to lose it
	clocks     map[string]*atomic.Int64 // how far the wall clock of each machine is off, by instance id

	witness                   // its mu guards the following, too
	jobs      map[string]bool // that exist
	handlers  map[string]map[string]bool
	operators atomic.Int64 // how far the clocks of operators are off
	found     []violation
	late      time.Time // when the last of what is late comes
	counts

	owned, even      time.Duration // how long after the noise that was not so
	calmFrom, calmTo time.Time     // all was settled, and nothing happened
}

// latency draws how long messages are under way: mostly a few milliseconds, some 50 and more, and
// during the noise a few so long that several of the protocol's steps pass meanwhile.
func (w *world) latency(place string) func() zkdev.Latency {
	where := fnv.New64a()
	_, _ = where.Write([]byte(place))
	var dials atomic.Uint64
	return func() zkdev.Latency {
		of := where.Sum64() + 2*dials.Add(1)
		return zkdev.Latency{There: w.lag(of), Back: w.lag(of + 1), Order: of | 1}
	}
}

// lag draws for one direction of one connection.
func (w *world) lag(stream uint64) func() time.Duration {
	rng := rand.New(rand.NewPCG(w.seed, stream))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(rng.Int64N(int64(most-least)))
	}
	return func() time.Duration {
		n := rng.IntN(1000)
		switch quiet := w.isQuiet(); {
		case n < 2 && !quiet:
			return w.lasts(between(100*time.Millisecond, w.Session/3))
		case n < 20 && !quiet:
			return w.lasts(between(50*time.Millisecond, 100*time.Millisecond))
		case n < 20:
			return between(5*time.Millisecond, longestLag)
		default:
			return between(200*time.Microsecond, 5*time.Millisecond)
		}
	}
}

// longestLag is the longest latency once the noise has stopped.
const longestLag = 20 * time.Millisecond

// lasts notes that something is late by d: as long as that, the noise has not stopped.
func (w *world) lasts(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if end := time.Now().Add(d); end.After(w.late) {
		w.late = end
	}
	return d
}

func (w *world) isQuiet() bool {
	select {
	case <-w.quiet:
		return true
	default:
		return false
	}
}

// newWorld is called inside a bubble.
func newWorld(t *testing.T, seed uint64, noise time.Duration) *world {
	t.Helper()
	return newWorldLike(t, seed, noise, func(*profile) {})
}

// newWorldLike changes the profile that the seed has drawn.
func newWorldLike(t *testing.T, seed uint64, noise time.Duration, change func(*profile)) *world {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	drawn := drawProfile(rng, noise)
	drawn.drawKinds(rand.New(rand.NewPCG(seed, 3)))
	drawn.drawLosses(rand.New(rand.NewPCG(seed, 4)))
	drawn.drawServerClock(rand.New(rand.NewPCG(seed, 5)))
	drawn.Windows = rand.New(rand.NewPCG(seed, 6)).IntN(3) == 0
	drawn.Calendars = rand.New(rand.NewPCG(seed, 7)).IntN(3) == 0
	drawn.Families = rand.New(rand.NewPCG(seed, 8)).IntN(3) == 0
	drawn.Shared = rand.New(rand.NewPCG(seed, 9)).IntN(3) == 0
	change(&drawn)
	w := &world{
		profile: drawn, seed: seed, rng: rng, begun: time.Now(), quiet: make(chan struct{}),
		jobs: make(map[string]bool), twins: make(map[string]bool), clocks: make(map[string]*atomic.Int64), handlers: make(map[string]map[string]bool),
	}
	w.stops = make(map[*zkdev.Client][]stop)
	for slots := 0; slots < w.Slots; {
		n := 0
		if rng.IntN(4) == 0 {
			n = w.drawShards()
		}
		w.shards = append(w.shards, n)
		w.everywhere = append(w.everywhere, n == 0 && w.Everywhere && rng.IntN(4) == 0)
		slots += max(1, n)
	}
	w.drawFamilies()
	w.versions = w.declarations()
	w.cluster = swtest.New(t, swtest.Config{
		SessionTimeout: w.Session, SyncPeriod: w.Sync, StopGrace: 2 * time.Second, Names: w.Names, Latency: w.latency, Seed: seed,
		Server: zkdev.Config{Tick: serverTick, KeepLog: keptLog},
	})
	w.hearFrom(w.cluster.Server, w.Session)
	w.ledger = newLedger(w.cluster.Tree())
	w.ledger.latch, w.ledger.labelsOf, w.ledger.orderHeard = w.Latch, w.labels, w.orderHeard()
	w.ledger.clocksMayBeOff, w.ledger.clockHeard = w.Clocks, 4*w.Session+3*w.Sync
	if w.ClockLimit > 0 {
		w.ledger.aheadMost = w.ClockLimit
	}
	return w
}

func (w *world) notef(format string, args ...any) { w.cluster.Note(fmt.Sprintf(format, args...)) }

// upTo draws a duration below d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// after does something later, or when the noise stops.
func (w *world) after(d time.Duration, f func()) {
	w.later.Go(func() {
		select {
		case <-time.After(d):
		case <-w.quiet:
		}
		f()
	})
}

var schedules = []string{
	"* * * * * ?", "*/2 * * * * ?", "*/5 * * * * ?", "*/15 * * * * ?", "0 * * * * ?", "@every 7s", "@every 45s", "@hourly",
}

// lingers is how long a slow handler takes to return; less than the time that a stop leaves it.
const lingers = 2 * time.Second

func jobName(k int) string { return fmt.Sprintf("job%02d", k) }

// handler works for a time that depends on the job: an instant, some seconds, or, to watch the
// right to run without a gap, until it ends. Some runs fail, some panic, and some handlers take
// their time to return when the right has ended.
func (w *world) handler(k int) singleworker.Handler {
	lasts := []time.Duration{0, 50 * time.Millisecond, 3 * time.Second, 25 * time.Second, time.Hour}[k%5]
	if _, related := w.relatives[k]; related {
		lasts = familyRuns[k%5]
	}
	if w.Running > 0 {
		lasts = min(lasts, 3*time.Second) // else nothing but the longest would run
	}
	return func(ctx context.Context, run *singleworker.Run) error {
		select {
		case <-time.After(lasts + w.apart(run)):
			switch {
			case k%3 > 0 || (run.Tick.Unix()+int64(run.Attempt))%4 > 0:
				return nil
			case k%2 > 0:
				panic("worse luck")
			default:
				return errors.New("bad luck")
			}
		case <-w.quiet:
			return nil
		case <-ctx.Done():
			if k%7 == 3 {
				time.Sleep(lingers)
			}
			return context.Cause(ctx)
		}
	}
}

// apart is a little time that differs between the slots of an instance, so that no two runs end at
// one instant.
func (w *world) apart(run *singleworker.Run) time.Duration {
	of := fnv.New64a()
	_, _ = fmt.Fprintf(of, "%d %s %d", w.seed, run.Job, run.Shard.Index)
	return zkdev.Apart*time.Duration(of.Sum64()%1000) + 1
}

// start starts an instance, under a new name if none is given.
func (w *world) start(name string) {
	if name == "" {
		name = fmt.Sprintf("i%d", w.started)
		w.started++
	}
	setup := swtest.Setup{Handlers: make(map[string]singleworker.Handler), Wall: w.clock(name), Dial: w.dial(name, w.breach)}
	has := make(map[string]bool)
	for k := range w.shards {
		if w.Alike || w.rng.IntN(4) > 0 {
			setup.Handlers[jobName(k)] = w.handler(k)
			has[jobName(k)] = true
		}
	}
	weight := 1
	if w.Weighted {
		weight += w.rng.IntN(4)
	}
	setup.Jobs = w.declared(w.rng.IntN(2))
	most := 0
	if w.Limited && w.rng.IntN(2) == 0 {
		most = 1 + w.rng.IntN(2*w.Slots/w.Instances)
	}
	setup.Configure = func(cfg *singleworker.Config) {
		cfg.Weight, cfg.MaxSlots, cfg.MaxRunning, cfg.MaxClockOffset = weight, most, w.Running, w.ClockLimit
		cfg.Labels = w.labels(name)
		w.breach.configure(cfg)
		if w.Patient {
			cfg.ClaimGrace = singleworker.NoTakeovers
		}
		if w.Latch {
			cfg.Mode = singleworker.LatchMode
		}
		w.listen(name, &cfg.Hooks)
	}
	if twin := w.processOf(name); twin != nil {
		setup, w.twins[name] = twin.Setup(), true
	} else {
		w.mu.Lock()
		w.handlers[name] = has
		w.mu.Unlock()
	}
	w.notef("%s starts", name)
	w.cluster.Start(name, setup)
}

func (w *world) submit(k int) {
	job := w.policies(singleworker.Job{Name: jobName(k), Everywhere: w.everywhere[k]})
	w.schedule(&job)
	w.relate(k, &job)
	w.place(&job)
	job.Shards, job.ShardParameters = w.shards[k], w.drawParams(w.shards[k])
	onlyWhatFits(&job)
	w.mu.Lock()
	w.jobs[job.Name] = true
	w.mu.Unlock()
	w.operate("submit "+job.Name, func(ctx context.Context) error {
		return unless(unlessOver(w.cluster.Submit(ctx, job)), admin.ErrExists) // an instance was faster, with its declaration
	})
}

func draw[T any](w *world, values ...T) T { return values[w.rng.IntN(len(values))] }

// policies draws the policies of a job.
func (w *world) policies(job singleworker.Job) singleworker.Job {
	if w.rng.IntN(3) == 0 {
		return job // the defaults
	}
	job.Misfire = draw(w, jobs.MisfireOnce, jobs.MisfireSkip, jobs.MisfireAll)
	job.Interrupted = draw(w, jobs.InterruptedRerun, jobs.InterruptedRerun, jobs.InterruptedSkip)
	job.Overlap = draw(w, jobs.OverlapSkip, jobs.OverlapQueue)
	job.MaxAttempts = w.rng.IntN(4)
	job.Retries = w.rng.IntN(3)
	job.Backoff = w.upTo(2 * time.Second)
	if w.rng.IntN(4) == 0 {
		job.MisfireGrace = 2*time.Second + w.upTo(w.Session)
	}
	if w.rng.IntN(2) == 0 {
		job.AlarmAfter = leastAlarm + w.upTo(2*w.Session)
	}
	if w.rng.IntN(4) == 0 {
		job.Timeout = time.Second + w.upTo(5*time.Second)
	}
	return job
}

func (w *world) cancel(k int) {
	w.mu.Lock()
	delete(w.jobs, jobName(k))
	w.mu.Unlock()
	w.operate("cancel "+jobName(k), func(ctx context.Context) error { return w.cluster.Cancel(ctx, jobName(k)) })
}

func (w *world) violate(v violation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = append(w.found, v)
}

// run runs the whole simulation: the noise, the quiet time and the end.
func (w *world) run() {
	w.breach.begin(w)
	if w.Empties {
		w.bringUpAndLose()
	} else {
		w.bringUp()
	}
	w.noise()
	w.breach.end(w)
	w.judge()
}

// judge has the noise stop, and the group settle and end, and judges all that has happened.
func (w *world) judge() {
	w.endFaults()
	w.settle()
	w.end()
	w.read()
	e := w.evidence(w.cluster, w.Session)
	e.calmFrom, e.calmTo, e.log, e.clocksOff, e.silentFor = w.calmFrom, w.calmTo, nil, w.Clocks, w.silentFor()
	e.latch, e.aheadMost = w.Latch, w.ledger.aheadMost
	found, counts := w.ledger.end(e)
	w.found, w.counts = append(w.found, found...), counts
}

// keptLog is how many transactions the server keeps: many times the number between two calls of
// read.
const keptLog = 200_000

// read has the checker read the new part of the log.
func (w *world) read() {
	if w.holds {
		return
	}
	w.ledger.read(w.cluster.Server.LogAfter(w.ledger.through))
	w.cluster.View(func(*swtest.Model) {}) // which reads it, too
}

// endFaults ends the noise: all faults are repaired, and leaving instances have left.
func (w *world) endFaults() {
	for _, remove := range w.removes {
		remove()
	}
	w.cluster.Server.SetMaxSession(w.Session)
	for id, off := range w.clocks {
		off.Store(0)
		w.ledger.clockSet(id, 0)
	}
	close(w.quiet)
	w.later.Wait()
	w.setCalendars()
	w.setLimits()
	w.setFamilies()
	w.cluster.Server.SetClock(0)
	for _, i := range w.cluster.Instances() {
		i.Resume()
		if i.State() == swtest.Stopping {
			<-i.Done()
		}
	}
	w.mu.Lock()
	late := w.late
	w.mu.Unlock()
	time.Sleep(time.Until(late))
	w.awaitSingles()
	w.notef("the noise stops")
}

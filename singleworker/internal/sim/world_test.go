package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

const serverTick = 500 * time.Millisecond

// profile is what may happen in one run; drawn from the seed.
type profile struct {
	Instances, Jobs int
	Session, Sync   time.Duration
	FaultEvery      time.Duration // mean
	Alike           bool          // every instance has every handler
	Weighted        bool          // the instances' weights differ
	Forced          bool          // sessions are ended from outside
	Noise           time.Duration
}

func drawProfile(r *rand.Rand, noise time.Duration) profile {
	p := profile{
		Instances: 2 + r.IntN(7), Jobs: 5 + r.IntN(56), Noise: noise,
		Session: []time.Duration{4 * time.Second, 6 * time.Second, 10 * time.Second}[r.IntN(3)],
		Alike:   r.IntN(4) > 0, Forced: r.IntN(3) == 0,
	}
	p.Sync = p.Session / time.Duration(1+r.IntN(3))
	p.Weighted = r.IntN(3) == 0
	p.FaultEvery = p.Session * time.Duration(1+r.IntN(8)) / 4
	return p
}

// world is one cluster and what happens to it.
type world struct {
	profile

	seed    uint64
	cluster *swtest.Cluster
	begun   time.Time
	quiet   chan struct{} // closed when the noise stops
	later   sync.WaitGroup

	// Owned by the goroutine of the noise.
	rng     *rand.Rand
	breach  *breach // of every instance; nil for none
	started int
	removes []func() // of controls

	mu       sync.Mutex
	jobs     map[string]bool // that exist
	handlers map[string]map[string]bool
	hooks    []adoption
	forced   []forced
	found    []violation
	late     time.Time // when the last of what is late comes

	unrecorded map[string]bool // ids of runs
	ticks      int             // that are accounted for

	calm        time.Time     // when the last fault had happened
	owned, even time.Duration // how long after the noise that was not so
}

// latency draws how long messages are under way: mostly a few milliseconds, some 50 and more, and
// during the noise a few so long that several of the protocol's steps pass meanwhile.
func (w *world) latency(place string) func() zkdev.Latency {
	where := fnv.New64a()
	_, _ = where.Write([]byte(place))
	var dials atomic.Uint64
	return func() zkdev.Latency {
		of := where.Sum64() + 2*dials.Add(1)
		return zkdev.Latency{There: w.lag(of), Back: w.lag(of + 1)}
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
	change(&drawn)
	w := &world{
		profile: drawn, seed: seed, rng: rng, begun: time.Now(), quiet: make(chan struct{}),
		jobs: make(map[string]bool), handlers: make(map[string]map[string]bool),
	}
	w.cluster = swtest.New(t, swtest.Config{
		SessionTimeout: w.Session, SyncPeriod: w.Sync, StopGrace: 2 * time.Second, Latency: w.latency,
		Server: zkdev.Config{Tick: serverTick, KeepLog: 5_000_000},
	})
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

func jobName(k int) string { return fmt.Sprintf("job%02d", k) }

// handler works for a time that depends on the job: an instant, some seconds, or, to
// watch the right to run without a gap, until it ends. Some runs fail.
func (w *world) handler(k int) singleworker.Handler {
	lasts := []time.Duration{0, 50 * time.Millisecond, 3 * time.Second, 25 * time.Second, time.Hour}[k%5]
	return func(ctx context.Context, run *singleworker.Run) error {
		select {
		case <-time.After(lasts):
			if k%3 == 0 && (run.Tick.Unix()+int64(run.Attempt))%4 == 0 {
				return errors.New("bad luck")
			}
			return nil
		case <-w.quiet:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// start starts an instance, under a new name if none is given.
func (w *world) start(name string) {
	if name == "" {
		name = fmt.Sprintf("i%d", w.started)
		w.started++
	}
	setup := swtest.Setup{Handlers: make(map[string]singleworker.Handler)}
	has := make(map[string]bool)
	for k := range w.Jobs {
		if w.Alike || w.rng.IntN(4) > 0 {
			setup.Handlers[jobName(k)] = w.handler(k)
			has[jobName(k)] = true
		}
	}
	weight := 1
	if w.Weighted {
		weight += w.rng.IntN(4)
	}
	setup.Configure = func(cfg *singleworker.Config) {
		cfg.Weight = weight
		cfg.Hooks.OnOwned = func(o singleworker.Ownership) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.hooks = append(w.hooks, adoption{o.Job, name, o.Token, time.Now()})
		}
		cfg.Hooks.OnRunEnd = func(r singleworker.RunResult) {
			w.mu.Lock()
			defer w.mu.Unlock()
			note(&w.unrecorded, r)
		}
	}
	if w.breach != nil {
		setup.Dial = w.breach.dial
	}
	w.mu.Lock()
	w.handlers[name] = has
	w.mu.Unlock()
	w.notef("%s starts", name)
	w.cluster.Start(name, setup)
}

func (w *world) submit(k int) {
	job := w.policies(singleworker.Job{Name: jobName(k), Schedule: schedules[w.rng.IntN(len(schedules))]})
	w.mu.Lock()
	w.jobs[job.Name] = true
	w.mu.Unlock()
	w.operate("submit "+job.Name, func(ctx context.Context) error { return w.cluster.Submit(ctx, job) })
}

// policies draws what becomes of the job's ticks that do not go as planned.
func (w *world) policies(job singleworker.Job) singleworker.Job {
	if w.rng.IntN(3) == 0 {
		return job // the defaults
	}
	draw := func(values ...string) string { return values[w.rng.IntN(len(values))] }
	job.Misfire = singleworker.MisfirePolicy(draw("once", "skip", "all"))
	job.Interrupted = singleworker.InterruptedPolicy(draw("rerun", "rerun", "skip"))
	job.Overlap = singleworker.OverlapPolicy(draw("skip", "queue"))
	job.MaxAttempts = w.rng.IntN(4)
	job.Retries = w.rng.IntN(3)
	job.Backoff = w.upTo(2 * time.Second)
	if w.rng.IntN(4) == 0 {
		job.MisfireGrace = 2*time.Second + w.upTo(w.Session)
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

// operate waits for what an operator does; the server may be away for a while.
func (w *world) operate(what string, f func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	err := f(ctx)
	w.notef("%s: %v", what, err)
	if err != nil {
		w.violate(violation{5, what, time.Now(), err.Error()})
	}
}

func (w *world) violate(v violation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = append(w.found, v)
}

// run is the whole of it: the noise, the silence, and the end.
func (w *world) run() {
	for k := range w.Jobs {
		if k < 5 || w.rng.IntN(4) > 0 {
			w.submit(k)
		}
	}
	for range w.Instances {
		w.start("")
		time.Sleep(w.upTo(w.Session / 4))
	}
	for noise := time.Now(); time.Since(noise) < w.Noise; {
		time.Sleep(w.upTo(2 * w.FaultEvery))
		w.fault()
	}
	w.silence()
	w.settle()
	w.end()
	found, ticks := check(evidence{
		tree: w.cluster.Tree(), session: w.Session, log: w.cluster.Server.Log(), runs: w.cluster.Runs(),
		rights: w.cluster.Rights(), hooks: w.hooks, forced: w.forced, unrecorded: w.unrecorded,
	})
	w.found, w.ticks = append(w.found, found...), ticks
}

// silence ends the noise: what is broken mends, and who leaves has left.
func (w *world) silence() {
	for _, remove := range w.removes {
		remove()
	}
	w.calm = time.Now()
	close(w.quiet)
	w.later.Wait()
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
	w.notef("the noise stops")
}

// settle watches how soon every job is owned and the shares are even, and that it
// stays so.
func (w *world) settle() {
	quiet := time.Now()
	job, missing := "", ""
	for {
		since := time.Since(quiet)
		if name, text := w.unowned(); text != "" {
			w.owned, job, missing = since, name, text
		}
		uneven := w.uneven()
		if uneven {
			w.even = since
		}
		// A session that ends late is over by then.
		if since > w.evenWithin() || since > w.Session+w.Sync && w.owned < since && !uneven {
			break
		}
		time.Sleep(serverTick)
	}
	if w.owned > w.ownedWithin() {
		w.violate(violation{5, job, quiet.Add(w.owned), fmt.Sprintf("%v after the faults not owned by a live instance: %s", w.owned, missing)})
	}
	if w.even > w.evenWithin() {
		w.violate(violation{6, "", time.Now(), fmt.Sprintf("after %v the shares are %v", w.even, w.cluster.Shares())})
	}
	w.checkDead()
}

// checkDead counts what the server has of those who are gone, while the others go on: nothing, but for the
// registrations of those that were killed.
func (w *world) checkDead() {
	live := make(map[string]bool)
	for _, i := range w.cluster.Live() {
		live[i.Name] = true
	}
	if n := len(w.cluster.Server.Sessions()); n != len(live) {
		w.violate(violation{7, "", time.Now(), fmt.Sprintf("%d sessions, want those of %d instances", n, len(live))})
	}
	w.cluster.View(func(m *swtest.Model) {
		for sid := range m.Instances {
			if !live[sid] {
				w.violate(violation{7, sid, time.Now(), "its ephemeral node is left"})
			}
		}
		for name, j := range m.Jobs {
			for sid := range j.Beats {
				if sid != j.Owner.SID && w.isAble(m, name) {
					w.violate(violation{7, name, time.Now(), "a heartbeat of " + sid + " that no record backs"})
				}
			}
		}
	})
}

// isAble says that somebody lives who can run the job, and so cleans up what the dead left of it.
func (w *world) isAble(m *swtest.Model, job string) bool {
	return slices.ContainsFunc(w.cluster.Live(), func(i *swtest.Instance) bool { return isOpen(m, i) && w.handlers[i.Name][job] })
}

// isOpen says that a live instance takes jobs.
func isOpen(m *swtest.Model, i *swtest.Instance) bool {
	order, ordered := m.Orders[i.Name]
	return !i.Withdrawn() && !(ordered && order.Binds(m.Instances[i.Name].Incarnation))
}

// ownedWithin is property 5's time; see the test.
func (w *world) ownedWithin() time.Duration { return w.Session + 2*w.Sync + 3*serverTick }

// evenWithin is property 6's.
func (w *world) evenWithin() time.Duration {
	return max(w.ownedWithin()+3*w.Sync, 11*w.Sync) + 4*serverTick
}

// unowned names a job that some live instance has the handler of and none owns.
func (w *world) unowned() (job, missing string) {
	live := w.cluster.Live()
	w.cluster.View(func(m *swtest.Model) { job, missing = w.unownedIn(m, live) })
	return job, missing
}

func (w *world) unownedIn(m *swtest.Model, live []*swtest.Instance) (job, missing string) {
	for _, name := range slices.Sorted(mapKeys(m.Jobs)) {
		able := w.isAble(m, name)
		owner := m.LiveOwner(name)
		running := slices.ContainsFunc(live, func(i *swtest.Instance) bool {
			// A killed one of the same name lives on in the records, for a while.
			return i.Name == owner && isOpen(m, i) && w.handlers[owner][name] && !m.Instances[owner].Since.Before(i.Since)
		})
		closed := slices.ContainsFunc(live, func(i *swtest.Instance) bool { return i.Name == owner && !isOpen(m, i) })
		if (able || closed) && !running && !w.isHandedOver(m, m.Jobs[name]) {
			return name, fmt.Sprintf("%+v, alive: %v", m.Jobs[name].Owner, m.Instances)
		}
	}
	return "", ""
}

// isHandedOver says that a job is on its way from one live instance to another: for as long as the
// messages of an adoption may take, and no longer.
func (w *world) isHandedOver(m *swtest.Model, job *swtest.Job) bool {
	_, lives := m.Instances[job.Owner.Offer]
	return lives && time.Since(job.Since) < handOver
}

// handOver is an event, and four requests and their replies: for the record, the list of
// instances, the instances, and the adoption.
const handOver = 9 * longestLag

func (w *world) uneven() bool {
	if !w.Alike {
		return false
	}
	shares := w.cluster.Shares()
	var open []swtest.Member
	w.cluster.View(func(m *swtest.Model) {
		for _, i := range w.cluster.Live() {
			if member, joined := m.Instances[i.Name]; joined && isOpen(m, i) {
				member.Owned = shares[i.Name]
				open = append(open, member)
			}
		}
	})
	for _, a := range open {
		for _, b := range open {
			if (2*a.Owned-1)*b.Weight > (2*b.Owned+1)*a.Weight {
				return true
			}
		}
	}
	return false
}

// end stops everything and looks for what is left: property 7.
func (w *world) end() {
	killed, open := make(map[string]bool), make(map[*swtest.Instance]bool)
	w.cluster.View(func(m *swtest.Model) {
		for _, i := range w.cluster.Live() {
			open[i] = isOpen(m, i)
		}
	})
	for _, i := range w.cluster.Instances() {
		if i.State() != swtest.Killed {
			i.Leave()
		}
	}
	for _, i := range w.cluster.Instances() {
		<-i.Done()
		if i.State() == swtest.Killed {
			killed[i.Name] = true
		} else if err := i.Stop(); errors.Is(err, singleworker.ErrNotHandedBack) {
			killed[i.Name] = true // as good as: what it registered is left
		} else if err != nil {
			w.violate(violation{7, i.Name, time.Now(), fmt.Sprintf("Run returned %v", err)})
		}
	}
	time.Sleep(w.Session + 2*serverTick) // for the sessions of those that were killed last
	if n := len(w.cluster.Server.Sessions()); n != 0 {
		w.violate(violation{7, "", time.Now(), fmt.Sprintf("%d sessions are left", n)})
	}
	w.cluster.View(func(m *swtest.Model) { w.checkLeft(m, killed, open) })
}

// checkLeft looks at what a group that has ended leaves behind.
func (w *world) checkLeft(m *swtest.Model, killed map[string]bool, open map[*swtest.Instance]bool) {
	for sid := range m.Instances {
		w.violate(violation{7, sid, time.Now(), "its ephemeral node is left"})
	}
	if n := len(m.Sessions); n != 0 {
		w.violate(violation{7, "", time.Now(), fmt.Sprintf("the log leaves %d sessions", n)})
	}
	for name, j := range m.Jobs {
		for sid := range j.Beats {
			if w.everAble(name, open) {
				w.violate(violation{7, name, time.Now(), "the heartbeat of " + sid + " is left"})
			}
		}
		for sid := range j.Registered {
			if !killed[sid] { // who was killed could not; the others do, after ten sessions
				w.violate(violation{7, name, time.Now(), "the registration of " + sid + " is left"})
			}
		}
	}
}

// everAble says that an instance that lived to the end, open, has the job's handler, and so
// has cleaned up after the dead.
func (w *world) everAble(job string, open map[*swtest.Instance]bool) bool {
	return slices.ContainsFunc(w.cluster.Instances(), func(i *swtest.Instance) bool { return open[i] && w.handlers[i.Name][job] })
}

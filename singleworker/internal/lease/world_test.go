package lease_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/lease"
	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// sessionTimeout is granted by the model server; with profile.unlike, up to three times as much.
const sessionTimeout = 4 * time.Second

func (p profile) longestSession() time.Duration {
	if p.unlike {
		return 3 * sessionTimeout
	}
	return sessionTimeout
}

// mutant is a deliberate breach of the protocol by the executor or the server, which
// the checker must notice.
type mutant int

const (
	sound              mutant = iota
	takesWithoutH             // a takeover does not check the owner's heartbeat
	staleGroup                // the group is answered from before the slots were read
	longLeases                // leases last 1.5 sessions
	countsFromReply           // SentAt is when the reply came
	knowsNoSessions           // nobody knows the session timeouts of the others
	readsBeatsAsOld           // a heartbeat is read as written long ago, whenever it was
	relievesOpenRuns          // an owner is relieved although a run is open
	relievesAnyTick           // it is relieved whatever became of the tick record and of its heartbeat since they were read
	relievesBesideBeat        // it is relieved and keeps its heartbeat
	claimsBesideBeat          // a claim renews the lease and leaves the heartbeat as it is
	claimsWithoutAlive        // a claim checks neither the owner record nor the own heartbeat
	claimsWithoutBeat         // a claim checks the owner record's version alone
)

// idling is when slots without a run get heartbeats.
type idling int

const (
	never  idling = iota
	turns         // in turn
	always        // in each round
)

// idleBeat is the configuration for it.
func (p profile) idleBeat(session time.Duration) time.Duration {
	return [...]time.Duration{never: -1, turns: 0, always: session / 4}[p.idling]
}

// keepsLeases reports whether a slot without a run has a valid lease at all times: four slots of an
// instance get a heartbeat in each round.
func (p profile) keepsLeases() bool { return p.idling == always || p.idling == turns && p.slots <= 4 }

// profile is the random configuration of one run, determined by the seed.
type profile struct {
	instances, slots int
	sync             time.Duration
	faultEvery       time.Duration // mean
	lossPercent      int           // requests that do not simply succeed
	lag              int           // of reads, in transactions
	watchLoss        int           // percent of watch events lost
	reorder          bool          // replies overtake each other, as goroutines do
	forced           bool          // sessions are ended from outside
	resubmits        bool          // jobs are deleted and submitted again; else hands delete heartbeats
	hangsForEver     bool          // one instance hangs at the end, pinging on
	alike            bool          // every instance has every handler, no limits
	maxSlots         int
	weighted         bool // the instances' weights differ
	unlike           bool // the instances' session timeouts differ
	groups           int  // of slots; 0: none
	idling           idling
	drains           bool
	overdueEvery     time.Duration // mean; 0: never
	noise            time.Duration // how long faults occur
}

func drawProfile(r *rand.Rand) profile {
	p := profile{
		instances: 2 + r.IntN(4), slots: 1 + r.IntN(9),
		sync:       []time.Duration{sessionTimeout / 2, sessionTimeout, 2 * sessionTimeout, 4 * sessionTimeout}[r.IntN(4)],
		faultEvery: sessionTimeout / time.Duration(1+r.IntN(6)),
		watchLoss:  []int{0, 10, 50, 100}[r.IntN(4)],
		reorder:    r.IntN(2) == 0, forced: r.IntN(4) == 0,
		resubmits: r.IntN(2) == 0, hangsForEver: r.IntN(4) == 0, alike: r.IntN(2) == 0, drains: r.IntN(2) == 0,
		noise: time.Duration(5+r.IntN(20)) * sessionTimeout,
	}
	if r.IntN(2) == 0 {
		p.lossPercent = r.IntN(30)
	}
	if r.IntN(2) == 0 && !p.resubmits {
		p.lag = r.IntN(40)
	}
	if !p.alike && r.IntN(3) == 0 {
		p.maxSlots = 1 + r.IntN(4)
	}
	p.weighted, p.unlike = r.IntN(3) == 0, r.IntN(4) == 0
	return p
}

// world is one simulated group. Everything runs on one goroutine, in the order of
// simulated time; the same seed gives the same run.
type world struct {
	simkit.Story
	profile
	seed   uint64
	mutant mutant
	rng    *rand.Rand

	time  time.Duration
	queue schedule
	quiet bool   // the noise has stopped
	heard bool   // no watch event is lost any more
	hung  string // an instance that hangs forever after the noise

	zk    *server
	insts []*instance // all instances ever started, in order
	sids  int

	steps     int
	reliefs   int                 // takes by rule (c)
	idle      int                 // those of them from owners with a valid lease
	kept      int                 // runs that continue after a sleep longer than their lease
	runs      int                 // that have begun
	settled   map[lease.Slot]bool // has had its proper owner since the noise stopped
	late      time.Duration       // how long after the noise that was not so for every slot
	even      time.Duration       // how long after the noise anything was amiss
	missing   string              // see unsettled
	missingAt lease.Slot
}

func newWorld(seed uint64, m mutant) *world {
	w := &world{seed: seed, mutant: m, rng: rand.New(rand.NewPCG(seed, 1)), settled: make(map[lease.Slot]bool)}
	w.profile = drawProfile(w.rng)
	w.idling = []idling{never, never, turns, always}[rand.New(rand.NewPCG(seed, 4)).IntN(4)]
	w.groups = max(0, rand.New(rand.NewPCG(seed, 2)).IntN(6)-2)
	if own := rand.New(rand.NewPCG(seed, 3)); own.IntN(3) > 0 || m != sound {
		w.overdueEvery = sessionTimeout / time.Duration(1+own.IntN(8))
	}
	if m == countsFromReply || m == longLeases || m == staleGroup || m == takesWithoutH {
		w.forced = false
	}
	w.zk = newServer(w)
	for k := range w.slots {
		j := w.zk.add(lease.Slot(fmt.Sprintf("job%d", k)))
		if k == 0 || w.rng.IntN(4) > 0 {
			w.zk.create(j)
		}
	}
	for range w.instances {
		w.startInstance("", w.upTo(sessionTimeout))
	}
	w.Profile = w.profile
	return w
}

// logf logs an event of a slot, or of all.
func (w *world) logf(slot lease.Slot, format string, args ...any) {
	if w.Recording() {
		w.Note(string(slot), fmt.Sprintf("%9.3fs ", w.time.Seconds())+fmt.Sprintf(format, args...))
	}
}

// failf ends the run with a violated property.
func (w *world) failf(slot lease.Slot, format string, args ...any) {
	w.Fail(string(slot), fmt.Sprintf("%s at %.3fs: ", slot, w.time.Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) after(d time.Duration, f func()) { w.queue.push(w.time+max(d, 0), f) }

// run advances simulated time.
func (w *world) run(d time.Duration) {
	end := w.time + d
	for w.Failure() == "" && len(w.queue.items) > 0 && w.queue.items[0].at <= end {
		next := w.queue.pop()
		w.time = next.at
		next.f()
		w.steps++
	}
	w.time = end
}

// group returns the group of a slot; with groups, the last slot has none.
func (w *world) group(slot lease.Slot) string {
	k := slices.Index(w.zk.names, slot)
	if w.groups == 0 || k == w.slots-1 {
		return ""
	}
	return fmt.Sprintf("g%d", k%w.groups)
}

func (w *world) percent(n int) bool { return w.rng.IntN(100) < n }

// upTo returns a random duration below d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// delay returns the random latency of a message: mostly short, sometimes long.
func (w *world) delay() time.Duration {
	switch {
	case w.quiet:
		return w.upTo(roundTrip / 2)
	case w.percent(3):
		return w.upTo(sessionTimeout * 7 / 10)
	default:
		return w.upTo(sessionTimeout / 20)
	}
}

// roundTrip is the longest round trip after the noise.
const roundTrip = sessionTimeout / 100

func (w *world) watchSlot(slot lease.Slot) {
	w.eachWatcher(func(i *instance) { i.post(lease.Look{Slot: slot}, w.delay()) })
}

func (w *world) watchGroup() {
	w.eachWatcher(func(i *instance) { i.post(lease.LookGroup{}, w.delay()) })
}

func (w *world) watchJobs() {
	w.eachWatcher(func(i *instance) { w.after(w.delay(), i.listJobs) })
}

// eachWatcher calls f for all that hear of an event. None is lost any more when all slots must be
// owned: the slots that nobody looks after are found without events, but no slot is read because
// shares are uneven. So an instance does not find its offer without the event, is skipped, and
// again, and there would be no bound for evenness.
func (w *world) eachWatcher(f func(i *instance)) {
	for _, i := range w.insts {
		if i.up && (w.heard || w.watchLoss == 0 || !w.percent(w.watchLoss)) {
			f(i)
		}
	}
}

// schedule is a heap of future events, ordered by time and then by insertion.
type schedule struct {
	items []scheduled
	seq   int
}

type scheduled struct {
	at  time.Duration
	seq int
	f   func()
}

func (s *schedule) less(a, b int) bool {
	x, y := &s.items[a], &s.items[b]
	return x.at < y.at || x.at == y.at && x.seq < y.seq
}

func (s *schedule) push(at time.Duration, f func()) {
	s.seq++
	s.items = append(s.items, scheduled{at, s.seq, f})
	for k := len(s.items) - 1; k > 0; {
		parent := (k - 1) / 2
		if !s.less(k, parent) {
			break
		}
		s.items[k], s.items[parent] = s.items[parent], s.items[k]
		k = parent
	}
}

func (s *schedule) pop() scheduled {
	top := s.items[0]
	last := len(s.items) - 1
	s.items[0] = s.items[last]
	s.items[last] = scheduled{}
	s.items = s.items[:last]
	for k := 0; ; {
		child := 2*k + 1
		if child >= last {
			return top
		}
		if child+1 < last && s.less(child+1, child) {
			child++
		}
		if !s.less(child, k) {
			return top
		}
		s.items[k], s.items[child] = s.items[child], s.items[k]
		k = child
	}
}

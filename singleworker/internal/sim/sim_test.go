package sim

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

var (
	breachFlag  = flag.String("sim.breach", "", "break the protocol on purpose, in every instance; a name of breaches")
	kindFlag    = flag.String("sim.kind", "", "what every seed has: clocks, calendars, after, limits, or losses")
	minutesFlag = flag.Float64("sim.minutes", 0.3, "virtual minutes of noise; the default keeps go test short")
)

// TestSimulation runs groups of 2 to 8 instances with 5 to 60 slots, of jobs and of shards, all
// of it production code from the Manager down, on a zkdev server in virtual time. Instances are
// killed, half of them at one of 20 moments around one at which many jobs are due, and come back,
// leave and join; they are partitioned, and hang for longer than their session; the server
// restarts, at times after three sessions; connections are cut before a request or between a
// write and its reply; replies are slow; heartbeats are refused while the session lives; sessions
// are ended, and instance nodes deleted, from outside; jobs are submitted, canceled, resharded
// and get other schedules and policies, by operators and by two versions of the application that
// declare them; runs are requested and stopped, and requests withdrawn; instances are drained,
// disabled and enabled, and drain themselves. Some groups have instances with MaxSlots, in some
// each runs a few jobs at once only. In some there are jobs that always run, jobs that run once
// and are removed, jobs that run when asked, or jobs that run on every instance, and a job may
// become one of another kind; in some, jobs name calendars, which are changed, changed back and
// deleted, also by hand while jobs name them; in some, jobs run after others, in chains, diamonds
// and other orders, and parents fail, get other schedules, come to their end, are gone for a
// while, can be none, or wait for their children; in some, jobs require labels, list instances,
// and are disabled on one or on the host. Some are in latch mode, and their leader is deposed. In
// some, instances read from servers that are behind by up to a session. In some, the servers lose
// the acknowledged transactions of up to a session, and use zxids again as after a restore, or
// lose all their data. In some, the wall clocks of machines, and of operators, are off and leap;
// in some, the server's does, ahead or back by up to five minutes, and all connect again at
// times, as when another one leads. Second processes of an id are started while the first one
// lives, or hangs. The connect string has one to three names of the server. Every message of
// every connection has a separate latency, mostly of 0.2 to 5 ms, some of 50 and more. The
// checker reads the server's transaction log and the handlers' own records, and verifies that
//
//  1. two instances never hold a valid lease on one slot. The leases are seen as their instances
//     have them, idle or not: no two overlap; none lasts past the transaction that gives the slot
//     to somebody else, nor longer than 0.75 sessions after its last heartbeat reached the server.
//     The same is verified of the contexts of runs, some of which last until their right ends. The
//     design makes an exception for a session ended, or an instance node deleted, from outside, for
//     as long as a lease from before may last, a job deleted while it is owned, and an owner that
//     was relieved of a slot because it had not claimed a run that was due: it may believe to hold
//     the lease until its next heartbeat, but no context of a run may last that long. A run is due
//     by the true time, unless the group may go by ZooKeeper's clock, which is wrong, and some
//     instance's is wrong, too;
//  2. no tick is claimed twice, nor is a request for a manual run, and a slot's claims have growing
//     ticks; no request is deleted before it is claimed, but by an operator, and none is claimed
//     after that;
//  3. no run starts without a claim of its id in the log, made by the recorded owner, twice,
//     outside of its lease, or beside another run of its slot in the same instance;
//  4. tokens of a slot only grow, and those that hooks are told are in the log;
//  5. ownedWithin after the last fault, and after a change of the slots that there are, every slot
//     with the handler in a live instance that takes jobs is owned by one that has it, and who is
//     told to drain owns nothing, but for moments on the way from one to another. Faults end when
//     partitions heal, the server is back, and all late messages have come. The terms: a session
//     and a tick, because the server ends the session of one killed last at the first tick after
//     its timeout; a tick, because an instance started again under the name of a dead one asks
//     every half second whether that is gone (with that, a client's pauses of a second, before it
//     dials again and after an expired session, are over, too); two sync periods, because slots
//     that are free beyond the share of those who look are left to others for one, and they look
//     once in one; a tick for some 22 messages of at most 20 ms, from the event of the death to the
//     adoption. Most seeds need one sync period and one tick only; how many do not is printed. From
//     then on nothing moves for a session and three sync periods, and each owner believes that it
//     has its lease;
//  6. evenWithin, shares of equal instances differ by at most one, and shares of instances of
//     different weights are as even. The terms: ownedWithin, then two sync periods in which nobody
//     moves slots as long as some are free, and one until the next look; or, if that is longer, two
//     until an offer made just before the end of the noise has run out and was taken by somebody
//     else, eight in which an instance that let it run out is skipped, and one until the next look;
//     then four ticks for up to 30 moves, 8 at a time;
//  7. nothing is left. When the shares have been even, the server has the sessions and the
//     ephemeral nodes of those who live and no others, and no heartbeat without an owner record;
//     after an orderly end it has no session, no instance node and no heartbeat, but for the
//     heartbeats of the dead where no other instance may own, and no goroutine runs (the bubble
//     would not end). Registrations of killed instances stay for ten sessions. Of two processes of
//     one id, one is left singleWithin the last fault. changedWithin after the last fault each job
//     has the shards that were asked for last, and no nodes of others;
//  8. every tick, of the schedule that was in effect, by the server's clock, is accounted for: as
//     far as a slot's record goes, and at least up to the end of its layout when the slot no longer
//     exists, each tick of its schedule, from the layout on that the slot began with, either stands
//     in one row of ticks that were not run, or was run, its attempts counted from 1 with one entry
//     each, of which the last has the outcome; and the history has for each run its handler's
//     result, or says that its owner was gone, and speaks of no others. In the time in which
//     nothing happens each tick of a slot that is owned is run, or is skipped because of another
//     run or a pause, and no request is left. An absence that an instance records, of a job that
//     runs on every one, came before it knew that it owns its part;
//  9. a tick has one layout: a scheduled tick is claimed by shards of one number, with one set of
//     parameters, which their runs are told, and the next layout comes into effect when each of
//     these shards has accounted for all ticks up to there and has none to run again. No run begins
//     while one of another layout of the job has the right to run. A tick is recorded as complete
//     when each shard is done with it; of each of these that a shard has run, in the records,
//     OnTickComplete is told once, later, by who recorded that, with outcomes that agree with the
//     handlers' results: never, if that instance dies or loses the shard within two sessions. Each
//     tick of the time in which nothing happens is recorded as complete;
//  10. an alarm is raised for a tick of its slot, when it can be overdue, once, and not when its
//     slot has long accounted for it; OnTickMissed is told of it at most once, by who has raised
//     it. An alarm that is due is raised silentFor later if there is an instance all that time,
//     with the job's handler or not, that the server hears from, and whose clock is right. All of
//     it is judged by the true time, whatever the clocks say, unless none is right, or ZooKeeper's
//     is wrong and the group cannot have found that out: not until four sessions and three sync
//     periods after the leap, and only if more than half of the instances' are right;
//  11. in latch mode each claim is made by the instance that leads then: whose node is the first
//     one of the queue, in the log. No other one says in its record that it leads, or is offered a
//     slot, but for 20 s after it did in the same session;
//  12. if the servers lose transactions that they have acknowledged, the rest of the log has all
//     these properties as if the lost ones had never been: so ticks that they claimed are claimed
//     once more at most, and nothing from before. No run begins, and no lease lasts, on account of
//     them for longer than a lease after the loss. Leases from before may be valid beside new ones
//     for as long;
//  13. no instance has more runs in progress than its MaxRunning, but for runs of jobs that always
//     run;
//  14. with a limit on clocks, no tick is claimed further ahead of the server's time, or the true
//     one, than that, unless no clock agrees with the server's and several instances may find that
//     it is wrong; nor is any by an instance whose clock has been wrong for four sessions and three
//     sync periods, as long as there is one whose clock is right;
//  15. a job that always runs pauses between its runs, for as long as its policy says and no
//     longer, but for a move; a job that is done is held by nobody and removed in time, and no
//     instance removes another one;
//  16. no instance claims a tick of a job that it may not run: by the job as it is then, by the
//     labels that the instance really has, or by an order that is older than two sessions and three
//     sync periods;
//  17. no run is ended because its owner has lost the lease, as long as the owner has heard, of a
//     heartbeat that it sent less than 0.75 sessions ago, that the lease holds. A clock that is set
//     ahead makes that time shorter, but then ZooKeeper is asked, and the runs have a quarter of a
//     second until the answer must be there;
//  18. each change of a job's own node, and its deletion, sets the job's signal in the same
//     transaction. A request sets the owner's, unless it has only just become the owner or begun to
//     listen;
//  19. no handler of a job begins a tick before each of the job's parents has ended a run of it
//     without an error. A tick that is not run because of the parents names one that has not been
//     ok at it, or, not before the deadline, one that had not run it. If all of them have run it,
//     the last did so less than half a minute before, or a history has forgotten it. In the time in
//     which nothing happens, a tick that all have run well before its deadline is run.
//
// The course of a seed is a plan of numbered steps, each with separate random numbers. The steps,
// and their virtual times, are always the same as long as the group answers at the same times. A
// seed that failed fails again nearly always, see the package comment: -sim.base=SEED -sim.seeds=1.
func TestSimulation(t *testing.T) {
	t.Parallel()
	if *breachFlag != "" && breaches[*breachFlag] == nil {
		t.Fatalf("no breach is called %q", *breachFlag)
	}
	begun := time.Now()
	noise := time.Duration(*minutesFlag * float64(time.Minute))
	var only scenario
	if *sceneFlag != "" {
		var err error
		if only, err = parseScenario(*sceneFlag); err != nil {
			t.Fatal(err)
		}
	}
	total := simulate(t, simkit.Seeds(160), noise, only)
	t.Logf("%d runs of handlers, %d transactions; %.1f virtual hours per second",
		total.runs, total.txns, total.virtual.Hours()/time.Since(begun).Seconds())
	t.Logf("after the faults: owned within %.2f, even within %.2f of the time allowed; %d seeds took longer than a session, a sync period and a tick",
		total.owned, total.even, total.slower)
	t.Logf("seeds: %d", total.seeds)
	t.Logf("jobs resharded: %d; schedules replaced: %d; ticks that all shards had done: %d", total.layouts, total.schedules, total.complete)
	t.Logf("ticks accounted for: %d; alarms: %d, at the latest %.2f of the time allowed after they were due", total.ticks, total.alarms, total.silent)
	t.Logf("runs of jobs that always run: %d; ticks at every instance: %d; jobs removed when done: %d", total.endless, total.atEach, total.removed)
	t.Logf("jobs that came to the end of their MaxRuns: %d; slots whose calendar has changed: %d", total.spent, total.calendars)
	t.Logf("ticks that jobs after others have run: %d, and not run because of these: %d; their times have changed: %d", total.ranAfter, total.withheld, total.reparented)
	t.Logf("changes to parents that can be none: %d, or that come before themselves: %d", total.barren, total.tangled)
	t.Logf("runs that took places of limits: %d; jobs that waited for some: %d", total.limited, total.waited)
	t.Logf("owners relieved of idle slots: %d", total.relieved)
	t.Logf("claims that were acknowledged and lost: %d", total.forgotten)
	t.Logf("seeds with wrong clocks of instances: %d; of ZooKeeper: %d, leaps of it: %d", total.clocks, total.serverClocks, total.leaps)
	t.Logf("virtual hours: %.1f", total.virtual.Hours())
	t.Logf("violations: %d", total.violations)
}

// totals sums up many seeds.
type totals struct {
	seeds, runs, violations int
	clocks, serverClocks    int // seeds
	counts
	slower              int // seeds in which a job was not owned a session, a sync period and a tick after the faults
	virtual             time.Duration
	owned, even, silent float64 // the worst, as part of the time allowed
}

// progress is after how many seeds a long run says how far it is.
const progress = 50

// simulate runs seeds on all cores.
func simulate(t *testing.T, seeds int, noise time.Duration, only scenario) totals {
	t.Helper()
	var mu sync.Mutex
	var total totals
	var shrunk atomic.Bool
	create := func(t *testing.T, seed uint64) *world {
		t.Helper()
		b := breaches[*breachFlag]
		w := newWorldLike(t, seed, noise, func(p *profile) {
			cmp.Or(b, &breach{}).world()(p)
			switch *kindFlag {
			case "clocks":
				allClocks(p)
			case "calendars":
				p.Calendars, p.Windows = true, true
			case "after":
				p.Families = true
			case "limits":
				shared(p)
			case "losses":
				p.Forgets, p.Empties = true, false
			}
		})
		w.breach = b
		return w
	}
	simkit.Search(seeds, func(seed uint64) bool {
		var w *world
		report := ""
		synctest.Test(t, func(t *testing.T) {
			w = create(t, seed)
			only.apply(w)
			w.run()
			mu.Lock()
			defer mu.Unlock()
			if total.add(w); len(w.found) > 0 {
				report = w.report()
			}
			if total.seeds%progress == 0 {
				t.Logf("so far %d seeds, %.0f virtual hours, %d violations", total.seeds, total.virtual.Hours(), total.violations)
			}
		})
		if report != "" {
			t.Errorf("%s", report) // not in the bubble, because that would end this call as well
		}
		if report != "" && *shrinkFlag > 0 && shrunk.CompareAndSwap(false, true) {
			t.Logf("%s", w.shortest(t, func(t *testing.T) *world { t.Helper(); return create(t, seed) }))
		}
		return false
	})
	return total
}

func (sum *totals) add(w *world) {
	sum.seeds++
	sum.runs += len(w.cluster.Runs())
	sum.ticks += w.ticks
	sum.layouts += w.layouts
	sum.alarms += w.alarms
	sum.forgotten += w.forgotten
	sum.relieved += w.relieved
	if w.Clocks {
		sum.clocks++
	}
	if w.ServerClock {
		sum.serverClocks++
	}
	sum.leaps += w.leaps
	sum.endless += w.endless
	sum.atEach += w.atEach
	sum.removed += w.removed
	sum.schedules += w.schedules
	sum.spent += w.spent
	sum.calendars += w.calendars
	sum.ranAfter += w.ranAfter
	sum.withheld += w.withheld
	sum.limited += w.limited
	sum.waited += w.waited
	sum.reparented += w.reparented
	sum.barren += w.barren
	sum.tangled += w.tangled
	sum.complete += w.complete
	sum.txns += w.txns
	sum.violations += len(w.found)
	sum.virtual += time.Since(w.begun)
	if w.owned > w.Session+w.Sync+serverTick {
		sum.slower++
	}
	sum.owned = max(sum.owned, float64(w.owned)/float64(w.ownedWithin()))
	sum.silent = max(sum.silent, float64(w.silent)/float64(w.silentFor()))
	sum.even = max(sum.even, float64(w.even)/float64(w.evenWithin()))
}

// report logs the violations, and the events before the first one.
func (w *world) report() string {
	var b strings.Builder
	const most = 10
	fmt.Fprintf(&b, "seed %d: %d violations, %+v\n", w.seed, len(w.found), w.profile)
	for _, v := range w.found[:min(len(w.found), most)] {
		fmt.Fprintf(&b, "  %v\n", v)
	}
	fmt.Fprintf(&b, "replay: go test ./singleworker/internal/sim -run TestSimulation -sim.base=%d -sim.seeds=1 -sim.minutes=%v\n",
		w.seed, *minutesFlag)
	first := w.found[0]
	for _, line := range w.story(first.job, first.at) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	return b.String()
}

// story is the events of a slot or a job, and around it, up to a second after at.
func (w *world) story(slot string, at time.Time) []string {
	type entry struct {
		at   time.Time
		text string
	}
	var all []entry
	job := zkrec.JobOfSlot(slot)
	jobs := []string{job} // and those that come before it
	if j := w.ledger.model.Jobs[job]; j != nil {
		jobs = append(jobs, w.ledger.ancestors(j.Spec.Job)...)
	}
	for _, n := range w.cluster.Notes() {
		all = append(all, entry{n.Time, "* " + n.Text})
	}
	for _, txn := range w.cluster.Server.Log() {
		of, _, _, _ := w.ledger.model.Split(txn.Path)
		if (strings.HasPrefix(txn.Path, w.cluster.Tree().Slot(slot)) || txn.Path == w.cluster.Tree().Job(job) || slices.Contains(jobs[1:], of) || strings.HasPrefix(txn.Path, w.cluster.Tree().Limits()+"/")) && txn.Op != zkdev.OpCheck {
			all = append(all, entry{txn.Time, fmt.Sprintf("zxid %d %#x %v %s v%d %s %v", txn.Zxid, txn.Session, txn.Op, txn.Path, txn.Version, txn.Data, txn.Code)})
		}
	}
	for _, r := range w.cluster.Runs() {
		if slices.Contains(jobs, r.Job) {
			all = append(all, entry{r.Started, fmt.Sprintf("> run %s of %+v on %s starts, token %d", r.ID, r.Shard, r.Instance.Name, r.Token)},
				entry{r.End(), fmt.Sprintf("< run %s on %s: end of right %v %v, ended %v", r.ID, r.Instance.Name, clock(r.RightEnded), r.Cause, clock(r.Ended))})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	var lines []string
	for _, e := range all {
		if !e.at.After(at.Add(time.Second)) {
			lines = append(lines, clock(e.at)+" "+e.text)
		}
	}
	return lines[max(0, len(lines)-simkit.Lines()):]
}

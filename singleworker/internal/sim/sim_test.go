package sim

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

var (
	seedsFlag   = flag.Int("sim.seeds", 40, "how many seeds to run")
	baseFlag    = flag.Uint64("sim.base", 1, "the first seed")
	minutesFlag = flag.Float64("sim.minutes", 0.5, "virtual minutes of noise; the default keeps go test -race short")
	linesFlag   = flag.Int("sim.lines", 80, "how many events to print before a violation")
)

// TestSimulation runs groups of 2 to 8 instances with 5 to 60 jobs, all of it production
// code from the Manager down, on a zkdev server in virtual time. Instances are killed and
// come back, leave and join; they are partitioned, and hang for longer than their session;
// the server restarts; connections are cut before a request or between a write and its
// reply; replies are slow; sessions are ended from outside; jobs are submitted and cancelled. The
// checker reads the server's transaction log and what the handlers recorded, and verifies that
//
//  1. two instances never hold a valid lease on one slot. Seen from outside: a run's context
//     is its right to run, so no context of an owner's run lasts past the transaction that gives
//     the slot to somebody else, nor longer than 0.75 sessions after its last heartbeat reached the
//     server. Some handlers run until their context ends, so that the right of their job is
//     seen at nearly every instant. The design leaves out a session ended from outside, for as long
//     as a lease from before may last, and a job deleted while it runs;
//  2. no tick is claimed twice, and a job's claims have growing ticks;
//  3. no run starts without a claim of its id in the log, made by the recorded owner,
//     nor outside of its lease;
//  4. tokens of a slot only grow, and those that hooks are told are in the log;
//  5. one session, one sync period and six server ticks after the last fault every job with a
//     live handler is owned by a live instance that has it: faults end when partitions heal and
//     the server is back, and the ticks are the client's pause before it connects again;
//  6. ten sync periods after that at the latest, shares of equal instances differ by at most one:
//     an instance that let an offer run out during the noise is offered nothing for eight;
//  7. after an orderly end nothing is left: no goroutine (the bubble would not end), session, instance
//     node or heartbeat. Registrations of killed instances are known to stay.
//
// The faults of a seed, and their virtual times, are always the same as long as the group
// answers at the same times. The order of events within an instant is the
// scheduler's, and jitter and ids are random, so a seed that failed may have to be run several
// times: -sim.base=SEED -sim.seeds=1 -count=20.
func TestSimulation(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	noise := time.Duration(*minutesFlag * float64(time.Minute))
	total := simulate(t, *seedsFlag, *baseFlag, noise)
	t.Logf("%d runs of handlers, %d transactions; %.1f virtual hours per second",
		total.runs, total.txns, total.virtual.Hours()/time.Since(begun).Seconds())
	t.Logf("after the faults: owned within %.2f, even within %.2f of the time allowed", total.owned, total.even)
	t.Logf("seeds: %d", total.seeds)
	t.Logf("virtual hours: %.1f", total.virtual.Hours())
	t.Logf("violations: %d", total.violations)
}

// totals is what many seeds came to.
type totals struct {
	seeds, runs, txns, violations int
	virtual                       time.Duration
	owned, even                   float64 // the worst, as part of the time allowed
}

// simulate runs seeds on all cores.
func simulate(t *testing.T, seeds int, base uint64, noise time.Duration) totals {
	t.Helper()
	var mu sync.Mutex
	var total totals
	next := make(chan uint64)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				var one sync.WaitGroup
				one.Go(func() { // of its own, for a bubble that fails ends it
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, seed, noise)
						w.run()
						mu.Lock()
						defer mu.Unlock()
						total.add(w)
						if len(w.found) > 0 {
							t.Errorf("%s", w.report())
						}
					})
				})
				one.Wait()
			}
		})
	}
	for k := range uint64(seeds) {
		next <- base + k
	}
	close(next)
	wg.Wait()
	return total
}

func (sum *totals) add(w *world) {
	sum.seeds++
	sum.runs += len(w.cluster.Runs())
	sum.txns += len(w.cluster.Server.Log())
	sum.violations += len(w.found)
	sum.virtual += time.Since(w.begun)
	sum.owned = max(sum.owned, float64(w.owned)/float64(w.ownedWithin()))
	sum.even = max(sum.even, float64(w.even)/float64(w.evenWithin()))
}

// report tells what was found, and what happened before the first of it.
func (w *world) report() string {
	var b strings.Builder
	const most = 10
	fmt.Fprintf(&b, "seed %d: %d violations, %+v\n", w.seed, len(w.found), w.profile)
	for _, v := range w.found[:min(len(w.found), most)] {
		fmt.Fprintf(&b, "  %v\n", v)
	}
	fmt.Fprintf(&b, "replay: go test ./singleworker/internal/sim -run TestSimulation -sim.base=%d -sim.seeds=1 -sim.minutes=%v -count=20\n",
		w.seed, *minutesFlag)
	first := w.found[0]
	for _, line := range w.story(first.job, first.at) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	return b.String()
}

// story is what happened to a job, and around it, up to a second after at.
func (w *world) story(job string, at time.Time) []string {
	type entry struct {
		at   time.Time
		text string
	}
	var all []entry
	for _, n := range w.cluster.Notes() {
		all = append(all, entry{n.Time, "* " + n.Text})
	}
	for _, txn := range w.cluster.Server.Log() {
		if strings.HasPrefix(txn.Path, w.cluster.Tree().Job(job)) && txn.Op != zkdev.OpCheck {
			all = append(all, entry{txn.Time, fmt.Sprintf("zxid %d %#x %v %s v%d %s %v", txn.Zxid, txn.Session, txn.Op, txn.Path, txn.Version, txn.Data, txn.Code)})
		}
	}
	for _, r := range w.cluster.Runs() {
		if r.Job == job {
			all = append(all, entry{r.Started, fmt.Sprintf("> run %s on %s starts, token %d", r.ID, r.Instance.Name, r.Token)},
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
	return lines[max(0, len(lines)-*linesFlag):]
}

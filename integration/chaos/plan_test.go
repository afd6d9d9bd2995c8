package chaos

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// A kind of fault, or of operators' deeds.
type kind string

// Faults of one instance.
const (
	kill        kind = "kill -9"
	crowdKill   kind = "crowd kill"  // at a moment of the second in which the crowd is due
	pause       kind = "pause"       // SIGSTOP, and SIGCONT later
	cut         kind = "cut"         // the connections to all servers are refused
	cutRequests kind = "cut to"      // the servers do not hear the instance
	cutReplies  kind = "cut from"    // the instance does not hear the servers
	cutOne      kind = "cut one"     // from one server: it moves to another
	delay       kind = "delay"       // of everything, in both directions
	clockLeap   kind = "clock"       // its wall clock leaps, and later back
	clocksLeap  kind = "zk clock"    // the wall clocks of all instances leap together: to them, it is that of the servers
	stop        kind = "stop"        // SIGTERM
	drain       kind = "drain"       // by an operator, and enabled later
	leaderKill  kind = "leader dies" // what happens to servers
	leaderPause kind = "leader hangs"
	oneServer   kind = "server dies" // a follower
	noQuorum    kind = "no quorum"   // two of three die
	ensemble    kind = "ensemble"    // all die
	restored    kind = "restored"    // all die, and get back the data that they had some time ago
	emptied     kind = "emptied"     // all die, and lose their data
	deploy      kind = "deploy"      // of the other release, one instance after the other
	reshard     kind = "reshard"
	resubmit    kind = "resubmit" // cancel, and submit
	reschedule  kind = "schedule" // another schedule
	suspend     kind = "suspend"  // pause and resume a job
	trigger     kind = "trigger"  // a manual run
	stopRun     kind = "stop run" // the end of a run
)

// The sizes of the group and of an ensemble.
const (
	instances = 5
	servers   = 3
)

// A deal is how often a kind is drawn beside the others, and how long it lasts.
type deal struct {
	kind        kind
	times       int
	least, most time.Duration
}

// lanes are targets of one fault at a time.
const (
	onInstance = "instance" // one of them
	onClock    = "clock"    // of one of them
	onClocks   = "clocks"   // of all of them
	onServers  = "servers"  // all of them
	onGroup    = "group"    // instances one after the other
	onJobs     = "jobs"     // one of them
)

var deals = map[string][]deal{
	onInstance: {
		{kill, 4, 500 * time.Millisecond, 8 * time.Second},
		{crowdKill, 4, time.Second, 5 * time.Second},
		{pause, 4, time.Second, 10 * time.Second},
		{cut, 3, time.Second, 10 * time.Second},
		{cutRequests, 2, time.Second, 10 * time.Second},
		{cutReplies, 2, time.Second, 10 * time.Second},
		{cutOne, 1, 2 * time.Second, 8 * time.Second},
		{delay, 2, 3 * time.Second, 10 * time.Second},
		{stop, 1, 4 * time.Second, 8 * time.Second},
		{drain, 2, 2 * time.Second, 10 * time.Second},
	},
	onClock:  {{clockLeap, 4, 3 * time.Second, 20 * time.Second}},
	onClocks: {{clocksLeap, 1, 5 * time.Second, 30 * time.Second}},
	onServers: {
		{leaderKill, 2, time.Second, 8 * time.Second},
		{leaderPause, 1, 2 * time.Second, 8 * time.Second},
		{oneServer, 1, time.Second, 8 * time.Second},
		{noQuorum, 1, time.Second, 12 * time.Second},
		{ensemble, 1, time.Second, 10 * time.Second},
		{restored, 1, time.Second, 6 * time.Second},
		{emptied, 1, time.Second, 6 * time.Second},
	},
	onGroup: {{deploy, 1, deployStep * instances, deployStep * instances}},
	onJobs: {
		{reshard, 2, 0, 0},
		{resubmit, 3, 0, 0},
		{reschedule, 2, 0, 0},
		{suspend, 2, time.Second, 8 * time.Second},
		{trigger, 2, 0, 0},
		{stopRun, 1, 0, 0},
	},
}

// onlyServer are the deals of a server that is the only one.
var onlyServer = []deal{
	{ensemble, 6, 0, 8 * time.Second},
	{leaderPause, 3, time.Second, 8 * time.Second},
	{restored, 1, time.Second, 6 * time.Second},
	{emptied, 1, time.Second, 6 * time.Second},
}

// dealsOf are the deals of a lane in a world with that many servers.
func dealsOf(lane string, servers int) []deal {
	if lane == onServers && servers == 1 {
		return onlyServer
	}
	return deals[lane]
}

const (
	deployStep = 4 * time.Second // from one instance of a deploy to the next
	// quiet is how long servers, or an instance, are left alone after a fault.
	quietServers  = 10 * time.Second
	quietServer   = 4 * time.Second // the only one: there is no election
	quietInstance = time.Second
)

// crowdPhases are the moments at which instances are killed, from the tick of the crowd.
var crowdPhases = phases(-400*time.Millisecond, 50*time.Millisecond, 20)

func phases(first, step time.Duration, n int) (all []time.Duration) {
	for k := range n {
		all = append(all, first+time.Duration(k)*step)
	}
	return all
}

// A fault is one step of a plan.
type fault struct {
	Kind   kind
	At     time.Duration // since the beginning
	For    time.Duration
	Target int           // instance, server or job, as far as the kind has one
	Amount time.Duration // of a delay or a leap; or when a crowd is hit; or how long after a restore the next backup is made
	Number int           // of shards, or of a schedule
	NewID  bool          // what is started afterwards is another instance, not the same one again
}

func (f fault) String() string {
	text := fmt.Sprintf("%6.1f s  %-12s", f.At.Seconds(), f.Kind)
	if f.Target >= 0 {
		text += fmt.Sprintf(" %d", f.Target)
	}
	if f.For > 0 {
		text += fmt.Sprintf(" for %.1f s", f.For.Seconds())
	}
	if f.Amount != 0 {
		text += fmt.Sprintf(" by %v", f.Amount)
	}
	if f.Number > 0 {
		text += fmt.Sprintf(" number %d", f.Number)
	}
	return text
}

// drawPlan draws the faults of a length of time, in the order of their beginnings. All end before
// it is over.
func drawPlan(seed uint64, length time.Duration, servers int) []fault {
	random := rand.New(rand.NewPCG(seed, 0))
	var plan []fault
	free := make(map[string]time.Duration) // by lane and target: when the next may begin
	var deck []deal
	for at := 3 * time.Second; ; at += 500*time.Millisecond + time.Duration(random.Int64N(int64(3500*time.Millisecond))) {
		if len(deck) == 0 {
			deck = shuffled(random, servers)
		}
		f := draw(random, deck[0])
		f.At = at.Round(100 * time.Millisecond)
		lane, quiet := f.lane(servers)
		if f.At < free[lane] {
			f.At = free[lane] // later, and others meanwhile
		}
		deck = deck[1:]
		if at > length {
			break
		}
		if f.At+f.For+quiet > length {
			continue
		}
		free[lane] = f.At + f.For + quiet
		plan = append(plan, f)
	}
	slices.SortStableFunc(plan, func(a, b fault) int { return int(a.At - b.At) })
	return plan
}

// shuffled returns all kinds, as often as they are to be drawn, so that a plan of some minutes has
// each of them.
func shuffled(random *rand.Rand, servers int) []deal {
	var deck []deal
	for _, lane := range []string{onInstance, onClock, onClocks, onServers, onGroup, onJobs} {
		for _, d := range dealsOf(lane, servers) {
			for range d.times {
				deck = append(deck, d)
			}
		}
	}
	random.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
	return deck
}

// draw fills in the fields that the kind needs. It asks for the same number of random values for
// all kinds.
func draw(random *rand.Rand, d deal) fault {
	length, target, amount, number, newID := random.Int64N(1+int64(d.most-d.least)), random.IntN(1<<20), random.Int64N(2000), random.IntN(6), random.IntN(2)
	f := fault{Kind: d.kind, For: (d.least + time.Duration(length)).Round(100 * time.Millisecond), Target: -1, NewID: newID == 1}
	switch laneOf(d.kind) {
	case onInstance, onClock:
		f.Target = target % instances
	case onServers:
		f.Target = target % servers // ignored where it is the leader that counts
	case onJobs:
		f.Target, f.Number = target%100, 1+number
	}
	switch d.kind {
	case delay:
		f.Amount = time.Duration(50+amount/3) * time.Millisecond
	case clockLeap: // half of them by less than a second, the others by up to 20 s
		f.Amount = time.Duration(amount-1000) * time.Millisecond
		if number%2 == 0 {
			f.Amount *= 20
		}
	case clocksLeap: // a third of them by up to 20 s, the others by more than the instances' limit, ahead or back
		f.Amount = time.Duration(number%3-1) * (45*time.Second + time.Duration(amount-1000)*10*time.Millisecond)
		if f.Amount == 0 {
			f.Amount = time.Duration(amount-1000) * 20 * time.Millisecond
		}
	case crowdKill:
		f.Amount = crowdPhases[amount%int64(len(crowdPhases))]
	case restored, emptied:
		f.Amount = 5*time.Second + time.Duration(amount)*20*time.Millisecond
	default: // there is no amount
	}
	return f
}

func laneOf(k kind) string {
	for lane, all := range deals {
		if slices.ContainsFunc(all, func(d deal) bool { return d.kind == k }) {
			return lane
		}
	}
	panic("no such kind: " + k)
}

// lane is the fault's target, kept busy for some time after its end.
func (f fault) lane(servers int) (lane string, quiet time.Duration) {
	switch lane = laneOf(f.Kind); lane {
	case onServers:
		if servers == 1 {
			return lane, quietServer
		}
		return lane, quietServers
	case onInstance, onClock:
		if f.Kind == crowdKill {
			return fmt.Sprint(onInstance, f.Target), quietInstance + crowdPeriod // it waits for the crowd
		}
		return fmt.Sprint(lane, f.Target), quietInstance
	case onJobs:
		return fmt.Sprint(lane, f.Kind), quietInstance
	}
	return lane, 10 * time.Second
}

func describePlan(plan []fault) string {
	var lines []string
	for _, f := range plan {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// The same seed draws the same plan, another seed another one, and four minutes have every kind.
func TestPlan(t *testing.T) {
	t.Parallel()
	const length = 4 * time.Minute
	for seed := range uint64(100) {
		servers := 1 + 2*int(seed%2)
		plan := drawPlan(seed, length, servers)
		if !reflect.DeepEqual(plan, drawPlan(seed, length, servers)) {
			t.Fatalf("seed %d draws different plans", seed)
		}
		if reflect.DeepEqual(plan, drawPlan(seed+1, length, servers)) {
			t.Fatalf("seeds %d and %d draw the same plan", seed, seed+1)
		}
		seen := make(map[kind]int)
		busy := make(map[string]time.Duration)
		for _, f := range plan {
			seen[f.Kind]++
			lane, _ := f.lane(servers)
			if f.At < busy[lane] || f.At+f.For > length {
				t.Errorf("seed %d: %s begins before the one before ends, at %v, or ends too late", seed, f, busy[lane])
			}
			busy[lane] = f.At + f.For
		}
		for lane := range deals {
			for _, d := range dealsOf(lane, servers) {
				if seen[d.kind] == 0 {
					t.Errorf("seed %d: no fault %q of %s in %v", seed, d.kind, lane, length)
				}
			}
		}
	}
}

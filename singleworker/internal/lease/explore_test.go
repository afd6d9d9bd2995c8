package lease

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/internal/simkit"
)

// tinyWorlds are explored completely, all in which session and sync period are four moments. In
// each that is not new, two instances have joined and one owns the slot when the faults begin.
var tinyWorlds = []struct {
	name      string
	set       tinySetup
	fresh     bool
	tier      simkit.Tier
	unsettled int // for how many moments the slot may be without a proper owner
}{
	{"two instances start", tinySetup{}, true, simkit.Small, 0},
	{"a restart", tinySetup{faults: faults{crashes: 1}}, false, simkit.Small, 5},
	{"a cut", tinySetup{prompt: true, faults: faults{cuts: 1}}, false, simkit.Small, 3},
	{"a cut, timers late", tinySetup{faults: faults{cuts: 1}}, false, simkit.Large, 3},
	{"a lost reply", tinySetup{faults: faults{unknowns: 1}}, false, simkit.Small, 0},
	{"a clock step", tinySetup{faults: faults{leaps: 1}}, false, simkit.Small, 1},
	{"a clock step, a claim", tinySetup{prompt: true, faults: faults{leaps: 1, claims: 1}}, false, simkit.Small, 1},
	{"a pause", tinySetup{prompt: true, faults: faults{pauses: 1}}, false, simkit.Large, 5},
	{"a pause, a claim", tinySetup{prompt: true, faults: faults{pauses: 1, claims: 1}}, false, simkit.Huge, 5},
	{"a hang", tinySetup{faults: faults{hangs: 1}}, false, simkit.Small, 13},
	{"an idle slot, a hang", tinySetup{idle: true, prompt: true, faults: faults{hangs: 1}}, false, simkit.Small, 13},
	{"an idle slot, a hang, a claim", tinySetup{idle: true, prompt: true, faults: faults{hangs: 1, claims: 1}}, false, simkit.Huge, 13},
	{"an idle slot, a hang, a delay, a claim", tinySetup{idle: true, prompt: true, faults: faults{hangs: 1, delays: 1, claims: 1}}, false, simkit.Huge, 13},
	{"an idle slot, a restart, a claim", tinySetup{idle: true, prompt: true, faults: faults{crashes: 1, claims: 1}}, false, simkit.Small, 5},
	{"an idle slot, a cut, a claim", tinySetup{idle: true, prompt: true, faults: faults{cuts: 1, claims: 1}}, false, simkit.Huge, 5},
	{"an idle slot, a lost reply, two claims", tinySetup{idle: true, prompt: true, faults: faults{unknowns: 1, claims: 2}}, false, simkit.Small, 5},
	{"an idle slot, a pause, a claim", tinySetup{idle: true, prompt: true, faults: faults{pauses: 1, claims: 1}}, false, simkit.Huge, 5},
	{"an idle slot, a clock step, a claim", tinySetup{idle: true, prompt: true, faults: faults{leaps: 1, claims: 1}}, false, simkit.Small, 1},
	{"an idle slot, an overdue run, a claim", tinySetup{idle: true, sync: 1, prompt: true, faults: faults{overdues: 1, claims: 1}}, false, simkit.Small, 1},
	{"an idle slot, a resubmitted job, a claim", tinySetup{idle: true, prompt: true, faults: faults{resubmits: 1, claims: 1}}, false, simkit.Small, 1},
	{"two delays", tinySetup{faults: faults{delays: 2}}, false, simkit.Small, 1},
	{"a drain", tinySetup{faults: faults{drains: 1}}, false, simkit.Small, 1},
	{"a deleted instance node, a claim", tinySetup{prompt: true, faults: faults{removals: 1, claims: 1}}, false, simkit.Small, 1},
	{"a resubmitted job, a claim", tinySetup{prompt: true, faults: faults{resubmits: 1, claims: 1}}, false, simkit.Small, 1},
	{"an overdue run, a claim", tinySetup{sync: 1, prompt: true, faults: faults{overdues: 1, claims: 1}}, false, simkit.Small, 1},
	{"two overdue runs, a claim", tinySetup{sync: 1, prompt: true, faults: faults{overdues: 2, claims: 1}}, false, simkit.Huge, 1},
	{"an overdue run, timers late", tinySetup{sync: 1, faults: faults{overdues: 1, claims: 1}}, false, simkit.Large, 1},
	{"an overdue run, a lost reply, a claim", tinySetup{sync: 1, prompt: true, faults: faults{overdues: 1, unknowns: 1, claims: 1}}, false, simkit.Huge, 1},
	{"an overdue run, a cut", tinySetup{sync: 1, prompt: true, faults: faults{overdues: 1, cuts: 1}}, false, simkit.Huge, 5},
	{"an overdue run, a restart, a claim", tinySetup{sync: 1, prompt: true, faults: faults{overdues: 1, crashes: 1, claims: 1}}, false, simkit.Huge, 5},
	{"an overdue run, a hang, a claim", tinySetup{sync: 1, prompt: true, faults: faults{overdues: 1, hangs: 1, claims: 1}}, false, simkit.Huge, 12},
	{"an overdue run, a delay, a claim", tinySetup{sync: 1, prompt: true, faults: faults{overdues: 1, delays: 1, claims: 1}}, false, simkit.Huge, 1},
	{"an overdue run, a drain, a claim", tinySetup{sync: 1, prompt: true, faults: faults{overdues: 1, drains: 1, claims: 1}}, false, simkit.Huge, 1},
	{"an overdue run, a resubmitted job, a claim", tinySetup{sync: 1, prompt: true, faults: faults{overdues: 1, resubmits: 1, claims: 1}}, false, simkit.Huge, 1},
	{"an overdue run, a resubmitted job of the same version", tinySetup{sync: 1, prompt: true, version: 1, faults: faults{overdues: 1, resubmits: 1}}, true, simkit.Large, 1},
	{"three instances, two overdue runs", tinySetup{hosts: 3, sync: 1, prompt: true, faults: faults{overdues: 2}}, false, simkit.Huge, 1},
	{"three instances, an overdue run, a claim", tinySetup{hosts: 3, sync: 1, prompt: true, faults: faults{overdues: 1, claims: 1}}, false, simkit.Huge, 1},
	{"three instances, a lost reply", tinySetup{hosts: 3, prompt: true, faults: faults{unknowns: 1}}, false, simkit.Small, 0},
	{"three instances, a clock step", tinySetup{hosts: 3, prompt: true, faults: faults{leaps: 1}}, false, simkit.Small, 1},
	{"three instances, a restart", tinySetup{hosts: 3, prompt: true, faults: faults{crashes: 1}}, false, simkit.Large, 5},
	{"three instances, a hang", tinySetup{hosts: 3, prompt: true, faults: faults{hangs: 1}}, false, simkit.Large, 12},
	{"three instances, a cut", tinySetup{hosts: 3, prompt: true, faults: faults{cuts: 1}}, false, simkit.Huge, 3},
	{"a restart, a lost reply, a clock step", tinySetup{prompt: true, faults: faults{crashes: 1, unknowns: 1, leaps: 1}}, false, simkit.Large, 5},
	{"a cut, a lost reply, a clock step", tinySetup{prompt: true, faults: faults{cuts: 1, unknowns: 1, leaps: 1}}, false, simkit.Huge, 5},
	{"a restart, a cut, a clock step", tinySetup{prompt: true, faults: faults{crashes: 1, cuts: 1, leaps: 1}}, false, simkit.Huge, 10},
}

// TestExplore runs the machines through every interleaving of small worlds, with a server, requests
// and answers that take their time, and faults. It checks, in every state, that
//
//  1. no two instances have a valid lease, except after someone has deleted an instance's node or
//     the job, and except that the slot of an owner without a run may have been taken since its
//     lease was last renewed (rule c);
//  2. no tick is claimed twice, and none by another than the recorded owner;
//  3. a lease that can be used has the token that the record has, with the same exception: its
//     owner can begin no run;
//  4. no two instances run a tick, but while the machine of one is suspended, and in the moment in
//     which it wakes;
//
// that time never stands still, that no state is without a way out, and that on every way on, with
// or without further faults, the slot gets a proper owner: within as many moments as the table
// says.
func TestExplore(t *testing.T) {
	t.Parallel()
	for _, tt := range tinyWorlds {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.tier.Check(t)
			tt.set.hosts, tt.set.session, tt.set.sync = max(tt.set.hosts, 2), max(tt.set.session, 4), cmp.Or(tt.set.sync, 4)
			start := newSettled
			if tt.fresh {
				start = newTiny
			}
			found := simkit.Explore(start(&tt.set), simkit.NoLimit)
			if found.Failure != "" {
				t.Fatal(found.Told())
			}
			if !found.Complete || found.Unsettled > tt.unsettled {
				t.Errorf("complete: %v; without a proper owner for %d moments, want %d at most", found.Complete, found.Unsettled, tt.unsettled)
			}
			t.Logf("%-40s %v", tt.name, found)
		})
	}
}

// TestExploreBreaches plants breaches of the protocol, which the exploration must find.
func TestExploreBreaches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		breaks  string
		set     tinySetup
		fresh   bool
		allowed int // moments without a proper owner
		tier    simkit.Tier
	}{
		{"a take checks no owner record", "(1)", tinySetup{breach: takesAnyVersion}, true, 0, simkit.Small},
		{"a take checks no heartbeat", "(1)", tinySetup{breach: takesAnyBeat, faults: faults{hangs: 1, delays: 1}}, false, 0, simkit.Large},
		{"a claim checks no owner record", "(2)", tinySetup{breach: claimsAnyVersion, faults: faults{claims: 1, removals: 1}}, false, 0, simkit.Small},
		{"a claim checks no heartbeat", "(2)", tinySetup{breach: claimsWithoutBeat, faults: faults{claims: 1, resubmits: 1, drains: 1}}, false, 0, simkit.Small},
		{"a claim is no heartbeat", "(1)", tinySetup{breach: claimsBesideBeat, idle: true, faults: faults{claims: 1, hangs: 1}}, false, 0, simkit.Small},
		{"a claim is no heartbeat, both run", "(4)", tinySetup{breach: claimsBesideBeat, idle: true, blind: true, faults: faults{claims: 2, hangs: 1}}, false, 0, simkit.Small},
		{"a claim counts from the reply", "(1)", tinySetup{breach: countsFromReply, idle: true, faults: faults{claims: 1, hangs: 1, delays: 1}}, false, 0, simkit.Small},
		{"a release checks no owner record", "unsettled for ever", tinySetup{breach: releasesAnyVersion, faults: faults{drains: 1, hangs: 1}}, false, 0, simkit.Large},
		{"leases of 1.25 sessions", "(1)", tinySetup{breach: longLeases, faults: faults{cuts: 1}}, false, 0, simkit.Small},
		{"an owner is silent when it is read", "(1)", tinySetup{breach: hastySilence, faults: faults{hangs: 1}}, false, 0, simkit.Small},
		{"an owner is never silent", "without a proper owner", tinySetup{breach: noSilence, faults: faults{hangs: 1}}, false, 12, simkit.Large},
		{"one heartbeat in a session", "without a proper owner", tinySetup{breach: rareBeats}, false, 0, simkit.Small},
		{"a lease counts from the reply", "(1)", tinySetup{breach: countsFromReply, faults: faults{cuts: 1, hangs: 1}}, false, 0, simkit.Large},
		{"a lease counts from the reply, after a pause", "(1)", tinySetup{breach: countsFromReply, faults: faults{pauses: 1}}, false, 0, simkit.Small},
		{"runs continue after a pause", "(4)", tinySetup{breach: keepsRuns, faults: faults{pauses: 1, claims: 2}}, false, 0, simkit.Small},
		{"the group is read before the slot", "(1)", tinySetup{breach: staleGroup, faults: faults{cuts: 1}}, false, 0, simkit.Small},
		{"session timeouts of others not known", "(1)", tinySetup{breach: knowsNoSessions, longer: 8, faults: faults{hangs: 1}}, false, 0, simkit.Small},
		{"a run is overdue, a claim checks no owner record", "(2)", tinySetup{breach: claimsAnyVersion, faults: faults{overdues: 1, claims: 1}}, false, 0, simkit.Small},
		{"an open run counts as overdue", "(1)", tinySetup{breach: relievesOpenRuns, faults: faults{overdues: 1, claims: 1}}, false, 0, simkit.Small},
		{"an open run counts as overdue, both run", "(4)", tinySetup{breach: relievesOpenRuns, blind: true, faults: faults{overdues: 1, claims: 2}}, false, 0, simkit.Small},
		{"an overdue run is taken under any tick record", "(1)", tinySetup{breach: relievesAnyTick, faults: faults{overdues: 1, claims: 1}}, false, 0, simkit.Small},
		{"an overdue run is taken beside the heartbeat", "(1)", tinySetup{breach: relievesBesideBeat, faults: faults{overdues: 1}}, false, 0, simkit.Small},
		{"an overdue run is taken without a proof", "(1)", tinySetup{breach: relievesWithoutProof, faults: faults{overdues: 1, resubmits: 1, claims: 1, skips: 1}}, true, 0, simkit.Huge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.tier.Check(t)
			tt.set.hosts, tt.set.session, tt.set.sync, tt.set.prompt = 2, 4, 4, true
			start := newSettled
			if tt.fresh {
				start = newTiny
			}
			found := simkit.Explore(start(&tt.set), simkit.NoLimit)
			if found.Failure == "" && found.Unsettled > tt.allowed {
				found.Failure = "without a proper owner"
			}
			if !strings.Contains(found.Failure, tt.breaks) {
				t.Fatalf("%q, want %s; %v", found.Failure, tt.breaks, found)
			}
			t.Logf("%s: %s, after %d moves", tt.name, found.Failure, len(found.Story))
		})
	}
}

// TestExploreOrder shows that nothing is left out because a host handles at once what reaches it:
// the worlds are in the same states whenever a moment ends.
func TestExploreOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		faults faults
		tier   simkit.Tier
	}{
		{"no fault", faults{}, simkit.Large},
		{"a lost reply", faults{unknowns: 1}, simkit.Small},
		{"a delay", faults{delays: 1}, simkit.Small},
		{"a hang", faults{hangs: 1}, simkit.Large},
		{"a restart", faults{crashes: 1}, simkit.Large},
		{"an overdue run", faults{overdues: 1}, simkit.Small},
		{"an overdue run, a claim", faults{overdues: 1, claims: 1}, simkit.Large},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.tier.Check(t)
			f := tt.faults
			ends := func(anyOrder bool) map[string]bool {
				set := &tinySetup{hosts: 2, session: 4, sync: 4, faults: f, anyOrder: anyOrder}
				start := newTiny
				if f != (faults{}) {
					start = newSettled
				}
				return momentEnds(start(set))
			}
			some, all := ends(false), ends(true)
			if !maps.Equal(some, all) {
				t.Errorf("%d states at the ends of moments, want the %d of every order", len(some), len(all))
			}
		})
	}
}

// momentEnds are the keys of the states in which nothing is left to do in the moment.
func momentEnds(start *tiny) map[string]bool {
	ends, seen := make(map[string]bool), map[string]bool{string(start.Key(nil)): true}
	for todo := []*tiny{start}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, m := range w.Moves() {
			if m.Passes {
				ends[string(w.Key(nil))] = true
			}
			then := w.After(m)
			if key := string(then.Key(nil)); !seen[key] {
				seen[key] = true
				todo = append(todo, then)
			}
		}
	}
	return ends
}

// TestExploreKnowsEveryField fails when the machine gets another field: clone must copy it if a
// step changes it in place, and machine or slot must write it if it can make a difference later.
func TestExploreKnowsEveryField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of    any
		known string
	}{
		{Machine{}, "cfg peers connected slots crowds byName held nextBeat leaptAt beaten due sampledAt step looks changes epoch phase look dirty reads heldUp even owned counted " +
			"drainedAt walked out"},
		{peers{}, "self own session syncPeriod idleBeat live groupAsked roundAt past signs asked suspects skipped full"},
		{slot{}, "id hash able group eligible busy always bound evicted gone op opVoid overdue late unsure kept beating claiming crossed overtaken known behind takeEpoch " +
			"beatToken beatEpoch claimToken claimEpoch rec readAt readMono beatSince freeSince refusals mine"},
		{life{}, "Life Exists Mzxid since readMono readAt doubted"},
		{Life{}, "Exists Mzxid"},
		{holding{}, "token version beat until gained leaving doubtful offer from"},
		{beatTimes{}, "sid at known more"},
		{past{}, "moments"},
		{moment{}, "mono zxid"},
		{skipped{}, "until lasts at"},
		{Record{}, "Exists Version Mzxid Owner Offer Relieved Beats"},
		{Beat{}, "SID Version At Mzxid"},
		{Peer{}, "Incarnation Opaque Closed MaxSlots Weight Session"},
	} {
		var fields []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(tt.of)) {
			fields = append(fields, f.Name)
		}
		if known := strings.Fields(tt.known); !slices.Equal(fields, known) {
			t.Errorf("%T has the fields %q, the exploration knows %q", tt.of, fields, known)
		}
	}
}

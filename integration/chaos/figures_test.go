package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/swjobs/singleworker/singleworker/swtest/txns"
)

// aftermath is for how long after the end of a fault a change of owner is put down to it.
const aftermath = 2 * session

// Why a slot got another owner, besides faults.
const (
	balance kind = "balance" // it was handed over to an instance with fewer, or after an order
	unknown kind = "other"
)

// A transfer is a change of a slot's owner.
type transfer struct {
	Slot     string
	From, To string // instances
	Cause    kind
	// Lost is when the old owner could not run the slot any more: it died, stopped, or lost its
	// connection.
	Lost, At time.Duration
	Begun    bool          // the old owner had claimed a run by then, and its result was not on record
	Late     time.Duration // how long the first tick after Lost had been due
}

func (t transfer) took() time.Duration { return t.At - t.Lost }

// transfers lists all changes of owners.
func (e *evidence) transfers() (all []transfer) {
	runs := make(map[string][]*handlerRun)
	for _, r := range e.Runs {
		runs[r.Job] = append(runs[r.Job], r)
	}
	claims := make(map[string][]*txns.Claim)
	for _, c := range e.Claims {
		claims[c.Slot] = append(claims[c.Slot], c)
	}
	for _, slot := range slices.Sorted(maps.Keys(e.Owners)) {
		var last, free txns.Ownership // the last owner, and when it no longer was
		for _, now := range e.Owners[slot] {
			switch {
			case now.Gone:
				last = txns.Ownership{}
			case now.SID == "":
				free = now
			default:
				if last.SID != "" && last.Incarnation != now.Incarnation {
					t := transfer{Slot: slot, From: last.SID, To: now.SID, At: e.clock.mono(now.At)}
					from := max(e.clock.mono(last.At), lastRun(runs[slot], last.SID, t.At))
					t.Cause, t.Lost = e.cause(last.SID, from, t.At)
					if t.Cause == "" && free.At.After(last.At) {
						t.Cause, t.Lost = balance, e.clock.mono(free.At)
					}
					t.Cause, t.Lost = cmp.Or(t.Cause, unknown), max(from, cmp.Or(t.Lost, t.At))
					t.Cause = cmp.Or(e.outage(t.Lost, t.At), t.Cause)
					e.interrupts(&t, claims[slot])
					all = append(all, t)
				}
				last = now
			}
		}
	}
	return all
}

// interrupts notes whether a change of owner found a run begun, and how late it made the next tick:
// by the servers' log.
func (e *evidence) interrupts(t *transfer, claims []*txns.Claim) {
	lost := e.clock.time(t.Lost)
	due := e.clock.time(t.At)
	for _, c := range claims {
		if c.SID == t.From && !c.At.After(lost) && (c.Ended.IsZero() || c.Ended.After(lost)) {
			t.Begun = true
		}
		if tick := time.UnixMilli(c.Tick); !c.Manual && tick.After(lost) && tick.Before(due) {
			due = tick
		}
	}
	t.Late = e.clock.time(t.At).Sub(due)
}

// lastRun is when an instance last began a run before a time: until then it worked.
func lastRun(runs []*handlerRun, sid string, before time.Duration) time.Duration {
	after := sort.Search(len(runs), func(k int) bool { return runs[k].Mono >= before })
	for k := after - 1; k >= 0; k-- {
		if runs[k].By.ID == sid {
			return runs[k].Mono
		}
	}
	return 0
}

// cause looks for the fault of an owner after it was last seen to work, and before another one was.
func (e *evidence) cause(sid string, worked, to time.Duration) (what kind, when time.Duration) {
	for _, p := range e.Processes {
		if p.ID != sid || p.Life.From > to || p.Life.To != 0 && p.Life.To < worked {
			continue
		}
		switch {
		case p.AskedAt != 0 && p.AskedAt < to:
			return p.AskedBy, p.AskedAt
		case p.Killed && p.Life.To < to:
			return p.KillBy, p.Life.To
		}
	}
	var last *deed
	for _, d := range e.Deeds {
		lane := laneOf(d.Kind)
		concerns := lane == onInstance && d.On == sid || lane == onServers && d.Kind != oneServer || slices.Contains(strings.Fields(d.On), sid) && lane != onJobs
		over := d.Span.To != 0 && (worked > d.Span.To || to > d.Span.To+aftermath)
		if concerns && d.Span.From < to && !over && (last == nil || lane == onInstance) {
			last = d
		}
	}
	if last == nil {
		return "", 0
	}
	return last.Kind, last.Span.From
}

// outage is the fault of servers that kept a slot from getting another owner between two times, if
// one did.
func (e *evidence) outage(lost, at time.Duration) kind {
	for _, d := range e.Deeds {
		if _, away := e.recovery(d); away && d.Span.From < at && lost < d.Span.To {
			return d.Kind
		}
	}
	return ""
}

// figures sum up a run.
type figures struct {
	Due, Claimed, Attempts, Manual, Runs, Transactions int
	NotRun                                             map[string]int // by reason
	Excused, Alarms, Violations                        int
	Losses                                             []string // of ZooKeeper
	Faults                                             []faultFigures
	Longest                                            transfer // without an owner
	Recoveries                                         map[kind][]time.Duration
}

// faultFigures are the figures of one kind of fault.
type faultFigures struct {
	Kind          kind
	Times, Slots  int // how often it was done, and how many slots got another owner by it
	P50, P99, Max time.Duration
	// NotBegun are those among them that had not begun, by how late the first tick after it was.
	NotBegun       int
	Late50, Late90 time.Duration
	LateMax        time.Duration
}

func (j *judge) figures() *figures {
	f := &figures{
		Runs: len(j.Runs), Transactions: j.Counts.Txns,
		Losses: j.losses(), NotRun: make(map[string]int), Excused: len(j.excused), Violations: len(j.found), Recoveries: make(map[kind][]time.Duration),
	}
	for _, r := range j.Restores {
		f.Transactions += r.Lost
	}
	f.count(j)
	for _, lines := range j.Lines {
		for _, line := range lines {
			if line.Event == Missed {
				f.Alarms++
			}
		}
	}
	f.byFault(j)
	for _, d := range j.Deeds {
		back, lost := j.recovery(d)
		again := j.firstClaim(back)
		next := slices.ContainsFunc(j.Deeds, func(other *deed) bool {
			return laneOf(other.Kind) == onServers && other.Span.From > d.Span.From && other.Span.From < again
		})
		if lost && !next {
			f.Recoveries[d.Kind] = append(f.Recoveries[d.Kind], again-back)
		}
	}
	return f
}

// count counts ticks by their fate, once each: repeats because servers had lost runs, too.
func (f *figures) count(j *judge) {
	type tick struct {
		life txns.Life
		at   int64
	}
	due, not := make(map[tick]bool), make(map[tick]string)
	for _, log := range j.logs() {
		for life, ticks := range accounted(log) {
			for at := range ticks {
				due[tick{life, at}] = true
			}
		}
		for life, ticks := range log.Skipped {
			for at, reason := range ticks {
				not[tick{life, at}] = string(reason)
			}
		}
	}
	for _, c := range j.Claims {
		if c.Attempt > 1 {
			f.Attempts++
		}
		if c.Manual {
			f.Manual++
		}
		delete(not, tick{c.Life, c.Tick}) // it ran before servers had lost that
	}
	for _, reason := range not {
		f.NotRun[reason]++
	}
	f.Due, f.Claimed = len(due), len(due)-len(not)
}

// byFault counts faults, and the changes of owners that they caused.
func (f *figures) byFault(j *judge) {
	times, took, late := make(map[kind]int), make(map[kind][]time.Duration), make(map[kind][]time.Duration)
	for _, d := range j.Deeds {
		times[d.Kind]++
	}
	for _, t := range j.transfers() {
		took[t.Cause] = append(took[t.Cause], t.took())
		if !t.Begun {
			late[t.Cause] = append(late[t.Cause], t.Late)
		}
		if t.took() > f.Longest.took() {
			f.Longest = t
		}
	}
	for k := range took {
		times[k] += 0 // balance is no fault
	}
	for _, k := range slices.Sorted(maps.Keys(times)) {
		all, idle := took[k], late[k]
		slices.Sort(all)
		slices.Sort(idle)
		f.Faults = append(f.Faults, faultFigures{
			k, times[k], len(all), quantile(all, 0.5), quantile(all, 0.99), quantile(all, 1),
			len(idle), quantile(idle, 0.5), quantile(idle, 0.9), quantile(idle, 1),
		})
	}
}

// quantile of sorted values; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// recovery is when the servers could serve again after a fault that no write survives: when enough
// of them run, or when the leader was lost.
func (e *evidence) recovery(d *deed) (back time.Duration, lost bool) {
	switch d.Kind {
	case noQuorum, ensemble, restored, emptied:
		return d.Span.To, true
	case leaderKill, leaderPause:
		if e.Servers == 1 {
			return d.Span.To, true
		}
		return d.Span.From, true
	default:
		return 0, false
	}
}

// firstClaim is when something was claimed again.
func (e *evidence) firstClaim(after time.Duration) time.Duration {
	for _, c := range e.Claims {
		if at := e.clock.mono(c.At); at > after {
			return at
		}
	}
	return e.Ended
}

// String is the table of the run.
func (f *figures) String() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("ticks due %d: claimed %d, only recorded as not run %d %s", f.Due, f.Claimed, f.Due-f.Claimed, reasons(f.NotRun))
	line("runs %d, of which %d were further attempts and %d manual; transactions %d", f.Runs, f.Attempts, f.Manual, f.Transactions)
	line("runs without a lease in processes that stood still %d; alarms %d", f.Excused, f.Alarms)
	for _, loss := range f.Losses {
		line("%s", loss)
	}
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FAULT\tTIMES\tSLOTS MOVED\tP50\tP99\tMAX\tNOT BEGUN\tLATE P50\tP90\tMAX")
	for _, k := range f.Faults {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", k.Kind, orDash(k.Times > 0, k.Times), k.Slots, orDash(k.Slots > 0, seconds(k.P50)),
			orDash(k.Slots > 0, seconds(k.P99)), orDash(k.Slots > 0, seconds(k.Max)), k.NotBegun, orDash(k.NotBegun > 0, seconds(k.Late50)),
			orDash(k.NotBegun > 0, seconds(k.Late90)), orDash(k.NotBegun > 0, seconds(k.LateMax)))
	}
	_ = table.Flush()
	line("longest time without an owner: %s, %s from %s to %s after %q", seconds(f.Longest.took()), f.Longest.Slot, f.Longest.From, f.Longest.To, f.Longest.Cause)
	from := map[kind]string{
		noQuorum: "two servers back", ensemble: "all servers back", restored: "servers back with older data", emptied: "servers back without data", leaderKill: "death of the leader", leaderPause: "leader hangs",
	}
	for _, k := range slices.Sorted(maps.Keys(f.Recoveries)) {
		all := f.Recoveries[k]
		slices.Sort(all)
		line("%s to the first claim: %d times, p50 %s, max %s", from[k], len(all), seconds(quantile(all, 0.5)), seconds(quantile(all, 1)))
	}
	return out.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func orDash(is bool, value any) string {
	if !is {
		return "-"
	}
	return fmt.Sprint(value)
}

func reasons(counts map[string]int) string {
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", reason, counts[reason]))
	}
	return "(" + strings.Join(all, ", ") + ")"
}

// A slot that moves because its owner is killed is put down to that, from the kill to the adoption.
func TestTransfers(t *testing.T) {
	t.Parallel()
	f := forge()
	owned := func(seconds float64, sid string) txns.Ownership {
		return txns.Ownership{At: f.clock.time(at(seconds)), SID: sid, Incarnation: sid}
	}
	for k, c := range f.Claims[:3] { // those of a
		c.Ended = f.clock.time(at(1.5 + float64(k)))
	}
	f.Owners[forgedSlot] = []txns.Ownership{owned(0.5, ""), owned(0.6, "a"), owned(4.2, "b"), owned(5.6, ""), owned(5.85, "a")}
	got := fmt.Sprint(f.transfers())
	want := fmt.Sprint([]transfer{{forgedSlot, "a", "b", kill, at(3.8), at(4.2), false, at(0.2)}, {forgedSlot, "b", "a", balance, at(5.6), at(5.85), true, 0}})
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.a.Killed, f.a.Life.To = false, at(9)
	f.Deeds = []*deed{{fault: fault{Kind: cut}, On: "a", Span: span{at(2), at(3)}}, {fault: fault{Kind: cut}, On: "b", Span: span{at(3), at(4)}}}
	if cause, lost := f.cause("a", at(0.6), at(3.9)); cause != cut || lost != at(2) {
		t.Errorf("cause %q at %v, want the cut of a at 2s", cause, lost)
	}
}

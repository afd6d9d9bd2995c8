package chaos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/swtest/audit"
	"github.com/swjobs/singleworker/singleworker/swtest/txns"
	"github.com/swjobs/singleworker/singleworker/txnaudit"
)

const (
	// suspension is how long a process must have stood still to explain that it did not notice the end
	// of its lease: a quarter of a session timeout lies between that and a takeover, and half of this
	// may be needed anyway.
	suspension = session / 8
	// clockMemory is for how long after its clock was set back a process may still run its earlier
	// claims.
	clockMemory = 25 * time.Second
	// clockSlack is by how much times of two processes, which are cut to milliseconds, may differ.
	clockSlack = 5 * time.Millisecond
)

// A judge compares the processes' records with ZooKeeper's log.
type judge struct {
	*evidence

	claims  map[string]*txns.Claim // by run
	started map[string]*handlerRun // by run
	found   []violation
	// Excused are runs that began or continued without a lease in a process that stood still when it
	// ended, which fencing tokens are for.
	excused []violation
	// followed are consequences of ZooKeeper's loss of transactions: claims, results or ownerships
	// that a process was told of were gone, and something was done again.
	followed []violation
}

// check returns all that is wrong.
func (e *evidence) check() *judge {
	j := &judge{evidence: e, claims: make(map[string]*txns.Claim), started: make(map[string]*handlerRun)}
	for _, c := range e.Claims {
		j.claims[c.Run] = c
	}
	for _, v := range e.Violations {
		j.found = append(j.found, violation{v.Rule, e.clock.mono(v.At), v.Slot, v.Text})
	}
	j.nothingIsForgotten()
	j.processes()
	j.runsAreClaimed()
	j.claimsHaveOutcomes()
	j.runsGoTogether()
	j.ticksAreComplete()
	j.restoresAreNoticed()
	j.alarmsAreTrue()
	slices.SortStableFunc(j.found, func(a, b violation) int { return cmp.Compare(a.At, b.At) })
	return j
}

func (j *judge) violatedf(rule string, at time.Duration, slot, format string, args ...any) {
	j.found = append(j.found, violation{rule, at, slot, fmt.Sprintf(format, args...)})
}

// losses lists the transactions that ZooKeeper has lost, and the proof that somebody had been told
// of them.
func (j *judge) losses() (lines []string) {
	for _, l := range j.Losses {
		told := 0
		for _, r := range j.Runs {
			if c := j.claims[r.Run]; c != nil && l.First <= c.Zxid && c.Zxid <= l.Last && (c.Lost || l.Back) {
				told++
			}
		}
		verb := "lost"
		if l.Back {
			verb = "lost, and had again later,"
		}
		lines = append(lines, fmt.Sprintf("ZooKeeper %s %d transactions between zxid %#x and %#x, among them the claims of %d runs that began: zxid %#x, %.2f s, shows it",
			verb, l.Txns, l.First, l.Last, told, l.Shown, (j.clock.mono(l.Time)-j.Began).Seconds()))
	}
	for k, r := range j.Restores {
		began := 0
		for _, run := range j.Runs {
			if c := j.claims[run.Run]; c != nil && c.Lost && c.Restore() == k+1 {
				began++
			}
		}
		lines = append(lines, fmt.Sprintf("replaced data lost %d transactions, all after zxid %#x, among them the claims of %d runs that began: %.2f s",
			r.Lost, r.Through, began, (j.clock.mono(r.At)-j.Began).Seconds()))
	}
	if len(j.followed) > 0 {
		lines = append(lines, fmt.Sprintf("and therefore %d runs were repeated, or ran beside or after others", len(j.followed)))
	}
	return lines
}

// nothingIsForgotten: a server that is the only one loses no transaction by itself. An ensemble of
// ZooKeeper 3.8.0 does.
func (j *judge) nothingIsForgotten() {
	for _, l := range j.Losses {
		if j.Servers == 1 {
			j.violatedf("loss", j.clock.mono(l.Time), "", "%d transactions between zxid %#x and %#x are lost, zxid %#x shows it", l.Txns, l.First, l.Last, l.Shown)
		}
	}
}

// processes looks for those that ended although nobody asked them to.
func (j *judge) processes() {
	for _, p := range j.Processes {
		if !p.Killed && !p.Asked && p.Life.To != 0 {
			log, _ := os.ReadFile(p.Ledger + ".log")
			tail := strings.TrimSpace(string(log[max(0, len(log)-2000):]))
			j.violatedf("process", p.Life.To, "", "%s ended by itself: %v\n%s", p.ID, p.err, tail)
		}
	}
}

// runsAreClaimed: each call of a handler was claimed before, for this process, and once.
func (j *judge) runsAreClaimed() {
	for _, r := range j.Runs {
		if before := j.started[r.Run]; before != nil {
			j.violatedf("run", r.Mono, r.Job, "run %s began twice, on %s and %s", r.Run, before.By.ID, r.By.ID)
		}
		j.started[r.Run] = r
		c := j.claims[r.Run]
		if c == nil {
			j.violatedf("run", r.Mono, r.Job, "%s runs %s, attempt %d, which was never claimed: run %s", r.By.ID, clock(r.Tick), r.Attempt, r.Run)
			continue
		}
		if c.Slot != r.Job || c.Tick != r.Tick || c.Attempt != r.Attempt || c.Token != r.Token || c.SID != r.By.ID || c.Manual != r.Manual {
			j.violatedf("run", r.Mono, r.Job, "%s runs %s, attempt %d, token %d, claimed was %+v", r.By.ID, clock(r.Tick), r.Attempt, r.Token, *c)
		}
		if r.By.Life.To != 0 && r.Mono > r.By.Life.To {
			j.violatedf("run", r.Mono, r.Job, "%s runs %s after it has ended", r.By.ID, clock(r.Tick))
		}
		if at := j.clock.mono(c.At); at > r.Mono+clockSlack {
			j.violatedf("run", r.Mono, r.Job, "%s runs %s %v before it is claimed", r.By.ID, clock(r.Tick), at-r.Mono)
		}
	}
}

// claimsHaveOutcomes: each claim was run, or is recorded as interrupted; and has a result, unless
// its job is gone.
func (j *judge) claimsHaveOutcomes() {
	for _, c := range j.Claims {
		at := j.clock.mono(c.At)
		if c.State == "" && j.Last[c.Life] && !c.Lost {
			j.violatedf("outcome", at, c.Slot, "%s claimed %s, attempt %d, and nothing says what became of it: run %s", c.SID, clock(c.Tick), c.Attempt, c.Run)
		}
		if c.NotBegun && j.started[c.Run] != nil {
			j.violatedf("outcome", at, c.Slot, "%s says that %s did not begin, and it ran: run %s", c.SID, clock(c.Tick), c.Run)
		}
		if j.started[c.Run] == nil && (c.State == "ok" || c.State == "failed" || c.State == "timed_out") {
			j.violatedf("outcome", at, c.Slot, "%s says that %s was %s, and did not run it: run %s", c.SID, clock(c.Tick), c.State, c.Run)
		}
	}
}

// runsGoTogether: no tick runs twice or too early, and runs of a slot do not overlap and have
// tokens that never go back, except in processes that stood still.
func (j *judge) runsGoTogether() {
	type key struct {
		slot  string
		start int64
	}
	by := make(map[key]*handlerRun)
	var evidence []audit.Run
	for _, r := range j.Runs {
		c := j.claims[r.Run]
		if c == nil {
			continue
		}
		one := audit.Run{
			Job: fmt.Sprintf("%s (%#x)", r.Job, c.Born), Instance: fmt.Sprintf("%s (start %d)", r.By.ID, r.By.Start), Attempt: r.Attempt, Token: r.Token,
			Start: j.clock.time(r.Mono), End: j.clock.time(cmp.Or(r.End, r.By.Life.To)),
		}
		if !r.Manual {
			one.Tick = time.UnixMilli(r.Tick)
		}
		by[key{one.Job, one.Start.UnixNano()}] = r
		evidence = append(evidence, one)
	}
	for _, f := range audit.Runs(evidence) {
		run, before := by[key{f.Run.Job, f.Run.Start.UnixNano()}], by[key{f.Before.Job, f.Before.Start.UnixNano()}]
		v := violation{"runs", run.Mono, run.Job, strings.TrimPrefix(f.String(), f.Run.Job+": ")}
		switch {
		case before != nil && follows(j.claims[run.Run], j.claims[before.Run]):
			j.followed = append(j.followed, v)
		case f.Rule == audit.Skipped: // an instance may die between the claim and the call; the log is judged for that
		case f.Rule == audit.Early && j.clockWasOff(run):
		case f.Rule == audit.Overlap && before.Token >= run.Token:
			v.Text += ", and the later one has no greater token"
			j.found = append(j.found, v)
		case f.Rule == audit.Overlap && before.By.suspended(j.Lines[before.By], span{run.Mono - session, run.Mono}),
			f.Rule != audit.Overlap && f.Rule != audit.Early && f.Before.Attempt != f.Run.Attempt &&
				run.By.suspended(j.Lines[run.By], span{j.clock.mono(j.claims[run.Run].At), run.Mono}),
			(f.Rule == audit.Order || f.Rule == audit.Token) &&
				run.By.suspended(j.Lines[run.By], span{j.clock.mono(j.claims[run.Run].At), run.Mono}):
			j.excused = append(j.excused, v)
		default:
			j.found = append(j.found, v)
		}
	}
}

// follows reports whether ZooKeeper had lost an earlier claim, its result, or its ownership, when
// it took a later one.
func follows(later, earlier *txns.Claim) bool {
	return earlier.GoneAt != 0 && later.Zxid >= earlier.GoneAt
}

// clockWasOff reports whether the instance that first claimed the tick may have thought that it was
// due: by its clock it was, or that has been set meanwhile. Others may repeat the run before the
// tick is due by theirs.
func (j *judge) clockWasOff(r *handlerRun) bool {
	if r.Wall >= r.Tick || j.leapt(r.By.Member, r.Mono) {
		return true
	}
	life := j.claims[r.Run].Life
	return r.Attempt > 1 && slices.ContainsFunc(j.Claims, func(c *txns.Claim) bool {
		return c.Life == life && c.Tick == r.Tick && c.Attempt == 1 && j.leapt(j.memberOf(c.SID), j.clock.mono(c.At))
	})
}

// leapt reports whether the clock of a member is off at a time, or was not long ago.
func (j *judge) leapt(member int, at time.Duration) bool {
	return slices.ContainsFunc(j.Deeds, func(d *deed) bool {
		concerns := d.Kind == clocksLeap || d.Kind == clockLeap && d.Target == member
		return concerns && d.Span.From < at && (d.Span.To == 0 || at < d.Span.To+max(clockMemory, d.Amount+session))
	})
}

// memberOf returns the member whose instance has that id, or -1.
func (e *evidence) memberOf(sid string) int {
	k := slices.IndexFunc(e.Processes, func(p *process) bool { return p.ID == sid })
	if k < 0 {
		return -1
	}
	return e.Processes[k].Member
}

// suspended reports whether a process stood still during a part of some time: it was stopped, or
// says so itself.
func (p *process) suspended(lines []Line, during span) bool {
	overlaps := func(s span) bool { return s.From < during.To && (s.To == 0 || s.To > during.From) }
	return slices.ContainsFunc(p.Pauses, overlaps) || slices.ContainsFunc(lines, func(line Line) bool {
		return line.Event == Stalled && line.Gap >= suspension && overlaps(span{line.Mono - line.Gap, line.Mono})
	})
}

// ticksAreComplete: of jobs with the same schedule all the time, each tick from the first to the
// last is claimed, or recorded as not run; and of all jobs none is both. A claim that ZooKeeper has
// lost does not count. Claims lost with the servers' data were right as long as there was that.
func (j *judge) ticksAreComplete() {
	periods := make(map[string]int64)
	for _, one := range theJobs() {
		if !slices.Contains(changing, one.Name) && len(one.After) == 0 { // parents are canceled and submitted again
			periods[one.Name] = periodOf(one)
		}
	}
	told := make(map[violation]bool) // what was not lost is in several
	for _, log := range j.logs() {
		for life, ticks := range accounted(log) {
			name, _, _ := job.SplitShard(life.Slot)
			sorted := slices.Sorted(maps.Keys(ticks))
			for k, tick := range sorted {
				v := violation{"ticks", j.clock.monoOf(tick), life.Slot, ""}
				if ticks[tick] > 1 {
					v.Text = fmt.Sprintf("%s is accounted for %d times", clock(tick), ticks[tick])
				}
				if period := periods[name]; k > 0 && period > 0 && tick-sorted[k-1] != period {
					v.Text = fmt.Sprintf("between %s and %s nothing is accounted for", clock(sorted[k-1]), clock(tick))
				}
				if v.Text != "" && !told[v] {
					told[v] = true
					j.found = append(j.found, v)
				}
			}
		}
	}
}

// logs are the servers' logs each time that their data was replaced, and in the end.
func (j *judge) logs() []*txns.Log {
	if len(j.Times) == 0 {
		return []*txns.Log{j.Log}
	}
	return j.Times
}

// accounted counts, by life and tick, how often it was claimed for the first time, or recorded as
// not run. A claim that has not begun does not count: the next one is the same attempt. If its
// owner says so only after another one has made the second attempt, it does.
func accounted(log *txns.Log) map[txns.Life]map[int64]int {
	all := make(map[txns.Life]map[int64]int)
	add := func(life txns.Life, tick int64) {
		if all[life] == nil {
			all[life] = make(map[int64]int)
		}
		all[life][tick]++
	}
	var second []*txns.Claim
	for _, c := range log.Claims {
		switch {
		case c.Manual || c.Lost:
		case c.Attempt == 1 && !c.NotBegun:
			add(c.Life, c.Tick)
		case c.Attempt == 2:
			second = append(second, c)
		}
	}
	for _, c := range second {
		if all[c.Life][c.Tick] == 0 {
			add(c.Life, c.Tick)
		}
	}
	for life, ticks := range log.Skipped {
		for tick := range ticks {
			add(life, tick)
		}
	}
	return all
}

// auditAgrees: an operator who audits the servers' files would see the same as this judge, unless
// they have transactions that were never committed: an audit takes all that no other server's log
// passes over.
func (j *judge) auditAgrees(ctx context.Context, dirs []string) {
	report, err := txnaudit.Run(ctx, txnaudit.Options{Dirs: dirs, ServerType: groupName})
	if err == nil && len(j.Losses)+j.Dropped > 0 {
		return
	}
	if err != nil || !report.Whole || len(report.Violations) != len(j.Violations) {
		j.violatedf("audit", j.Ended, "", "%v, whole: %v, violations %+v, here there are %d; %q", err, report.Whole, report.Violations, len(j.Violations), report.Notes)
	}
	got, want := report.Counts, j.Counts
	if got.Claims != want.Claims || got.Results != want.Results || got.Ticks != want.Ticks || got.Takeovers != want.Takeovers {
		j.violatedf("audit", j.Ended, "", "counted %+v, want %+v", got, want)
	}
}

// periodOf is the period of a job of which the schedule is each n seconds, in milliseconds.
func periodOf(j job.Job) int64 {
	seconds := int64(1)
	_, _ = fmt.Sscanf(j.Schedule, "*/%d", &seconds)
	return seconds * 1000
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.000") }

package chaos

import (
	"cmp"
	"time"

	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/swtest/txns"
)

const (
	// lease is how long an instance may act on answers of servers that are gone.
	lease = session * 3 / 4
	// comeBack is how soon something is claimed again when servers with less data are started: these
	// need a while, sessions are given up when their timeout has passed, and those that the data has
	// expire.
	comeBack = 2*session + 10*time.Second
)

// restoresAreNoticed: no run begins on account of a claim that was lost with the servers' data, or
// lasts on account of an ownership that was, for longer than a lease after the servers have ended;
// and soon after they are back something is claimed.
func (j *judge) restoresAreNoticed() {
	var deeds []*deed
	for _, d := range j.Deeds {
		if d.Kind == restored || d.Kind == emptied {
			deeds = append(deeds, d)
		}
	}
	if len(deeds) != len(j.Restores) {
		j.violatedf("restore", j.Ended, "", "the data was replaced %d times, the logs say %d", len(deeds), len(j.Restores))
		return
	}
	for _, r := range j.Runs {
		c := j.claims[r.Run]
		if c == nil || !c.Lost || c.Restore() == 0 {
			continue
		}
		d, through := deeds[c.Restore()-1], j.Restores[c.Restore()-1].Through
		most := d.Span.From + lease + suspension
		still := func(at time.Duration) bool { return r.By.suspended(j.Lines[r.By], span{d.Span.From, at}) }
		if r.Mono > most && !still(r.Mono) {
			j.violatedf("restore", r.Mono, r.Job, "%s begins run %s %v after its claim was lost", r.By.ID, r.Run, r.Mono-d.Span.From)
		}
		if end := cmp.Or(r.End, r.By.Life.To, j.Ended); c.Token > through && end > most && !still(end) {
			j.violatedf("restore", end, r.Job, "%s ends run %s %v after its ownership was lost", r.By.ID, r.Run, end-d.Span.From)
		}
	}
	for _, d := range deeds {
		again := j.firstClaim(d.Span.To)
		if again > d.Span.To+comeBack && !j.outOfService(d, again) {
			j.violatedf("restore", again, "", "nothing is claimed for %v after the servers were %s", again-d.Span.To, d.Kind)
		}
	}
}

// outOfService reports whether another fault of servers began between one and a time.
func (e *evidence) outOfService(since *deed, until time.Duration) bool {
	for _, d := range e.Deeds {
		if laneOf(d.Kind) == onServers && d.Span.From > since.Span.From && d.Span.From < until {
			return true
		}
	}
	return false
}

const (
	// alarmSlack is by how much an instance may be wrong about the group's time.
	alarmSlack = time.Second
	// alarmMemory is how long after it has raised an alarm an instance may tell of it: until it knows
	// that it has.
	alarmMemory = 20 * time.Second
)

// alarmsAreTrue: whatever the clock of an instance says, it tells of no tick that is not overdue by
// the servers' clock, or by all instances' if the servers' is wrong by more than their limit; of
// none that was claimed long before; and of each once.
func (j *judge) alarmsAreTrue() {
	type key struct {
		slot string
		tick int64
	}
	claimed := make(map[key]*txns.Claim)
	for _, c := range j.Claims {
		if !c.Manual && c.Attempt == 1 && c.GoneAt == 0 {
			claimed[key{c.Slot, c.Tick}] = c
		}
	}
	after := make(map[string]time.Duration)
	for _, one := range theJobs() {
		after[one.Name] = one.WithDefaults().AlarmAfter
	}
	told := make(map[key]time.Duration)
	for _, p := range j.Processes {
		for _, line := range j.Lines[p] {
			if line.Event != Missed {
				continue
			}
			name, _, _ := job.SplitShard(line.Job)
			early := j.clock.monoOf(line.Tick) + cmp.Or(after[name], job.DefaultAlarmAfter) - line.Mono
			if early > alarmSlack && early > j.agreed(line.Mono)+alarmSlack {
				j.violatedf("alarm", line.Mono, line.Job, "%s tells of %s %v before it is overdue", p.ID, clock(line.Tick), early)
			}
			of := key{line.Job, line.Tick}
			if c := claimed[of]; c != nil {
				at := j.clock.mono(c.At)
				if line.Mono > at+alarmMemory && !p.suspended(j.Lines[p], span{at, line.Mono}) {
					j.violatedf("alarm", line.Mono, line.Job, "%s tells of %s %v after it was claimed", p.ID, clock(line.Tick), line.Mono-at)
				}
			}
			if before, again := told[of]; again && !j.replaced(span{min(before, line.Mono), max(before, line.Mono)}) {
				j.violatedf("alarm", line.Mono, line.Job, "%s tells of %s again, %v after it was told", p.ID, clock(line.Tick), line.Mono-before)
			}
			told[of] = line.Mono
		}
	}
}

// agreed is by how much the clocks of all instances are ahead of the servers' at a time, if that is
// more than their limit: then they go by their own.
func (j *judge) agreed(at time.Duration) (ahead time.Duration) {
	for _, d := range j.Deeds {
		if d.Kind == clocksLeap && d.Amount > singleworker.DefaultMaxClockOffset && d.Span.From < at && (d.Span.To == 0 || at < d.Span.To+session) {
			ahead = d.Amount
		}
	}
	return ahead
}

// replaced reports whether the servers' data was replaced in some time, so that alarms were lost.
func (j *judge) replaced(during span) bool {
	for _, d := range j.Deeds {
		if (d.Kind == restored || d.Kind == emptied) && during.From < d.Span.To && d.Span.From < during.To {
			return true
		}
	}
	return false
}

package admin

import (
	"fmt"
	"strings"
	"time"
)

// tell says in words what the records have of the tick.
func (x *explainer) tell(name string) {
	last := x.Entries[0]
	switch {
	case last.RunID == "":
		x.notRun(name, last)
	case last.State == RunRunning:
		x.sayf("%s is running on %s since %s, attempt %d.", name, last.InstanceID, x.at(last.Started), last.Attempt)
	case last.State == RunUnknown:
		x.sayf("%s was begun on %s at %s, attempt %d; the result is unknown, because %s has not written it and %s.",
			name, last.InstanceID, x.at(last.Started), last.Attempt, last.InstanceID, x.gone(last))
		x.sayf("Whoever owns the job next goes by its policy for interrupted runs: %s.", x.Job.Interrupted)
	default:
		x.sayf("%s was run on %s from %s to %s (%s), attempt %d, and %s.", name, last.InstanceID,
			x.at(last.Started), x.at(last.Ended), last.Ended.Sub(last.Started).Round(time.Millisecond), last.Attempt, ending(last))
		if last.NextAttempt != "" {
			x.sayf("It is to be run again (%s) at %s.", last.NextAttempt, x.at(last.NextAttemptAt))
		}
	}
	for _, e := range x.Entries[1:] {
		if e.RunID != "" {
			x.sayf("Attempt %d before, on %s at %s, %s.", e.Attempt, e.InstanceID, x.at(e.Started), ending(e))
		}
	}
}

// gone says why the instance of a run will not write its result.
func (x *explainer) gone(run Entry) string {
	if owner := x.Job.Owner; owner != nil && owner.Token != run.Token {
		return fmt.Sprintf("is not the owner any more: %s has adopted %s at %s", owner.InstanceID, x.thing(), x.at(owner.Since))
	}
	if x.Job.Owner == nil {
		return "is not the owner any more"
	}
	return "is gone"
}

// ending is how a run ended: "ended well", "failed: no route to host".
func ending(run Entry) string {
	text := map[string]string{
		RunOK:          "ended well",
		RunFailed:      "failed",
		RunTimedOut:    "was ended by its timeout",
		RunInterrupted: "was interrupted",
		RunLost:        "was lost: nobody knows how far it came, and it is not run again",
	}[run.State]
	if text == "" {
		text = "is " + run.State
	}
	if run.Error != "" {
		line, _, _ := strings.Cut(run.Error, "\n")
		text += ": " + strings.TrimRight(line, ".\r ")
	}
	return text
}

// notRun says why a tick was not run.
func (x *explainer) notRun(name string, e Entry) {
	if e.State == RunUnreadable {
		x.sayf("Nobody can tell what became of %s: %s.", lower(name), e.Error)
		return
	}
	switch e.Reason {
	case ReasonOverlap:
		x.sayf("%s was not run: the run before was still going on%s, and the job's policy for overlaps is %s.", name, x.runAt(x.Tick), x.Job.Overlap)
	case ReasonPaused:
		x.sayf("%s was not run: the job was paused%s.", name, x.pauseAt(x.Tick))
	case ReasonNoOwner:
		x.sayf("%s was not run: nobody owned %s when it came%s; %s accounted for it at %s.", name, x.thing(), x.ownerless(e), e.InstanceID, x.at(e.Ended))
	case ReasonStalled:
		x.sayf("%s was not run: its owner %s could not claim it in time, and noticed at %s.", name, e.InstanceID, x.at(e.Ended))
	case ReasonScheduleChanged:
		x.sayf("%s was not run: the schedule that it belonged to was replaced at %s, before anybody claimed it.", name, x.at(milli(x.since)))
	default:
		x.sayf("%s was not run: it was %s%s.", name, e.State, strings.TrimRight(" "+e.Reason, " "))
	}
	if e.State == RunMissed {
		x.sayf("The job's policy for missed ticks is %s.", x.Job.Misfire)
	}
	if e.Count > 1 {
		x.sayf("It is one of %d ticks in a row, from %s to %s.", e.Count, x.at(e.Tick), x.at(e.To))
	}
}

// runAt names the run that went on at a time.
func (x *explainer) runAt(t time.Time) string {
	for _, e := range x.all {
		if e.RunID != "" && !e.Started.IsZero() && !e.Started.After(t) && (e.Ended.IsZero() || !e.Ended.Before(t)) {
			if e.Ended.IsZero() {
				return fmt.Sprintf(" (that of %s, on %s since %s)", x.at(e.Tick), e.InstanceID, x.at(e.Started))
			}
			return fmt.Sprintf(" (that of %s, on %s from %s to %s)", x.at(e.Tick), e.InstanceID, x.at(e.Started), x.at(e.Ended))
		}
	}
	return ""
}

// pauseAt describes the pause of a time, if it is the one on record.
func (x *explainer) pauseAt(t time.Time) string {
	if !x.spec.Paused.Covers(t) {
		return ""
	}
	p := pauseOf(*x.spec.Paused)
	text := ""
	if p.By != "" {
		text += " by " + p.By
	}
	text += " from " + x.at(p.Since)
	if p.Until.IsZero() {
		text += " until it is resumed"
	} else {
		text += " to " + x.at(p.Until)
	}
	if p.Reason != "" {
		text += ", because of: " + strings.TrimRight(p.Reason, ".")
	}
	return text
}

// ownerless says from when to when nobody owned the job, as far as the
// records tell.
func (x *explainer) ownerless(missed Entry) string {
	var text string
	for _, e := range x.all {
		if e.InstanceID != "" && e.Token != missed.Token && !e.Ended.IsZero() && !e.Ended.After(missed.Tick) {
			text = fmt.Sprintf(" (the owner before, %s, was last heard of at %s", e.InstanceID, x.at(e.Ended))
			break
		}
	}
	if o := x.Job.Owner; o != nil && o.Token == missed.Token {
		if text == "" {
			text = " ("
		} else {
			text += ", and "
		}
		return text + fmt.Sprintf("%s adopted %s at %s)", o.InstanceID, x.thing(), x.at(o.Since))
	}
	if text != "" {
		text += ")"
	}
	return text
}

// coming says what is to become of a tick.
func (x *explainer) coming(name string) {
	x.Fate = FateComing
	if x.spec.Paused.Covers(x.Tick) {
		x.sayf("%s has yet to come, and will not be run: the job is paused%s.", name, x.pauseAt(x.Tick))
		return
	}
	x.sayf("%s has yet to come.", name)
}

// forgotten speaks of a tick that was accounted for.
func (x *explainer) forgotten(name string) {
	x.Fate = FateForgotten
	oldest := time.Time{}
	for _, e := range x.all {
		if !e.Tick.IsZero() {
			oldest = e.Tick
		}
	}
	switch {
	case x.Tick.UnixMilli() <= x.spec.ActiveLayout().Since:
		x.sayf("%s came before the shards of the job were changed, and nothing is known of it here.", name)
	case x.historyErr != nil:
		x.sayf("%s was accounted for, and what became of it cannot be read: %v.", name, x.historyErr)
	case !oldest.IsZero() && x.Tick.Before(oldest):
		x.sayf("%s was accounted for, but what became of it is not known any more: the history goes back to %s only.", name, x.at(oldest))
	default:
		x.sayf("%s was accounted for, but the history does not have it: an older version kept none, or somebody has changed it.", name)
	}
}

// pending speaks of a tick that came and was not accounted for.
func (x *explainer) pending(name string) {
	run := x.Job.LastRun
	switch {
	case x.spec.Paused.Covers(x.Tick):
		x.Fate, x.Reason = FatePaused, ReasonPaused
		x.sayf("%s was not run: the job was paused%s.", name, x.pauseAt(x.Tick))
		if x.Job.Paused == nil {
			x.sayf("The pause is over; its owner has yet to account for it, by the policy %s.", pauseOf(*x.spec.Paused).Missed)
		}
	case run != nil && run.State == RunRunning:
		x.Fate = FateDue
		x.sayf("%s is not run yet: the run of %s goes on, on %s since %s; the job's policy for overlaps is %s.",
			name, x.at(run.Tick), run.InstanceID, x.at(run.Started), x.Job.Overlap)
	case x.now.Sub(x.Tick) < x.Job.AlarmAfter && !x.lateSince(x.Tick):
		x.Fate = FateDue
		x.sayf("%s came a moment ago, and is not claimed yet.", name)
	default:
		x.Fate = FateLate
		x.sayf("%s is late: it was neither claimed nor skipped in %s.", name, x.now.Sub(x.Tick).Round(time.Second))
		if first := x.Job.Overdue; x.lateSince(x.Tick) && first.Before(x.Tick) {
			x.sayf("So are all since that of %s.", x.at(first))
		}
		if a := x.Job.Alarm; a != nil && !a.Tick.After(x.Tick) && !a.Tick.Before(x.Job.Overdue) {
			x.sayf("%s noticed that at %s.", a.InstanceID, x.at(a.At))
		}
		if x.Job.State == Owned {
			x.sayf("Its owner %s lives, and has not claimed it: look at its log.", x.Job.Owner.InstanceID)
		}
	}
}

// lateSince reports whether the job has been late since that tick, or an earlier one.
func (x *explainer) lateSince(tick time.Time) bool {
	return !x.Job.Overdue.IsZero() && !x.Job.Overdue.After(tick)
}

// thing is what has an owner.
func (x *explainer) thing() string {
	if x.Job.Shard == nil {
		return "the job"
	}
	return x.Job.Name
}

// owner says who owns the job, since when, and who did before.
func (x *explainer) owner() {
	o := x.Job.Owner
	switch {
	case x.Job.State == Owned:
		x.sayf("%s owns %s since %s (token %d)%s.", o.InstanceID, x.thing(), x.at(o.Since), o.Token, x.before(o.Token))
	case x.Job.State == Invalid && o != nil:
		x.sayf("The owner record names %s, since %s (token %d).", o.InstanceID, x.at(o.Since), o.Token)
	case x.Job.State == Invalid:
	default:
		x.sayf("Nobody owns %s: %s.", x.thing(), strings.TrimRight(x.Job.Reason, "."))
	}
}

// before names the owner before the one with that token, and the last that is
// known of it.
func (x *explainer) before(token int64) string {
	for _, e := range x.all {
		if e.InstanceID == "" || e.Token == 0 || e.Token >= token {
			continue
		}
		last := e.Ended
		if last.IsZero() {
			last = e.Started
		}
		did := "accounted for the tick of " + x.at(e.Tick)
		if e.RunID != "" {
			did = "run of " + x.at(e.Tick) + " " + ending(e)
			if e.State == RunUnknown {
				did = "run of " + x.at(e.Tick) + " has no result"
			}
			did = "its " + did
		}
		return fmt.Sprintf("; before, %s did (token %d): %s, at %s", e.InstanceID, e.Token, did, x.at(last))
	}
	return ""
}

// lower is a name in the middle of a sentence.
func lower(name string) string { return strings.ToLower(name[:1]) + name[1:] }

package words

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
)

// Why says what became of the tick and why, who owns the job, what comes next, and what to try if
// something is wrong. Each ends with a period; none is multi-line, but what applications and
// operators wrote is not escaped.
func Why(x admin.Explanation) []string {
	w := newWriter(x)
	switch {
	case len(x.Shards) > 0:
		w.shards()
	case x.Job.State == admin.StateInvalid:
		w.sayf("The job cannot run: %s.", x.Job.Reason)
		w.owner()
	default:
		w.tick()
		w.owner()
		w.next()
	}
	w.around()
	return append(w.sentences, advice(x.Job)...)
}

type writer struct {
	admin.Explanation

	zone      *time.Location
	sentences []string
}

func newWriter(x admin.Explanation) *writer {
	return &writer{Explanation: x, zone: x.Job.Job.Zone()}
}

func (w *writer) sayf(format string, args ...any) {
	w.sentences = append(w.sentences, fmt.Sprintf(format, args...))
}

func (w *writer) at(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.In(w.zone).Format("2006-01-02 15:04:05 MST")
}

// tick says what became of it.
func (w *writer) tick() {
	schedule, err := w.Job.Job.ParseSchedule()
	manual := err == nil && schedule.Manual()
	switch {
	case err == nil && schedule.Always() && w.Tick.IsZero():
		w.sayf("The schedule is %s: the job runs all the time, and no run is on record at or before %s.", w.Job.Job.Schedule, w.at(w.Asked))
		return
	case err == nil && schedule.Always():
		w.sayf("The schedule is %s: the job runs all the time, and is started again when it ends.", w.Job.Job.Schedule)
	case manual && w.Tick.IsZero():
		w.sayf("The schedule is %s: the job runs only when somebody triggers it, and no such run is on record at or before %s.",
			w.Job.Job.Schedule, w.at(w.Asked))
		return
	case w.Tick.IsZero():
		w.sayf("The schedule %q has no tick at or before %s since it took effect at %s.", w.Job.Job.Schedule, w.at(w.Asked), w.at(w.ScheduleSince))
		return
	case manual:
		w.sayf("The schedule is %s: the job runs only when somebody triggers it.", w.Job.Job.Schedule)
	case w.Tick.Unix() != w.Asked.Unix() && !w.Asked.Equal(w.At):
		w.sayf("There is no tick at %s; the last one before it is %s.", w.at(w.Asked), w.at(w.Tick))
	}
	w.fate()
}

// fate says what became of the tick, in one sentence or more.
func (w *writer) fate() {
	name := "The tick of " + w.at(w.Tick)
	switch {
	case len(w.Entries) > 0 && !w.Entries[0].OfTick():
		w.recorded("The manual run requested at " + w.at(w.Tick))
	case len(w.Entries) > 0:
		w.recorded(name)
	case w.Fate == admin.FateComing && w.Pause != nil:
		w.sayf("%s is yet to come, and will not run: the job is paused%s.", name, w.pause(w.Pause))
	case w.Fate == admin.FateComing && !w.Tick.After(w.At):
		w.sayf("%s is not due yet: the job's jitter delays each tick by less than %s.", name, w.Job.Job.Jitter)
	case w.Fate == admin.FateComing:
		w.sayf("%s is yet to come.", name)
	case w.Fate == history.StateUnreadable:
		w.unreadable(name, w.Unreadable)
	case w.Fate == admin.FateForgotten:
		w.forgotten(name)
	default:
		w.pending(name)
	}
}

func (w *writer) unreadable(name, err string) {
	w.sayf("What became of %s cannot be read: %s.", strings.ToLower(name[:1])+name[1:], err)
}

// recorded says what the history has of the tick.
func (w *writer) recorded(name string) {
	last := w.Entries[0]
	switch {
	case last.RunID == "":
		w.notRun(name, last)
	case last.State == history.StateRunning && w.calls() && last.Begun.IsZero():
		w.sayf("%s waits for BeforeTick (handler %q), which has been running on %s since %s (attempt %d).", name, w.Job.Job.BeforeTick,
			last.InstanceID, w.at(last.Started), last.Attempt)
	case last.State == history.StateRunning:
		w.sayf("%s has been running on %s since %s (attempt %d).", name, last.InstanceID, w.at(last.Started), last.Attempt)
		if hangs, is := w.Job.Condition(reason.Hung); is && w.Job.Hung.RunID == last.RunID {
			w.sayf("It %s.", hangs.Detail)
		}
	case last.State == history.StateUnknown:
		w.sayf("%s was started on %s at %s (attempt %d); the result is unknown: %s has not recorded it and %s.",
			name, last.InstanceID, w.at(last.Started), last.Attempt, last.InstanceID, w.gone(last.Run))
		w.sayf("The next owner applies the job's policy for interrupted runs, %s.", w.Job.Job.Interrupted)
	case last.Effects != (history.Effects{}):
		w.sayf("%s is ok: its effects have been in the database since %s%s, whose result was lost; %s found that at %s (attempt %d), and did not call the handler.",
			name, w.at(last.Effects.At), byRun(last.Effects), last.InstanceID, w.at(last.Ended), last.Attempt)
	default:
		ran := "ran on"
		if last.NotBegun {
			ran = "was claimed by"
		}
		w.sayf("%s %s %s from %s to %s (%s, attempt %d) and %s.", name, ran, last.InstanceID,
			w.at(last.Started), w.at(last.Ended), last.Ended.Sub(last.Started).Round(time.Millisecond), last.Attempt, ending(last.Run))
		late := last.Started.Sub(last.Tick)
		switch {
		case last.TakenFrom != "":
			w.sayf("%s had not claimed it; %s took the job over and started it %s late.", last.TakenFrom, last.InstanceID, late.Round(10*time.Millisecond))
		case last.DelayedMillis > 0:
			why := last.InstanceID + " had as many runs in progress as it may (Config.MaxRunning)"
			if limits := w.Job.Job.LimitNames(); len(limits) > 0 {
				why = "other runs had the places of a limit (" + strings.Join(limits, ", ") + "), or " + why
			}
			w.sayf("It waited %s because %s.", (time.Duration(last.DelayedMillis) * time.Millisecond).Round(10*time.Millisecond), why)
		case last.Begun.Sub(last.Tick) >= lateStart && !last.Started.Before(last.Begun):
			w.sayf("It waited for %s until %s.", w.waitedFor(), w.at(last.Begun))
		case late >= lateStart && last.Attempt == 1 && !last.NotBegun:
			w.sayf("It started %s late: an earlier run was still in progress, the job had no owner, or ZooKeeper did not answer.", late.Round(time.Second))
		}
		switch {
		case last.NextAttempt == "":
		case (w.Job.Paused != nil || w.Job.Frozen != nil) && last.Manual == "":
			w.sayf("It will run again (%s) when the pause is over.", last.NextAttempt)
		default:
			w.sayf("It will run again (%s) at %s.", last.NextAttempt, w.at(last.NextAttemptAt))
		}
	}
	w.asked(last)
	for _, e := range w.Entries[1:] {
		if e.RunID != "" {
			w.sayf("Attempt %d, on %s at %s, %s.", e.Attempt, e.InstanceID, w.at(e.Started), ending(e.Run))
		}
	}
}

// lateStart is later than a run starts when all is well, on clocks that are set by a network.
const lateStart = 5 * time.Second

// ending is how a run ended: "succeeded", "failed: no route to host".
func ending(run history.Run) string {
	text := map[history.State]string{
		history.StateOK:          "succeeded",
		history.StateFailed:      "failed",
		history.StateTimedOut:    "timed out",
		history.StateRefused:     "was refused by BeforeTick, so no shard runs it",
		history.StateInterrupted: "was interrupted",
		history.StateLost:        "was lost: how far it got is unknown, and it will not run again",
		history.StateUnknown:     "has no recorded result",
	}[run.State]
	if text == "" {
		text = "is " + string(run.State)
	}
	if run.Error != "" {
		line, _, _ := strings.Cut(run.Error, "\n")
		text += ": " + strings.TrimRight(line, ".\r ")
	}
	return text
}

// notRun says why a tick was not run.
func (w *writer) notRun(name string, e history.Entry) {
	if e.State == history.StateUnreadable {
		w.unreadable(name, e.Error)
		return
	}
	switch {
	case w.isEarly(e):
		w.sayf("%s did not run: the clock of %s was ahead, so it recorded the tick as %s before it came.", name, e.InstanceID, e.State)
	case e.Reason == history.ReasonOverlap:
		w.sayf("%s did not run: the previous run was still in progress%s, and the job's overlap policy is %s.", name, w.runAt(w.Tick), w.Job.Job.Overlap)
	case e.Reason == history.ReasonPaused, e.Reason == history.ReasonFrozen:
		w.withheld(name, e.Reason)
	case e.Reason == history.ReasonNoOwner:
		w.sayf("%s did not run: %s had no owner at that time%s; %s recorded that at %s.", name, w.thing(), w.ownerless(e), e.InstanceID, w.at(e.Ended))
	case e.Reason == history.ReasonAbsent:
		w.sayf("%s did not run there: %s was not running, or took no jobs; it recorded that at %s.", name, e.InstanceID, w.at(e.Ended))
	case e.Reason == history.ReasonStalled:
		w.sayf("%s did not run: its owner %s could not claim it in time, and recorded that at %s.", name, e.InstanceID, w.at(e.Ended))
	case e.Reason == history.ReasonDelayed:
		w.sayf("%s did not run: its owner %s had as many runs in progress as it may (Config.MaxRunning), and recorded that at %s.", name, e.InstanceID, w.at(e.Ended))
	case e.Reason == history.ReasonLimited:
		w.sayf("%s did not run: it waited for a place of a limit (%s) for too long; %s recorded that at %s.", name, strings.Join(w.Job.Job.LimitNames(), ", "), e.InstanceID, w.at(e.Ended))
	case e.Reason == history.ReasonRefused:
		w.sayf("%s did not run: BeforeTick (handler %q) refused it; the history of the first shard has its reason.", name, w.Job.Job.BeforeTick)
	case e.Reason == history.ReasonNotBegun:
		w.sayf("%s did not run: BeforeTick (handler %q) failed, or was not called; the history of the first shard says why.", name, w.Job.Job.BeforeTick)
	case e.Reason == history.ReasonParent, e.Reason == history.ReasonParentLate, e.Reason == history.ReasonParentForgotten:
		w.sayf("%s did not run, because of a job after which it runs: %s.", name, e.Error)
	case e.Reason == history.ReasonScheduleChanged:
		w.sayf("%s did not run: the schedule was replaced at %s, before the tick was claimed.", name, w.at(w.ScheduleSince))
	default:
		w.sayf("%s did not run: it was %s.", name, strings.TrimSpace(string(e.State)+" "+string(e.Reason)))
	}
	if e.State == history.StateMissed && e.Error == "" {
		w.sayf("The job's misfire policy is %s.", w.Job.Job.Misfire)
	}
	if e.Count > 1 {
		w.sayf("It is one of %d consecutive ticks, from %s to %s.", e.Count, w.at(e.Tick), w.at(e.To))
	}
}

// isEarly reports whether a missed tick was recorded before it came, by an owner whose clock was
// ahead: by ZooKeeper's clock, that owner had the job before the tick, or the next one did. Without
// that, it is enough that the time of the record has not come yet.
func (w *writer) isEarly(e history.Entry) bool {
	o := w.Job.Owner
	if e.State != history.StateMissed || e.Reason == history.ReasonScheduleChanged || o == nil || o.Token < e.Token {
		return false
	}
	owned := o.Since.Before(w.Tick) && (o.Token > e.Token || e.Reason == history.ReasonNoOwner)
	return owned || o.Token == e.Token && e.Ended.Sub(w.At) > reason.ClocksDiffer
}

// runAt names the run that was in progress at a time.
func (w *writer) runAt(t time.Time) string {
	for _, e := range w.History {
		if e.RunID != "" && !e.Started.IsZero() && !e.Started.After(t) && (e.Ended.IsZero() || !e.Ended.Before(t)) {
			if e.Ended.IsZero() {
				return fmt.Sprintf(" (that of %s, on %s since %s)", w.at(e.Tick), e.InstanceID, w.at(e.Started))
			}
			return fmt.Sprintf(" (that of %s, on %s from %s to %s)", w.at(e.Tick), e.InstanceID, w.at(e.Started), w.at(e.Ended))
		}
	}
	return ""
}

// pause describes a pause, if it is the one on record.
func (w *writer) pause(p *admin.Pause) string {
	if p == nil {
		return ""
	}
	text := ""
	if p.By != "" {
		text += " by " + p.By
	}
	text += " from " + w.at(p.Since)
	if p.Until.IsZero() {
		text += " until resumed"
	} else {
		text += " to " + w.at(p.Until)
	}
	if p.Reason != "" {
		text += ", reason: " + strings.TrimRight(p.Reason, ".")
	}
	return text
}

// ownerless says from when to when the job had no owner, as far as the records tell.
func (w *writer) ownerless(missed history.Entry) string {
	var parts []string
	for _, e := range w.History {
		if e.InstanceID != "" && e.Token != missed.Token && !e.Ended.IsZero() && !e.Ended.After(missed.Tick) {
			parts = append(parts, fmt.Sprintf("the previous owner, %s, last recorded something at %s", e.InstanceID, w.at(e.Ended)))
			break
		}
	}
	if o := w.Job.Owner; o != nil && o.Token == missed.Token {
		parts = append(parts, fmt.Sprintf("%s took over at %s", o.InstanceID, w.at(o.Since)))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", and ") + ")"
}

// forgotten is for a tick that was accounted for and is not in the history.
func (w *writer) forgotten(name string) {
	oldest := time.Time{}
	for _, e := range w.History {
		if !e.Tick.IsZero() {
			oldest = e.Tick
		}
	}
	switch {
	case !w.Tick.After(w.ShardsSince):
		w.sayf("%s came before the shards of the job were changed; there is no record of it here.", name)
	case w.Unreadable != "":
		w.sayf("%s was accounted for, but the history cannot be read: %s.", name, w.Unreadable)
	case !oldest.IsZero() && w.Tick.Before(oldest):
		w.sayf("%s was accounted for, but the history only goes back to %s.", name, w.at(oldest))
	default:
		w.sayf("%s was accounted for, but is not in the history: an older version kept none, or someone edited it.", name)
	}
}

// pending is for a tick that is due and not accounted for.
func (w *writer) pending(name string) {
	run, overdue := w.Job.LastRun, w.Job.Overdue
	switch {
	case w.Fate == admin.FatePaused:
		w.withheld(name, w.Reason)
		if p := cmp.Or(w.Pause, w.Freeze); p != nil && w.Job.Paused == nil && w.Job.Frozen == nil {
			w.sayf("The pause is over; the owner has yet to process its ticks, with the policy %s.", p.Missed)
		}
	case w.Fate == admin.FateWaiting:
		w.sayf("%s waits for BeforeTick (handler %q), which the first shard calls.", name, w.Job.Job.BeforeTick)
	case w.Fate == admin.FateAfter:
		w.sayf("%s waits for %s.", name, w.parents())
	case w.Fate == admin.FateLimited:
		w.sayf("%s waits for %s.", name, w.limits())
	case w.Fate == admin.FateDue && run != nil && run.State == history.StateRunning:
		w.sayf("%s has not run yet: the run of %s has been in progress on %s since %s; the job's overlap policy is %s.",
			name, w.at(run.Tick), run.InstanceID, w.at(run.Started), w.Job.Job.Overlap)
	case w.Fate == admin.FateDue:
		w.sayf("%s is due and has not been claimed yet.", name)
	default:
		w.sayf("%s is late: it has been neither claimed nor skipped for %s.", name, w.At.Sub(w.Tick).Round(time.Second))
		if !overdue.IsZero() && overdue.Before(w.Tick) {
			w.sayf("So are all ticks since %s.", w.at(overdue))
		}
		if a := w.Job.Alarm; a != nil && !a.Tick.After(w.Tick) && !a.Tick.Before(overdue) {
			w.sayf("%s reported that at %s.", a.InstanceID, w.at(a.At))
		}
		if w.Job.State == admin.StateOwned {
			w.sayf("Its owner %s is alive and has not claimed it: see the log of that instance.", w.Job.Owner.InstanceID)
		}
	}
}

// calls reports whether the shard is the one that calls BeforeTick.
func (w *writer) calls() bool {
	return w.Job.Job.BeforeTick != "" && w.Job.Shard != nil && w.Job.Shard.Index == 0
}

// owner says who owns the job, since when, and who owned it before.
func (w *writer) owner() {
	o := w.Job.Owner
	switch {
	case w.Job.State == admin.StateOwned:
		w.sayf("%s has owned %s since %s (token %d)%s.", o.InstanceID, w.thing(), w.at(o.Since), o.Token, w.previousOwner(o.Token))
	case w.Job.State == admin.StateInvalid && o != nil:
		w.sayf("The owner record names %s, since %s (token %d).", o.InstanceID, w.at(o.Since), o.Token)
	case w.Job.State == admin.StateInvalid:
	default:
		w.sayf("%s has no owner: %s.", strings.Replace(w.thing(), "the job", "The job", 1), strings.TrimRight(w.Job.Reason.String(), "."))
	}
}

// previousOwner is the owner before the one with that token, and the last thing that it
// recorded.
func (w *writer) previousOwner(token int64) string {
	for _, e := range w.History {
		if e.InstanceID == "" || e.Token == 0 || e.Token >= token {
			continue
		}
		last := e.Ended
		if last.IsZero() {
			last = e.Started
		}
		did := "it accounted for the tick of " + w.at(e.Tick)
		if e.RunID != "" {
			did = "its run of " + w.at(e.Tick) + " " + ending(e.Run)
		}
		return fmt.Sprintf("; the previous owner was %s (token %d): %s, at %s", e.InstanceID, e.Token, did, w.at(last))
	}
	return ""
}

// next says what runs next.
func (w *writer) next() {
	if _, ahead := w.Job.Condition(reason.Ahead); ahead {
		w.sayf("All ticks up to %s are already accounted for, because a clock was wrong or someone edited the record: nothing runs before then. "+
			"After that the job runs again. If that is too late, cancel it and submit it again, which loses its history.", w.at(w.Job.Watermark))
	}
	if next := w.Job.NextRun; !next.IsZero() && !next.Equal(w.Tick) {
		w.sayf("The next run is at %s.", w.at(next))
	}
}

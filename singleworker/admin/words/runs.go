package words

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/history"
)

// Note says of an entry what its state does not.
func Note(e history.Entry, zone *time.Location, now time.Time) string {
	var parts []string
	if e.Reason != "" {
		parts = append(parts, strings.ReplaceAll(string(e.Reason), "_", " "))
	}
	if e.Count > 1 {
		parts = append(parts, fmt.Sprintf("%d ticks until %s", e.Count, plain.Absolute(e.To, zone)))
	}
	if e.DelayedMillis > 0 {
		parts = append(parts, "waited "+plain.Span(time.Duration(e.DelayedMillis)*time.Millisecond)+" for other runs")
	}
	if e.TakenFrom != "" {
		parts = append(parts, e.TakenFrom+" had not claimed it")
	}
	if e.Effects != (history.Effects{}) {
		parts = append(parts, "not called: its effects were there"+byRun(e.Effects))
	}
	if e.AskedBy != "" {
		parts = append(parts, "asked for"+By(e.AskedBy, e.AskedReason))
	}
	if e.StoppedBy != "" && !strings.Contains(e.Error, e.StoppedBy) { // it did not end because of that
		parts = append(parts, "its end asked for"+By(e.StoppedBy, e.StoppedReason))
	}
	if e.Restarts > 0 {
		parts = append(parts, fmt.Sprintf("restart %d in a row", e.Restarts))
	}
	if e.Error != "" {
		parts = append(parts, plain.FirstLine(e.Error))
	}
	if e.NextAttempt != "" {
		parts = append(parts, fmt.Sprintf("%s %s", e.NextAttempt, plain.Relative(e.NextAttemptAt, now)))
	}
	return strings.Join(parts, ", ")
}

// byRun is ", by run 5f1c on app-2", or the part of it that is known.
func byRun(e history.Effects) string {
	text := ""
	if e.RunID != "" {
		text += ", by run " + e.RunID
	}
	if e.InstanceID != "" {
		text += " on " + e.InstanceID
	}
	return text
}

// By is " by alice@host: disk was full", or the part of it that is known.
func By(who, reason string) string {
	text := ""
	if who != "" {
		text += " by " + who
	}
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// Cause is why a run was made that the schedule did not ask for, and who did.
func Cause(run history.Run) string {
	text := "swctl trigger, request " + run.Manual
	if run.Past != "" {
		text = "swctl trigger --tick, which was " + string(run.Past) + ", request " + run.Manual
	}
	return text + By(run.AskedBy, run.AskedReason)
}

// Backfill is how far a backfill is. The time of its next tick is given as a text.
func Backfill(b admin.BackfillProgress, next string) string {
	return fmt.Sprintf("runs of past ticks, %d of %d begun, next %s", b.Taken, b.Total, next)
}

// StopAsked is who has asked for the end of a run of the job, and the remedy if it does not end.
func StopAsked(job admin.JobStatus, r admin.Request, now time.Time) string {
	text := strings.TrimSpace(plain.Relative(r.At, now) + By(r.By, r.Reason))
	for _, slot := range Slots(job) {
		if run := slot.LastRun; run != nil && run.RunID == r.RunID && run.State == history.StateRunning {
			return fmt.Sprintf("%s; the run has not ended: if its handler ignores its context, restart %s", text, run.InstanceID)
		}
	}
	return text
}

// Running names the instances that runs are in progress on.
func Running(runs []history.Entry) string {
	var on []string
	for _, run := range runs {
		if run.State == history.StateRunning && !slices.Contains(on, run.InstanceID) {
			on = append(on, run.InstanceID)
		}
	}
	return strings.Join(on, ", ")
}

// Outcome is "ok after 41s", or "failed after 41s: no route to host".
func Outcome(run history.Run) string {
	text := string(run.State)
	if !run.Ended.IsZero() && !run.Started.IsZero() {
		text += " after " + plain.Span(run.Ended.Sub(run.Started))
	}
	if run.Error != "" {
		text += ": " + plain.FirstLine(run.Error)
	}
	return text
}

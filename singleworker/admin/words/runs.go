package words

import (
	"fmt"
	"strings"
	"time"

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

package words

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/history"
)

// Event is what happened, in words.
func Event(ev admin.Event) string {
	parts := []string{happened(ev)}
	if ev.Paused {
		parts = append(parts, "paused")
	}
	if ev.Previous != "" {
		parts = append(parts, "before "+ev.Previous)
	}
	if ev.Continued {
		parts = append(parts, "as before")
	}
	if ev.Amended {
		parts = append(parts, "said late")
	}
	switch {
	case ev.Unseen == 1:
		parts = append(parts, "a change before it unseen")
	case ev.Unseen > 1:
		parts = append(parts, fmt.Sprintf("%d changes before it unseen", ev.Unseen))
	}
	if ev.Repeated {
		parts = append(parts, "maybe before --since")
	}
	return strings.Join(parts, ", ")
}

func happened(ev admin.Event) string {
	switch ev.Kind {
	case admin.EventWatching:
		return "watching from here on"
	case admin.EventJobSubmitted:
		return "submitted"
	case admin.EventJobChanged:
		return fmt.Sprintf("changed: v%d", ev.Version)
	case admin.EventJobCanceled:
		return "canceled"
	case admin.EventJobOwned:
		return "owned by " + ev.Owner.InstanceID
	case admin.EventJobUnowned:
		return "has no owner"
	case admin.EventJobTrouble:
		return trouble(ev)
	case admin.EventRunBegun:
		return fmt.Sprintf("run %s begins on %s: tick %s, attempt %d", ev.Entry.RunID, ev.Entry.InstanceID, plain.Absolute(ev.Entry.Tick, time.UTC), ev.Entry.Attempt)
	case admin.EventRunEnded:
		return fmt.Sprintf("run %s on %s: %s", ev.Entry.RunID, ev.Entry.InstanceID, Outcome(ev.Entry.Run))
	case admin.EventTicksSkipped, admin.EventTicksMissed:
		return notRun(*ev.Entry)
	case admin.EventInstanceJoined:
		return "joined: " + ev.State
	case admin.EventInstanceLeft:
		return "left"
	case admin.EventInstanceState:
		return changedState(ev)
	case admin.EventGap:
		return "NOT KNOWN: " + gap(*ev.Gap)
	}
	return string(ev.Kind) // of a newer version
}

// trouble says what is wrong with a job, or that nothing is any more.
func trouble(ev admin.Event) string {
	text := cmp.Or(Line(ev.Status.Conditions), "in order")
	if len(ev.Gone) > 0 {
		text += ", gone: " + strings.Join(ev.Gone, ", ")
	}
	return text
}

// notRun is "4 ticks skipped until 2026-11-21 03:00:00 UTC: no owner".
func notRun(e history.Entry) string {
	ticks := "tick of " + plain.Absolute(e.To, time.UTC) + " " + string(e.State)
	switch {
	case e.Count > 1:
		ticks = fmt.Sprintf("%d ticks %s until %s", e.Count, e.State, plain.Absolute(e.To, time.UTC))
	case e.Count == 0:
		ticks = fmt.Sprintf("ticks %s until %s", e.State, plain.Absolute(e.To, time.UTC))
	}
	return ticks + ": " + strings.ReplaceAll(string(e.Reason), "_", " ")
}

func changedState(ev admin.Event) string {
	if ev.PreviousState == "" {
		return "is " + ev.State
	}
	return "is " + ev.State + ", was " + ev.PreviousState
}

// gap says what the records do not tell.
func gap(g admin.Gap) string {
	some := "some"
	if g.Count > 0 {
		some = strconv.Itoa(g.Count)
	}
	switch g.What {
	case admin.GapRuns:
		return fmt.Sprintf("runs after zxid %d that the history no longer has", g.After)
	case admin.GapJobs:
		return fmt.Sprintf("jobs canceled, or submitted and canceled, after zxid %d: %s", g.After, some)
	case admin.GapInstances:
		return fmt.Sprintf("instances that left, or joined and left, after zxid %d: %s", g.After, some)
	case admin.GapLost:
		return fmt.Sprintf("all that happened before: ZooKeeper was restored, or emptied, and has lost transactions about zxid %d", g.After)
	case admin.GapRecord:
		return plain.FirstLine(g.Error)
	}
	return string(g.What)
}

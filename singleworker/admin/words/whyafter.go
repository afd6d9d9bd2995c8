package words

import (
	"fmt"
	"strings"

	"github.com/swjobs/singleworker/singleworker/history"
)

// parents says for which jobs the tick waits, and how they stand: "load, which has been running on
// app-2 since 03:10".
func (w *writer) parents() string {
	var parts []string
	for _, parent := range w.Job.WaitsFor {
		how := "which has not begun"
		switch run := parent.Run; {
		case run == nil:
		case run.State == history.StateRunning:
			how = fmt.Sprintf("which has been running on %s since %s", run.InstanceID, w.at(run.Started))
		default:
			how = fmt.Sprintf("which %s on %s and will run again (%s) at %s", ending(*run), run.InstanceID, run.NextAttempt, w.at(run.NextAttemptAt))
		}
		parts = append(parts, parent.Name+", "+how)
	}
	if len(parts) == 0 { // they were read before the job
		return strings.Join(w.Job.Job.After, " and ")
	}
	return strings.Join(parts, ", and for ")
}

// waitedFor names the jobs, or the function, for which ticks of the job wait.
func (w *writer) waitedFor() string {
	if len(w.Job.Job.After) > 0 {
		return strings.Join(w.Job.Job.After, ", ")
	}
	return "BeforeTick"
}

// limits says for which limits the run waits, and who holds their places: "limit crm-api: 2 of 2
// held by report since 03:10, sync since 03:12".
func (w *writer) limits() string {
	var limits []string
	for _, of := range w.Job.Limited {
		const most = 3
		text, holders := of.Words(), []string{}
		for i, place := range of.Held {
			if i == most {
				holders = append(holders, fmt.Sprintf("%d more", len(of.Held)-most))
				break
			}
			holders = append(holders, fmt.Sprintf("%s since %s", place.Slot, w.at(place.Since)))
		}
		if len(holders) > 0 {
			text += " by " + strings.Join(holders, ", ")
		}
		limits = append(limits, text)
	}
	return strings.Join(limits, ", and for ")
}

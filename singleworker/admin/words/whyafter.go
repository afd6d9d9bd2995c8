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

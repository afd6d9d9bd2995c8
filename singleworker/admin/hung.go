package admin

import (
	"time"

	"github.com/swjobs/singleworker/singleworker/internal/ticks"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Hung is a run in progress that takes so long that it seems to hang: longer than Job.HungAfter.
// Without that, ten times as long as 95 % of those in the history, or longer than twice the longest
// of them while two ticks have come due; and a minute at least. A job that always runs never hangs.
type Hung struct {
	RunID string `json:"run_id"`
	// Since is when it began, by the clock of its instance.
	Since time.Time `json:"since,omitzero"`
	// UsualMillis is how long 95 % of the runs in the history took at most, in milliseconds; 0 if the
	// history does not tell.
	UsualMillis int64 `json:"usual_ms,omitempty"`
}

// hung judges the run in progress of a slot.
func hung(j ticks.Job, run zkrec.Run, history zkrec.History, now time.Time) *Hung {
	from, usual := ticks.HangsFrom(j, run, history.Entries)
	if from.IsZero() || now.Before(from) {
		return nil
	}
	return &Hung{RunID: run.RunID, Since: zkrec.Time(run.Started), UsualMillis: usual.Milliseconds()}
}

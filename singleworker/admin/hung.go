package admin

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Hung is a run in progress that takes so much longer than those before it that it seems to hang: ten times as long as 95 % of those in
// the history, or longer than twice the longest of them while two ticks have come due; and a minute at least. A job that always runs
// never hangs.
type Hung struct {
	RunID string `json:"run_id"`
	// Since is when it began, by the clock of its instance.
	Since time.Time `json:"since,omitzero"`
	// UsualMillis is how long 95 % of the runs in the history took at most, in milliseconds; 0 if the history does not tell.
	UsualMillis int64 `json:"usual_ms,omitempty"`
}

// The times after which a run hangs.
const (
	hungAtLeast    = time.Minute
	hungTimesUsual = 10
	hungTimesLong  = 2
)

// hung judges the run in progress of a slot. overrun is the first tick that came due during it, or zero.
func hung(run zkrec.Run, history zkrec.History, schedule *cronexpr.Schedule, overrun, now time.Time) *Hung {
	took := now.Sub(time.UnixMilli(run.Started))
	if schedule.Always() || took < hungAtLeast {
		return nil
	}
	var before []time.Duration
	for _, e := range history.Entries {
		ended := e.State == RunOK || e.State == RunFailed || e.State == RunTimedOut
		if ended && e.Ended >= e.Started {
			before = append(before, time.Duration(e.Ended-e.Started)*time.Millisecond)
		}
	}
	slices.Sort(before)
	var usual, longest time.Duration
	if n := len(before); n > 0 {
		usual, longest = before[(n*95+99)/100-1], before[n-1]
	}
	twoDue := false
	if !overrun.IsZero() {
		next := schedule.Next(overrun)
		twoDue = !next.IsZero() && !next.After(now)
	}
	if len(before) > 0 && took >= hungTimesUsual*usual || twoDue && took > hungTimesLong*longest {
		return &Hung{RunID: run.RunID, Since: milli(run.Started), UsualMillis: usual.Milliseconds()}
	}
	return nil
}

package bench

import (
	"testing"
	"time"
)

// Of two jobs with two ticks each, one run is late, one is run twice and a third time after an
// interruption, one is in the history, and nothing is known of the last. A third job's first
// attempts were cut off before they began.
func TestJudge(t *testing.T) {
	first := time.Unix(1000, 0)
	const period = 20 * time.Second
	last := first.Add(period)
	v := judge(Report{
		Runs: []Ran{
			{Job: JobName(0), Tick: first.Unix() - 20, Attempt: 1, Late: time.Hour}, // before
			{Job: JobName(0), Tick: first.Unix(), Attempt: 1, Late: 70 * time.Millisecond},
			{Job: JobName(0), Tick: last.Unix(), Attempt: 1, Late: 10 * time.Millisecond},
			{Job: JobName(0), Tick: last.Unix(), Attempt: 1, Late: 20 * time.Millisecond},
			{Job: JobName(0), Tick: last.Unix(), Attempt: 2, Late: time.Second},
			{Job: JobName(2), Tick: first.Unix(), Attempt: 2, Late: 2 * time.Second},
			{Job: JobName(2), Tick: last.Unix(), Attempt: 2, Late: 3 * time.Second},
		},
		Rows: []Row{{Job: JobName(1), From: first.Unix() - 40, To: first.Unix()}},
	}, 3, first, last, period)
	if len(v.late) != 4 || v.late[1] != 70*time.Millisecond || v.twice != 1 || v.again != 3 || v.recorded != 1 || v.unexplained != 1 {
		t.Errorf("%+v", v)
	}
	if len(v.latest) != 2 || v.latest[0] != 2*time.Second || v.latest[1] != 3*time.Second {
		t.Errorf("latest by burst: %v", v.latest)
	}
}

package bench

import (
	"testing"
	"time"
)

// Of two jobs with two ticks each, one run is late, one is run twice and a third time after an interruption, one is in the
// history, and nothing is known of the last.
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
		},
		Rows: []Row{{Job: JobName(1), From: first.Unix() - 40, To: first.Unix()}},
	}, 2, first, last, period)
	if len(v.late) != 3 || v.late[2] != 70*time.Millisecond || v.twice != 1 || v.again != 1 || v.recorded != 1 || v.unexplained != 1 {
		t.Errorf("%+v", v)
	}
	if len(v.last) != 2 || v.last[0] != 70*time.Millisecond || v.last[1] != 20*time.Millisecond {
		t.Errorf("latest by burst: %v", v.last)
	}
}

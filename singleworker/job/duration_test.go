package job_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/job"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "90m": 90 * time.Minute, "-5s": -5 * time.Second, "1.5h": 90 * time.Minute, "1d": day, "2w": 14 * day, "1w2d3h4m": 9*day + 3*time.Hour + 4*time.Minute,
		"0d": 0, "9999d": 9999 * day, "1d1.5h": day + 90*time.Minute, "1d500ms": day + 500*time.Millisecond,
	} {
		if got, err := job.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "w", "1", "1d2w", "1d1d", "-1d", "1d-1h", "1.5d", "10000w", "1 d", "9999w2000000h", "1x", "d1h"} {
		if got, err := job.ParseDuration(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
	var read job.Job
	if err := json.Unmarshal([]byte(`{"name":"a","keep_done":"2w"}`), &read); err != nil || read.KeepDone != 14*day {
		t.Errorf("%v, %v", read.KeepDone, err)
	}
}

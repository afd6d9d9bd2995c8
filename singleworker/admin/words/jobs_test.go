package words

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
)

// However many instances own the shards, the column stays narrow.
func TestOwnerSummary(t *testing.T) {
	t.Parallel()
	var shards []admin.JobStatus
	for i := range 100 {
		shard := admin.JobStatus{State: admin.StateOwned, Owner: &admin.Owner{InstanceID: fmt.Sprintf("app-%d", i%7)}}
		if i%10 == 9 { // its owner is dead
			shard.State = admin.StateUnowned
		}
		shards = append(shards, shard)
	}
	if got, want := Owners(shards), "90/100 app-0(14) app-1(13) app-3(13) app-4(13) +3 more"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, shard := range []admin.JobStatus{{State: admin.StateUnowned}, {State: admin.StateInvalid}} {
		if got := Owners([]admin.JobStatus{shard}); got != "0/1" {
			t.Errorf("%s: %s, want 0/1", shard.State, got)
		}
	}
}

// A run that hangs is what is most worth knowing of a job that has an owner.
func TestHungRun(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	job := admin.JobStatus{Name: "report", State: admin.StateOwned, Hung: &admin.Hung{RunID: "a", Since: now.Add(-3 * time.Hour), UsualMillis: 120_000}}
	const hangs = "hangs: it has been running for 3h, and 95% of its runs took at most 2m"
	for _, row := range []struct {
		usual   int64
		overrun time.Time
		want    string
	}{
		{120_000, time.Time{}, hangs},
		{120_000, now.Add(-time.Hour), hangs + "; ticks since 2026-11-22 11:00:00 UTC are skipped"},
		{0, time.Time{}, "hangs: it has been running for 3h"},
	} {
		job.Hung.UsualMillis, job.Overrun = row.usual, row.overrun
		job.SetConditions(now)
		if state, cause := Health(job), Line(job.Conditions); state != "hung" || cause != row.want {
			t.Errorf("%s, %s; want hung, %s", state, cause, row.want)
		}
	}
	entry := history.Entry{Run: history.Run{RunID: "a", State: history.StateRunning, InstanceID: "app-1", Started: job.Hung.Since, Attempt: 1}}
	job.Owner = &admin.Owner{InstanceID: "app-1", Since: job.Hung.Since}
	if all := strings.Join(Why(admin.Explanation{Job: job, Tick: job.Hung.Since, At: now, Fate: history.StateRunning, Entries: []history.Entry{entry}}), " "); !strings.Contains(all, "It hangs: it has been running for 3h.") {
		t.Error(all)
	}
}

package notify

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
	"github.com/swjobs/singleworker/singleworker/history"
)

// stand is the event of a job of which something else is wrong than before.
func stand(job admin.JobStatus, at time.Time, gone ...string) admin.Event {
	job.SetConditions(at)
	return admin.Event{Kind: admin.EventJobTrouble, Job: job.Name, At: at, Status: &job, Gone: gone}
}

// A late job is a state: it begins and ends with the job's state.
func TestLateJobs(t *testing.T) {
	t.Parallel()
	b := toOps()
	late := admin.JobStatus{Name: "report", Overdue: noon}
	hour := noon
	told := func(job admin.JobStatus, gone ...string) []string {
		hour = hour.Add(time.Hour)
		b.take(stand(job, hour, gone...))
		return tellOps(b)
	}
	wantSaid(t, told(admin.JobStatus{Name: "report"}))
	wantSaid(t, told(late), "report late, since 2026-11-22 12:00:00 UTC")
	late.Overdue = noon.Add(time.Hour)
	wantSaid(t, told(late))
	wantSaid(t, told(admin.JobStatus{Name: "report"}), "report is no longer late, since 2026-11-22 12:00:00 UTC")
	wantSaid(t, told(late), "report late, since 2026-11-22 13:00:00 UTC")
	b.take(admin.Event{Kind: admin.EventJobCanceled, Job: "report", At: hour})
	wantSaid(t, tellOps(b), "report was canceled, since 2026-11-22 13:00:00 UTC")
	parts := admin.JobStatus{Name: "report", Slots: []admin.JobStatus{{Name: "report[0]"}, {Name: "report[1]", Overdue: noon}}}
	parts.Overdue = noon // as that of the first that is late
	wantSaid(t, told(parts), "report[1] late, since 2026-11-22 12:00:00 UTC")
	b.take(ran("report[0]", "a", history.StateFailed, 0))
	wantSaid(t, tellOps(b), "report[0] failed, since 2026-11-22 12:00:00 UTC, on app-1: no paper")
	wantSaid(t, told(admin.JobStatus{Name: "report"}, "report[0]", "report[1]"),
		"report[0] was canceled after 1 failed run, since 2026-11-22 12:00:00 UTC", "report[1] was canceled, since 2026-11-22 12:00:00 UTC")
	parts.State, parts.Reason = admin.StateInvalid, reason.Reason{Code: reason.Denied}
	wantSaid(t, told(parts), "report late", "report[1] late, since 2026-11-22 12:00:00 UTC")
	parts.State, parts.Reason = admin.StateOwned, reason.Reason{}
	wantSaid(t, told(parts), "report is no longer late") // its second shard is
}

// The next sender ends episodes that are over, of jobs and shards that are gone, too.
func TestTermBeginsWithTheJobsAsTheyAre(t *testing.T) {
	t.Parallel()
	b := toOps()
	for _, name := range []string{"well", "late", "gone", "shard"} {
		job := admin.JobStatus{Name: name, Overdue: noon}
		if name == "shard" {
			job.Slots = []admin.JobStatus{{Name: "shard[0]", Overdue: noon}, {Name: "shard[1]", Overdue: noon}}
		}
		b.take(stand(job, noon))
	}
	tellOps(b)
	next := restarted(t, b)
	jobs := []admin.JobStatus{
		{Name: "well"}, {Name: "late", Overdue: noon}, {Name: "new", Overdue: noon},
		{Name: "shard", Slots: []admin.JobStatus{{Name: "shard[0]", Overdue: noon}}},
	}
	for i := range jobs {
		jobs[i].SetConditions(noon)
	}
	next.begin(jobs, noon.Add(time.Hour))
	wantSaid(t, tellOps(next),
		"gone was canceled, since 2026-11-22 12:00:00 UTC", "new late, since 2026-11-22 12:00:00 UTC",
		"shard[1] was canceled, since 2026-11-22 12:00:00 UTC", "well is no longer late, since 2026-11-22 12:00:00 UTC")
}

package commands

import (
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// families has a diamond whose end waits, a pair, a circle that somebody made by hand, a job whose
// parent is gone, and one without relatives.
func families(h *harness) {
	h.fake.jobs = make(map[string]admin.JobStatus)
	for child, after := range map[string]string{
		"alone": "", "extract": "", "clean": "extract", "load": "extract", "report": "clean load", "mail": "report",
		"dump": "", "upload": "dump", "egg": "hen", "hen": "egg", "orphan": "gone",
	} {
		status := admin.JobStatus{
			Name: child, State: admin.StateOwned, Owner: &admin.Owner{InstanceID: "app-1"}, NextRun: testNow.Add(time.Hour),
			Job: job.Job{Name: child, Schedule: "@hourly", After: strings.Fields(after)},
		}
		if after != "" {
			status.Job.Schedule = "@after"
		}
		h.fake.jobs[child] = status
	}
	report := h.fake.jobs["report"]
	report.Waiting = testNow.Add(-time.Minute)
	report.WaitsFor = []admin.Parent{{Name: "load", Run: &history.Run{Tick: report.Waiting, State: history.StateRunning, InstanceID: "app-2", Started: report.Waiting}}}
	h.fake.jobs["report"] = report
}

func TestTreeGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	families(h)
	texts := []string{
		h.transcript("tree"), h.transcript("tree", "load"), h.transcript("tree", "ma*", "upload"), h.transcript("tree", "alone"), h.transcript("list", "report"),
	}
	h.fake.jobs = nil
	golden(t, "tree", strings.Join(append(texts, h.transcript("tree")), "\n"))
}

// In JSON each job is there once, in the order of the table.
func TestTreeJSON(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":      "dump upload extract clean report mail load orphan egg hen",
		"load":  "extract load report mail",
		"mail":  "extract clean report mail load",
		"alone": "",
	} {
		h := newHarness(t)
		families(h)
		if code := h.exec(append([]string{"tree", "-o", "name"}, strings.Fields(line)...)...); code != cmdline.ExitOK || strings.Join(strings.Fields(h.out.String()), " ") != want {
			t.Errorf("tree %s: exit %d, %q; want %q; %s", line, code, h.out.String(), want, h.errs.String())
		}
	}
}

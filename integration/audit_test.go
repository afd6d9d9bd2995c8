package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/integration/zkserver"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/txnaudit"
)

// audit audits the cluster's group by the files of its server.
func (c *cluster) audit() txnaudit.Report {
	c.t.Helper()
	report, err := txnaudit.Run(c.t.Context(), txnaudit.Options{Dirs: []string{c.server.LogDir()}, ServerType: c.group, Chroot: c.chroot})
	c.must(err)
	return report
}

// TestAudit audits a group that has lost an instance and its server, was resharded, got another
// schedule and was asked for a run: by the log from its beginning, and by a snapshot and the log
// after it. Then somebody writes a claim manually.
func TestAudit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, zkserver.Start(t))
	c.submitAll(4, "job")
	c.submitJob(job.Job{Name: "shards", Schedule: everySecond, Handler: work, Shards: 3}, admin.SubmitOptions{})
	c.submitJob(job.Job{Name: "failing", Schedule: "*/2 * * * * ?", Handler: fails, Retries: 1, Backoff: 100 * time.Millisecond}, admin.SubmitOptions{})
	a, b := c.spawn(options{}), c.start(options{})
	c.awaitShards("shards", 3, 2)
	c.awaitRun("job-000", time.Time{})
	a.kill()
	killed := time.Now()
	c.awaitRun("job-000", killed, on(b.id))
	c.server.Restart() // which writes a snapshot
	restarted := time.Now()
	c.awaitRun("job-001", restarted)
	_, err := c.admin.Trigger(t.Context(), "job-002", admin.TriggerOptions{})
	c.must(err)
	for name, change := range map[string]func(*job.Job) error{
		"shards":  func(j *job.Job) error { j.Shards = 2; return nil },
		"job-003": func(j *job.Job) error { j.Schedule = "*/2 * * * * ?"; return nil },
	} {
		_, err := c.admin.Edit(t.Context(), name, change, admin.EditOptions{})
		c.must(err)
	}
	c.awaitRun("job-002", restarted, func(r run) bool { return r.Manual })
	c.start(options{})
	c.awaitShards("shards", 2, 2)
	c.eventually("a complete tick", func() error {
		if s := c.get("shards"); s.Complete.Before(restarted) {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})

	report := c.audit()
	t.Logf("%+v", report)
	if n := report.Counts; !report.OK || !report.Whole || n.Claims < 20 || n.OwnerChanges < 8 || n.Takeovers == 0 || n.Ticks < n.Claims ||
		n.Layouts != 1 || n.ManualRuns != 1 || n.Attempts == 0 || n.Complete == 0 || n.Unjudged > 0 {
		t.Errorf("audit: %+v", report)
	}

	ctl := c.swctl(buildSwctl(t))
	if shown := ctl.run(exitOK, "audit", "--txnlog", c.server.LogDir()).stdout; !strings.Contains(shown, "PASS") {
		t.Errorf("swctl audit: %s", shown)
	}

	raw := c.raw("")
	data, _, err := raw.Get(c.node("job-000", "tick"))
	c.must(err)
	var claim map[string]any
	c.must(json.Unmarshal(data, &claim))
	claim["run_id"], claim["state"] = "forged", "running"
	delete(claim, "ended")
	data, err = json.Marshal(claim)
	c.must(err)
	_, err = raw.Set(c.node("job-000", "tick"), data, -1)
	c.must(err)
	report = c.audit()
	if v := report.Violations; report.OK || len(v) < 2 || v[0].Rule != "claimant" || v[1].Rule != "claim" || v[1].Job != "job-000" ||
		v[1].Session != txnaudit.Hex(raw.SessionID()) {
		t.Errorf("the forged claim is not found: %+v", report)
	}
	forged := ctl.run(exitNo, "audit", "--txnlog", c.server.LogDir(), "-o", "json").stdout
	if first := decode[txnaudit.Report](t, forged); first.OK || len(first.Around) == 0 || first.Violations[0].Job != "job-000" {
		t.Errorf("swctl audit: %s", forged)
	}

	if _, err := txnaudit.Run(t.Context(), txnaudit.Options{Dirs: []string{c.server.LogDir()}, ServerType: "other"}); !errors.Is(err, txnaudit.ErrNoGroup) {
		t.Errorf("a group that is not there: %v", err)
	}
}

package main

import (
	"context"
	"strings"

	"github.com/swjobs/singleworker/singleworker/admin"
)

func (a *app) listCommand() *command {
	return &command{
		name: "list", aliases: []string{"ls"},
		short: "show all jobs: who owns them, how they ran, when they run next",
		long: `STATE is owned, unowned or invalid; of a job that is owned, paused or late say
more: late means that a tick is not accounted for though it is overdue by the job's
--alarm-after. The column REASON appears when a job has one to give. LAST and NEXT are
counted from now: "ok 8h ago" is the tick of 8 h ago, "unknown" a run whose owner
died before it could write the result.`,
		examples: `swctl list
swctl list -o json | jq -r '.items[] | select(.owner == null) | .name'
swctl list -o json | jq -r '.items[] | select(.overdue_tick) | .name'`,
		run: a.action(list),
	}
}

func list(ctx context.Context, c *call) error {
	if len(c.args) > 0 {
		return usage("list takes no arguments").try("swctl show %s", quoted(c.args[0]))
	}
	var jobs []admin.JobStatus
	err := c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		jobs, err = cl.List(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if c.json {
		return c.putJSON(listOf("JobList", jobs, jobToJSON))
	}
	c.jobTable(jobs).write(&c.out, "")
	if len(jobs) == 0 {
		c.notef("server type %s at %s has no jobs", c.serverType, c.zk)
	}
	return nil
}

// jobTable has a column of reasons only if a job has one to give.
func (c *call) jobTable(jobs []admin.JobStatus) *table {
	header := []string{"NAME", "SCHEDULE", "ZONE", "STATE", "OWNER", "LAST", "NEXT"}
	reasons := false
	for _, job := range jobs {
		reasons = reasons || c.reason(job) != ""
	}
	if reasons {
		header = append(header, "REASON")
	}
	t := &table{}
	t.row(header...)
	for _, job := range jobs {
		row := []string{
			job.Name, job.Schedule, zoneName(job.Job), stateWord(job), "",
			c.lastRun(job.LastRun), relative(job.NextRun, c.now()),
		}
		if job.Owner != nil {
			row[4] = job.Owner.InstanceID
		}
		if reasons {
			row = append(row, c.reason(job))
		}
		t.row(row...)
	}
	return t
}

// stateWord is the state of a job, or what is more worth knowing of it.
func stateWord(job admin.JobStatus) string {
	switch {
	case job.State != admin.Owned:
	case job.Paused != nil:
		return "paused"
	case !job.Overdue.IsZero():
		return "late"
	}
	return string(job.State)
}

// reason says why a job does not run as its schedule has it.
func (c *call) reason(job admin.JobStatus) string {
	var parts []string
	zone := zoneOf(job.Job)
	if job.Paused != nil {
		parts = append(parts, "paused "+pauseText(*job.Paused, c.now(), zone))
	}
	if !job.Overdue.IsZero() {
		parts = append(parts, "late since "+moment(job.Overdue, c.now(), zone))
	}
	if job.Reason != "" {
		parts = append(parts, firstLine(job.Reason))
	}
	return strings.Join(parts, "; ")
}

// lastRun is "ok 8h ago" or "running 41s".
func (c *call) lastRun(run *admin.Run) string {
	switch {
	case run == nil:
		return ""
	case run.State == admin.RunRunning:
		return "running " + span(c.now().Sub(run.Started))
	}
	return strings.TrimSpace(run.State + " " + relative(run.Tick, c.now()))
}

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func (a *app) listCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "list", Aliases: []string{"ls"},
		Short: "show all jobs: their owners, last runs and next runs",
		Long: `STATE is owned, unowned or invalid, or, for a job that is owned, paused or late: late
means that a tick is overdue by the job's --alarm-after. The column REASON appears when a
job has one. LAST and NEXT are relative to now: "ok 8h ago" is the tick of 8 h ago;
"unknown" is a run whose owner died before it could record the result.

A job with shards is one row: it is unowned while one of its shards is; OWNER is like
"3/4 app-1(2) app-2(1)", 3 of 4 shards owned and by which instances; LAST counts the
results of the last tick: "1 failed, 3 ok, 8h ago". It is resizing while a change of its
shards is in progress. -o wide has a row per shard instead, and more columns.`,
		Examples: `swctl list
swctl list -o wide
swctl list -l team=billing -l tier=gold
swctl list -o json | jq -r '.items[] | select(.state == "unowned") | .name'
swctl list -o json | jq -r '.items[] | select(.overdue_tick) | .name'`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: flagLabel, Aliases: []string{"l"}, Usage: "`KEY=VALUE` only jobs with this label; may be repeated, and then all must match"},
		},
		Run: a.run(list),
	}
}

func list(ctx context.Context, c *call) error {
	if len(c.Args) > 0 {
		return cmdline.Usage("list takes no arguments").Try("swctl show %s", output.Quoted(c.Args[0]))
	}
	labels, err := c.Pairs(flagLabel)
	if err != nil {
		return err
	}
	var jobs []admin.JobStatus
	var instances []admin.Instance
	err = c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		if jobs, err = cl.List(ctx); err == nil && len(jobs) == 0 {
			instances, err = cl.Instances(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	found := len(jobs)
	jobs = slices.DeleteFunc(jobs, func(job admin.JobStatus) bool { return !hasLabels(job, labels) })
	if c.JSON {
		return c.PutJSON(api.List("JobList", jobs))
	}
	if c.Wide {
		c.wideTable(jobs).Write(&c.Out, "")
	} else {
		c.jobTable(jobs).Write(&c.Out, "")
	}
	switch {
	case len(jobs) > 0:
	case found > 0:
		c.Notef("no job of server type %s at %s has these labels", c.ServerType, c.ZK)
	case len(instances) > 0:
		c.Notef("server type %s at %s has no jobs", c.ServerType, c.ZK)
	default:
		c.Notef("server type %s at %s has no jobs, and no running instances: are the name and the chroot right?", c.ServerType, c.ZK)
	}
	return nil
}

func hasLabels(job admin.JobStatus, labels map[string]string) bool {
	for key, want := range labels {
		if value, ok := job.Job.Labels[key]; !ok || value != want {
			return false
		}
	}
	return true
}

// jobTable has a column of reasons only if a job has one to give.
func (c *call) jobTable(jobs []admin.JobStatus) *output.Table {
	header := []string{"NAME", "SCHEDULE", "ZONE", "STATE", "OWNER", "LAST", "NEXT"}
	reasons := false
	for _, job := range jobs {
		reasons = reasons || c.reason(job) != ""
	}
	if reasons {
		header = append(header, "REASON")
	}
	t := &output.Table{}
	t.Row(header...)
	for _, job := range jobs {
		owner, _, _ := ownerCells(job, c.Now())
		last := c.lastRun(job.LastRun)
		if len(job.Slots) > 0 {
			owner, last = ownerSummary(job.Slots), c.lastSummary(job.Slots)
		}
		row := []string{job.Name, job.Job.Schedule, job.Job.TimeZone, stateWord(job), owner, last, output.Relative(job.NextRun, c.Now())}
		if reasons {
			row = append(row, c.reason(job))
		}
		t.Row(row...)
	}
	return t
}

// wideTable has a row for each job, or for each of its shards.
func (c *call) wideTable(jobs []admin.JobStatus) *output.Table {
	t := &output.Table{}
	t.Row("NAME", "SCHEDULE", "ZONE", "HANDLER", "PARAMETER", "STATE", "OWNER", "SINCE", "TOKEN", "LAST", "NEXT", "REASON")
	for _, job := range jobs {
		for _, slot := range slotsOf(job) {
			param := ""
			if slot.Shard != nil {
				param = slot.Shard.Parameter
			}
			owner, since, token := ownerCells(slot, c.Now())
			t.Row(slot.Name, slot.Job.Schedule, slot.Job.TimeZone, slot.Job.Handler, param, stateWord(slot), owner, since, token,
				c.lastRun(slot.LastRun), output.Relative(slot.NextRun, c.Now()), c.reason(slot))
		}
	}
	return t
}

// stateWord is the state of a job, or what is more worth knowing of it.
func stateWord(job admin.JobStatus) string {
	switch {
	case job.State != admin.StateOwned:
	case job.Paused != nil:
		return "paused"
	case !job.Overdue.IsZero():
		return "late"
	case job.Resizing != nil:
		return "resizing"
	}
	return string(job.State)
}

// reason says why a job does not run as its schedule has it.
func (c *call) reason(job admin.JobStatus) string {
	var parts []string
	zone := zoneOf(job.Job)
	if job.Paused != nil {
		parts = append(parts, "paused "+pauseText(*job.Paused, c.Now(), zone))
	}
	if !job.Overdue.IsZero() {
		parts = append(parts, "late since "+output.Moment(job.Overdue, c.Now(), zone))
	}
	if job.Resizing != nil {
		parts = append(parts, "resizing "+job.Resizing.String())
	}
	if job.Reason != "" {
		parts = append(parts, output.FirstLine(job.Reason))
	}
	return strings.Join(parts, "; ")
}

// lastRun is "ok 8h ago" or "running 41s".
func (c *call) lastRun(run *admin.Run) string {
	switch {
	case run == nil:
		return ""
	case run.State == admin.RunRunning:
		return "running " + output.Span(c.Now().Sub(run.Started))
	}
	return strings.TrimSpace(run.State + " " + output.Relative(run.Tick, c.Now()))
}

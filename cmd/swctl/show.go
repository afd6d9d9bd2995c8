package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func (a *app) showCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "show", Args: "NAME",
		Short: "show everything about one job",
		Long: `Times are in the job's time zone. A job with shards has a row per shard; NAME[3] shows
shard 3 only. Complete is the tick up to which all shards are done. While a change of the
shards is in progress, Resizing says what it waits for.`,
		Examples: `swctl show nightly
swctl show 'import[3]'
swctl show import -o json | jq -r '.shards[] | select(.state == "unowned") | .shard.index'
swctl show nightly -o json | jq .last_run.error
swctl show nightly -o json | jq .paused`,
		Run: a.run(show),
	}
}

func show(ctx context.Context, c *call) error {
	if len(c.Args) != 1 {
		return cmdline.Usage("show needs the name of one job").Try("swctl show NAME; swctl list shows all jobs")
	}
	var job admin.JobStatus
	var requests []admin.Request
	err := c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		if job, err = cl.Get(ctx, c.Args[0]); err != nil || job.State == admin.StateInvalid {
			return err
		}
		requests, err = cl.Requests(ctx, c.Args[0])
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PutJSON(api.Job(job, requests))
	}
	c.describe(job)
	if len(requests) > 0 {
		c.field("Requests", fmt.Sprintf("%d pending, the first %s; see swctl requests %s", len(requests),
			output.Relative(requests[0].At, c.Now()), output.Quoted(job.Name)))
	}
	return nil
}

// field writes one line of a description, or more if the text has more, all
// with the same indent.
func (c *call) field(label, text string) {
	const indent = 12
	for line := range strings.SplitSeq(cmp.Or(strings.TrimSpace(text), "-"), "\n") {
		fmt.Fprintf(&c.Out, "%-*s%s\n", indent, label, output.Printable(strings.TrimRight(line, "\r")))
		label = ""
	}
}

func (c *call) describe(job admin.JobStatus) {
	loc := zoneOf(job.Job)
	c.field("Name", job.Name)
	if job.Shard != nil {
		c.field("Shard", fmt.Sprintf("%d of %d, from 0", job.Shard.Index, job.Shard.Total))
		c.field("Parameter", job.Shard.Parameter)
	}
	c.field("State", string(job.State))
	if job.Reason != "" {
		c.field("Reason", job.Reason)
	}
	if job.Paused != nil {
		c.field("Paused", pauseText(*job.Paused, c.Now(), loc))
		c.field("  since", output.Moment(job.Paused.Since, c.Now(), loc))
	}
	if !job.Overdue.IsZero() {
		c.field("Late", fmt.Sprintf("since %s: that tick is neither claimed nor skipped", output.Moment(job.Overdue, c.Now(), loc)))
	}
	if job.Resizing != nil {
		c.field("Resizing", c.resizingText(job))
	}
	if a := job.Alarm; a != nil {
		c.field("Last alarm", fmt.Sprintf("the tick of %s was missing; reported by %s %s",
			output.Absolute(a.Tick, loc), a.InstanceID, output.Relative(a.At, c.Now())))
	}
	c.describeFields(job.Job)
	c.field("Version", fmt.Sprintf("v%d", job.Version))
	if job.Declared {
		c.field("Declared", "in code, unchanged")
	} else {
		c.field("Declared", "no; submitted or changed by an operator")
	}
	if len(job.Slots) > 0 {
		c.describeShards(job)
		return
	}
	owner := ""
	if o := job.Owner; o != nil {
		owner = fmt.Sprintf("%s since %s, token %d", o.InstanceID, output.Moment(o.Since, c.Now(), loc), o.Token)
	}
	c.field("Owner", owner)
	c.field("Registered", strings.Join(job.Registered, ", "))
	c.field("Next run", output.Moment(job.NextRun, c.Now(), loc))
	c.describeRun(job.LastRun, loc)
}

// describeShards says of a job with shards what describe says of any other.
func (c *call) describeShards(job admin.JobStatus) {
	loc := zoneOf(job.Job)
	c.field("Registered", strings.Join(job.Registered, ", "))
	c.field("Next run", output.Moment(job.NextRun, c.Now(), loc))
	c.field("Last run", c.lastSummary(job.Slots))
	c.field("Complete", output.Moment(job.Complete, c.Now(), loc))
	c.field("Shards", ownerSummary(job.Slots))
	c.shardTable(job).Write(&c.Out, "  ")
}

func (c *call) describeRun(run *admin.Run, loc *time.Location) {
	switch {
	case run == nil:
		c.field("Last run", "")
		return
	case run.Tick.IsZero(): // its record cannot be read
		c.field("Last run", run.State)
		c.field("  error", run.Error)
		return
	}
	c.field("Last run", fmt.Sprintf("%s: the tick of %s", run.State, output.Moment(run.Tick, c.Now(), loc)))
	if run.Manual != "" {
		c.field("  cause", "swctl trigger, request "+run.Manual)
	}
	c.field("  on", fmt.Sprintf("%s, token %d, attempt %d, run %s", run.InstanceID, run.Token, run.Attempt, run.RunID))
	c.field("  started", output.Absolute(run.Started, loc))
	ended := output.Absolute(run.Ended, loc)
	if ended != "" {
		ended = fmt.Sprintf("%s, after %s", ended, output.Span(run.Ended.Sub(run.Started)))
	}
	c.field("  ended", ended)
	if run.Error != "" {
		c.field("  error", run.Error)
	}
	if run.NextAttempt != "" {
		c.field("  "+run.NextAttempt, output.Moment(run.NextAttemptAt, c.Now(), loc))
	}
}

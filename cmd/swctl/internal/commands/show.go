package commands

import (
	"context"
	"errors"
	"math"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

func showCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "show", Args: "NAME",
		Short: "show everything about one job",
		Long: `Times are in the job's time zone. A job with shards has a row per shard; NAME[3] shows
shard 3 only. One that runs on every instance has a row for each; NAME/ID shows one. Complete is the tick up to which all shards are done. While a change of the
shards is in progress, Resizing says what it waits for. What is wrong with the job stands below
its State: what that means, and a command to try.

Version counts the changes of the job. --version N shows what it was in version N, and who
made it that; --diff only what is another way now. The last 10 versions are kept.`,
		Examples: `swctl show nightly
swctl show 'import[3]'
swctl show import -o json | jq -r '.shards[] | select(.state != "ok") | .shard.index'
swctl show nightly -o json | jq .last_run.error
swctl show nightly -o json | jq .paused
swctl show nightly --version 3 --diff`,
		Flags: []cmdline.Flag{
			{Name: flagVersion, Usage: "`N` show a former version"},
			{Name: flagDiff, Usage: "with --version: only what differs from the job as it is"},
		},
		Run: e.reads(show),
	}
}

func show(ctx context.Context, c *call) error {
	name, err := jobName(c.Call)
	if err != nil {
		return err
	}
	number, err := c.Number(flagVersion, 0, 1, math.MaxInt32)
	switch {
	case err != nil:
		return err
	case number > 0:
		return showVersion(ctx, c, name, number)
	case c.Flags.Bool(flagDiff):
		return cmdline.Usage("show: --%s needs --%s", flagDiff, flagVersion).Try("swctl show %s --version N --diff", plain.Quoted(name))
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		d, err := client.Job(ctx, name)
		if err != nil {
			return err
		}
		job := d.Job
		var present admin.JobVersion
		if job.Number > 1 {
			present, err = client.Version(ctx, jobOf(name), job.Number)
			if err != nil && !errors.Is(err, admin.ErrNoVersion) && !errors.Is(err, admin.ErrUnreadable) && !errors.Is(err, admin.ErrDenied) {
				return err
			}
		}
		return c.put(api.Job(job, d.Requests), func(p render.Page) { p.Job(job, d.Requests, present) })
	})
}

const (
	flagVersion = "version"
	flagDiff    = "diff"
)

// showVersion shows a job as it was.
func showVersion(ctx context.Context, c *call, name string, number int) error {
	if err := wholeJobs(c.Call, name); err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		version, err := client.Version(ctx, name, number)
		if err != nil {
			return err
		}
		var present *job.Job // with --diff
		if c.Flags.Bool(flagDiff) {
			status, err := client.Get(ctx, name)
			if err != nil {
				return err
			}
			present = &status.Job
		}
		return c.put(api.New("JobVersion", version, struct {
			Present *job.Job `json:"present,omitempty"`
		}{present}), func(p render.Page) { p.JobVersion(version, present) })
	})
}

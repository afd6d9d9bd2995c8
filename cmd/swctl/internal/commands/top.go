package commands

import (
	"cmp"
	"context"
	"slices"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
)

func topCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name:  "top",
		Short: "show on one screen how the group is: instances, trouble, runs in progress",
		Long: `The first line counts the jobs by their state. Below it are the instances, with how many
of the runs in progress each has, and then jobs: those that need attention, the worst first,
those that run, the longest run first, and those that are due next.

On a terminal it is drawn again every second until interrupted. Jobs are read again when
something has changed. Elsewhere it is printed once: for programs there are swctl list -o json,
swctl instances -o json, and swctl watch.`,
		Examples: `swctl top
swctl top --server-type billing
swctl top | head -1`,
		Run: e.reads(top),
	}
}

func top(ctx context.Context, c *call) error {
	if err := c.NoArgs("swctl list NAME"); err != nil {
		return err
	}
	if c.JSON {
		return cmdline.Usage("top is for people").Try("swctl list -o json, or swctl instances -o json")
	}
	var jobs []admin.JobStatus
	var instances []admin.Instance
	look := func(ctx context.Context, client group.Client) (err error) {
		if jobs, err = client.List(ctx); err == nil {
			instances, err = client.Instances(ctx)
		}
		if err == nil && len(jobs)+len(instances) == 0 {
			err = empty(ctx, c.Settings, client)
		}
		now := c.now() // the order of the runs in progress stays until the next look
		slices.SortStableFunc(jobs, func(a, b admin.JobStatus) int {
			return cmp.Or(orders["state"](troubled(a), troubled(b)), cmp.Compare(render.Running(b, now), render.Running(a, now)), orders["next"](a, b))
		})
		return err
	}
	draw := func() { c.page().Top(instances, jobs) }
	if columns, _, _ := c.Screen(); columns > 0 {
		return watching(ctx, c, look, func() error { draw(); return nil })
	}
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		err := look(ctx, client)
		if err == nil {
			draw()
		}
		return err
	})
}

// troubled is a job without the conditions that are meant, such as a pause.
func troubled(job admin.JobStatus) admin.JobStatus {
	if severity(job) == reason.Fine {
		job.Conditions = nil
	}
	return job
}

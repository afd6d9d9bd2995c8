package commands

import (
	"context"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func (a *app) showCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "show", Args: "NAME",
		Short: "show everything about one job",
		Long: `Times are in the job's time zone. A job with shards has a row per shard; NAME[3] shows
shard 3 only. One that runs on every instance has a row for each; NAME/ID shows one. Complete is the tick up to which all shards are done. While a change of the
shards is in progress, Resizing says what it waits for. What is wrong with the job stands below
its State: what that means, and a command to try.`,
		Examples: `swctl show nightly
swctl show 'import[3]'
swctl show import -o json | jq -r '.shards[] | select(.state != "ok") | .shard.index'
swctl show nightly -o json | jq .last_run.error
swctl show nightly -o json | jq .paused`,
		Run: a.run(show),
	}
}

func show(ctx context.Context, c *call) error {
	name, err := c.name()
	if err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		job, err := client.Get(ctx, name)
		if err != nil {
			return err
		}
		var requests []admin.Request
		if job.State != admin.StateInvalid {
			if requests, err = client.Requests(ctx, name); err != nil {
				return err
			}
		}
		return c.put(api.Job(job, requests), func(p render.Page) { p.Job(job, requests) })
	})
}

package commands

import (
	"context"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func (a *app) showInstanceCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "instances show", Args: "ID",
		Short: "show what an instance owns and runs, its handlers and labels",
		Long: `Shows all that the records in ZooKeeper say of one running instance: where it runs and is
reached (Config.Address), its labels (Config.Labels), its session, its handlers, the orders
that keep it from owning jobs, and the jobs and shards that it owns, with the runs in
progress. No instance is asked. While the server answers, --timeout starts again with each
of its answers.`,
		Examples: `swctl instances show app-1
swctl instances show app-1 -o json | jq -r '.slots[] | select(.run) | .name'`,
		Run: a.run(showInstance),
	}
}

func showInstance(ctx context.Context, c *call) error {
	id, err := c.instanceID()
	if err != nil {
		return err
	}
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		details, err := client.Instance(ctx, id)
		if err != nil {
			return err
		}
		return c.put(api.Instance(details), func(p render.Page) { p.Instance(details) })
	})
}

package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

func showInstanceCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "instances show", Args: "ID",
		Short: "show what an instance owns and runs, its handlers and labels",
		Long: `Shows all that the records in ZooKeeper say of one running instance: where it runs and is
reached (Config.Address), its labels (Config.Labels), its session, its handlers, the orders
that keep it from owning jobs, and the jobs and shards that it owns, with the runs in
progress. No instance is asked. Of one that has left within the last day it says how, and
exits with 3. While the server answers, --timeout starts again with each
of its answers.`,
		Examples: `swctl instances show app-1
swctl instances show app-1 -o json | jq -r '.slots[] | select(.run) | .name'`,
		Run: e.reads(showInstance),
	}
}

func showInstance(ctx context.Context, c *call) error {
	id, err := instanceID(c.Call)
	if err != nil {
		return err
	}
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		details, err := client.Instance(ctx, id)
		if errors.Is(err, admin.ErrNoInstance) {
			return whereGone(ctx, c.reply, client, id, err)
		}
		if err != nil {
			return err
		}
		return c.put(api.Instance(details), func(p render.Page) { p.Instance(details) })
	})
}

// whereGone adds to an error how the instance has left that does not run, if that is known.
func whereGone(ctx context.Context, r *reply, client group.Client, id string, absent error) error {
	gone, err := client.Gone(ctx)
	i := slices.IndexFunc(gone, func(g admin.GoneInstance) bool { return g.ID == id })
	if err != nil || i < 0 {
		return absent
	}
	return cmdline.WithHint(fmt.Errorf("%w; gone since %s: %s", absent, plain.Moment(gone[i].At, r.now(), time.UTC), words.HowGone(gone[i])), "swctl instances --gone")
}

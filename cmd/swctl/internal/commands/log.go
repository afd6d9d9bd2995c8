package commands

import (
	"context"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

// maxLogEntries bounds -n of log: more are never kept.
const maxLogEntries = 10_000

func logCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "log", Args: "[NAME]",
		Short: "show who changed what",
		Long: `Newest first: who submitted, changed, paused, resumed, repaired or canceled a job, also one
that is gone, who drained, disabled or enabled an instance, and who asked for runs and
stops; also which program's code replaced what a job was, and when ZooKeeper did not answer,
as two of the instances tell. BY is what the program said;
FROM is user@host, or the instance. The last 2,000 changes are kept, the last 2,000 requests
and the last 2,000 declarations. What instances do by themselves is not in the log, nor the
jobs that code creates at a start: swctl show says who declared a job. Times are ZooKeeper's.`,
		Examples: `swctl log
swctl log nightly
swctl log -n 20 -o json | jq -r '.items[] | select(.kind == "cancel") | .by'`,
		Flags: []cmdline.Flag{{Name: flagNumber, Usage: "`NUMBER` how many entries to show (default all)"}},
		Run:   e.reads(showLog),
	}
}

func showLog(ctx context.Context, c *call) error {
	n, err := c.Number(flagNumber, maxLogEntries, 1, maxLogEntries)
	if err != nil {
		return err
	}
	opts := admin.LogOptions{Max: n}
	if len(c.Args) > 0 {
		if opts.Job, err = wholeJobName(c.Call); err != nil {
			return err
		}
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		entries, err := client.Log(ctx, opts)
		if err != nil {
			return err
		}
		return putList(c.reply, api.List("Log", entries), entries, render.Page.Log, "nothing is in the log")
	})
}

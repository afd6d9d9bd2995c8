package commands

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

const (
	flagKeep       = "keep"
	flagKeepPerJob = "keep-per-job"
	mostPerJob     = 100_000_000
)

func runlogCommand(e *env, stores stores) *cmdline.Command {
	return &cmdline.Command{
		Name:  "runlog",
		Short: "keep every run in a store outside ZooKeeper, until interrupted",
		Long: `ZooKeeper has the last 20 entries of each job. This reads them as they are written, and
appends each run, retry, and row of skipped or missed ticks to the store, once: it may be
killed at any moment, and several may run, of which one works. What it could not read in time
is a row as well: a hole. swctl history --store shows what is there.

file:DIRECTORY is files of JSON lines. A database is created up to its tables.`,
		Examples: `swctl runlog --store file:/var/lib/swctl
swctl runlog --store file:/var/lib/swctl --keep 90d --keep-per-job 10000`,
		Flags: []cmdline.Flag{
			stores.flag("where to keep it"),
			{Name: flagKeep, Usage: "`AGE` remove entries that are older, such as 90d, 12w or 36h (default: never)"},
			{Name: flagKeepPerJob, Usage: "`NUMBER` remove all but the newest entries of each job or shard (default: none)"},
		},
		Run: e.run(func(ctx context.Context, c *call) error { return keepLog(ctx, c, stores) }),
	}
}

// logged is the content of a RunLogReader document.
type logged struct {
	Group string `json:"group"`
}

func keepLog(ctx context.Context, c *call, stores stores) error {
	if err := c.NoArgs("swctl runlog --%s file:DIRECTORY", flagStore); err != nil {
		return err
	}
	o := runlog.Options{Group: c.ServerType, Logger: slog.New(remarks{c.Call})}
	var err error
	if o.KeepPerSlot, err = c.Number(flagKeepPerJob, 0, 1, mostPerJob); err != nil {
		return err
	}
	if text := c.Flags.String(flagKeep); text != "" {
		if o.Keep, err = job.ParseDuration(text); err != nil || o.Keep <= 0 {
			return cmdline.Usage("--%s %q: want an age such as 90d, 12w or 36h", flagKeep, text)
		}
	}
	store, err := stores.open(c.Call)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // each batch was stored when it was appended
	c.Lasts()
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		err := c.tell(api.New("RunLogReader", logged{c.ServerType}), func(render.Page) {
			fmt.Fprintf(&c.Out, "keeping the run log of %s; press Ctrl-C to stop\n", plain.Printable(c.ServerType))
		})
		if err != nil {
			return err
		}
		return runlog.Run(ctx, client, store, o)
	})
}

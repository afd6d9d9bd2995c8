package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

func whyCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "why", Args: "NAME",
		Short: "explain what became of a tick of a job",
		Long: `Says who owns the job and since when, what became of the last tick, and, if it did not
run, why: the job was paused, no instance has the handler, it had no owner, a run was
still in progress, the tick was missed. Everything is read from ZooKeeper; no instance is
asked. --at explains the tick at that time, or the last one before it; the time that swctl
history shows for a manual run means that run. Times are in the job's time zone. A job with
shards, or one that runs on every instance, is summarized; NAME[3] explains shard 3, and
NAME/ID what became of the tick on that instance. If something is wrong with the job now, the last
sentence names a command to try.`,
		Examples: `swctl why nightly
swctl why 'import[3]'
swctl why flush-cache/app-1
swctl why nightly --at 03:00
swctl why nightly --at '2026-11-20 03:00:00 CET' -o json | jq -r .fate`,
		Flags: []cmdline.Flag{
			{Name: "at", Usage: "`TIME` 15:04, 2006-01-02 15:04 in the job's time zone, or RFC 3339 (default now)"},
		},
		Run: e.reads(why),
	}
}

func why(ctx context.Context, c *call) error {
	at, err := c.ClockTime("at")
	if err != nil {
		return err
	}
	name, err := jobName(c.Call)
	if err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		asked := time.Time{}
		if at.Given() {
			job, err := client.Get(ctx, name) // for its time zone
			if err != nil {
				return err
			}
			if asked, err = at.In(job.Job.Zone(), c.now()); err != nil {
				return err
			}
		}
		explained, err := client.Why(ctx, name, asked)
		if err != nil {
			return err
		}
		return c.put(api.New("Explanation", explained), func(render.Page) {
			for _, sentence := range words.Why(explained) {
				fmt.Fprintln(&c.Out, plain.OneLine(sentence))
			}
		})
	})
}

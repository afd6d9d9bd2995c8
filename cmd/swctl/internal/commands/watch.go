package commands

import (
	"context"
	"slices"
	"strconv"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

func watchCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "watch", Args: "[NAME...]",
		Short: "show what happens, as it happens",
		Long: `Until it is interrupted: jobs submitted, changed, canceled, and who owns them; runs as they
begin and end; ticks that did not run; jobs that become late, hang or are invalid, and those
that no longer are; instances as they join, leave and change their state. With NAMEs, only of
these jobs, which need not exist yet. Times are in UTC, by ZooKeeper's clock.

A lost connection makes no hole: what was missed is shown as soon as a server answers, as
far as the history of a job, of about 20 entries, reaches back. What is further back, and
jobs and instances that came and went meanwhile, are a line that begins with NOT KNOWN.

With -o jsonl each event is one line of JSON. A script that is restarted gives the cursor
of the last event that it has dealt with to --since. What has happened since comes first;
"repeated" marks what may have happened before: runs have a run_id to tell. The event
"watching" says that the past is over.`,
		Examples: `swctl watch
swctl watch nightly
swctl watch -o jsonl | jq -r 'select(.event == "run_ended" and .entry.state != "ok") | .job'
swctl watch -o jsonl --since 4294967313`,
		Flags: []cmdline.Flag{
			{Name: "since", Usage: "`ZXID` the cursor of an event: show what has happened since (default: only what happens)"},
		},
		Run: e.run(watch),
	}
}

func watch(ctx context.Context, c *call) error {
	o := admin.WatchOptions{Jobs: c.Args, Trouble: true}
	if err := wholeJobs(c.Call, c.Args...); err != nil {
		return err
	}
	if text := c.Flags.String("since"); text != "" {
		zxid, err := strconv.ParseInt(text, 0, 64)
		if err != nil || zxid <= 0 {
			return cmdline.Usage("--since %q: want the cursor of an event, such as 4294967313 or 0x100000011", text)
		}
		o.Since = zxid
	}
	c.Lasts()
	err := c.connected(ctx, func(ctx context.Context, client group.Client) error {
		if err := awaited(ctx, c.Call, client); err != nil {
			return err
		}
		for ev, err := range client.Watch(ctx, o) {
			if err != nil {
				return err
			}
			if err := c.tell(api.Event(ev), func(p render.Page) { p.Event(ev) }); err != nil {
				return err
			}
		}
		return nil
	})
	if cmdline.SignalOf(ctx) != nil {
		err = nil // that is how it ends
	}
	return err
}

// awaited says which of the jobs do not exist yet.
func awaited(ctx context.Context, c *cmdline.Call, client group.Client) error {
	if len(c.Args) == 0 {
		return nil
	}
	names, err := client.Names(ctx)
	for _, name := range c.Args {
		if err == nil && !slices.Contains(names, name) {
			c.Remark("no job " + plain.Quoted(name) + " yet; what happens to it is shown from its beginning")
		}
	}
	return err
}

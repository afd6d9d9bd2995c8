package commands

import (
	"context"
	"slices"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

// maxEntries bounds -n of history: more are never kept, of all shards of a job.
const maxEntries = 20 * job.MaxShards

func historyCommand(e *env, stores stores) *cmdline.Command {
	return &cmdline.Command{
		Name: "history", Args: "[NAME]",
		Short: "show what became of the last ticks of a job",
		Long: `Newest first; about 20 entries are kept. A run in progress comes first; it is unknown if
its owner died before it could record the result. Ticks that did not run are skipped
(because of the schedule, a pause or a policy) or missed (no instance was there in time);
consecutive ones are one entry. Several runs of one tick are attempts; the last one
counts. LAG is from the tick to the start of the run, and CAUSE is manual for a run that
somebody asked for. Times are in the job's time zone. A job with shards has about 20
entries per shard, sorted by tick; NAME[3] shows those of shard 3. So has one that runs on
every instance, for each; NAME/ID shows those of one.

With --store, --since, --until, --all or --summary it shows what swctl runlog has kept in a
store instead, in UTC: everything that has ended, also of jobs that are gone. A hole is what
could not be read in time. --summary has the last success and failure, how many runs have
failed in a row, and percentiles of how long runs took and how late they began.`,
		Examples: `swctl history nightly
swctl history 'import[3]'
swctl history nightly --failed -n 5
swctl history nightly --since 30d --failed --store file:/var/lib/swctl
swctl history --all --since 24h --summary --store file:/var/lib/swctl
swctl history nightly -o json | jq '.items[] | select(.state == "failed") | .error'`,
		Flags: []cmdline.Flag{
			{Name: flagNumber, Usage: "`NUMBER` how many entries to show (default all; of a store, 100)"},
			{Name: flagFailed, Usage: "only problems: not ok, running or skipped"},
			stores.flag("a store that swctl runlog keeps"),
			{Name: flagSince, Usage: "`TIME` or AGE, of a store: such as 30d, 12h, or 2006-01-02 15:04 in UTC"},
			{Name: flagUntil, Usage: "`TIME` or AGE, of a store"},
			{Name: flagAll, Usage: "all jobs, of a store"},
			{Name: flagSummary, Usage: "of a store, one line for each job or shard"},
		},
		Run: e.reads(func(ctx context.Context, c *call) error {
			if ofStore(c.Call) {
				return storedHistory(ctx, c.reply, stores)
			}
			return historyOf(ctx, c)
		}),
	}
}

func historyOf(ctx context.Context, c *call) error {
	n, err := c.Number(flagNumber, maxEntries, 1, maxEntries)
	if err != nil {
		return err
	}
	name, err := jobName(c.Call)
	if err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		past, err := client.History(ctx, name)
		if err != nil {
			return err
		}
		entries := past.Entries
		if c.Flags.Bool(flagFailed) {
			entries = slices.DeleteFunc(slices.Clone(entries), wentWell)
		}
		entries = entries[:min(n, len(entries))]
		document := api.New("History", api.Named{Name: past.Job.Name}, api.ItemsOf(entries))
		return c.put(document, func(p render.Page) {
			p.History(past.Job, entries)
			if len(entries) == 0 && len(past.Entries) > 0 {
				c.Notef("the history of %s has no such entries", past.Job.Name)
			} else if len(entries) == 0 {
				c.Notef("%s has no history: no tick has been claimed or skipped yet", past.Job.Name)
			}
		})
	})
}

func wentWell(entry history.Entry) bool {
	return entry.State == history.StateOK || entry.State == history.StateRunning || entry.State == history.StateSkipped
}

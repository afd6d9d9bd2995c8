package commands

import (
	"context"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/history"
)

func backfillCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "backfill", Args: "NAME",
		Short: "run the past ticks of a job between two times",
		Long: `Each tick that was missed or skipped, or whose last attempt did not succeed, is run once
more, as swctl trigger --tick does it: one after the other, the oldest first. Ticks that are
due go before them, and so do manual runs. --only names other reasons: ticks that are ok
(again), or that the history has forgotten (forgotten), and package once does the effects of
these once more. With --dry-run nothing is requested: it prints what would be run.

Returns when ZooKeeper has accepted the request, which goes on over changes of the owner.
swctl requests shows how far it is, swctl requests cancel stops the rest, and a pause holds
it. A tick that fails is not retried: the next one is run. A job with shards runs the ticks
of each, and NAME[3] those of shard 3.`,
		Examples: `swctl backfill nightly --from 2026-11-01 --dry-run
swctl backfill nightly --from 2026-11-01 --to '2026-11-20 03:00' --reason 'the disk was full'
swctl backfill 'import[3]' --from 2026-11-01 --only missed,skipped
swctl requests nightly`,
		Flags: append([]cmdline.Flag{
			{Name: "from", Usage: "`TIME` of the first tick: 15:04, 2006-01-02, 2006-01-02 15:04 in the job's time zone, or RFC 3339"},
			{Name: "to", Usage: "`TIME` of the last tick, in the same forms (default: the last past tick)"},
			{Name: "only", Usage: "`REASONS` for which a tick may be run: missed, skipped, failed, again, forgotten (default missed,skipped,failed)", Repeated: true},
			{Name: flagDryRun, Usage: "print what would be run, and request nothing"},
		}, whoFlags("with the runs")...),
		Run: e.run(backfill),
	}
}

func backfill(ctx context.Context, c *call) error {
	name, err := jobName(c.Call)
	if err != nil {
		return err
	}
	from, err := c.ClockTime("from")
	if err != nil {
		return err
	}
	to, err := c.ClockTime("to")
	if err != nil {
		return err
	}
	if !from.Given() {
		return cmdline.Usage("backfill needs --from: the time of the first tick").Try("swctl backfill %s --from 2006-01-02 --dry-run", name)
	}
	opts := admin.BackfillOptions{DryRun: c.Flags.Bool(flagDryRun)}
	opts.By, opts.Reason = c.who()
	for _, reason := range c.Flags.StringSlice("only") {
		opts.Only = append(opts.Only, history.Past(reason))
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		status, err := client.Get(ctx, name) // for its time zone
		if err != nil {
			return err
		}
		zone := status.Job.Zone()
		if opts.From, err = from.In(zone, c.now()); err != nil {
			return err
		}
		if to.Given() {
			if opts.To, err = to.In(zone, c.now()); err != nil {
				return err
			}
		}
		result, err := client.Backfill(ctx, name, opts)
		if err != nil {
			return hintTrigger(err, name)
		}
		return c.put(api.New("BackfillResult", result), func(p render.Page) { p.Backfilled(result) })
	})
}

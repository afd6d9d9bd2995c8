package commands

import (
	"context"
	"math"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

func rollbackCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "rollback", Args: "NAME --to N",
		Short: "make a job again what it was",
		Long: `Makes the job what it was in version N: swctl show NAME --version N --diff shows what differs.
That is a change like swctl set: it is the next version, begins now, keeps a pause, runs no
tick of before, and stays until the code declares something new. The last 10 versions are
kept.`,
		Examples: `swctl rollback nightly --to 3 --reason 'the new schedule is too late'
swctl rollback nightly --to 3 --dry-run`,
		Flags: append([]cmdline.Flag{
			{Name: "to", Usage: "`N` the version"},
			{Name: flagDryRun, Usage: "check and tell what would be changed, change nothing"},
		}, whoFlags(inLog)...),
		Run: e.run(rollback),
	}
}

func rollback(ctx context.Context, c *call) error {
	name, err := wholeJobName(c.Call)
	if err != nil {
		return err
	}
	to, err := c.Number("to", 0, 1, math.MaxInt32)
	if err != nil {
		return err
	}
	if to == 0 {
		return cmdline.Usage("rollback needs a version").Try("swctl rollback %s --to N; swctl show %s says which there are", plain.Quoted(name), plain.Quoted(name))
	}
	dryRun := c.Flags.Bool(flagDryRun)
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		done, err := client.Rollback(ctx, name, to, admin.EditOptions{DryRun: dryRun})
		if err != nil {
			return err
		}
		status, owner := ownerNow(ctx, client, name)
		return putChange(c.reply, "RollbackResult", done, dryRun, status, owner)
	})
}

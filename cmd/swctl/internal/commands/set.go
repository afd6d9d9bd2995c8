package commands

import (
	"context"
	"fmt"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

func setCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "set", Args: "NAME",
		Short: "change parts of a job",
		Long: `Changes only what is given, even if someone else changes the job at the same time; --arg
sets one argument and keeps the others. A new schedule takes effect at once. Changing
nothing is not an error.

--shards changes the number of shards, and --shard-param the parameter of one; K= removes
it. Ticks that a shard has already claimed are run by all shards as they were; the change
takes effect when the last of these runs has ended, and swctl show prints what it waits
for. No run is stopped or lost by changing to fewer shards. A parameter for a shard that
will no longer exist is refused: remove it. set cannot turn a job with shards into one
without: cancel it and submit it again.`,
		Examples: `swctl set nightly --schedule '30 3 * * *'
swctl set nightly --arg day=today --drop-arg to --retries 3 --backoff 30s
swctl set nightly --run-timeout 10m --overlap queue --dry-run
swctl set dump --require zone=b --drop-instance app-1
swctl set import --shards 2 --shard-param 0=north --shard-param 2=`,
		Flags: append(append(fields.Flags(true), cmdline.Flag{Name: flagDryRun, Usage: "check and tell what would be changed, change nothing"}), whoFlags(inLog)...),
		Run:   e.run(set),
	}
}

func set(ctx context.Context, c *call) error {
	change, err := setChanges(c.Call)
	if err != nil {
		return err
	}
	name := c.Args[0]
	if err := wholeJobs(c.Call, name); err != nil {
		return err
	}
	// Flags that are wrong by themselves are refused without a server: in any job.
	tried := job.Job{Name: name, Schedule: "@daily", Shards: job.MaxShards}
	change(&tried)
	if err := fields.Refused(tried.Validate()); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	dryRun := c.Flags.Bool(flagDryRun)
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		done, err := client.Edit(ctx, name, func(j *job.Job) error {
			change(j)
			return nil
		}, admin.EditOptions{DryRun: dryRun})
		if err != nil {
			return err
		}
		status, owner := ownerNow(ctx, client, name)
		return putChange(c.reply, "SetResult", done, dryRun, status, owner)
	})
}

// setChanges reads the command line.
func setChanges(c *cmdline.Call) (func(*job.Job), error) {
	if c.Flags.String(fields.FlagShards) == "0" {
		return nil, cmdline.Usage("set: --%s 0 would remove the shards of a job", fields.FlagShards).
			Try("cancel the job and submit it again, or declare it so in code")
	}
	change, given, err := fields.Changes(c)
	switch {
	case err != nil:
		return nil, err
	case len(c.Args) == 0:
		return nil, cmdline.Usage("set needs the name of a job").Try("swctl set NAME --retries 3")
	case len(c.Args) > 1:
		return nil, cmdline.Usage("set takes one job, but %d arguments came", len(c.Args)).
			Try("quote a schedule: swctl set %s --schedule '0 3 * * *'", plain.Quoted(c.Args[0]))
	case !given:
		return nil, cmdline.Usage("set: nothing to change was given").Try("swctl set --help lists what can be changed")
	}
	return change, nil
}

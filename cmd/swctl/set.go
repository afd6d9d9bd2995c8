package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func (a *app) setCommand() *cmdline.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "schedule", Usage: "`SCHEDULE` when the job runs"},
		&cli.StringSliceFlag{Name: "drop-arg", Usage: "`KEY` remove an argument; may be repeated"},
		&cli.BoolFlag{Name: "drop-args-json", Usage: "remove what --args-json has set"},
		&cli.BoolFlag{Name: "dry-run", Usage: "check and tell what would be changed, change nothing"},
	}
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
swctl set import --shards 2 --shard-param 0=north --shard-param 2=`,
		Flags: append(jobFlags(), flags...),
		Run:   a.run(set),
	}
}

func set(ctx context.Context, c *call) error {
	changes, err := c.setChanges()
	if err != nil {
		return err
	}
	name := c.Args[0]
	if err := c.wholeJobs(name); err != nil {
		return err
	}
	// What is wrong by itself is refused without a server: in any job.
	if err := c.check(changes.Apply(admin.Job{Name: name, Schedule: "@daily", Shards: admin.MaxShards})); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	opts := admin.SetOptions{DryRun: c.Flags.Bool("dry-run")}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		result, err := cl.Set(ctx, name, changes, opts)
		if err != nil && result.Outcome == "" {
			return err
		}
		owner := ownerOf(result.Job)
		if err != nil { // accepted, but then it could not be read
			result.Job.Name, owner = name, "unknown: "+output.OneLine(err.Error())
		}
		return c.putSubmitted("SetResult", result, opts.DryRun, owner)
	})
}

// setChanges reads the command line.
func (c *call) setChanges() (admin.Changes, error) {
	if c.Flags.String(flagShards) == "0" {
		return admin.Changes{}, cmdline.Usage("set: --%s 0 would remove the shards of a job", flagShards).
			Try("cancel the job and submit it again, or declare it so in code")
	}
	changes, err := c.jobChanges()
	if err != nil {
		return changes, err
	}
	if err := c.RefuseEmpty("schedule"); err != nil {
		return changes, err
	}
	if c.Flags.IsSet("schedule") {
		schedule := c.Flags.String("schedule")
		changes.Schedule = &schedule
	}
	changes.DropArgs = c.Flags.StringSlice("drop-arg")
	if len(changes.DropArgs) == 0 {
		changes.DropArgs = nil
	}
	if c.Flags.Bool("drop-args-json") {
		if changes.Payload != nil {
			return changes, cmdline.Usage("set: --drop-args-json and --%s are mutually exclusive", flagArgsJSON).Try("one of the two")
		}
		changes.Payload = new(json.RawMessage)
	}
	switch {
	case len(c.Args) == 0:
		return changes, cmdline.Usage("set needs the name of a job").Try("swctl set NAME --retries 3")
	case len(c.Args) > 1:
		return changes, cmdline.Usage("set takes one job, but %d arguments came", len(c.Args)).
			Try("quote a schedule: swctl set %s --schedule '0 3 * * *'", output.Quoted(c.Args[0]))
	case reflect.ValueOf(changes).IsZero():
		return changes, cmdline.Usage("set: nothing to change was given").Try("swctl set --help lists what can be changed")
	}
	return changes, nil
}

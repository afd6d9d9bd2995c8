package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/singleworker/admin"
)

func (a *app) setCommand() *command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "schedule", Usage: "`SCHEDULE` when the job runs"},
		&cli.StringSliceFlag{Name: "drop-arg", Usage: "`KEY` remove an argument; may be repeated"},
		&cli.BoolFlag{Name: "drop-args-json", Usage: "remove what --args-json has set"},
		&cli.BoolFlag{Name: "dry-run", Usage: "check and tell what would be changed, change nothing"},
	}
	return &command{
		name: "set", args: "NAME",
		short: "change parts of a job",
		long: `Changes what is given and leaves the rest as it is, also what somebody else
changes at the same time; --arg sets one argument beside the others. A new schedule
takes effect at once. Changing nothing is no error.

--shards changes the number of shards, and --shard-param what one works on, beside the
others; K= removes it. Ticks that a shard has claimed already are run by all shards as
they were; the change takes effect when the last of these runs has ended, and swctl show
tells which it waits for. So no run is stopped by a change to fewer shards, and none is
lost. A parameter of a shard that is no more is refused: remove it. A job that has shards
cannot be made one without by set: cancel it and submit it again.`,
		examples: `swctl set nightly --schedule '30 3 * * *'
swctl set nightly --arg day=today --drop-arg to --retries 3 --backoff 30s
swctl set nightly --run-timeout 10m --overlap queue --dry-run
swctl set import --shards 2 --shard-param 0=north --shard-param 2=`,
		flags: append(jobFlags(), flags...),
		run:   a.action(set),
	}
}

func set(ctx context.Context, c *call) error {
	changes, err := c.setChanges()
	if err != nil {
		return err
	}
	name := c.args[0]
	if err := c.wholeJobs(name); err != nil {
		return err
	}
	// What is wrong by itself is refused without a server: in any job.
	if err := c.check(changes.Apply(admin.Job{Name: name, Schedule: "@daily", Shards: admin.MaxShards})); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	opts := admin.SetOptions{DryRun: c.flags.Bool("dry-run")}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		result, err := cl.Set(ctx, name, changes, opts)
		if err != nil && result.Outcome == "" {
			return err
		}
		owner := ownerOf(result.Job)
		if err != nil { // accepted, but then it could not be read
			result.Job.Name, owner = name, "unknown: "+oneLine(err.Error())
		}
		return c.putSubmitted("SetResult", result, opts.DryRun, owner)
	})
}

// setChanges reads the command line.
func (c *call) setChanges() (admin.Changes, error) {
	if c.flags.String(flagShards) == "0" {
		return admin.Changes{}, usage("set: --%s 0 would make a job undivided that has shards", flagShards).
			try("cancel the job and submit it again, or declare it so in code")
	}
	changes, err := c.jobChanges()
	if err != nil {
		return changes, err
	}
	if err := c.refuseEmpty("schedule"); err != nil {
		return changes, err
	}
	if c.flags.IsSet("schedule") {
		schedule := c.flags.String("schedule")
		changes.Schedule = &schedule
	}
	changes.DropArgs = c.flags.StringSlice("drop-arg")
	if len(changes.DropArgs) == 0 {
		changes.DropArgs = nil
	}
	if c.flags.Bool("drop-args-json") {
		if changes.Payload != nil {
			return changes, usage("set: --drop-args-json and --%s exclude each other", flagArgsJSON).try("one of the two")
		}
		changes.Payload = new(json.RawMessage)
	}
	switch {
	case len(c.args) == 0:
		return changes, usage("set needs the name of a job").try("swctl set NAME --retries 3")
	case len(c.args) > 1:
		return changes, usage("set takes one job, but %d arguments came", len(c.args)).
			try("quote a schedule: swctl set %s --schedule '0 3 * * *'", quoted(c.args[0]))
	case reflect.ValueOf(changes).IsZero():
		return changes, usage("set: nothing to change was given").try("swctl set --help lists what can be changed")
	}
	return changes, nil
}

package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	flagPaused = "paused"
)

func submitCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "submit", Args: "NAME SCHEDULE | --file FILE",
		Short: "create a job, or change it with --replace",
		Long: `Returns when ZooKeeper has accepted the job, and prints which instance has adopted it
(waiting up to 2 s for that) and when it runs next. Submitting an identical job again
changes nothing; one that exists and differs is refused with exit code 4 unless --replace
is given. Quote the schedule, or the shell expands it.

With --shards each tick runs N times at once, as shards 0 to N-1, on whichever instances
own them; the handler gets the number of its shard, the number of shards, and the
--shard-param of its shard.

With --before-tick the owner of shard 0 calls another handler once for each tick, before any shard
begins it. If that refuses the tick, or fails for good, no shard runs it.

With --everywhere each tick runs once on every live instance that may run the job, and is claimed
and recorded there. It counts in no share. That cannot be changed later.

With --after the job runs after others, and needs no schedule: each tick that all of them have is run
once, when all have run it successfully. If one has not, and will not, the tick is skipped.

With --file the jobs come from files, as swctl apply reads them, but for whether they are paused.
All are checked before the first is submitted; the first that is refused ends the command, and
the same file can be submitted again. It does not wait for owners; a thousand jobs take seconds,
so give many a longer --timeout.`,
		Examples: `swctl submit nightly '0 3 * * *' --tz Europe/Berlin --handler report
swctl submit heartbeat '@every 90s' --arg url=http://10.0.0.7/ --arg tries=3
swctl submit import @hourly --run-timeout 10m --retries 3 --backoff 30s --args-json @import.json
swctl submit sync @hourly --shards 3 --shard-param 0=Beijing --shard-param 1=Shanghai
swctl submit load @daily --shards 8 --before-tick empty-tables
swctl submit flush-cache '@every 5m' --everywhere
swctl submit cleanup @manually --arg days=30    # runs when swctl trigger says so
swctl submit consumer @always --backoff 5s
swctl submit report --after extract --after load --deadline 2h
swctl submit report '0 6 * * 1' --paused
swctl submit dump @daily --require zone=a --instance app-1 --instance app-2
swctl submit nightly '30 3 * * *' --tz Europe/Berlin --handler report --replace --dry-run
swctl submit --file jobs.json --dry-run`,
		Flags: append(append(fields.Flags(false),
			filesFlag(),
			cmdline.Flag{Name: "replace", Usage: "change the job if it exists and differs"},
			cmdline.Flag{Name: flagPaused, Usage: "paused from the beginning, until swctl resume; a job that exists and is not paused differs"},
			cmdline.Flag{Name: flagDryRun, Usage: "check and tell what would be done, change nothing"},
		), whoFlags(inLog)...),
		Run: e.run(submit),
	}
}

func submit(ctx context.Context, c *call) error {
	opts := admin.SubmitOptions{Replace: c.Flags.Bool("replace"), DryRun: c.Flags.Bool(flagDryRun)}
	if c.Flags.Bool(flagPaused) {
		by, reason := c.who()
		opts.Pause = &admin.PauseOptions{By: by, Reason: reason}
	}
	if c.Flags.IsSet(flagFile) {
		return submitFile(ctx, c, opts)
	}
	j, err := jobToSubmit(c.Call)
	if err != nil {
		return err
	}
	if err := fields.Refused(j.Validate()); err != nil {
		return fmt.Errorf("submit %s: %w", j.Name, err)
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		done, err := submitted(ctx, client, j, opts)
		if err != nil {
			return err
		}
		var status admin.JobStatus
		var owner string
		if !opts.DryRun {
			status, owner = awaitOwner(ctx, client, j.Name)
			handlerMeant(ctx, c.Call, client, status)
		}
		if err := putChange(c.reply, "SubmitResult", done, opts.DryRun, status, owner); err != nil {
			return err
		}
		return cmdline.SignalOf(ctx) // the job is accepted, but who stopped us shall hear of it
	})
}

// jobToSubmit reads the command line.
func jobToSubmit(c *cmdline.Call) (job.Job, error) {
	change, _, err := fields.Changes(c)
	if len(c.Args) == 1 && c.Flags.IsSet(fields.FlagAfter) {
		c.Args = append(c.Args, "@after")
	}
	switch {
	case err != nil:
		return job.Job{}, err
	case len(c.Args) < 2:
		return job.Job{}, cmdline.Usage("submit needs a name and a schedule").Try("swctl submit nightly '0 3 * * *'")
	case len(c.Args) > 2:
		return job.Job{}, tooManyParts(c.Args[0], c.Args[1:])
	}
	j := job.Job{Name: c.Args[0], Schedule: c.Args[1]}
	change(&j)
	return j, nil
}

// tooManyParts refuses a schedule that the shell took apart. If the parts make
// a schedule, the shell has not put file names in for a *, and they can be
// shown quoted.
func tooManyParts(name string, parts []string) error {
	text := strings.Join(parts, " ")
	err := cmdline.Usage("submit %s: the schedule came in %d parts", name, len(parts))
	if _, bad := cronexpr.Parse(text, nil); bad != nil {
		text = "0 3 * * *"
	}
	return err.Try("quote the schedule: swctl submit %s '%s'", plain.Quoted(name), text)
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
)

// ownerWait is how long submit waits at most until an instance adopts the job.
const ownerWait = 2 * time.Second

func (a *app) submitCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "submit", Args: "NAME SCHEDULE",
		Short: "create a job, or change it with --replace",
		Long: `Returns when ZooKeeper has accepted the job, and prints which instance has adopted it
(waiting up to 2 s for that) and when it runs next. Submitting an identical job again
changes nothing; one that exists and differs is refused with exit code 4 unless --replace
is given. Quote the schedule, or the shell expands it.

With --shards each tick runs N times at once, as shards 0 to N-1, on whichever instances
own them; the handler gets the number of its shard, the number of shards, and the
--shard-param of its shard.`,
		Examples: `swctl submit nightly '0 3 * * *' --tz Europe/Berlin --handler report
swctl submit heartbeat '@every 90s' --arg url=http://10.0.0.7/ --arg tries=3
swctl submit import @hourly --run-timeout 10m --retries 3 --backoff 30s --args-json @import.json
swctl submit sync @hourly --shards 3 --shard-param 0=Beijing --shard-param 1=Shanghai
swctl submit nightly '30 3 * * *' --tz Europe/Berlin --handler report --replace --dry-run`,
		Flags: append(jobFlags(),
			&cli.BoolFlag{Name: "replace", Usage: "change the job if it exists and differs"},
			&cli.BoolFlag{Name: "dry-run", Usage: "check and tell what would be done, change nothing"},
		),
		Run: a.run(submit),
	}
}

func submit(ctx context.Context, c *call) error {
	job, err := c.jobToSubmit()
	if err != nil {
		return err
	}
	if err := c.check(job); err != nil {
		return fmt.Errorf("submit %s: %w", job.Name, err)
	}
	opts := admin.SubmitOptions{Replace: c.Flags.Bool("replace"), DryRun: c.Flags.Bool("dry-run")}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		result, err := cl.Submit(ctx, job, opts)
		if errors.Is(err, admin.ErrExists) {
			return cmdline.WithHint(err, "swctl show %s to see it, --replace to change it", output.Quoted(job.Name))
		}
		if err != nil && result.Outcome == "" {
			return err
		}
		owner := ownerOf(result.Job)
		switch {
		case err != nil: // accepted, but then it could not be read
			result.Job.Job, owner = job, "unknown: "+output.OneLine(err.Error())
		case result.Job.State != admin.Owned && !opts.DryRun:
			result.Job, owner = awaitOwner(ctx, cl, result.Job)
		}
		if err := c.putSubmitted("SubmitResult", result, opts.DryRun, owner); err != nil {
			return err
		}
		return cmdline.SignalOf(ctx) // the job is accepted, but who stopped us shall hear of it
	})
}

// jobToSubmit reads the command line.
func (c *call) jobToSubmit() (admin.Job, error) {
	changes, err := c.jobChanges()
	if err != nil {
		return admin.Job{}, err
	}
	switch {
	case len(c.Args) < 2:
		return admin.Job{}, cmdline.Usage("submit needs a name and a schedule").Try("swctl submit nightly '0 3 * * *'")
	case len(c.Args) > 2:
		return admin.Job{}, tooManyParts(c.Args[0], c.Args[1:])
	}
	return changes.Apply(admin.Job{Name: c.Args[0], Schedule: c.Args[1]}), nil
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
	return err.Try("quote the schedule: swctl submit %s '%s'", output.Quoted(name), text)
}

// awaitOwner gives the instances a moment to adopt the job. The job is
// accepted by now, so nothing that happens here is a failure.
func awaitOwner(ctx context.Context, cl client, job admin.JobStatus) (admin.JobStatus, string) {
	ctx, cancel := context.WithTimeout(ctx, ownerWait)
	defer cancel()
	status, err := cl.AwaitOwner(ctx, job.Name)
	switch {
	case err != nil:
		return job, "none yet: " + output.OneLine(err.Error())
	case slices.ContainsFunc(status.Slots, func(shard admin.JobStatus) bool { return shard.State == admin.Owned }):
		return status, ownerOf(status)
	case status.State != admin.Owned: // one that is gone may still be recorded as its owner
		return status, "none yet: " + cmp.Or(output.OneLine(status.Reason), "no instance has taken it")
	}
	return status, ownerOf(status)
}

// putSubmitted renders what submit or set did.
func (c *call) putSubmitted(kind string, result admin.SubmitResult, dryRun bool, owner string) error {
	job := result.Job
	if c.JSON {
		out := jsonSubmitResult{
			jsonHead: head(kind), Outcome: string(result.Outcome), DryRun: dryRun, Job: jobToJSON(job),
		}
		if result.Before != nil {
			before := specToJSON(*result.Before)
			out.Before = &before
		}
		return c.PutJSON(out)
	}
	next := cmp.Or(output.Moment(job.NextRun, c.Now(), zoneOf(job.Job)), "-")
	switch {
	case dryRun && result.Outcome == admin.Unchanged:
		fmt.Fprintf(&c.Out, "would leave %s unchanged  next %s\n", output.Printable(job.Name), next)
	case dryRun:
		verb := strings.TrimSuffix(string(result.Outcome), "d") // created, replaced
		fmt.Fprintf(&c.Out, "would %s %s  next %s\n", verb, output.Printable(job.Name), next)
	default:
		fmt.Fprintf(&c.Out, "%s %s v%d  owner %s  next %s\n", result.Outcome, output.Printable(job.Name), job.Version, owner, next)
	}
	if job.Resizing != nil && !dryRun {
		fmt.Fprintf(&c.Out, "  its shards change %s\n", job.Resizing)
	}
	if result.Before != nil {
		var changes output.Table
		for _, change := range differences(specToJSON(*result.Before), specToJSON(job.Job)) {
			changes.Row(change[:]...)
		}
		changes.Write(&c.Out, "  ")
	}
	return nil
}

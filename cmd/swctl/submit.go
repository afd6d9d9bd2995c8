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
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/job"
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
		Flags: append(fieldFlags(false),
			&cli.BoolFlag{Name: "replace", Usage: "change the job if it exists and differs"},
			&cli.BoolFlag{Name: "dry-run", Usage: "check and tell what would be done, change nothing"},
		),
		Run: a.run(submit),
	}
}

func submit(ctx context.Context, c *call) error {
	j, err := c.jobToSubmit()
	if err != nil {
		return err
	}
	if err := c.check(j); err != nil {
		return fmt.Errorf("submit %s: %w", j.Name, err)
	}
	opts := admin.SubmitOptions{Replace: c.Flags.Bool("replace"), DryRun: c.Flags.Bool("dry-run")}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		done, err := cl.Submit(ctx, j, opts)
		if errors.Is(err, admin.ErrExists) {
			return cmdline.WithHint(err, "swctl show %s to see it, --replace to change it", output.Quoted(j.Name))
		}
		if err != nil {
			return err
		}
		result := submitted{Change: done, dryRun: opts.DryRun}
		if !opts.DryRun {
			result.status, result.owner = awaitOwner(ctx, cl, j.Name)
		}
		if err := c.putSubmitted("SubmitResult", result); err != nil {
			return err
		}
		return cmdline.SignalOf(ctx) // the job is accepted, but who stopped us shall hear of it
	})
}

// jobToSubmit reads the command line.
func (c *call) jobToSubmit() (job.Job, error) {
	change, err := c.jobChanges()
	switch {
	case err != nil:
		return job.Job{}, err
	case len(c.Args) < 2:
		return job.Job{}, cmdline.Usage("submit needs a name and a schedule").Try("swctl submit nightly '0 3 * * *'")
	case len(c.Args) > 2:
		return job.Job{}, tooManyParts(c.Args[0], c.Args[1:])
	}
	j := job.Job{Name: c.Args[0], Schedule: c.Args[1]}
	if change != nil {
		change(&j)
	}
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
	return err.Try("quote the schedule: swctl submit %s '%s'", output.Quoted(name), text)
}

// awaitOwner gives the instances a moment to adopt the job, and says who owns it.
// The job is accepted by now, so nothing that happens here is a failure.
func awaitOwner(ctx context.Context, cl client, name string) (admin.JobStatus, string) {
	waiting, cancel := context.WithTimeout(ctx, ownerWait)
	defer cancel()
	status, err := cl.AwaitOwner(waiting, name)
	if errors.Is(err, context.DeadlineExceeded) {
		status, err = cl.Get(ctx, name)
	}
	switch {
	case err != nil:
		return status, "unknown: " + output.OneLine(err.Error())
	case slices.ContainsFunc(status.Slots, func(shard admin.JobStatus) bool { return shard.State == admin.StateOwned }):
		return status, ownerOf(status)
	case status.State != admin.StateOwned: // one that is gone may still be recorded as its owner
		return status, "none yet: " + cmp.Or(output.OneLine(status.Reason), "no instance took it so far")
	}
	return status, ownerOf(status)
}

// submitted is what submit or set did.
type submitted struct {
	admin.Change
	status admin.JobStatus // afterwards; zero if it could not be read
	owner  string
	dryRun bool
}

// putSubmitted renders it.
func (c *call) putSubmitted(kind string, r submitted) error {
	status := r.status
	if status.Name == "" {
		status = admin.JobStatus{Name: r.Job.Name, State: admin.StateUnowned, Version: r.Version}
	}
	status.Job, status.NextRun = r.Job, r.NextRun // as they were written: somebody else may have changed the job since
	if c.JSON {
		return c.PutJSON(api.New(kind, api.Change{Outcome: r.Outcome, DryRun: r.dryRun, Job: status, Before: r.Before}))
	}
	name, next := output.Printable(r.Job.Name), cmp.Or(output.Moment(r.NextRun, c.Now(), zoneOf(r.Job)), "-")
	switch {
	case r.dryRun && r.Outcome == admin.OutcomeUnchanged:
		fmt.Fprintf(&c.Out, "would leave %s unchanged  next %s\n", name, next)
	case r.dryRun:
		verb := strings.TrimSuffix(string(r.Outcome), "d") // created, replaced
		fmt.Fprintf(&c.Out, "would %s %s  next %s\n", verb, name, next)
	default:
		fmt.Fprintf(&c.Out, "%s %s v%d  owner %s  next %s\n", r.Outcome, name, r.Version, r.owner, next)
	}
	if status.Resizing != nil && !r.dryRun {
		fmt.Fprintf(&c.Out, "  its shards change %s\n", status.Resizing)
	}
	if r.Before != nil {
		var changes output.Table
		for _, change := range differences(*r.Before, r.Job) {
			changes.Row(change[:]...)
		}
		changes.Write(&c.Out, "  ")
	}
	return nil
}

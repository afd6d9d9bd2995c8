package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/job"
)

func (a *app) triggerCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "trigger", Args: "NAME",
		Short: "run a job once, now, in addition to its schedule",
		Long: `The instance that owns the job runs it, even if the job is paused, and after the run in
progress, if there is one. Returns when ZooKeeper has accepted the request, which stays
pending until it is done; if no instance can run the job, exits with 4. With --wait it
returns when the run has ended, and exits with 1 if it did not succeed: a manual run is
not retried whatever --retries says, but it is rerun if it was interrupted. --wait also
waits for an instance that can run the job. On timeout the command exits with 7; the
request stays pending: see swctl requests.

For a job with shards all shards run, each once, with the same arguments, and --wait waits
for all of them; or all are refused. NAME[3] runs shard 3 only.`,
		Examples: `swctl trigger nightly
swctl trigger 'import[3]' --wait
swctl trigger nightly --wait --timeout 10m --arg day=2026-11-20 --reason 'disk was full'
swctl trigger nightly --wait --timeout 0 -o json | jq .run.state`,
		Flags: append(append([]cli.Flag{
			&cli.BoolFlag{Name: "wait", Usage: "until the run has ended, and exit with 1 if it did not succeed"},
		}, fieldFlags(false, flagArg, flagArgsJSON)...), whoFlags("with the request, until it is done")...),
		Run: a.run(trigger),
	}
}

func trigger(ctx context.Context, c *call) error {
	wait := c.Flags.Bool("wait")
	opts, err := c.triggerOptions(wait)
	if err != nil {
		return err
	}
	name := c.Args[0]
	of, _, _ := job.SplitShard(name)
	// What is wrong by itself is refused without a server: in any job.
	if err := c.check(job.Job{Name: of, Schedule: "@daily", Args: opts.Args, Payload: opts.Payload}); err != nil {
		return fmt.Errorf("trigger %s: %w", name, err)
	}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		result, err := cl.Trigger(ctx, name, opts)
		switch {
		case errors.Is(err, admin.ErrNoHandler):
			return cmdline.WithHint(err, "start an instance that has the handler, or --wait for one")
		case errors.Is(err, admin.ErrBusy):
			return cmdline.WithHint(err, "swctl requests %[1]s shows them; swctl requests cancel %[1]s cancels them", output.Quoted(name))
		case err != nil:
			return err
		case !wait:
			return c.putTriggered(result, nil)
		}
		if result.Job.State != admin.StateOwned && !c.JSON {
			c.Sayf("%s: %s; waiting", name, result.Job.Reason)
		}
		runs, err := cl.AwaitRun(ctx, name, result.ID)
		bad := slices.IndexFunc(runs, func(run admin.Entry) bool { return !run.OK() })
		switch {
		case errors.Is(err, admin.ErrUnavailable), errors.As(err, new(*cmdline.SignalError)):
			err = cmdline.WithHint(err, "the request stays; swctl requests %s shows it, or swctl history what became of it", output.Quoted(name))
		case errors.Is(err, context.DeadlineExceeded):
			err = cmdline.WithHint(fmt.Errorf("not done within %s: %w", c.Timeout, err),
				"a longer --timeout next time; the request stays: swctl requests %s shows it, or swctl history what became of it", output.Quoted(name))
		case err == nil && bad >= 0:
			err = cmdline.WithHint(fmt.Errorf("trigger %s: %w: %s", name, cmdline.ErrNo, failure(runs, bad)), "swctl history %s", output.Quoted(name))
		}
		return errors.Join(err, c.putTriggered(result, runs))
	})
}

// triggerOptions reads the command line.
func (c *call) triggerOptions(wait bool) (admin.TriggerOptions, error) {
	if len(c.Args) != 1 {
		return admin.TriggerOptions{}, cmdline.Usage("trigger needs the name of one job").Try("swctl trigger NAME; swctl list shows all jobs")
	}
	var given job.Job
	change, err := c.jobChanges()
	if err != nil {
		return admin.TriggerOptions{}, err
	}
	if change != nil {
		change(&given)
	}
	by, reason, err := c.who()
	if err != nil {
		return admin.TriggerOptions{}, err
	}
	return admin.TriggerOptions{Args: given.Args, Payload: given.Payload, By: by, Reason: reason, WaitForHandler: wait}, nil
}

// failure is what became of the first run that did not end well.
func failure(runs []admin.Entry, first int) string {
	text := outcomeOf(runs[first])
	if len(runs) == 1 {
		return text
	}
	bad := 0
	for _, run := range runs {
		if !run.OK() {
			bad++
		}
	}
	return fmt.Sprintf("in %d of %d shards, the first of them %d: %s", bad, len(runs), *runs[first].Shard, text)
}

// putTriggered renders a request, and its runs if they were waited for.
func (c *call) putTriggered(result admin.TriggerResult, runs []admin.Entry) error {
	if c.JSON {
		return c.PutJSON(api.New("TriggerResult", result, api.RunsOf(result.Job.Name, runs)))
	}
	fmt.Fprintf(&c.Out, "triggered %s  request %s  owner %s\n", output.Printable(result.Job.Name), result.ID, output.Printable(ownerOf(result.Job)))
	for _, run := range runs {
		if run.RunID != "" {
			fmt.Fprintf(&c.Out, "  %srun %s on %s, attempt %d: %s\n", shardOf(run), run.RunID, output.Printable(run.InstanceID), run.Attempt, outcomeOf(run))
		}
	}
	return nil
}

// shardOf is "shard 3: " of a run in a shard.
func shardOf(run admin.Entry) string {
	if run.Shard == nil {
		return ""
	}
	return fmt.Sprintf("shard %d: ", *run.Shard)
}

// outcomeOf is "ok after 41s", or "failed after 41s: no route to host".
func outcomeOf(run admin.Entry) string {
	text := run.State
	if !run.Ended.IsZero() && !run.Started.IsZero() {
		text += " after " + output.Span(run.Ended.Sub(run.Started))
	}
	if run.Error != "" {
		text += ": " + output.FirstLine(run.Error)
	}
	return text
}

func (a *app) stopRunCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "stop-run", Args: "NAME [RUN]",
		Short: "stop a run in progress",
		Long: `The context of the run ends, and the run is recorded as interrupted, with your name and
reason; it is not rerun. The job is not changed: its next tick runs. Returns when the run
has ended; a handler that ignores its context can take longer than --timeout. With the ID
of a RUN (see swctl history) only that run is stopped. For a job with shards all running
shards are stopped; NAME[3] means shard 3.`,
		Examples: `swctl stop-run nightly --reason 'wrong day'
swctl stop-run 'import[3]'
swctl stop-run nightly 0198c5e2-7b1e-7000-8000-3c5e1f2a9d04 --timeout 1m`,
		Flags: whoFlags(inRecords),
		Run:   a.run(stopRun),
	}
}

func stopRun(ctx context.Context, c *call) error {
	by, reason, err := c.who()
	if err != nil {
		return err
	}
	if len(c.Args) == 0 || len(c.Args) > 2 {
		return cmdline.Usage("stop-run needs the name of one job, and at most the id of its run").Try("swctl stop-run NAME")
	}
	name, opts := c.Args[0], admin.StopOptions{By: by, Reason: reason}
	if len(c.Args) == 2 {
		if opts.RunID = c.Args[1]; opts.RunID == "" {
			return cmdline.Usage("stop-run: the id of the run is empty").Try("leave it out, or look whether a shell variable is unset")
		}
	}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		runs, err := cl.StopRun(ctx, name, opts)
		switch {
		case errors.Is(err, admin.ErrNotRunning):
			return cmdline.WithHint(err, "swctl history %s shows its runs", output.Quoted(name))
		case err != nil && len(runs) == 0, errors.Is(err, admin.ErrUnavailable):
			return err
		case errors.Is(err, context.DeadlineExceeded):
			err = cmdline.WithHint(fmt.Errorf("not done within %s: %w", c.Timeout, err),
				"swctl history %s shows when it has ended; its handler may ignore its context", output.Quoted(name))
		case err == nil && c.JSON:
			return c.PutJSON(api.New("StopResult", api.Named{Name: name}, api.RunsOf(name, runs)))
		case err == nil:
			for _, run := range runs {
				fmt.Fprintf(&c.Out, "stopped %s  %srun %s on %s: %s\n", output.Printable(name), shardOf(run), run.RunID, output.Printable(run.InstanceID), outcomeOf(run))
			}
		}
		return err
	})
}

package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
)

func triggerCommand(e *env) *cmdline.Command {
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

With --tick a past tick of the schedule is run: one that was missed or skipped, or whose
last attempt did not succeed. It is the next attempt at that tick, which the record shows
with your name. Ticks that are due go before it. A tick that is ok, or that the history
has forgotten, needs --again, and then package once does its effects once more.

For a job with shards all shards run, each once, with the same arguments, and --wait waits
for all of them; or all are refused. NAME[3] runs shard 3 only. A job that
runs on every instance runs on all that live, or, as NAME/ID, on one.`,
		Examples: `swctl trigger nightly
swctl trigger 'import[3]' --wait
swctl trigger flush-cache/app-1 --wait    # a job that runs on every instance, on one
swctl trigger nightly --wait --timeout 10m --arg day=2026-11-20 --reason 'disk was full'
swctl trigger nightly --wait --timeout 0 -o json | jq .run.state
swctl trigger nightly --tick '2026-11-20 03:00' --reason 'the disk was full'`,
		Flags: append(append([]cmdline.Flag{
			{Name: flagWait, Usage: "until the run has ended, and exit with 1 if it did not succeed"},
			{Name: "tick", Usage: "`TIME` of a past tick to run: 15:04, 2006-01-02 15:04 in the job's time zone, or RFC 3339"},
			{Name: "again", Usage: "with --tick, even if it is ok"},
		}, fields.Flags(false, fields.FlagArg, fields.FlagArgsJSON)...), whoFlags("with the run")...),
		Run: e.run(trigger),
	}
}

func trigger(ctx context.Context, c *call) error {
	name, opts, err := triggerOptions(c)
	if err != nil {
		return err
	}
	tick, err := c.ClockTime("tick")
	if err != nil {
		return err
	}
	if opts.Again = c.Flags.Bool("again"); opts.Again && !tick.Given() {
		return cmdline.Usage("trigger: --again needs the --tick that is to be run again")
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		if tick.Given() {
			status, err := client.Get(ctx, name) // for its time zone
			if err != nil {
				return err
			}
			if opts.Tick, err = tick.In(status.Job.Zone(), c.now()); err != nil {
				return err
			}
		}
		return c.trigger(ctx, client, name, opts)
	})
}

// trigger requests a run, and waits for it if that is wanted.
func (c *call) trigger(ctx context.Context, client group.Client, name string, opts admin.TriggerOptions) error {
	result, err := client.Trigger(ctx, name, opts)
	if err != nil {
		return hintTrigger(err, name)
	}
	var runs []history.Entry
	if opts.WaitForHandler {
		runs, err = awaitRuns(ctx, c.Call, client, name, result)
	}
	return errors.Join(err, c.put(api.New("TriggerResult", result, api.RunsOf(result.Job.Name, runs)), func(p render.Page) {
		p.Triggered(result, runs)
	}))
}

// hintTrigger says what to do after a request for runs was refused.
func hintTrigger(err error, name string) error {
	switch {
	case errors.Is(err, admin.ErrNoHandler):
		return cmdline.WithHint(err, "start an instance that has the handler, or swctl trigger --wait for one")
	case errors.Is(err, admin.ErrBusy):
		return cmdline.WithHint(err, "swctl requests %[1]s shows them; swctl requests cancel %[1]s cancels them", plain.Quoted(name))
	case errors.Is(err, admin.ErrTickDone):
		return cmdline.WithHint(err, "--tick with --again runs it again, and has its effects done once more; of a job with shards, name the one that needs it, NAME[3]")
	case errors.Is(err, admin.ErrTickOpen):
		return cmdline.WithHint(err, "swctl history %[1]s shows its attempts, and swctl requests %[1]s what was asked for", plain.Quoted(name))
	}
	return err
}

// triggerOptions reads the command line.
func triggerOptions(c *call) (name string, opts admin.TriggerOptions, err error) {
	if name, err = jobName(c.Call); err != nil {
		return "", opts, err
	}
	of := jobOf(name)
	given := job.Job{Name: of, Schedule: "@daily"} // what is wrong by itself is refused without a server: in any job
	change, _, err := fields.Changes(c.Call)
	if err != nil {
		return "", opts, err
	}
	change(&given)
	by, reason := c.who()
	if err := fields.Refused(given.Validate()); err != nil {
		return "", opts, fmt.Errorf("trigger %s: %w", name, err)
	}
	return name, admin.TriggerOptions{Args: given.Args, Payload: given.Payload, By: by, Reason: reason, WaitForHandler: c.Flags.Bool(flagWait)}, nil
}

// awaitRuns waits until the runs have ended, and fails with cmdline.ErrNo if one did not succeed.
func awaitRuns(ctx context.Context, c *cmdline.Call, client group.Client, name string, result admin.TriggerResult) ([]history.Entry, error) {
	if state := result.Job.State; state != admin.StateOwned && state != admin.StateDone && !c.JSON {
		c.Sayf("%s: %s; waiting", name, result.Job.Reason)
	}
	runs, err := client.AwaitRun(ctx, name, result.ID)
	switch bad := slices.IndexFunc(runs, func(run history.Entry) bool { return !run.OK() }); {
	case errors.Is(err, admin.ErrUnavailable), errors.As(err, new(*cmdline.SignalError)):
		err = cmdline.WithHint(err, "the request stays; swctl requests %s shows it, or swctl history what became of it", plain.Quoted(name))
	case errors.Is(err, context.DeadlineExceeded):
		err = cmdline.WithHint(fmt.Errorf("not done within %s: %w", c.Timeout, err),
			"a longer --timeout next time; the request stays: swctl requests %s shows it, or swctl history what became of it", plain.Quoted(name))
	case err == nil && bad >= 0:
		err = cmdline.WithHint(fmt.Errorf("trigger %s: %w: %s", name, cmdline.ErrNo, failure(runs, bad)), "swctl history %s", plain.Quoted(name))
	}
	return runs, err
}

// failure is what became of the first run that did not end well.
func failure(runs []history.Entry, first int) string {
	text := words.Outcome(runs[first].Run)
	if len(runs) == 1 {
		return text
	}
	bad := 0
	for _, run := range runs {
		if !run.OK() {
			bad++
		}
	}
	if shard := runs[first].Shard; shard != nil {
		return fmt.Sprintf("in %d of %d shards, the first of them %d: %s", bad, len(runs), *shard, text)
	}
	return fmt.Sprintf("on %d of %d instances, the first of them %s: %s", bad, len(runs), runs[first].InstanceID, text)
}

func retryCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "retry", Args: "NAME [RUN]",
		Short: "run the tick of a failed run once more",
		Long: `The tick of the last run that did not succeed, or of the RUN with that ID, or beginning of
one (see swctl history), is run once more, as its next attempt: see swctl trigger --tick.
It is refused if the tick has been run with success since, or if a retry of it is to come.
In a job with shards only the shard of that run runs. With --wait it returns when the run
has ended, and exits with 1 if it did not succeed. A manual run has no tick: trigger it
again.`,
		Examples: `swctl retry nightly --reason 'the disk was full'
swctl retry 'import[3]' --wait
swctl retry nightly 0198c5e2`,
		Flags: append([]cmdline.Flag{
			{Name: flagWait, Usage: "until the run has ended, and exit with 1 if it did not succeed"},
		}, whoFlags("with the run")...),
		Run: e.run(retry),
	}
}

func retry(ctx context.Context, c *call) error {
	name, id, err := nameAndID(c.Call, "run", "history")
	if err != nil {
		return err
	}
	by, reason := c.who()
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		past, err := client.History(ctx, name)
		if err != nil {
			return err
		}
		e, found := toRetry(past, id)
		if !found {
			return cmdline.WithHint(fmt.Errorf("retry %s: %w: the history has no such run of a tick that did not succeed", name, admin.ErrNotFound),
				"swctl history %[1]s shows its runs, and swctl trigger %[1]s runs it outside of its schedule", plain.Quoted(name))
		}
		return c.trigger(ctx, client, slotOf(name, past.Job, e), admin.TriggerOptions{
			Tick: e.Tick, By: by, Reason: reason, WaitForHandler: c.Flags.Bool(flagWait),
		})
	})
}

// toRetry finds the run whose ID begins like that, or without one the last attempt at a tick that
// did not succeed.
func toRetry(past admin.History, id string) (history.Entry, bool) {
	later := make(map[string]bool) // the ticks of which there is a later entry
	for _, e := range past.Entries {
		tick := slotOf("", past.Job, e) + e.Tick.Format(time.RFC3339Nano)
		if e.RunID == "" || !e.OfTick() || id == "" && later[tick] {
			continue
		}
		if later[tick] = true; e.State.Unsuccessful() && strings.HasPrefix(e.RunID, id) {
			return e, true
		}
	}
	return history.Entry{}, false
}

// slotOf names the job, or the part of it, whose history has an entry.
func slotOf(name string, status admin.JobStatus, e history.Entry) string {
	switch {
	case len(status.Slots) == 0: // it is the part, or has none
		return name
	case e.Shard != nil:
		return fmt.Sprintf("%s[%d]", name, *e.Shard)
	}
	return name + "/" + e.InstanceID
}

func stopRunCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "stop-run", Args: "NAME [RUN]",
		Short: "stop a run in progress",
		Long: `The context of the run ends, and the run is recorded as interrupted, with your name and
reason; it is not rerun. The job is not changed: its next tick runs. Returns when the run
has ended; a handler that ignores its context can take longer than --timeout. With the ID
of a RUN, or its beginning (see swctl history), only that run is stopped. For a job with
shards all running shards are stopped; NAME[3] means shard 3, and NAME/ID what runs on one
of its instances.`,
		Examples: `swctl stop-run nightly --reason 'wrong day'
swctl stop-run 'import[3]'
swctl stop-run nightly 0198c5e2 --timeout 1m`,
		Flags: whoFlags(inRecords),
		Run:   e.run(stopRun),
	}
}

func stopRun(ctx context.Context, c *call) error {
	name, id, err := nameAndID(c.Call, "run", "history")
	if err != nil {
		return err
	}
	by, reason := c.who()
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		if id, err = wholeRunID(ctx, c.Call, client, name, id); err != nil {
			return err
		}
		runs, err := client.StopRun(ctx, name, admin.StopOptions{RunID: id, By: by, Reason: reason})
		switch {
		case errors.Is(err, admin.ErrNotRunning):
			return cmdline.WithHint(err, "swctl history %s shows its runs", plain.Quoted(name))
		case err != nil && len(runs) > 0 && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, admin.ErrUnavailable):
			return cmdline.WithHint(fmt.Errorf("not done within %s: %w", c.Timeout, err),
				"restart %s if the handler ignores its context; swctl show %s shows who has asked, and when it has ended", words.Running(runs), plain.Quoted(name))
		case err != nil:
			return err
		}
		return c.put(api.New("StopResult", api.Named{Name: name}, api.RunsOf(name, runs)), func(p render.Page) { p.Stopped(name, runs) })
	})
}

// wholeRunID is the ID of the only run in progress whose ID begins like that. Without one, it is
// the beginning itself, which is refused with the reason.
func wholeRunID(ctx context.Context, c *cmdline.Call, client group.Client, name, beginning string) (string, error) {
	if beginning == "" {
		return "", nil
	}
	status, err := client.Get(ctx, name)
	if err != nil {
		return "", err
	}
	whole := beginning
	for _, slot := range words.Slots(status) {
		switch run := slot.LastRun; {
		case run == nil || run.State != history.StateRunning || !strings.HasPrefix(run.RunID, beginning):
		case whole != beginning:
			return "", cmdline.Usage("%s: more than one run of %s begins with %s", c.Command, name, beginning).Try("swctl history %s -o wide", plain.Quoted(name))
		default:
			whole = run.RunID
		}
	}
	return whole, nil
}

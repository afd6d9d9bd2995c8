package commands

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	flagFor    = "for"
	flagMissed = "missed"
	flagExcept = "except"
)

func pauseCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "pause", Args: "NAME...",
		Short: "suspend a job, for a while or until resumed",
		Long: `Ticks during the pause are recorded as skipped, unless --missed, here or of swctl resume,
says otherwise. A run in progress is not stopped (see swctl stop-run), and swctl trigger
still works. Pausing a paused job replaces the duration, name and reason. If one of
several jobs does not exist, none is paused. --all is swctl freeze.`,
		Examples: `swctl pause nightly --for 24h --reason 'db migration'
swctl pause nightly weekly --until '2026-12-24 18:00' --missed once
swctl list -o json | jq -r '.items[] | select(.paused) | .name'`,
		Flags: append([]cmdline.Flag{
			{Name: flagFor, Usage: "`DURATION` how long, such as 90m, 24h or 7d (default: until it is resumed)"},
			{Name: flagUntil, Usage: "`TIME` until when: 15:04, 2006-01-02 15:04 in the job's time zone, or RFC 3339"},
			{Name: flagMissed, Usage: "`POLICY` for the ticks in between when the time is over: skip, once or all (default skip)", Values: fields.MissedWords},
			{Name: flagAll, Usage: "all jobs, also those to come, until swctl resume --all: as swctl freeze"},
		}, whoFlags(inRecords)...),
		Run: e.run(func(ctx context.Context, c *call) error {
			if c.Flags.Bool(flagAll) {
				return freeze(ctx, c)
			}
			return pause(ctx, c)
		}),
	}
}

func resumeCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "resume", Args: "NAME...",
		Short: "end the pause of a job",
		Long: `--missed says what to do with the ticks during the pause: run none of them (skip), the
latest (once), or each in order (all, at most 100). Resuming a job that is not paused is
not an error. --all is swctl unfreeze: it ends no pause of a single job.`,
		Examples: `swctl resume nightly
swctl resume nightly weekly --missed once`,
		Flags: append([]cmdline.Flag{
			{Name: flagMissed, Usage: "`POLICY` for the ticks in between: skip, once or all (default skip)", Values: fields.MissedWords},
			{Name: flagAll, Usage: "end the freeze of all jobs: as swctl unfreeze"},
		}, whoFlags(inLog)...),
		Run: e.run(func(ctx context.Context, c *call) error {
			if c.Flags.Bool(flagAll) {
				return unfreeze(ctx, c)
			}
			return resume(ctx, c)
		}),
	}
}

func pause(ctx context.Context, c *call) error {
	by, reason := c.who()
	length, until, err := pauseLength(c.Call)
	if err != nil {
		return err
	}
	opts := admin.PauseOptions{By: by, Reason: reason, Missed: job.MisfirePolicy(c.Flags.String(flagMissed))}
	if length > 0 {
		opts.For = length
	}
	return eachNamed(ctx, c, "paused", func(ctx context.Context, client group.Client, status admin.JobStatus) (admin.PauseResult, error) {
		if until.Given() {
			var err error
			if opts.Until, err = until.In(status.Job.Zone(), c.now()); err != nil {
				return admin.PauseResult{}, err
			}
		}
		return client.Pause(ctx, status.Name, opts)
	})
}

// pauseLength reads --for and --until.
func pauseLength(c *cmdline.Call) (length time.Duration, until cmdline.ClockTime, err error) {
	switch {
	case c.Flags.IsSet(flagFor) && c.Flags.IsSet(flagUntil):
		return 0, until, cmdline.Usage("%s: --%s and --%s are mutually exclusive", c.Command, flagFor, flagUntil).Try("one of the two")
	case c.Flags.IsSet(flagFor):
		text := c.Flags.String(flagFor)
		if length, err = job.ParseDuration(text); err != nil || length <= 0 {
			return 0, until, cmdline.Usage("--%s %q: want a duration such as 90m, 24h or 7d", flagFor, text)
		}
	default:
		until, err = c.ClockTime(flagUntil)
	}
	return length, until, err
}

func resume(ctx context.Context, c *call) error {
	opts := admin.ResumeOptions{Missed: job.MisfirePolicy(c.Flags.String(flagMissed))}
	return eachNamed(ctx, c, "resumed", func(ctx context.Context, client group.Client, status admin.JobStatus) (admin.PauseResult, error) {
		return client.Resume(ctx, status.Name, opts)
	})
}

// eachNamed pauses or resumes the named jobs, all of which must exist, and reports its work also
// when it fails halfway.
func eachNamed(ctx context.Context, c *call, done string,
	do func(context.Context, group.Client, admin.JobStatus) (admin.PauseResult, error),
) error {
	if err := wholeJobs(c.Call, c.Args...); err != nil {
		return err
	}
	if len(c.Args) == 0 {
		return cmdline.Usage("%s needs the name of a job", c.Command).Try("swctl %s NAME...", c.Command)
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		jobs, err := named(ctx, c.Call, client, done, false)
		if err != nil {
			return err
		}
		var results []api.Paused
		err = each(jobs, func(status admin.JobStatus) error {
			result, err := do(ctx, client, status)
			if err != nil {
				return err
			}
			if now, err := client.Get(ctx, status.Name); err == nil { // otherwise as it was before
				status = now
			}
			results = append(results, api.Paused{PauseResult: result, Job: status})
			return nil
		})
		return errors.Join(err, c.put(api.List("PauseResultList", results), func(p render.Page) { p.Paused(results) }))
	})
}

func freezeCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name:  "freeze",
		Short: "suspend all jobs at once, for a while or until unfrozen",
		Long: `No run of a schedule begins on any instance once the command has returned, also of jobs that
are submitted later. Runs in progress are not stopped, and swctl trigger still works. Ticks in
between are recorded as skipped, unless --missed, here or of swctl unfreeze, says otherwise.
Freezing a frozen group replaces the duration, name, reason and exceptions. Jobs that are
paused stay so when it ends.`,
		Examples: `swctl freeze --for 2h --reason 'database upgrade'
swctl freeze --until '2026-12-24 18:00' --except heartbeat --except backup
swctl list -o json | jq -r '.items[] | select(.frozen | not) | .name'`,
		Flags: append([]cmdline.Flag{
			{Name: flagFor, Usage: "`DURATION` how long, such as 90m, 24h or 7d (default: until swctl unfreeze)"},
			{Name: flagUntil, Usage: "`TIME` until when: 15:04, 2006-01-02 15:04 in UTC, or RFC 3339"},
			{Name: flagExcept, Usage: "`NAME` of a job that goes on; may be repeated", Repeated: true},
			{Name: flagMissed, Usage: "`POLICY` for the ticks in between when the time is over: skip, once or all (default skip)", Values: fields.MissedWords},
		}, whoFlags(inRecords)...),
		Run: e.run(freeze),
	}
}

func unfreezeCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name:  "unfreeze",
		Short: "end the freeze of all jobs",
		Long: `--missed says what to do with the ticks in between: run none of them (skip), the latest
(once), or each in order (all, at most 100), of each job. Unfreezing a group that is not frozen is
not an error.`,
		Examples: `swctl unfreeze
swctl unfreeze --missed once`,
		Flags: append([]cmdline.Flag{
			{Name: flagMissed, Usage: "`POLICY` for the ticks in between: skip, once or all (default skip)", Values: fields.MissedWords},
		}, whoFlags(inLog)...),
		Run: e.run(unfreeze),
	}
}

func freeze(ctx context.Context, c *call) error {
	if len(c.Args) > 0 {
		return cmdline.Usage("a freeze is of all jobs, and takes no names").Try("swctl pause NAME, for one job; --%s NAME of swctl freeze", flagExcept)
	}
	by, reason := c.who()
	length, until, err := pauseLength(c.Call)
	if err != nil {
		return err
	}
	opts := admin.FreezeOptions{
		PauseOptions: admin.PauseOptions{For: length, By: by, Reason: reason, Missed: job.MisfirePolicy(c.Flags.String(flagMissed))},
		Except:       c.Flags.StringSlice(flagExcept),
	}
	return changeFreeze(ctx, c, func(ctx context.Context, client group.Client) (admin.FreezeResult, error) {
		if until.Given() {
			var err error
			if opts.Until, err = until.In(time.UTC, c.now()); err != nil {
				return admin.FreezeResult{}, err
			}
		}
		return client.Freeze(ctx, opts)
	})
}

func unfreeze(ctx context.Context, c *call) error {
	if len(c.Args) > 0 {
		return cmdline.Usage("a freeze is of all jobs, and takes no names").Try("swctl resume NAME, for one job")
	}
	return changeFreeze(ctx, c, func(ctx context.Context, client group.Client) (admin.FreezeResult, error) {
		return client.Unfreeze(ctx, admin.ResumeOptions{Missed: job.MisfirePolicy(c.Flags.String(flagMissed))})
	})
}

func changeFreeze(ctx context.Context, c *call, change func(context.Context, group.Client) (admin.FreezeResult, error)) error {
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		done, err := change(ctx, client)
		if err != nil {
			return err
		}
		return c.put(api.New("FreezeResult", done), func(p render.Page) { p.Frozen(done) })
	})
}

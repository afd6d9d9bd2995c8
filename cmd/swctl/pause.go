package main

import (
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
	"github.com/swjobs/singleworker/singleworker/job"
)

const (
	flagBy     = "by"
	flagReason = "reason"
	flagFor    = "for"
	flagUntil  = "until"
	flagMissed = "missed"

	inRecords = "in the records"
)

// whoFlags say who asks for something, and why, which is kept somewhere.
func whoFlags(kept string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagReason, Usage: "`TEXT` why; kept " + kept},
		&cli.StringFlag{Name: flagBy, Usage: "`NAME` who asks (default: user@host)"},
	}
}

// who reads whoFlags.
func (c *call) who() (by, reason string, err error) {
	if err := c.RefuseEmpty(flagBy, flagReason); err != nil {
		return "", "", err
	}
	if by = c.Flags.String(flagBy); by == "" {
		by = c.whoami()
	}
	return by, c.Flags.String(flagReason), nil
}

func (a *app) pauseCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "pause", Args: "NAME...",
		Short: "suspend a job, for a while or until resumed",
		Long: `Ticks during the pause are recorded as skipped, unless --missed, here or of swctl resume,
says otherwise. A run in progress is not stopped (see swctl stop-run), and swctl trigger
still works. Pausing a paused job replaces the duration, name and reason. If one of
several jobs does not exist, none is paused.`,
		Examples: `swctl pause nightly --for 24h --reason 'db migration'
swctl pause nightly weekly --until '2026-12-24 18:00' --missed once
swctl list -o json | jq -r '.items[] | select(.paused) | .name'`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: flagFor, Usage: "`DURATION` how long, such as 90m or 24h (default: until it is resumed)"},
			&cli.StringFlag{Name: flagUntil, Usage: "`TIME` until when: 15:04, 2006-01-02 15:04 in the job's time zone, or RFC 3339"},
			&cli.StringFlag{Name: flagMissed, Usage: "`POLICY` for the ticks in between when the time is over: skip, once or all (default skip)"},
		}, whoFlags(inRecords)...),
		Run: a.run(pause),
	}
}

func (a *app) resumeCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "resume", Args: "NAME...",
		Short: "end the pause of a job",
		Long: `--missed says what to do with the ticks during the pause: run none of them (skip), the
latest (once), or each in order (all, at most 100). Resuming a job that is not paused is
not an error.`,
		Examples: `swctl resume nightly
swctl resume nightly weekly --missed once`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagMissed, Usage: "`POLICY` for the ticks in between: skip, once or all (default skip)"},
		},
		Run: a.run(resume),
	}
}

func pause(ctx context.Context, c *call) error {
	by, reason, err := c.who()
	if err != nil {
		return err
	}
	if err := c.RefuseEmpty(flagFor, flagUntil, flagMissed); err != nil {
		return err
	}
	length, until, err := c.pauseLength()
	if err != nil {
		return err
	}
	opts := admin.PauseOptions{By: by, Reason: reason, Missed: job.MisfirePolicy(c.Flags.String(flagMissed))}
	if length > 0 {
		opts.Until = c.Now().Add(length)
	}
	return c.eachJob(ctx, "paused", func(ctx context.Context, cl client, status admin.JobStatus) (admin.PauseResult, error) {
		own := opts
		if until.Given() {
			var err error
			if own.Until, err = until.In(zoneOf(status.Job), c.Now()); err != nil {
				return admin.PauseResult{}, err
			}
		}
		return cl.Pause(ctx, status.Name, own)
	})
}

// pauseLength reads --for and --until.
func (c *call) pauseLength() (length time.Duration, until cmdline.ClockTime, err error) {
	switch {
	case c.Flags.IsSet(flagFor) && c.Flags.IsSet(flagUntil):
		return 0, until, cmdline.Usage("pause: --%s and --%s are mutually exclusive", flagFor, flagUntil).Try("one of the two")
	case c.Flags.IsSet(flagFor):
		text := c.Flags.String(flagFor)
		if length, err = time.ParseDuration(text); err != nil || length <= 0 {
			return 0, until, cmdline.Usage("--%s %q: want a duration such as 90m or 24h", flagFor, text)
		}
	case c.Flags.IsSet(flagUntil):
		until, err = cmdline.ParseClockTime(flagUntil, c.Flags.String(flagUntil))
	}
	return length, until, err
}

func resume(ctx context.Context, c *call) error {
	if err := c.RefuseEmpty(flagMissed); err != nil {
		return err
	}
	opts := admin.ResumeOptions{Missed: job.MisfirePolicy(c.Flags.String(flagMissed))}
	return c.eachJob(ctx, "resumed", func(ctx context.Context, cl client, status admin.JobStatus) (admin.PauseResult, error) {
		return cl.Resume(ctx, status.Name, opts)
	})
}

// eachJob does the same to each of the named jobs, in order, and reports what
// was done also when it fails halfway. All must exist.
func (c *call) eachJob(ctx context.Context, done string,
	do func(context.Context, client, admin.JobStatus) (admin.PauseResult, error),
) error {
	if err := c.wholeJobs(c.Args...); err != nil {
		return err
	}
	if len(c.Args) == 0 {
		return cmdline.Usage("%s needs the name of a job", c.Command).Try("swctl %s NAME...", c.Command)
	}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		jobs, err := c.existing(ctx, cl, done)
		if err != nil {
			return err
		}
		var results []api.Paused
		for i, status := range jobs {
			result, err := do(ctx, cl, status)
			if err != nil {
				if left := jobs[i+1:]; len(left) > 0 {
					err = fmt.Errorf("%w; not tried: %s", err, strings.Join(namesOf(left), ", "))
				}
				return errors.Join(err, c.putPaused(results))
			}
			if now, err := cl.Get(ctx, status.Name); err == nil { // otherwise as it was before
				status = now
			}
			results = append(results, api.Paused{PauseResult: result, Job: status})
		}
		return c.putPaused(results)
	})
}

// named reads the jobs that the command line names, each once, by name; missing are
// those that do not exist.
func (c *call) named(ctx context.Context, cl client) (found []admin.JobStatus, missing []string, err error) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(c.Args))) {
		job, err := cl.Get(ctx, name)
		switch {
		case errors.Is(err, admin.ErrNotFound):
			missing = append(missing, name)
		case err != nil:
			return nil, nil, err
		default:
			found = append(found, job)
		}
	}
	return found, missing, nil
}

// existing is named; all of them, or it fails.
func (c *call) existing(ctx context.Context, cl client, done string) ([]admin.JobStatus, error) {
	jobs, missing, err := c.named(ctx, cl)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		err := fmt.Errorf("%s: %w: %s", c.Command, admin.ErrNotFound, strings.Join(missing, ", "))
		if len(jobs) > 0 {
			err = fmt.Errorf("%w; none was %s", err, done)
		}
		return nil, err
	}
	return jobs, nil
}

func (c *call) putPaused(results []api.Paused) error {
	if c.JSON {
		return c.PutJSON(api.List("PauseResultList", results))
	}
	for _, r := range results {
		name, zone := output.Printable(r.Job.Name), zoneOf(r.Job.Job)
		next := output.Moment(r.Job.NextRun, c.Now(), zone)
		if next == "" {
			next = "-"
		}
		switch {
		case r.Pause == nil:
			fmt.Fprintf(&c.Out, "%s %s: it is not paused  next %s\n", r.Outcome, name, next)
		case r.Job.Paused != nil:
			fmt.Fprintf(&c.Out, "%s %s %s  next %s\n", r.Outcome, name, output.Printable(pauseText(*r.Pause, c.Now(), zone)), next)
			if n := runningShards(r.Job); n > 0 && len(r.Job.Slots) > 0 {
				fmt.Fprintf(&c.Out, "  shards that continue to run: %d\n", n)
			} else if run := r.Job.LastRun; n > 0 {
				fmt.Fprintf(&c.Out, "  its run of %s on %s continues\n", output.Absolute(run.Tick, zone), output.Printable(run.InstanceID))
			}
		default:
			fmt.Fprintf(&c.Out, "%s %s; %s  next %s\n", r.Outcome, name, missedText(r.PauseResult), next)
		}
	}
	return nil
}

// pauseText is "until 2026-11-22 09:00:00 CET (in 1d), by alice@host: why".
func pauseText(p admin.Pause, now time.Time, zone *time.Location) string {
	text := "until it is resumed"
	if !p.Until.IsZero() {
		text = "until " + output.Moment(p.Until, now, zone)
	}
	if p.By != "" {
		text += ", by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// missedText says what becomes of the ticks of a pause.
func missedText(r admin.PauseResult) string {
	one, many := "it does not run", "none of them runs"
	switch r.Pause.Missed {
	case job.MisfireSkip:
	case job.MisfireOnce:
		one, many = "it runs", "the latest runs"
	case job.MisfireAll:
		one, many = "it runs", "each of them runs"
	}
	switch r.Missed {
	case 0:
		return "no tick came while it was paused"
	case 1:
		return "1 tick came while it was paused, " + one
	}
	return fmt.Sprintf("%d ticks came while it was paused, %s", r.Missed, many)
}

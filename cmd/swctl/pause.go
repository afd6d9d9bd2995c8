package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/singleworker/admin"
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

// whoami is user@host, as far as the system knows.
func whoami() string {
	name, host := "unknown", "unknown"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	if this, err := os.Hostname(); err == nil {
		host = this
	}
	return name + "@" + host
}

// who reads whoFlags.
func (c *call) who() (by, reason string, err error) {
	if err := c.refuseEmpty(flagBy, flagReason); err != nil {
		return "", "", err
	}
	if by = c.flags.String(flagBy); by == "" {
		by = c.whoami()
	}
	return by, c.flags.String(flagReason), nil
}

func (a *app) pauseCommand() *command {
	return &command{
		name: "pause", args: "NAME...",
		short: "let no tick of a job run, for a time or until it is resumed",
		long: `Ticks that come in the pause are recorded as skipped, unless --missed or the flag of
the same name of swctl resume says otherwise. A run that goes on is not stopped
(swctl stop-run does that), and swctl trigger works all the same. Pausing a job that
is paused replaces how long, by whom and why. If one of several jobs does not
exist, none is paused.`,
		examples: `swctl pause nightly --for 24h --reason 'db migration'
swctl pause nightly weekly --until '2026-12-24 18:00' --missed once
swctl list -o json | jq -r '.items[] | select(.paused) | .name'`,
		flags: append([]cli.Flag{
			&cli.StringFlag{Name: flagFor, Usage: "`DURATION` how long, such as 90m or 24h (default: until it is resumed)"},
			&cli.StringFlag{Name: flagUntil, Usage: "`TIME` until when: 15:04, 2006-01-02 15:04 in the job's time zone, or RFC 3339"},
			&cli.StringFlag{Name: flagMissed, Usage: "`POLICY` for the ticks in between when the time is over: skip, once or all (default skip)"},
		}, whoFlags(inRecords)...),
		run: a.action(pause),
	}
}

func (a *app) resumeCommand() *command {
	return &command{
		name: "resume", args: "NAME...",
		short: "end the pause of a job",
		long: `--missed says what becomes of the ticks that came in the pause: none is run (skip),
the latest (once), or each in order (all, at most 100). A job that is not paused
stays as it is; that is no error.`,
		examples: `swctl resume nightly
swctl resume nightly weekly --missed once`,
		flags: []cli.Flag{
			&cli.StringFlag{Name: flagMissed, Usage: "`POLICY` for the ticks in between: skip, once or all (default skip)"},
		},
		run: a.action(resume),
	}
}

func pause(ctx context.Context, c *call) error {
	by, reason, err := c.who()
	if err != nil {
		return err
	}
	if err := c.refuseEmpty(flagFor, flagUntil, flagMissed); err != nil {
		return err
	}
	length, until, err := c.pauseLength()
	if err != nil {
		return err
	}
	opts := admin.PauseOptions{By: by, Reason: reason, Missed: c.flags.String(flagMissed)}
	if length > 0 {
		opts.Until = c.now().Add(length)
	}
	return c.eachJob(ctx, "paused", func(ctx context.Context, cl client, job admin.JobStatus) (admin.PauseResult, error) {
		own := opts
		if until.given() {
			var err error
			if own.Until, err = until.in(zoneOf(job.Job), c.now()); err != nil {
				return admin.PauseResult{}, err
			}
		}
		return cl.Pause(ctx, job.Name, own)
	})
}

// pauseLength reads --for and --until.
func (c *call) pauseLength() (length time.Duration, until clockTime, err error) {
	switch {
	case c.flags.IsSet(flagFor) && c.flags.IsSet(flagUntil):
		return 0, until, usage("pause: --%s and --%s exclude each other", flagFor, flagUntil).try("one of the two")
	case c.flags.IsSet(flagFor):
		text := c.flags.String(flagFor)
		if length, err = time.ParseDuration(text); err != nil || length <= 0 {
			return 0, until, usage("--%s %q: want a duration such as 90m or 24h", flagFor, text)
		}
	case c.flags.IsSet(flagUntil):
		until, err = parseClockTime(flagUntil, c.flags.String(flagUntil))
	}
	return length, until, err
}

func resume(ctx context.Context, c *call) error {
	if err := c.refuseEmpty(flagMissed); err != nil {
		return err
	}
	opts := admin.ResumeOptions{Missed: c.flags.String(flagMissed)}
	return c.eachJob(ctx, "resumed", func(ctx context.Context, cl client, job admin.JobStatus) (admin.PauseResult, error) {
		return cl.Resume(ctx, job.Name, opts)
	})
}

// eachJob does the same to each of the named jobs, in order, and reports what
// was done also when it fails halfway. All must exist.
func (c *call) eachJob(ctx context.Context, done string,
	do func(context.Context, client, admin.JobStatus) (admin.PauseResult, error),
) error {
	if err := c.wholeJobs(c.args...); err != nil {
		return err
	}
	if len(c.args) == 0 {
		return usage("%s needs the name of a job", c.flags.Command.Name).try("swctl %s NAME...", c.flags.Command.Name)
	}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		jobs, err := c.existing(ctx, cl, done)
		if err != nil {
			return err
		}
		var results []admin.PauseResult
		for i, job := range jobs {
			result, err := do(ctx, cl, job)
			if result.Outcome != "" {
				if err != nil { // accepted, but then it could not be read
					result.Job, err = job, nil
				}
				results = append(results, result)
			}
			if err != nil {
				if left := jobs[i+1:]; len(left) > 0 {
					err = fmt.Errorf("%w; not tried: %s", err, strings.Join(namesOf(left), ", "))
				}
				return errors.Join(err, c.putPaused(results))
			}
		}
		return c.putPaused(results)
	})
}

// named reads the jobs that the command line names, each once, by name; missing are
// those that do not exist.
func (c *call) named(ctx context.Context, cl client) (found []admin.JobStatus, missing []string, err error) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(c.args))) {
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
		err := fmt.Errorf("%s: %w: %s", c.flags.Command.Name, admin.ErrNotFound, strings.Join(missing, ", "))
		if len(jobs) > 0 {
			err = fmt.Errorf("%w; none was %s", err, done)
		}
		return nil, err
	}
	return jobs, nil
}

func (c *call) putPaused(results []admin.PauseResult) error {
	if c.json {
		return c.putJSON(listOf("PauseResultList", results, func(r admin.PauseResult) jsonPauseResult {
			return jsonPauseResult{Outcome: string(r.Outcome), Missed: r.Missed, Pause: pauseToJSON(r.Pause), Job: jobToJSON(r.Job)}
		}))
	}
	for _, r := range results {
		name, zone := printable(r.Job.Name), zoneOf(r.Job.Job)
		next := moment(r.Job.NextRun, c.now(), zone)
		if next == "" {
			next = "-"
		}
		switch {
		case r.Pause == nil:
			fmt.Fprintf(&c.out, "%s %s: it is not paused  next %s\n", r.Outcome, name, next)
		case r.Job.Paused != nil:
			fmt.Fprintf(&c.out, "%s %s %s  next %s\n", r.Outcome, name, printable(pauseText(*r.Pause, c.now(), zone)), next)
			if n := runningShards(r.Job); n > 0 && len(r.Job.Slots) > 0 {
				fmt.Fprintf(&c.out, "  shards that run, and go on: %d\n", n)
			} else if run := r.Job.LastRun; n > 0 {
				fmt.Fprintf(&c.out, "  its run of %s on %s goes on\n", absolute(run.Tick, zone), printable(run.InstanceID))
			}
		default:
			fmt.Fprintf(&c.out, "%s %s; %s  next %s\n", r.Outcome, name, missedText(r), next)
		}
	}
	return nil
}

// pauseText is "until 2026-11-22 09:00:00 CET (in 1d), by alice@host: why".
func pauseText(p admin.Pause, now time.Time, zone *time.Location) string {
	text := "until it is resumed"
	if !p.Until.IsZero() {
		text = "until " + moment(p.Until, now, zone)
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
	one, many := "it is not run", "none is run"
	switch r.Pause.Missed {
	case "once":
		one, many = "it is run", "the latest is run"
	case "all":
		one, many = "it is run", "each is run"
	}
	switch r.Missed {
	case 0:
		return "no tick came while it was paused"
	case 1:
		return "1 tick came while it was paused, " + one
	}
	return fmt.Sprintf("%d ticks came while it was paused, %s", r.Missed, many)
}

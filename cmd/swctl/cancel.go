package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func (a *app) cancelCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "cancel", Args: "NAME... | --all",
		Short: "delete jobs",
		Long: `Asks for confirmation: y for named jobs, the number of jobs for --all. Without a terminal
to ask on it exits with 8 unless --yes is given; the time you take to answer does not
count toward --timeout. If one of several named jobs does not exist, none is canceled. A
run in progress is told to stop.`,
		Examples: `swctl cancel nightly
swctl cancel nightly weekly --yes --ignore-missing
swctl cancel --all --server-type billing`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "cancel every job of the server type"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
			&cli.BoolFlag{Name: "ignore-missing", Usage: "ignore jobs that do not exist"},
		},
		Run: a.run(func(ctx context.Context, c *call) error {
			return (&cancellation{
				call: c,
				all:  c.Flags.Bool("all"), yes: c.Flags.Bool("yes"), ignoreMissing: c.Flags.Bool("ignore-missing"),
			}).run(ctx)
		}),
	}
}

// cancellation is one run of cancel.
type cancellation struct {
	*call
	all, yes, ignoreMissing bool
	done                    []admin.JobStatus // as they were
}

func (c *cancellation) run(ctx context.Context) error {
	if err := c.wholeJobs(c.Args...); err != nil {
		return err
	}
	switch {
	case c.all && len(c.Args) > 0:
		return cmdline.Usage("cancel: --all and names are mutually exclusive").Try("one of the two")
	case !c.all && len(c.Args) == 0:
		return cmdline.Usage("cancel needs the name of a job").Try("swctl cancel NAME..., or --all")
	case !c.yes && !c.Interactive:
		return cmdline.WithHint(fmt.Errorf("cancel: %w: there is no terminal to ask on", cmdline.ErrUnconfirmed), "add --yes")
	}
	if c.yes {
		return c.connected(ctx, func(ctx context.Context, cl client) error {
			victims, err := c.victims(ctx, cl)
			if err != nil {
				return err
			}
			return c.cancel(ctx, cl, victims)
		})
	}
	// A person may think for longer than a session lives: nothing is kept
	// open meanwhile, and --timeout starts again.
	var victims []admin.JobStatus
	err := c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		victims, err = c.victims(ctx, cl)
		return err
	})
	if err != nil {
		return err
	}
	if len(victims) == 0 {
		return c.put()
	}
	if err := c.confirm(ctx, victims); err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, cl client) error { return c.cancel(ctx, cl, victims) })
}

// victims looks up the jobs to cancel.
func (c *cancellation) victims(ctx context.Context, cl client) ([]admin.JobStatus, error) {
	if c.all {
		return cl.List(ctx)
	}
	found, missing, err := c.named(ctx, cl)
	switch {
	case err != nil:
		return nil, err
	case len(missing) == 0:
	case c.ignoreMissing:
		c.Sayf("%v: %s, ignored", admin.ErrNotFound, strings.Join(missing, ", "))
	case len(found) > 0:
		return nil, fmt.Errorf("cancel: %w: %s; none was canceled", admin.ErrNotFound, strings.Join(missing, ", "))
	default:
		return nil, fmt.Errorf("cancel: %w: %s", admin.ErrNotFound, strings.Join(missing, ", "))
	}
	return found, nil
}

// confirm asks, the harder the more is at stake.
func (c *cancellation) confirm(ctx context.Context, victims []admin.JobStatus) error {
	group := fmt.Sprintf("of %s at %s", output.Printable(c.ServerType), output.Printable(c.ZK))
	want := []string{"y", "yes"}
	var question bytes.Buffer
	if len(victims) > 1 || c.all {
		c.jobTable(victims).Write(&question, "  ")
	}
	switch {
	case c.all:
		want = []string{strconv.Itoa(len(victims))}
		fmt.Fprintf(&question, "type %d to cancel all jobs %s: ", len(victims), group)
	case len(victims) > 1:
		fmt.Fprintf(&question, "cancel these %d jobs %s? [y/N] ", len(victims), group)
	default:
		fmt.Fprintf(&question, "cancel %s %s? [y/N] ", whatItWas(victims[0], ""), group)
	}
	answer, err := c.Ask(ctx, question.String())
	if err != nil {
		return err
	}
	if !slices.Contains(want, strings.ToLower(answer)) {
		return fmt.Errorf("cancel: %w, nothing was canceled", cmdline.ErrUnconfirmed)
	}
	return nil
}

// cancel cancels one job after the other and reports those that are gone, also
// when it fails halfway.
func (c *cancellation) cancel(ctx context.Context, cl client, victims []admin.JobStatus) error {
	for i, victim := range victims {
		was, err := cl.Cancel(ctx, victim.Name)
		switch {
		case errors.Is(err, admin.ErrNotFound) && (c.all || c.ignoreMissing):
			c.Sayf("%s: %v any more, ignored", victim.Name, admin.ErrNotFound)
		case err != nil:
			if left := victims[i+1:]; len(left) > 0 {
				err = fmt.Errorf("%w; not tried: %s", err, strings.Join(namesOf(left), ", "))
			}
			return errors.Join(err, c.put())
		default:
			c.done = append(c.done, was)
		}
	}
	return c.put()
}

// put renders what was canceled.
func (c *cancellation) put() error {
	if c.JSON {
		return c.PutJSON(api.List("JobList", c.done))
	}
	if len(c.done) == 0 {
		c.Notef("nothing was canceled")
	}
	for _, job := range c.done {
		fmt.Fprintf(&c.Out, "canceled %s\n", whatItWas(job, "was "))
		if n := runningShards(job); n > 0 && len(job.Slots) > 0 {
			fmt.Fprintf(&c.Out, "  running shards that are told to stop: %d\n", n)
		} else if run := job.LastRun; n > 0 {
			fmt.Fprintf(&c.Out, "  its run of %s on %s is told to stop\n", output.Absolute(run.Tick, zoneOf(job.Job)), output.Printable(run.InstanceID))
		}
		if job.Declared {
			fmt.Fprintf(&c.Out, "  it is declared in code: the next start of an instance that declares it creates it again\n")
		}
	}
	return nil
}

// whatItWas is "nightly (was v2, owner app-2)".
func whatItWas(job admin.JobStatus, was string) string {
	return fmt.Sprintf("%s (%sv%d, owner %s)", output.Printable(job.Name), was, job.Version, output.Printable(ownerOf(job)))
}

func namesOf(jobs []admin.JobStatus) []string {
	names := make([]string, len(jobs))
	for i, job := range jobs {
		names[i] = job.Name
	}
	return names
}

package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

func cancelCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "cancel", Args: "NAME... | --all",
		Short: "delete jobs",
		Long: `Asks for confirmation: y for named jobs, the number of jobs for --all. Without a terminal
to ask on it exits with 8 unless --yes is given; the time you take to answer does not
count toward --timeout. If one of several named jobs does not exist, none is canceled. A
run in progress is told to stop. swctl undelete brings a job back, for 7 days.`,
		Examples: `swctl cancel nightly
swctl cancel nightly weekly --yes --ignore-missing
swctl cancel --all --server-type billing`,
		Flags: append([]cmdline.Flag{
			{Name: flagAll, Usage: "cancel every job of the server type"},
			yesFlag(),
			{Name: "ignore-missing", Usage: "ignore jobs that do not exist"},
		}, whoFlags(inLog)...),
		Run: e.run(cancel),
	}
}

// cancellation is one run of cancel.
type cancellation struct {
	*call
	all, ignoreMissing bool
	victims            []admin.JobStatus
	children           []string          // of the victims, which cannot run without them
	done               []admin.JobStatus // as they were
}

func cancel(ctx context.Context, c *call) error {
	if err := wholeJobs(c.Call, c.Args...); err != nil {
		return err
	}
	n := &cancellation{call: c, all: c.Flags.Bool(flagAll), ignoreMissing: c.Flags.Bool("ignore-missing")}
	switch {
	case n.all && len(c.Args) > 0:
		return cmdline.Usage("cancel: --all and names are mutually exclusive").Try("one of the two")
	case !n.all && len(c.Args) == 0:
		return cmdline.Usage("cancel needs the name of a job").Try("swctl cancel NAME..., or --all")
	}
	return c.confirmed(ctx, n.look, n.act)
}

// look reads the jobs to cancel, and puts the question: the more is at stake, the harder.
func (c *cancellation) look(ctx context.Context, client group.Client) (q cmdline.Question, err error) {
	if c.all {
		c.victims, err = client.List(ctx)
	} else {
		c.victims, err = named(ctx, c.Call, client, "canceled", c.ignoreMissing)
	}
	if err != nil || len(c.victims) == 0 {
		return q, err
	}
	if !c.all {
		names := make([]string, len(c.victims))
		for i, victim := range c.victims {
			names[i] = victim.Name
		}
		if c.children, err = client.Children(ctx, names...); err != nil {
			return q, err
		}
	}
	of := plain.Printable(fmt.Sprintf("of %s at %s", c.ServerType, c.ZK))
	var table bytes.Buffer
	if len(c.victims) > 1 || c.all {
		render.Page{Out: &table, Clock: render.Clock{Now: c.now()}}.Jobs(c.victims, "  ")
	}
	q = cmdline.Question{Nothing: "nothing was canceled"}
	switch {
	case c.all:
		q.Text = fmt.Sprintf("%stype %d to cancel all jobs %s: ", &table, len(c.victims), of)
		q.Answers = []string{strconv.Itoa(len(c.victims))}
	case len(c.victims) > 1:
		q.Text = fmt.Sprintf("%scancel these %d jobs %s? [y/N] ", &table, len(c.victims), of)
	default:
		q.Text = fmt.Sprintf("cancel %s %s? [y/N] ", render.Named(c.victims[0], ""), of)
	}
	if len(c.children) > 0 {
		q.Text = c.orphans() + "\n" + q.Text
	}
	return q, nil
}

// orphans says which jobs run after those that are canceled, and cannot without them.
func (c *cancellation) orphans() string {
	return plain.Printable("invalid without what is canceled, which they run after: " + plain.Some(c.children))
}

// act cancels the jobs and reports those that are gone, also when it fails halfway.
func (c *cancellation) act(ctx context.Context, client group.Client) error {
	err := each(c.victims, func(victim admin.JobStatus) error {
		was, err := client.CancelSeen(ctx, victim.Name, victim.Seen())
		switch {
		case errors.Is(err, admin.ErrNotFound) && (c.all || c.ignoreMissing):
			c.Sayf("%s: %v any more, ignored", victim.Name, admin.ErrNotFound)
			return nil
		case err == nil:
			c.done = append(c.done, was)
		}
		return err
	})
	if len(c.children) > 0 && len(c.done) > 0 {
		c.Notef("%s: swctl set NAME --after, or swctl undelete", c.orphans())
	}
	return errors.Join(err, putList(c.reply, api.List("JobList", c.done), c.done, render.Page.Canceled, "nothing was canceled"))
}

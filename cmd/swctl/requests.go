package main

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func (a *app) requestsCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "requests", Args: "NAME",
		Short: "show what a job's owner was asked for and has not done",
		Long: `Manual runs (swctl trigger) that have not ended, and requests to stop a run. A manual run that
waits has no RUN: one that goes on is ended by swctl stop-run, one that waits is taken back
by swctl requests withdraw.`,
		Examples: `swctl requests nightly
swctl requests import -o json | jq -r '.items[] | select(.run_id == null) | .id'
swctl requests withdraw nightly`,
		Run: a.run(requests),
	}
}

func (a *app) cancelRequestsCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "requests withdraw", Args: "NAME [REQUEST]",
		Short: "take back manual runs that have not begun",
		Long: `All that wait at the job, or at its shards, or the one whose id is given. A run that
has begun goes on; swctl stop-run ends it.`,
		Examples: `swctl requests withdraw nightly
swctl requests withdraw nightly 0198c600-6f9a-7a01-a6ab-44bb3f1f0a11`,
		Run: a.run(withdraw),
	}
}

func requests(ctx context.Context, c *call) error {
	if len(c.Args) != 1 {
		err := cmdline.Usage("requests needs the name of one job")
		if len(c.Args) > 1 && cmdline.Nearest(c.Args[0], []string{"withdraw"}) != "" {
			return err.Try("swctl requests withdraw NAME")
		}
		return err.Try("swctl requests NAME; swctl list shows all jobs")
	}
	var list []admin.Request
	err := c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		list, err = cl.Requests(ctx, c.Args[0])
		return err
	})
	if err != nil {
		return err
	}
	if err := c.putRequests("RequestList", list); err != nil || c.JSON {
		return err
	}
	if len(list) == 0 {
		c.Notef("nothing that %s was asked for waits", output.Quoted(c.Args[0]))
	}
	return nil
}

func withdraw(ctx context.Context, c *call) error {
	if len(c.Args) != 1 && len(c.Args) != 2 {
		return cmdline.Usage("requests withdraw needs the name of one job, and perhaps the id of a request").
			Try("swctl requests withdraw NAME; swctl requests NAME shows the ids")
	}
	id := ""
	if len(c.Args) == 2 {
		if id = c.Args[1]; id == "" {
			return cmdline.Usage("requests withdraw: the id of the request is empty").Try("leave it out, or look whether a shell variable is unset")
		}
	}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		list, err := cl.Withdraw(ctx, c.Args[0], id)
		if err != nil && len(list) == 0 {
			return err
		}
		if putErr := c.putRequests("WithdrawnRequestList", list); err != nil || putErr != nil || c.JSON {
			return errors.Join(err, putErr)
		}
		if len(list) == 0 {
			which := "manual run"
			if id != "" {
				which = "request " + id
			}
			c.Notef("no %s of %s waits; swctl requests shows what goes on", which, output.Quoted(c.Args[0]))
		}
		return nil
	})
}

func (c *call) putRequests(kind string, list []admin.Request) error {
	if c.JSON {
		return c.PutJSON(listOf(kind, list, requestToJSON))
	}
	t := &output.Table{}
	t.Row("JOB", "ASKED FOR", "WHEN", "BY", "RUN", "REQUEST", "REASON")
	for _, r := range list {
		t.Row(r.Slot, askedFor(r), output.Relative(r.At, c.Now()), r.By, r.RunID, r.ID, r.Reason)
	}
	t.Write(&c.Out, "")
	return nil
}

// askedFor says what a request is about.
func askedFor(r admin.Request) string {
	switch {
	case r.Kind == admin.RequestRun && r.RunID != "":
		return "run, which goes on"
	case r.Kind == admin.RequestRun:
		return "run"
	case r.Kind == admin.RequestStop:
		return "end of a run"
	}
	return "unreadable " + r.Kind
}

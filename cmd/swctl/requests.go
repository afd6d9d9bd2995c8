package main

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func (a *app) requestsCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "requests", Args: "NAME",
		Short: "list pending requests of a job",
		Long: `Manual runs (swctl trigger) that have not ended, and requests to stop a run. A manual run
that has not started has no RUN; swctl requests cancel cancels it. One that has started is
stopped by swctl stop-run.`,
		Examples: `swctl requests nightly
swctl requests import -o json | jq -r '.items[] | select(.run_id == null) | .id'
swctl requests cancel nightly`,
		Run: a.run(requests),
	}
}

func (a *app) cancelRequestsCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "requests cancel", Args: "NAME [REQUEST]",
		Short: "cancel manual runs that have not started",
		Long: `Cancels all manual runs of the job, or of its shards, that have not started, or the one
with that ID. A run that has started continues; swctl stop-run stops it.`,
		Examples: `swctl requests cancel nightly
swctl requests cancel nightly 0198c600-6f9a-7a01-a6ab-44bb3f1f0a11`,
		Run: a.run(cancelRequests),
	}
}

func requests(ctx context.Context, c *call) error {
	if len(c.Args) != 1 {
		err := cmdline.Usage("requests needs the name of one job")
		if len(c.Args) > 1 && cmdline.Nearest(c.Args[0], []string{"cancel"}) != "" {
			return err.Try("swctl requests cancel NAME")
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
		c.Notef("no pending requests for %s", output.Quoted(c.Args[0]))
	}
	return nil
}

func cancelRequests(ctx context.Context, c *call) error {
	if len(c.Args) != 1 && len(c.Args) != 2 {
		return cmdline.Usage("requests cancel needs the name of one job, and optionally the ID of a request").
			Try("swctl requests cancel NAME; swctl requests NAME shows the IDs")
	}
	id := ""
	if len(c.Args) == 2 {
		if id = c.Args[1]; id == "" {
			return cmdline.Usage("requests cancel: the ID of the request is empty").Try("leave it out, or look whether a shell variable is unset")
		}
	}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		list, err := cl.CancelRequests(ctx, c.Args[0], id)
		if err != nil && len(list) == 0 {
			return err
		}
		if putErr := c.putRequests("CanceledRequestList", list); err != nil || putErr != nil || c.JSON {
			return errors.Join(err, putErr)
		}
		if len(list) == 0 {
			which := "manual run"
			if id != "" {
				which = "request " + id
			}
			c.Notef("no pending %s of %s; swctl requests shows what has started", which, output.Quoted(c.Args[0]))
		}
		return nil
	})
}

func (c *call) putRequests(kind string, list []admin.Request) error {
	if c.JSON {
		return c.PutJSON(api.List(kind, list))
	}
	t := &output.Table{}
	t.Row("JOB", "REQUEST", "WHEN", "BY", "RUN", "ID", "REASON")
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
		return "run, started"
	case r.Kind == admin.RequestRun:
		return "run"
	case r.Kind == admin.RequestStop:
		return "stop of a run"
	}
	return "unreadable " + r.Kind
}

package commands

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

func requestsCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "requests", Args: "NAME",
		Short: "list pending requests of a job",
		Long: `Manual runs (swctl trigger) that have not ended, and requests to stop a run. A manual run
that has not started has no RUN; swctl requests cancel cancels it. One that has started is
stopped by swctl stop-run.`,
		Examples: `swctl requests nightly
swctl requests import -o json | jq -r '.items[] | select(.run_id == null) | .id'
swctl requests cancel nightly`,
		Run: e.reads(requests),
	}
}

func cancelRequestsCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "requests cancel", Args: "NAME [REQUEST]",
		Short: "cancel manual runs that have not started",
		Long: `Cancels all manual runs of the job, or of its shards, that have not started, or the one
with that ID. A run that has started continues; swctl stop-run stops it.`,
		Examples: `swctl requests cancel nightly
swctl requests cancel nightly 0198c600-6f9a-7a01-a6ab-44bb3f1f0a11`,
		Flags: whoFlags(inLog),
		Run:   e.run(cancelRequests),
	}
}

func requests(ctx context.Context, c *call) error {
	if len(c.Args) > 1 && cmdline.Nearest(c.Args[0], []string{"cancel"}) != "" {
		return cmdline.Usage("requests needs the name of one job").Try("swctl requests cancel NAME")
	}
	name, err := jobName(c.Call)
	if err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		list, err := client.Requests(ctx, name)
		if err != nil {
			return err
		}
		return putList(c.reply, api.List("RequestList", list), list, render.Page.Requests, "no pending requests for %s", plain.Quoted(name))
	})
}

func cancelRequests(ctx context.Context, c *call) error {
	name, id, err := nameAndID(c.Call, "request", "requests")
	if err != nil {
		return err
	}
	which := "manual run"
	if id != "" {
		which = "request " + id
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		list, err := client.CancelRequests(ctx, name, id)
		if err != nil && len(list) == 0 {
			return err
		}
		return errors.Join(err, putList(c.reply, api.List("CanceledRequestList", list), list, render.Page.Requests,
			"no pending %s of %s; swctl requests shows what has started", which, plain.Quoted(name)))
	})
}

package main

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/singleworker/admin"
)

func (a *app) requestsCommand() *command {
	return &command{
		name: "requests", args: "NAME",
		short: "show what a job's owner was asked for and has not done",
		long: `Manual runs (swctl trigger) that have not ended, and requests to stop a run. A manual run that
waits has no RUN: one that goes on is ended by swctl stop-run, one that waits is taken back
by swctl requests withdraw.`,
		examples: `swctl requests nightly
swctl requests import -o json | jq -r '.items[] | select(.run_id == null) | .id'
swctl requests withdraw nightly`,
		run: a.action(requests),
	}
}

func (a *app) withdrawCommand() *command {
	return &command{
		name: "requests withdraw", args: "NAME [REQUEST]",
		short: "take back manual runs that have not begun",
		long: `All that wait at the job, or at its shards, or the one whose id is given. A run that
has begun goes on; swctl stop-run ends it.`,
		examples: `swctl requests withdraw nightly
swctl requests withdraw nightly 0198c600-6f9a-7a01-a6ab-44bb3f1f0a11`,
		run: a.action(withdraw),
	}
}

func requests(ctx context.Context, c *call) error {
	if len(c.args) != 1 {
		err := usage("requests needs the name of one job")
		if len(c.args) > 1 && nearest(c.args[0], []string{"withdraw"}) != "" {
			return err.try("swctl requests withdraw NAME")
		}
		return err.try("swctl requests NAME; swctl list shows all jobs")
	}
	var list []admin.Request
	err := c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		list, err = cl.Requests(ctx, c.args[0])
		return err
	})
	if err != nil {
		return err
	}
	if err := c.putRequests("RequestList", list); err != nil || c.json {
		return err
	}
	if len(list) == 0 {
		c.notef("nothing that %s was asked for waits", quoted(c.args[0]))
	}
	return nil
}

func withdraw(ctx context.Context, c *call) error {
	if len(c.args) != 1 && len(c.args) != 2 {
		return usage("requests withdraw needs the name of one job, and perhaps the id of a request").
			try("swctl requests withdraw NAME; swctl requests NAME shows the ids")
	}
	id := ""
	if len(c.args) == 2 {
		if id = c.args[1]; id == "" {
			return usage("requests withdraw: the id of the request is empty").try("leave it out, or look whether a shell variable is unset")
		}
	}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		list, err := cl.Withdraw(ctx, c.args[0], id)
		if err != nil && len(list) == 0 {
			return err
		}
		if putErr := c.putRequests("WithdrawnRequestList", list); err != nil || putErr != nil || c.json {
			return errors.Join(err, putErr)
		}
		if len(list) == 0 {
			which := "manual run"
			if id != "" {
				which = "request " + id
			}
			c.notef("no %s of %s waits; swctl requests shows what goes on", which, quoted(c.args[0]))
		}
		return nil
	})
}

func (c *call) putRequests(kind string, list []admin.Request) error {
	if c.json {
		return c.putJSON(listOf(kind, list, requestToJSON))
	}
	t := &table{}
	t.row("JOB", "ASKED FOR", "WHEN", "BY", "RUN", "REQUEST", "REASON")
	for _, r := range list {
		t.row(r.Slot, askedFor(r), relative(r.At, c.now()), r.By, r.RunID, r.ID, r.Reason)
	}
	t.write(&c.out, "")
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

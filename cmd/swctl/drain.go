package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

const flagWait = "wait"

func (a *app) drainCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "instances drain", Args: "ID",
		Short: "make a running instance hand over its jobs",
		Long: `The instance starts no more runs, hands over idle jobs at once and the others when their
runs end, and takes no jobs. That lasts until it is restarted, as after a deploy, or until
swctl instances enable. Jobs that no other instance can run wait.`,
		Examples: `swctl instances drain app-2 --wait --timeout 5m && ssh db8 systemctl stop app
swctl instances drain app-2 --reason 'disk is failing'`,
		Flags: orderFlags(),
		Run:   a.run(order(group.Client.Drain)),
	}
}

func (a *app) disableCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "instances disable", Args: "ID",
		Short: "keep an instance from owning jobs, also after a restart",
		Long: `Like swctl instances drain, but for every start of an instance with that ID, until swctl
instances enable. The instance need not be running. Its ID must be one that the
application sets (Config.InstanceID): a generated ID is never used again.`,
		Examples: `swctl instances disable app-2 --reason 'canary of v2 only shows its pages'
swctl instances disable app-2 --wait`,
		Flags: orderFlags(),
		Run:   a.run(order(group.Client.Disable)),
	}
}

func (a *app) enableCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "instances enable", Args: "ID",
		Short: "let an instance own jobs again",
		Long: `Undoes swctl instances drain or disable. The instance gets its share of the jobs at once,
as if it had just joined.`,
		Examples: `swctl instances enable app-2`,
		Run:      a.run(enable),
	}
}

func orderFlags() []cmdline.Flag {
	return append([]cmdline.Flag{{Name: flagWait, Usage: "return when it owns nothing; exit 7 on timeout"}}, whoFlags(inRecords)...)
}

// instanceID is the one argument of the commands here.
func (c *call) instanceID() (string, error) {
	if len(c.Args) != 1 {
		return "", cmdline.Usage("%s needs one id of an instance", c.Command).Try("swctl %s ID; swctl instances lists them", c.Command)
	}
	return c.Args[0], nil
}

// order gives an order, and waits until it is carried out if that is wanted.
func order(give func(group.Client, context.Context, string, admin.OrderOptions) (admin.OrderResult, error)) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		id, err := c.instanceID()
		if err != nil {
			return err
		}
		by, reason := c.who()
		return c.connected(ctx, func(ctx context.Context, client group.Client) error {
			result, err := give(client, ctx, id, admin.OrderOptions{By: by, Reason: reason})
			if err != nil {
				return err
			}
			var waited error
			if c.Flags.Bool(flagWait) && result.Instance != nil {
				result.Instance, waited = awaitDrained(ctx, client, id)
			}
			err = errors.Join(waited, c.put(api.New("InstanceOrderResult", result), func(p render.Page) { p.Ordered(id, result) }))
			if err != nil || c.JSON {
				return err
			}
			return c.noteIfLast(ctx, client)
		})
	}
}

// awaitDrained returns the instance as it is then; nil when it is gone.
func awaitDrained(ctx context.Context, client group.Client, id string) (*admin.Instance, error) {
	instance, runs, err := client.AwaitDrained(ctx, id)
	if err != nil && runs {
		still := "is %s and still owns %s"
		if errors.Is(err, admin.ErrUnavailable) {
			still = "was %s and still owned %s when last seen"
		}
		err = fmt.Errorf("%w; %s "+still, err, id, instance.State, render.Count(instance.Owned))
	}
	if !runs {
		return nil, err
	}
	return &instance, err
}

// noteIfLast warns when no instance is left that takes jobs.
func (c *call) noteIfLast(ctx context.Context, client group.Client) error {
	all, err := client.Instances(ctx)
	open := func(i admin.Instance) bool {
		return i.State == admin.InstanceActive || i.State == admin.InstanceStandby
	}
	if err == nil && len(all) > 0 && !slices.ContainsFunc(all, open) {
		c.Notef("no instance takes jobs now: nothing runs until one is started or enabled")
	}
	return err
}

func enable(ctx context.Context, c *call) error {
	id, err := c.instanceID()
	if err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		result, err := client.Enable(ctx, id)
		if err != nil {
			return err
		}
		return c.put(api.New("InstanceOrderResult", result), func(p render.Page) { p.Enabled(id, result) })
	})
}

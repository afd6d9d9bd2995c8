package commands

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
	"github.com/swjobs/singleworker/singleworker/job"
)

func drainCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "instances drain", Args: "ID",
		Short: "make a running instance hand over its jobs",
		Long: `The instance starts no more runs, hands over idle jobs at once and the others when their
runs end, and takes no jobs. That lasts until it is restarted, as after a deploy, or until
swctl instances enable. Jobs that no other instance can run wait.`,
		Examples: `swctl instances drain app-2 --wait --timeout 5m && ssh db8 systemctl stop app
swctl instances drain app-2 --reason 'disk is failing'`,
		Flags: orderFlags(),
		Run: e.run(func(ctx context.Context, c *call) error {
			return order(ctx, c, false, func(client group.Client, ctx context.Context, t admin.Target, opts admin.OrderOptions) (admin.OrderResult, error) {
				return client.Drain(ctx, t.InstanceID, opts)
			})
		}),
	}
}

func disableCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "instances disable", Args: "[ID]",
		Short: "keep an instance, or a host, from owning jobs or one job",
		Long: `Like swctl instances drain, but for every start of an instance with that ID, until swctl
instances enable. The instance need not be running. Its ID must be one that the
application sets (Config.InstanceID): a generated ID is never used again.

With --host instead of an ID: every instance of that host, also those that join later; HOST
of swctl instances is how instances call it. With --job: one job only; the instance keeps
the others. Each such order stands by itself, until enable with the same ID or host and
the same job. An instance whose version is too old to follow it is named.`,
		Examples: `swctl instances disable app-2 --reason 'canary of v2 only shows its pages'
swctl instances disable app-2 --wait
swctl instances disable app-2 --job report --reason 'its disk is slow'
swctl instances disable --host db8 --reason 'new kernel'`,
		Flags: append(targetFlags(), orderFlags()...),
		Run:   e.run(func(ctx context.Context, c *call) error { return order(ctx, c, true, group.Client.DisableAt) }),
	}
}

func enableCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "instances enable", Args: "[ID]",
		Short: "let an instance, or a host, own jobs again",
		Long: `Undoes swctl instances drain or disable. The instance gets its share of the jobs at once,
as if it had just joined. What was disabled with --host or --job is enabled with the same.`,
		Examples: `swctl instances enable app-2
swctl instances enable app-2 --job report
swctl instances enable --host db8`,
		Flags: append(targetFlags(), whoFlags(inLog)...),
		Run:   e.run(enable),
	}
}

func orderFlags() []cmdline.Flag {
	return append([]cmdline.Flag{{Name: flagWait, Usage: "return when it owns nothing; exit 7 on timeout"}}, whoFlags(inRecords)...)
}

func targetFlags() []cmdline.Flag {
	return []cmdline.Flag{
		{Name: flagHost, Usage: "`HOST` every instance of the host, instead of one"},
		{Name: flagJob, Usage: "`NAME` only this job", Kind: cmdline.KindJob},
	}
}

// orderTarget is the target of an order. Only with finer may it be other than one instance.
func orderTarget(c *cmdline.Call, finer bool) (target admin.Target, err error) {
	if finer {
		target.Host, target.Job = c.Flags.String(flagHost), c.Flags.String(flagJob)
	}
	switch {
	case target.Host != "" && len(c.Args) > 0:
		return target, cmdline.Usage("%s: want an ID or --%s, not both", c.Command, flagHost).Try("swctl %s --%s %s", c.Command, flagHost, target.Host)
	case target.Host == "":
		if target.InstanceID, err = instanceID(c); err != nil {
			return target, err
		}
	}
	if name, _, isShard := job.SplitShard(target.Job); isShard {
		return target, cmdline.Usage("%s: %s is a shard, and an order is for a whole job", c.Command, target.Job).Try("--%s %s", flagJob, name)
	}
	return target, nil
}

// order gives an order, and waits until it is carried out if that is wanted. Only with finer may it
// be for other than one instance.
func order(
	ctx context.Context, c *call, finer bool, give func(group.Client, context.Context, admin.Target, admin.OrderOptions) (admin.OrderResult, error),
) error {
	target, err := orderTarget(c.Call, finer)
	if err != nil {
		return err
	}
	whole := target.Host == "" && target.Job == ""
	if c.Flags.Bool(flagWait) && !whole {
		return cmdline.Usage("%s: --%s waits until one instance owns nothing, which is not what --%s and --%s ask for", c.Command, flagWait, flagJob, flagHost).
			Try("swctl list shows who owns what")
	}
	by, reason := c.who()
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		result, err := give(client, ctx, target, admin.OrderOptions{By: by, Reason: reason})
		if err != nil {
			return err
		}
		var waited error
		if c.Flags.Bool(flagWait) && result.Instance != nil {
			result.Instance, waited = awaitDrained(ctx, client, target.InstanceID)
		}
		err = errors.Join(waited, c.put(api.New("InstanceOrderResult", result), func(p render.Page) { p.Ordered(target, result) }))
		if err != nil || c.JSON {
			return err
		}
		return noteIfLast(ctx, c.Call, client)
	})
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
func noteIfLast(ctx context.Context, c *cmdline.Call, client group.Client) error {
	all, err := client.Instances(ctx)
	open := func(i admin.Instance) bool {
		return i.State == admin.InstanceActive || i.State == admin.InstanceStandby || i.State == admin.InstanceWarming
	}
	if err == nil && len(all) > 0 && !slices.ContainsFunc(all, open) {
		c.Notef("no instance takes jobs now: nothing runs until one is started or enabled")
	}
	return err
}

func enable(ctx context.Context, c *call) error {
	target, err := orderTarget(c.Call, true)
	if err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		result, err := client.EnableAt(ctx, target)
		if err != nil {
			return err
		}
		return c.put(api.New("InstanceOrderResult", result), func(p render.Page) { p.Enabled(target, result) })
	})
}

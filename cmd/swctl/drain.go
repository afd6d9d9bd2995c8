package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

const flagWait = "wait"

func (a *app) drainCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "instances drain", Args: "SID",
		Short: "make a running instance hand over its jobs",
		Long: `The instance starts no more runs, hands over idle jobs at once and the others when their
runs end, and takes no jobs. That lasts until it is restarted, as after a deploy, or until
swctl instances enable. Jobs that no other instance can run wait.`,
		Examples: `swctl instances drain app-2 --wait --timeout 5m && ssh db8 systemctl stop app
swctl instances drain app-2 --reason 'disk is failing'`,
		Flags: append([]cli.Flag{waitDrainedFlag()}, whoFlags(inRecords)...),
		Run: a.run(func(ctx context.Context, c *call) error {
			return c.order(ctx, func(ctx context.Context, cl client, sid string, opts admin.OrderOptions) (admin.OrderResult, error) {
				return cl.Drain(ctx, sid, opts)
			})
		}),
	}
}

func (a *app) disableCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "instances disable", Args: "SID",
		Short: "keep an instance from owning jobs, also after a restart",
		Long: `Like swctl instances drain, but for every start of an instance with that ID, until swctl
instances enable. The instance need not be running. Its ID must be one that the
application sets (Config.InstanceID): a generated ID is never used again.`,
		Examples: `swctl instances disable app-2 --reason 'canary of v2 only shows its pages'
swctl instances disable app-2 --wait`,
		Flags: append([]cli.Flag{waitDrainedFlag()}, whoFlags(inRecords)...),
		Run: a.run(func(ctx context.Context, c *call) error {
			return c.order(ctx, func(ctx context.Context, cl client, sid string, opts admin.OrderOptions) (admin.OrderResult, error) {
				return cl.Disable(ctx, sid, opts)
			})
		}),
	}
}

func (a *app) enableCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "instances enable", Args: "SID",
		Short: "let an instance own jobs again",
		Long: `Undoes swctl instances drain or disable. The instance gets its share of the jobs at once,
as if it had just joined.`,
		Examples: `swctl instances enable app-2`,
		Run:      a.run(enable),
	}
}

func waitDrainedFlag() cli.Flag {
	return &cli.BoolFlag{Name: flagWait, Usage: "return when it owns nothing; exit 7 on timeout"}
}

// instanceID is the one argument of the commands here.
func (c *call) instanceID() (string, error) {
	if len(c.Args) != 1 {
		name := c.Command
		return "", cmdline.Usage("%s needs one id of an instance", name).Try("swctl %s SID; swctl instances lists them", name)
	}
	return c.Args[0], nil
}

// order gives an order, and waits until it is carried out if that is wanted.
func (c *call) order(ctx context.Context,
	give func(context.Context, client, string, admin.OrderOptions) (admin.OrderResult, error),
) error {
	sid, err := c.instanceID()
	if err != nil {
		return err
	}
	by, reason, err := c.who()
	if err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, cl client) error {
		result, err := give(ctx, cl, sid, admin.OrderOptions{By: by, Reason: reason})
		if err != nil {
			return err
		}
		var waited error
		if c.Flags.Bool(flagWait) && result.Instance != nil {
			result.Instance, waited = c.awaitDrained(ctx, cl, sid)
		}
		if err := errors.Join(waited, c.putOrdered(sid, result)); err != nil || c.JSON {
			return err
		}
		return c.noteIfLast(ctx, cl)
	})
}

// awaitDrained returns the instance as it is then; nil when it is gone.
func (c *call) awaitDrained(ctx context.Context, cl client, sid string) (*admin.Instance, error) {
	instance, runs, err := cl.AwaitDrained(ctx, sid)
	if err != nil && runs {
		still := "is %s and still owns %s"
		if errors.Is(err, admin.ErrUnavailable) {
			still = "was %s and still owned %s when last seen"
		}
		err = fmt.Errorf("%w; %s "+still, err, sid, instance.State, jobs(instance.Owned))
	}
	if !runs {
		return nil, err
	}
	return &instance, err
}

// noteIfLast warns the operator who closes the last instance that takes jobs.
func (c *call) noteIfLast(ctx context.Context, cl client) error {
	all, err := cl.Instances(ctx)
	open := func(i admin.Instance) bool {
		return i.State == admin.InstanceActive || i.State == admin.InstanceStandby
	}
	if err == nil && len(all) > 0 && !slices.ContainsFunc(all, open) {
		c.Notef("no instance takes jobs now: nothing runs until one is started or enabled")
	}
	return err
}

func (c *call) putOrdered(sid string, result admin.OrderResult) error {
	if c.JSON {
		return c.PutJSON(api.New("InstanceOrderResult", result))
	}
	name, order := output.Printable(sid), result.Order
	head := string(result.Outcome)
	switch {
	case result.Outcome != admin.OutcomeOrdered:
	case order.Incarnation == "":
		head = "disabled"
	default:
		head = "draining"
	}
	fmt.Fprintf(&c.Out, "%s %s%s\n", head, name, output.Printable(c.orderText(*order)))
	if instance := result.Instance; instance != nil {
		fmt.Fprintf(&c.Out, "  it is %s and owns %s\n", instance.State, jobs(instance.Owned))
	} else {
		fmt.Fprintf(&c.Out, "  it is not running now\n")
	}
	return nil
}

func enable(ctx context.Context, c *call) error {
	sid, err := c.instanceID()
	if err != nil {
		return err
	}
	var result admin.OrderResult
	err = c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		result, err = cl.Enable(ctx, sid)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return c.PutJSON(api.New("InstanceOrderResult", result))
	}
	name := output.Printable(sid)
	if result.Order == nil {
		fmt.Fprintf(&c.Out, "%s %s: it was not draining or disabled\n", result.Outcome, name)
	} else {
		fmt.Fprintf(&c.Out, "%s %s; it was draining or disabled%s\n", result.Outcome, name, output.Printable(c.orderText(*result.Order)))
	}
	switch instance := result.Instance; {
	case instance == nil:
		fmt.Fprintf(&c.Out, "  it is not running now\n")
	case instance.Withdrawn:
		fmt.Fprintf(&c.Out, "  it stays drained: its own program has called Manager.Drain\n")
	}
	return nil
}

// orderText is " since 2026-11-21 08:24:05 UTC (3m ago), by alice@host: why".
func (c *call) orderText(o admin.Order) string {
	var text strings.Builder
	if !o.At.IsZero() {
		text.WriteString(" " + output.Relative(o.At, c.Now()))
	}
	if o.By != "" {
		text.WriteString(" by " + o.By)
	}
	if o.Reason != "" {
		text.WriteString(": " + o.Reason)
	}
	return text.String()
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// absent lists the orders for instances that do not run.
func absent(orders []admin.Order, running []admin.Instance) []admin.Order {
	return slices.DeleteFunc(slices.Clone(orders), func(o admin.Order) bool {
		return slices.ContainsFunc(running, func(i admin.Instance) bool { return i.ID == o.InstanceID })
	})
}

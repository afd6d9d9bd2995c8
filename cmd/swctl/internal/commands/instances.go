package commands

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/words"
)

func instancesCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name:  "instances",
		Short: "show the running instances of the application, or those that are gone",
		Long: `OWNED is the number of jobs and shards that an instance owns, and after the slash the most
that it may own (Config.MaxSlots), if there is a limit. Only an active instance
takes jobs: one that is draining or stopping hands over what it owns as soon as its runs
end; one that is drained or disabled owns nothing, nor does one with the STATE wrong_clock,
whose clock differs from ZooKeeper's by more than Config.MaxClockOffset, nor yet one that is
warming: it has just started (Config.StartupDelay). A node with the
STATE none is not an instance: no session holds it. NOTE says why, and who told one to
drain, and how far a clock differs: the jobs of that instance run too early or too late
by that much, but never twice.
An instance that is silent gives no sign of life: it was killed, hangs, is suspended or cut
off, and is listed until its session ends. --gone lists those that have left within the last day,
at most 200: when, their last sign of life that another one has read, and how they went.
If the application runs in latch mode, one instance is the leader and owns every job; the
others are standby. WEIGHT is the relative size of its share (Config.Weight). VERSION is
that of the program (Config.Version) or, if it has none, of the library. While the
server answers, --timeout starts again with each of its answers.

See also the help of swctl instances show, drain, disable and enable.`,
		Examples: `swctl instances
swctl instances -o json | jq -r '.items[].instance_id'
swctl instances --gone
swctl instances drain app-2 --wait`,
		Flags: []cmdline.Flag{{Name: flagGone, Usage: "those that have left within the last day"}},
		Run:   e.reads(instances),
	}
}

const flagGone = "gone"

// instanceVerbs are the commands that go with an instance.
var instanceVerbs = []string{"show", "drain", "disable", "enable"}

func instances(ctx context.Context, c *call) error {
	if len(c.Args) > 0 {
		err := cmdline.Usage("instances takes no arguments")
		if near := cmdline.Nearest(c.Args[0], instanceVerbs); near != "" {
			return err.Try("swctl instances %s ID", near)
		}
		return err.Try("swctl instances, or swctl instances %s ID", strings.Join(instanceVerbs, "|"))
	}
	if c.Flags.Bool(flagGone) {
		return goneInstances(ctx, c)
	}
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		all, err := client.Instances(ctx)
		if err != nil {
			return err
		}
		orders, err := client.Orders(ctx)
		if errors.Is(err, admin.ErrDenied) { // nor do instances without that right know of any
			c.Notef("orders to drain or disable instances cannot be read: %v", err)
			err = nil
		}
		if err != nil {
			return err
		}
		orders = slices.DeleteFunc(orders, func(o admin.Order) bool { // those for instances that do not run remain
			return slices.ContainsFunc(all, func(i admin.Instance) bool {
				return i.ID == o.InstanceID || o.Host != "" && i.Host == o.Host
			})
		})
		if len(all)+len(orders) == 0 {
			if err := empty(ctx, c.Settings, client); err != nil {
				return err
			}
		}
		return c.put(api.Instances(all, orders), func(p render.Page) {
			p.Instances(all)
			if len(all) == 0 {
				c.Notef("no instance of server type %s runs at %s", c.ServerType, c.ZK)
			}
			for _, o := range orders {
				switch {
				case o.Host != "":
					c.Notef("no instance runs on host %s, where %s disabled%s", o.Host, render.OrderedJobs(o), words.Order(o, p.Now))
				case o.Incarnation == "":
					c.Notef("%s is not running, and there %s disabled%s", o.InstanceID, render.OrderedJobs(o), words.Order(o, p.Now))
				}
			}
		})
	})
}

func goneInstances(ctx context.Context, c *call) error {
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		gone, err := client.Gone(ctx)
		if err != nil {
			return err
		}
		return putList(c.reply, api.List("GoneInstanceList", gone), gone, render.Page.Gone, "no instance has left within the last day")
	})
}

package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func (a *app) instancesCommand() *cmdline.Command {
	return &cmdline.Command{
		Name:  "instances",
		Short: "show the running instances of the application",
		Long: `OWNED is the number of jobs and shards that an instance owns. Only an active instance
takes jobs: one that is draining or stopping hands over what it owns as soon as its runs
end; one that is drained or disabled owns nothing. NOTE says who told it to, and warns if
the clock of an instance that owns something differs from ZooKeeper's by 5 seconds or
more: its jobs run too early or too late by that much, but never twice.
If the application runs in latch mode, one instance is the leader and owns every job; the
others are standby. WEIGHT is the relative size of its share (Config.Weight).

See also the help of swctl instances drain, disable and enable.`,
		Examples: `swctl instances
swctl instances -o json | jq -r '.items[].instance_id'
swctl instances drain app-2 --wait`,
		Run: a.run(instances),
	}
}

// instanceVerbs are the commands that go with an instance.
var instanceVerbs = []string{"drain", "disable", "enable"}

func instances(ctx context.Context, c *call) error {
	if len(c.Args) > 0 {
		err := cmdline.Usage("instances takes no arguments")
		if near := cmdline.Nearest(c.Args[0], instanceVerbs); near != "" {
			return err.Try("swctl instances %s SID", near)
		}
		return err.Try("swctl instances, or swctl instances %s SID", strings.Join(instanceVerbs, "|"))
	}
	var all []admin.Instance
	var orders []admin.Order
	err := c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		if all, err = cl.Instances(ctx); err != nil {
			return err
		}
		orders, err = cl.Orders(ctx)
		return err
	})
	if err != nil {
		return err
	}
	orders = absent(orders, all)
	if c.JSON {
		return c.PutJSON(api.Instances(all, orders))
	}
	t := &output.Table{}
	t.Row("INSTANCE", "STATE", "OWNED", "WEIGHT", "HOST", "PID", "STARTED", "VERSION", "NOTE")
	for _, i := range all {
		pid, weight := "", ""
		if i.PID != 0 { // its record can be read
			pid, weight = strconv.Itoa(i.PID), strconv.Itoa(i.Weight)
		}
		t.Row(i.ID, stateOf(i), strconv.Itoa(i.Owned), weight, i.Host, pid, output.Relative(i.StartedAt, c.Now()), i.Version, c.note(i))
	}
	t.Write(&c.Out, "")
	if len(all) == 0 {
		c.Notef("no instance of server type %s runs at %s", c.ServerType, c.ZK)
	}
	for _, o := range orders {
		if o.Incarnation == "" {
			c.Notef("%s is not running and is disabled%s", o.InstanceID, c.orderText(o))
		}
	}
	return nil
}

// stateOf is an instance's state in one word.
func stateOf(i admin.Instance) string {
	if i.Leader {
		return "leader"
	}
	return i.State
}

// note says why an instance takes no jobs, and that its clock is wrong.
func (c *call) note(i admin.Instance) string {
	return strings.Join(slices.DeleteFunc([]string{c.orderNote(i), clockNote(i)}, func(s string) bool { return s == "" }), "; ")
}

// clocksDiffer is more than a heartbeat may take to get to ZooKeeper, and clocks that are set
// by a network differ by.
const clocksDiffer = 5 * time.Second

func clockNote(i admin.Instance) string {
	switch off := i.ClockOffset; {
	case off == nil || off.Abs() < clocksDiffer:
		return ""
	case *off > 0:
		return "its clock is " + output.Span(*off) + " ahead of ZooKeeper's"
	default:
		return "its clock is " + output.Span(-*off) + " behind ZooKeeper's"
	}
}

func (c *call) orderNote(i admin.Instance) string {
	switch {
	case i.Order == nil && i.Withdrawn:
		return "drained by its own program"
	case i.Order == nil:
		return ""
	case i.Order.Incarnation == "":
		return "disabled" + c.orderText(*i.Order)
	}
	return "told to drain" + c.orderText(*i.Order)
}

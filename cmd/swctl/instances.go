package main

import (
	"context"
	"strconv"

	"github.com/swjobs/singleworker/singleworker/admin"
)

func (a *app) instancesCommand() *command {
	return &command{
		name:  "instances",
		short: "show the running instances of the application",
		long:  `OWNED is the number of jobs that an instance owns. One that is stopping takes no more.`,
		examples: `swctl instances
swctl instances -o json | jq -r '.items[].instance_id'`,
		run: a.action(instances),
	}
}

func instances(ctx context.Context, c *call) error {
	if len(c.args) > 0 {
		return usage("instances takes no arguments").try("swctl instances")
	}
	var all []admin.Instance
	err := c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		all, err = cl.Instances(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if c.json {
		return c.putJSON(listOf("InstanceList", all, instanceToJSON))
	}
	t := &table{}
	t.row("INSTANCE", "STATE", "OWNED", "HOST", "PID", "STARTED", "VERSION")
	for _, i := range all {
		pid := ""
		if i.PID != 0 { // its record can be read
			pid = strconv.Itoa(i.PID)
		}
		t.row(i.ID, i.State, strconv.Itoa(i.Owned), i.Host, pid, relative(i.StartedAt, c.now()), i.Version)
	}
	t.write(&c.out, "")
	if len(all) == 0 {
		c.notef("no instance of server type %s runs at %s", c.serverType, c.zk)
	}
	return nil
}

package commands

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/doctor"
)

func doctorCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name:  "doctor",
		Short: "say what is wrong with the application or ZooKeeper, and what to do",
		Long: `Looks at everything, and lists what it has found, the worst first: ZooKeeper's servers, which
it asks with srvr (quorum, latency, connections), the clocks of instances, of ZooKeeper and
of this machine, versions, sessions, free slots, sizes and their limits, open ACLs, and what
is wrong with jobs and instances, equal causes together. Each line begins with ok, notice,
warning or broken, and the name of the check. The exit code is 1 if there is a warning, or
something is broken, also if no server answers at all.`,
		Examples: `swctl doctor
swctl doctor -o json | jq -r '.items[] | select(.severity == "broken") | .sentence'
swctl doctor || swctl watch --timeout 1m`,
		Run: e.reads(examine),
	}
}

func examine(ctx context.Context, c *call) error {
	if err := c.NoArgs("swctl %s", c.Command); err != nil {
		return err
	}
	var checks []doctor.Check
	err := c.reading(ctx, func(ctx context.Context, client group.Client) error {
		g, err := client.Group(ctx)
		if err == nil && len(g.Jobs)+len(g.Instances) == 0 {
			err = empty(ctx, c.Settings, client)
		}
		if err != nil {
			return err
		}
		e, err := client.Examine(ctx, g)
		checks = doctor.Checks(e)
		return err
	})
	if away := new(admin.ServersError); errors.As(err, &away) {
		checks, err = doctor.Unreachable(away), nil
	}
	if err != nil {
		return err
	}
	if err := c.put(api.List("CheckList", checks), func(p render.Page) { p.Checks(checks) }); err != nil || !doctor.IsWrong(checks) {
		return err
	}
	return &cmdline.SilentError{Code: cmdline.ExitNo}
}

package commands

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

// roleFlags are the files of the roles.
func roleFlags() []cmdline.Flag {
	return []cmdline.Flag{
		{Name: admin.RoleAdmins, Usage: "`FILE` who may change jobs and roles"},
		{Name: admin.RoleOperators, Usage: "`FILE` who may ask for runs and stops, pause jobs, and drain instances"},
		{Name: admin.RoleViewers, Usage: "`FILE` who may only read: people, pages, swexporter"},
		{Name: admin.RoleInstances, Usage: "`FILE` what the application connects as (Config.Auth)"},
		{Name: admin.RoleGuards, Usage: "`FILE` what swctl guard connects as (default: the instances)"},
		{Name: admin.RoleSenders, Usage: "`FILE` what sends notifications connects as (default: the instances)"},
	}
}

func initACLCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name:  "acl init",
		Short: "have ZooKeeper enforce who may read, ask and change",
		Long: `Writes who has which role, and gives every node of the group the access list that follows
from it. swctl acl show prints the table. Instances that run go on, and they and swctl create
nodes with these lists from then on. If it is interrupted, the same command again completes
it. To change who has a role, give all files again, as an admin.

The first time it needs the application's credentials (--auth-file), and the group must be
closed already: each instance connects with Config.Auth. An instance without one of the
identities in --instances would be cut off, so that is refused. Upgrade all instances and
programs first: older ones know no roles, and create nodes that only they may change.

A FILE has one identity per line: user:password (then others must not be able to read it),
user:HASH with ZooKeeper's digest of the password, or ip:RANGE, x509:NAME, sasl:NAME, and
world:anyone for viewers. Lines that begin with # are left out.`,
		Examples: `swctl acl init --admins admins --operators operators --viewers viewers --instances billing.auth --auth-file billing.auth
swctl acl init --admins admins --operators operators --instances billing.auth --auth-file alice.auth
swctl acl check --auth-file alice.auth`,
		Flags: append(roleFlags(), whoFlags(inLog)...),
		Run:   e.run(initACL),
	}
}

// aclCommands are to be tried by who gives one of them arguments.
const aclCommands = "swctl acl init, swctl acl show or swctl acl check"

func initACL(ctx context.Context, c *call) error {
	if err := c.NoArgs(aclCommands); err != nil {
		return err
	}
	roles := admin.Roles{}
	for _, f := range roleFlags() {
		if !c.Flags.IsSet(f.Name) {
			continue
		}
		var err error
		if roles[f.Name], err = group.ReadIdentities(f.Name, c.Flags.String(f.Name)); err != nil {
			return err
		}
	}
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		done, err := client.SetRoles(ctx, roles)
		if err != nil && done.Nodes == 0 {
			return err
		}
		return cmp.Or(err, c.put(api.New("RolesSet", done), func(render.Page) {
			fmt.Fprintf(&c.Out, "%d nodes, %d access lists changed\n", done.Nodes, done.Changed)
		}))
	})
}

func showACLCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "acl", Aliases: []string{"acl show"},
		Short: "show who has which role, and what each may do",
		Long: `WHO has the beginning of a password's hash only. The table has ZooKeeper's permissions: c and
d to create and delete nodes below one, r to read it, w to write it, a to change its access
list. So an operator pauses (register), asks (requests) and drains (_disabled), and an admin
changes a job's own node.`,
		Examples: `swctl acl show
swctl acl show -o json | jq -r '.roles.operators[]'`,
		Run: e.reads(func(ctx context.Context, c *call) error {
			if err := c.NoArgs(aclCommands); err != nil {
				return err
			}
			return c.connected(ctx, func(ctx context.Context, client group.Client) error {
				roles, err := client.Roles(ctx)
				if err != nil {
					return err
				}
				for _, list := range roles {
					for i, who := range list {
						list[i] = admin.Hidden(who)
					}
				}
				table := admin.RoleTable()
				return c.put(api.RolesOf(roles, table), func(p render.Page) { p.Roles(roles, table) })
			})
		}),
	}
}

func checkACLCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name:  "acl check",
		Short: "find nodes whose access list is not as swctl acl init left it",
		Long: `Says which roles the user of --auth-file has, and exits with 1 if the access list of a node
does not follow from the roles: a program of an older version created it, or somebody changed
it. swctl acl init gives it the right one.`,
		Examples: `swctl acl check --auth-file alice.auth
swctl acl check -o json | jq -r '.other[].path'`,
		Run: e.reads(checkACL),
	}
}

func checkACL(ctx context.Context, c *call) error {
	if err := c.NoArgs(aclCommands); err != nil {
		return err
	}
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		found, err := client.CheckRoles(ctx)
		if err != nil {
			return err
		}
		err = c.put(api.New("RolesCheck", found), func(p render.Page) {
			p.OtherLists(found.Other)
			own := "no role of its own"
			if len(found.Own) > 0 {
				own = strings.Join(found.Own, ", ")
			}
			c.Notef("%d nodes; this user has %s", found.Nodes, own)
		})
		if err == nil && len(found.Other) > 0 {
			err = cmdline.WithHint(fmt.Errorf("acl check: %w: %d nodes have another access list", cmdline.ErrNo, len(found.Other)), "swctl acl init")
		}
		return err
	})
}

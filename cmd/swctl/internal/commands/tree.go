package commands

import (
	"context"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func treeCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "tree", Args: "[NAME...]",
		Short: "show jobs that run after other jobs, as a tree",
		Long: `Below each job are those that run after it, with the columns of swctl list. A job after
several is below each of them: (*) marks it where it is not for the first time, without those
that run after it. swctl why NAME says for which jobs a tick waits.

With NAMEs, which may be patterns, there are only those, and all that run before or after one
of them. In JSON the list is that of swctl list, each job once, in the order of the table.`,
		Examples: `swctl tree
swctl tree report --watch
swctl tree 'load*' -o json | jq -r '.items[] | [.name, .spec.after[]?] | @tsv'`,
		Flags: []cmdline.Flag{{Name: flagWatch, Usage: "show it again whenever something changes, until interrupted"}},
		Run:   e.reads(tree),
	}
}

func tree(ctx context.Context, c *call) error {
	var kin []render.Kin
	look := func(ctx context.Context, client group.Client) error {
		all, err := client.List(ctx)
		kin = render.FamilyTree(all, choice{patterns: c.Args}.has)
		return err
	}
	if c.Flags.Bool(flagWatch) {
		return watching(ctx, c, look, func() error { return putTree(c.reply, kin) })
	}
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		if err := look(ctx, client); err != nil {
			return err
		}
		if len(kin) == 0 && !c.JSON {
			c.Notef("no such job of server type %s runs after another one: swctl submit NAME --after OTHER", c.ServerType)
		}
		return putTree(c.reply, kin)
	})
}

func putTree(r *reply, kin []render.Kin) error {
	var jobs []admin.JobStatus
	for _, job := range kin {
		if !job.Again {
			jobs = append(jobs, job.JobStatus)
		}
	}
	return r.put(api.List("JobList", jobs), func(p render.Page) { p.Tree(kin, "") })
}

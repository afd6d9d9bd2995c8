package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

func (a *app) repairCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "repair", Args: "NAME",
		Short: "rewrite unreadable records of an invalid job",
		Long: `A job is invalid while one of its records in ZooKeeper cannot be read, because somebody or
something has overwritten it: no instance runs it, so that no tick runs twice. Shows which
nodes cannot be read and what is lost by rewriting them, and asks for confirmation.
Without a terminal to ask on it exits with 8 unless --yes is given. A spec that cannot be
read is not repaired but submitted again, with submit --replace. If a newer version wrote
the record, upgrade instead.`,
		Examples: `swctl repair nightly
swctl repair nightly --yes -o json`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"}},
		Run:   a.run(repair),
	}
}

// lost says what is lost with a record.
var lost = map[admin.Loss]string{
	admin.LossTicks:      "which ticks were run: those until now are not run again, nor recorded as missed",
	admin.LossHistory:    "the history",
	admin.LossCompletion: "which ticks all shards have completed: those until now are not reported again",
	admin.LossSpec:       "the job itself: submit it again with --replace",
}

func repair(ctx context.Context, c *call) error {
	if len(c.Args) != 1 {
		return cmdline.Usage("repair needs the name of one job").Try("swctl repair NAME")
	}
	name := c.Args[0]
	if err := c.wholeJobs(name); err != nil {
		return err
	}
	yes := c.Flags.Bool("yes")
	if !yes && !c.Interactive {
		return cmdline.WithHint(fmt.Errorf("repair: %w: there is no terminal to ask on", cmdline.ErrUnconfirmed), "add --yes")
	}
	var nodes []admin.UnreadableNode
	err := c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		nodes, err = cl.Unreadable(ctx, name)
		return err
	})
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Newer || n.Loss == admin.LossSpec {
			err := fmt.Errorf("repair %s: %w: %s: %s", name, admin.ErrUnreadable, n.Path, n.Error)
			if n.Newer {
				return cmdline.WithHint(err, "a newer version wrote it: upgrade swctl and the instances")
			}
			return cmdline.WithHint(err, "swctl submit %s SCHEDULE --replace", name)
		}
	}
	if len(nodes) > 0 && !yes {
		if err := confirmRepair(ctx, c, name, nodes); err != nil {
			return err
		}
	}
	err = c.connected(ctx, func(ctx context.Context, cl client) error { return cl.Repair(ctx, name, nodes) })
	if err != nil {
		return err
	}
	return putRepair(c, name, nodes)
}

func confirmRepair(ctx context.Context, c *call, name string, nodes []admin.UnreadableNode) error {
	var question bytes.Buffer
	for _, n := range nodes {
		fmt.Fprintf(&question, "%s cannot be read: %s\n  lost: %s\n", output.Printable(n.Path),
			output.Printable(n.Error), lost[n.Loss])
	}
	fmt.Fprintf(&question, "rewrite these %d nodes of %s? [y/N] ", len(nodes), output.Printable(name))
	answer, err := c.Ask(ctx, question.String())
	if err != nil {
		return err
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return fmt.Errorf("repair: %w, nothing was written", cmdline.ErrUnconfirmed)
	}
	return nil
}

func putRepair(c *call, name string, nodes []admin.UnreadableNode) error {
	if c.JSON {
		return c.PutJSON(api.New("Repair", api.Named{Name: name}, api.Items[admin.UnreadableNode]{Items: append([]admin.UnreadableNode{}, nodes...)}))
	}
	if len(nodes) == 0 {
		fmt.Fprintf(&c.Out, "%s needs no repair: all its records can be read\n", output.Printable(name))
		return nil
	}
	for _, n := range nodes {
		fmt.Fprintf(&c.Out, "repaired %s; lost: %s\n", output.Printable(n.Path), lost[n.Loss])
	}
	return nil
}

package commands

import (
	"bytes"
	"context"
	"fmt"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

func repairCommand(e *env) *cmdline.Command {
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
		Flags: append([]cmdline.Flag{yesFlag()}, whoFlags(inLog)...),
		Run:   e.run(repair),
	}
}

func repair(ctx context.Context, c *call) error {
	name, err := wholeJobName(c.Call)
	if err != nil {
		return err
	}
	var nodes []admin.UnreadableNode
	return c.confirmed(ctx, func(ctx context.Context, client group.Client) (q cmdline.Question, err error) {
		if nodes, err = client.Unreadable(ctx, name); err != nil || len(nodes) == 0 {
			return q, err
		}
		var text bytes.Buffer
		render.Page{Out: &text, Clock: render.Clock{Now: c.now()}}.Unreadable(nodes)
		fmt.Fprintf(&text, "rewrite these %d nodes of %s? [y/N] ", len(nodes), plain.Printable(name))
		return cmdline.Question{Text: text.String(), Nothing: "nothing was written"}, repairable(name, nodes)
	}, func(ctx context.Context, client group.Client) error {
		if err := client.Repair(ctx, name, nodes); err != nil {
			return err
		}
		return c.put(api.New("Repair", api.Named{Name: name}, api.ItemsOf(nodes)), func(p render.Page) { p.Repaired(name, nodes) })
	})
}

// repairable refuses to write nodes for which there is another way.
func repairable(name string, nodes []admin.UnreadableNode) error {
	for _, n := range nodes {
		err := fmt.Errorf("repair %s: %w: %s: %s", name, admin.ErrUnreadable, n.Path, n.Error)
		switch {
		case n.Newer:
			return cmdline.WithHint(err, "a newer version wrote it: upgrade swctl and the instances")
		case n.Loss == admin.LossSpec:
			return cmdline.WithHint(err, "swctl submit %s SCHEDULE --replace", name)
		}
	}
	return nil
}

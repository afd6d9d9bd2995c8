package commands

import (
	"context"
	"errors"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

func undeleteCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "undelete", Args: "NAME",
		Short: "bring back a canceled job",
		Long: `Brings back the job of that name that was canceled last, with its history and its pause.
It begins now: ticks from before and from the time between are not run. A run that was in
progress when the job was canceled is in the history as lost. That works for 7 days; jobs
with shards, and jobs after which 1,000 others were canceled, come back without history. If the name is used again, that is refused with exit code 4: --as gives the job
another name.`,
		Examples: `swctl undelete nightly
swctl undelete nightly --as nightly-before --reason 'to compare'`,
		Flags: append([]cmdline.Flag{{Name: "as", Usage: "`NAME` that the job gets (default: its own)"}}, whoFlags(inLog)...),
		Run:   e.run(undelete),
	}
}

func undelete(ctx context.Context, c *call) error {
	name, err := wholeJobName(c.Call)
	if err != nil {
		return err
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		done, err := client.Undelete(ctx, name, admin.UndeleteOptions{As: c.Flags.String("as")})
		if errors.Is(err, admin.ErrExists) {
			return cmdline.WithHint(err, "swctl undelete %s --as NAME", plain.Quoted(name))
		}
		if err != nil {
			return err
		}
		status, owner := awaitOwner(ctx, client, done.Job.Name)
		if err := putChange(c.reply, "UndeleteResult", done, false, status, owner); err != nil {
			return err
		}
		return cmdline.SignalOf(ctx)
	})
}

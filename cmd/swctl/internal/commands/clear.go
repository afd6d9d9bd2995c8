package commands

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Flags of clear.
const (
	flagDespiteInstances = "despite-instances"
)

func clearCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name:  "clear",
		Short: "delete everything of a server type",
		Long: `Deletes all jobs with their histories, and what the group left behind: lists of handlers,
orders to instances, the queue of the election, the log, and the node of the server type. Refuses
while instances are running: stop them first. With --despite-instances it deletes the jobs
alone; runs in progress are told to stop, and an instance that declares jobs in code
creates them again when it starts.

Asks for the number of jobs. Without a terminal to ask on it exits with 8 unless
--confirm gives that number. If it is interrupted, another clear completes it.`,
		Examples: `swctl clear --dry-run
swctl clear --server-type billing
swctl clear --server-type billing --confirm 42`,
		Flags: append([]cmdline.Flag{
			{Name: flagConfirm, Usage: "`N` the number of jobs; do not ask"},
			{Name: flagDespiteInstances, Usage: "delete the jobs although instances are running"},
			{Name: flagDryRun, Usage: "only say what would be deleted"},
		}, whoFlags(inLog)...),
		Run: e.run(clearGroup),
	}
}

func clearGroup(ctx context.Context, c *call) error {
	if len(c.Args) > 0 {
		return cmdline.Usage("clear takes no arguments: it deletes all jobs").Try("swctl cancel %s", strings.Join(c.Args, " "))
	}
	opts := admin.ClearOptions{DespiteInstances: c.Flags.Bool(flagDespiteInstances)}
	switch confirm := c.Flags.String(flagConfirm); {
	case c.Flags.Bool(flagDryRun):
		return clearAll(ctx, c, admin.ClearOptions{DryRun: true})
	case c.Flags.IsSet(flagConfirm):
		jobs, err := strconv.Atoi(confirm)
		if err != nil || jobs < 0 {
			return cmdline.Usage("clear: --%s %q is not a number of jobs", flagConfirm, confirm).Try("swctl clear --dry-run says how many there are")
		}
		opts.Jobs = jobs
		return clearAll(ctx, c, opts)
	case !c.Interactive:
		return cmdline.WithHint(fmt.Errorf("%s: %w: there is no terminal to ask on", c.Command, cmdline.ErrUnconfirmed),
			"add --confirm N; swctl clear --dry-run says how many jobs there are")
	}
	var found admin.Cleared
	err := c.connected(ctx, func(ctx context.Context, client group.Client) (err error) {
		found, err = client.Clear(ctx, admin.ClearOptions{DryRun: true})
		return err
	})
	if err != nil {
		return err
	}
	if len(found.Instances) > 0 && !opts.DespiteInstances {
		return fmt.Errorf("clear: %w: %s", admin.ErrInstancesLive, strings.Join(found.Instances, ", "))
	}
	of := plain.Printable(fmt.Sprintf("%s at %s", c.ServerType, c.ZK))
	err = c.Confirm(ctx, cmdline.Question{
		Text:    fmt.Sprintf("type %d, the number of jobs, to delete everything of %s: ", found.Jobs, of),
		Answers: []string{strconv.Itoa(found.Jobs)}, Nothing: "nothing was deleted",
	})
	if err != nil {
		return err
	}
	opts.Jobs = found.Jobs
	return clearAll(ctx, c, opts)
}

// clearAll does it and reports it, also when it fails halfway.
func clearAll(ctx context.Context, c *call, opts admin.ClearOptions) error {
	last := c.Now()
	opts.OnJob = func(deleted, of int) {
		if now := c.Now(); now.Sub(last) >= readingAfter {
			last = now
			c.Remark(fmt.Sprintf("clear: %d of %d jobs are deleted", deleted, of))
		}
	}
	quiet := func(int) {} // keeps the call going while the server answers
	return group.Read(ctx, c.Settings, c.dial, c.Remark, quiet, func(ctx context.Context, client group.Client) error {
		done, err := client.Clear(ctx, opts)
		if err != nil && done.Jobs == 0 {
			return err
		}
		doc := api.New("Clear", done, struct {
			DryRun bool `json:"dry_run"`
		}{opts.DryRun})
		return cmp.Or(err, c.put(doc, func(p render.Page) { p.Cleared(c.ServerType, done, opts.DryRun) }))
	})
}

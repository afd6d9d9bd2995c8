package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
)

// env connects a command to a group, and knows who asks. Most commands need no more of the outside
// world.
type env struct {
	dial   group.Dialer
	whoami func() string // who asks, for the records
}

// call is one run of a command that asks a group.
type call struct {
	*reply
	env

	reads bool // a server that has lost its quorum will do
}

// reads is run for a command that changes nothing and ends.
func (e *env) reads(do func(context.Context, *call) error) func(context.Context, *cmdline.Call) error {
	return e.run(func(ctx context.Context, c *call) error {
		c.reads = true
		return do(ctx, c)
	})
}

// connect is the Dialer of the command.
func (c *call) connect(ctx context.Context, cfg admin.Config) (group.Client, error) {
	cfg.AllowStale = c.reads
	return c.dial(ctx, cfg)
}

// run is the Run of a command. The log of who did what records whoFlags, whatever the command does.
func (e *env) run(do func(context.Context, *call) error) func(context.Context, *cmdline.Call) error {
	return func(ctx context.Context, c *cmdline.Call) error {
		who := admin.Who{By: c.Flags.String(flagBy), Reason: c.Flags.String(flagReason)}
		return do(admin.As(ctx, who), &call{reply: &reply{Call: c}, env: *e})
	}
}

// who reads whoFlags.
func (c *call) who() (by, reason string) {
	if by = c.Flags.String(flagBy); by == "" {
		by = c.whoami()
	}
	return by, c.Flags.String(flagReason)
}

// theName is the one argument of a line, of what word names.
func (c *call) theName(word, try string) (string, error) {
	if len(c.Args) != 1 {
		return "", cmdline.Usage("%s needs the name of one %s", c.Command, word).Try("%s", try)
	}
	return c.Args[0], nil
}

// connected does one thing with the group.
func (c *call) connected(ctx context.Context, do func(context.Context, group.Client) error) error {
	return c.clocked(group.Do(ctx, c.Settings, c.connect, c.Remark, c.asking(do)))
}

// reading is connected for what reads all jobs: it says on a terminal how far it is, and is not
// over while the server answers.
func (c *call) reading(ctx context.Context, do func(context.Context, group.Client) error) error {
	last := c.Now()
	heard := func(nodes int) {
		if now := c.Now(); c.Interactive && now.Sub(last) >= readingAfter {
			last = now
			c.Remark(fmt.Sprintf("%s: %d nodes were read", c.Command, nodes))
		}
	}
	return c.clocked(group.Read(ctx, c.Settings, c.connect, c.Remark, heard, c.asking(do)))
}

// readingAfter is how often what reads many nodes says how far it is.
const readingAfter = time.Second

// asking goes by the group's clock from then on, and adds hints to an error.
func (c *call) asking(do func(context.Context, group.Client) error) func(context.Context, group.Client) error {
	return func(ctx context.Context, client group.Client) error {
		c.clock, c.old = client.Clock, client.Stale
		return c.staled(meant(ctx, c.reply, client, do(ctx, client)))
	}
}

// confirmed looks at the stakes, asks unless --yes is given or the question is empty, and then
// acts. A person may think for longer than a session lives: nothing is kept open meanwhile, and the
// time of --timeout starts again.
func (c *call) confirmed(ctx context.Context, look func(context.Context, group.Client) (cmdline.Question, error),
	act func(context.Context, group.Client) error,
) error {
	yes := c.Flags.Bool(flagYes)
	if !yes && !c.Interactive {
		return cmdline.WithHint(fmt.Errorf("%s: %w: there is no terminal to ask on", c.Command, cmdline.ErrUnconfirmed), "add --yes")
	}
	var question cmdline.Question
	err := c.connected(ctx, func(ctx context.Context, client group.Client) (err error) {
		if question, err = look(ctx, client); err == nil && yes {
			err = act(ctx, client)
		}
		return err
	})
	if err == nil && !yes && question.Text != "" {
		err = c.Confirm(ctx, question)
	}
	if err != nil || yes {
		return err
	}
	return c.connected(ctx, act)
}

// named reads the jobs that the command line names, each once, sorted by name. A job that does not
// exist is an error that names the undone rest, or is skipped with a remark.
func named(ctx context.Context, c *cmdline.Call, client group.Client, done string, skip bool) ([]admin.JobStatus, error) {
	var found []admin.JobStatus
	var missing []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(c.Args))) {
		job, err := client.Get(ctx, name)
		switch {
		case errors.Is(err, admin.ErrNotFound):
			missing = append(missing, name)
		case err != nil:
			return nil, err
		default:
			found = append(found, job)
		}
	}
	list := strings.Join(missing, ", ")
	switch {
	case len(missing) == 0:
	case skip:
		c.Sayf("%v: %s, ignored", admin.ErrNotFound, list)
	case len(found) > 0:
		return nil, fmt.Errorf("%s: %w: %s; none was %s", c.Command, admin.ErrNotFound, list, done)
	default:
		return nil, fmt.Errorf("%s: %w: %s", c.Command, admin.ErrNotFound, list)
	}
	return found, nil
}

// each does something to one job after the other, and ends with the first error, which then names
// the jobs that were not tried.
func each(jobs []admin.JobStatus, do func(admin.JobStatus) error) error {
	for i, status := range jobs {
		err := do(status)
		if err == nil {
			continue
		}
		var left []string
		for _, other := range jobs[i+1:] {
			left = append(left, other.Name)
		}
		if len(left) > 0 {
			err = fmt.Errorf("%w; not tried: %s", err, strings.Join(left, ", "))
		}
		return err
	}
	return nil
}

// changeNamed changes a calendar or a limit.
func (c *call) changeNamed(
	ctx context.Context, word string, change func(context.Context, group.Client, admin.NamedOptions) (admin.NamedChange, error),
) error {
	dry := c.Flags.Bool(flagDryRun)
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		done, err := change(ctx, client, admin.NamedOptions{DryRun: dry})
		if err != nil {
			return err
		}
		return c.put(api.New("NamedChange", done), func(p render.Page) { p.NamedChanged(word, done, dry) })
	})
}

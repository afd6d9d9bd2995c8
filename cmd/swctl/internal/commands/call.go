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
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/job"
)

// call is one run of a command.
type call struct {
	*cmdline.Call
	*app

	clock  func() (now time.Time, ahead time.Duration, own bool) // of the group, once there is a connection
	own    bool                                                  // what was printed has times of this machine's
	warned bool                                                  // of that one
}

// run is the Run of a command. The log of who did what records whoFlags, whatever the command does.
func (a *app) run(do func(context.Context, *call) error) func(context.Context, *cmdline.Call) error {
	return func(ctx context.Context, c *cmdline.Call) error {
		who := admin.Who{By: c.Flags.String(flagBy), Reason: c.Flags.String(flagReason)}
		return do(admin.As(ctx, who), &call{Call: c, app: a})
	}
}

// connected does one thing with the group.
func (c *call) connected(ctx context.Context, do func(context.Context, group.Client) error) error {
	return c.clocked(group.Do(ctx, c.Settings, c.dial, c.say, func(ctx context.Context, client group.Client) error {
		c.clock = client.Clock
		return c.meant(ctx, client, do(ctx, client))
	}))
}

// reading is connected for what reads all jobs: it says on a terminal how far it is, and is not
// over while the server answers.
func (c *call) reading(ctx context.Context, do func(context.Context, group.Client) error) error {
	last := c.Now()
	heard := func(nodes int) {
		if now := c.Now(); c.Interactive && now.Sub(last) >= readingAfter {
			last = now
			c.say(fmt.Sprintf("%s: %d nodes were read", c.Command, nodes))
		}
	}
	return c.clocked(group.Read(ctx, c.Settings, c.dial, c.say, heard, func(ctx context.Context, client group.Client) error {
		c.clock = client.Clock
		return c.meant(ctx, client, do(ctx, client))
	}))
}

// now is the group's time once there is a connection, and until then this machine's.
func (c *call) now() time.Time {
	if c.clock == nil {
		return c.Now()
	}
	now, _, own := c.clock()
	c.own = own
	return now
}

// clocked says once, after the output, that this machine's clock is wrong, or that judgments were
// made by it. Who submits or changes the first jobs need not hear that no instance lives yet.
func (c *call) clocked(err error) error {
	if c.clock != nil && !c.JSON && !c.warned {
		_, ahead, _ := c.clock()
		own := c.own && slices.Contains([]string{"list", "show", "why", "next", "history"}, c.Command)
		if text := words.Clock("this machine's clock", ahead, own); text != "" {
			c.warned = true
			c.Notef("%s", text)
		}
	}
	return err
}

// readingAfter is how often what reads many nodes says how far it is.
const readingAfter = time.Second

// say writes a remark to stderr at once, unless that is to be one document.
func (c *call) say(text string) {
	if !c.JSON {
		c.Sayf("%s", text)
	}
}

// page is the output for people.
func (c *call) page() render.Page {
	columns, _, colors := c.Screen()
	return render.Page{Out: &c.Out, Now: c.now(), Columns: columns, Color: colors, Wide: c.Wide, Times: c.Times}
}

// put prints a document under -o json, and what people makes of it otherwise.
func (c *call) put(document any, people func(render.Page)) error {
	if c.JSON {
		return c.PutJSON(document)
	}
	people(c.page())
	return nil
}

// noArgs refuses arguments, and says what to try.
func (c *call) noArgs(try string, args ...any) error {
	if len(c.Args) > 0 {
		return cmdline.Usage("%s takes no arguments", c.Command).Try(try, args...)
	}
	return nil
}

// name is the only argument: the name of a job, or of a shard if the command takes that.
func (c *call) name() (string, error) {
	if len(c.Args) != 1 {
		return "", cmdline.Usage("%s needs the name of one job", c.Command).Try("swctl %s NAME; swctl list shows all jobs", c.Command)
	}
	return c.Args[0], nil
}

// nameAndID is the name of a job, and the ID of one of its runs or requests if that is given; the
// command where shows the IDs.
func (c *call) nameAndID(what, where string) (name, id string, err error) {
	switch {
	case len(c.Args) == 0 || len(c.Args) > 2:
		return "", "", cmdline.Usage("%s needs the name of one job, and optionally the ID of a %s", c.Command, what).Try("swctl %s NAME; swctl %s NAME shows the IDs", c.Command, where)
	case len(c.Args) == 1:
		return c.Args[0], "", nil
	case c.Args[1] == "":
		return "", "", cmdline.Usage("%s: the ID of the %s is empty", c.Command, what).Try("leave it out, or look whether a shell variable is unset")
	}
	return c.Args[0], c.Args[1], nil
}

// jobOf is the job of a name that may be a shard's, or a job's at an instance.
func jobOf(name string) string {
	if of, sid, part := strings.Cut(name, "/"); part && job.CheckNodeName(sid) == nil {
		return of
	}
	of, _, _ := job.SplitShard(name)
	return of
}

// wholeJobs refuses the name of a shard where only a job will do.
func (c *call) wholeJobs(names ...string) error {
	for _, name := range names {
		if of, _, ok := job.SplitShard(name); ok {
			return cmdline.Usage("%s works on a whole job, and %s is one of its shards", c.Command, name).
				Try("swctl %s %s", c.Command, plain.Quoted(of))
		}
	}
	return nil
}

const (
	flagBy     = "by"
	flagReason = "reason"

	inRecords = "in the records"
	inLog     = "in the log (swctl log)"
)

// whoFlags say who asks for something, and why, which is kept somewhere.
func whoFlags(kept string) []cmdline.Flag {
	return []cmdline.Flag{
		{Name: flagReason, Usage: "`TEXT` why; kept " + kept},
		{Name: flagBy, Usage: "`NAME` who asks (default: user@host)"},
	}
}

// who reads whoFlags.
func (c *call) who() (by, reason string) {
	if by = c.Flags.String(flagBy); by == "" {
		by = c.whoami()
	}
	return by, c.Flags.String(flagReason)
}

const flagYes = "yes"

func yesFlag() cmdline.Flag { return cmdline.Flag{Name: flagYes, Alias: "y", Usage: "do not ask"} }

// confirmed looks at the stakes, asks unless --yes is given or the question is empty, and then
// acts. A person may think for longer than a session lives: nothing is kept open meanwhile, and the
// time of --timeout starts again.
func (c *call) confirmed(ctx context.Context, look func(context.Context, group.Client) (cmdline.Question, error),
	act func(context.Context, group.Client) error,
) error {
	if c.Flags.Bool(flagYes) {
		return c.connected(ctx, func(ctx context.Context, client group.Client) error {
			if _, err := look(ctx, client); err != nil {
				return err
			}
			return act(ctx, client)
		})
	}
	if !c.Interactive {
		return cmdline.WithHint(fmt.Errorf("%s: %w: there is no terminal to ask on", c.Command, cmdline.ErrUnconfirmed), "add --yes")
	}
	var question cmdline.Question
	err := c.connected(ctx, func(ctx context.Context, client group.Client) (err error) {
		question, err = look(ctx, client)
		return err
	})
	if err == nil && question.Text != "" {
		err = c.Confirm(ctx, question)
	}
	if err != nil {
		return err
	}
	return c.connected(ctx, act)
}

// named reads the jobs that the command line names, each once, sorted by name. A job that does not
// exist is an error that names the undone rest, or is skipped with a remark.
func (c *call) named(ctx context.Context, client group.Client, done string, skip bool) ([]admin.JobStatus, error) {
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

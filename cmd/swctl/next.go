package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/job"
)

// maxTicks bounds -n.
const maxTicks = 1000

func (a *app) nextCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "next", Args: "NAME | --cron SCHEDULE",
		Short: "show when a job, or a schedule, runs next",
		Long: `With --cron it needs no server: a schedule can be tried before it is submitted.
Each line is the time in the job's zone, how far off it is, and the time in UTC.`,
		Examples: `swctl next nightly
swctl next --cron '0 3 * * *' --tz Europe/Berlin -n 10`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "cron", Usage: "`SCHEDULE` any schedule instead of a job's"},
			&cli.StringFlag{Name: "tz", Usage: "`ZONE` time zone of --cron, an IANA name (default UTC)"},
			&cli.StringFlag{Name: "n", Usage: "`NUMBER` how many times to show, 1 to 1000 (default 5)"},
		},
		Run: a.run(next),
	}
}

func next(ctx context.Context, c *call) error {
	n, err := c.Count("n", 5, maxTicks)
	if err != nil {
		return err
	}
	if err := c.RefuseEmpty("cron", "tz"); err != nil {
		return err
	}
	if !c.Flags.IsSet("cron") {
		return c.nextOfJob(ctx, n)
	}
	if len(c.Args) > 0 {
		return cmdline.Usage("next: --cron and the name of a job are mutually exclusive").
			Try("one of the two; quote the schedule: --cron '0 3 * * *'")
	}
	// The name is never used: whole jobs are validated.
	tried := job.Job{Name: "next", Schedule: c.Flags.String("cron"), TimeZone: c.Flags.String(flagTZ)}.WithDefaults()
	if err := c.check(tried); err != nil {
		return err
	}
	return c.putTicks("", tried, n)
}

func (c *call) nextOfJob(ctx context.Context, n int) error {
	switch {
	case len(c.Args) != 1:
		return cmdline.Usage("next needs the name of one job, or --cron SCHEDULE").Try("swctl next --cron '0 3 * * *'")
	case c.Flags.IsSet(flagTZ):
		return cmdline.Usage("next: --tz goes with --cron; a job has its own time zone").Try("leave out --tz")
	}
	var job admin.JobStatus
	err := c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		job, err = cl.Get(ctx, c.Args[0])
		return err
	})
	switch {
	case err != nil:
		return err
	case job.State == admin.StateInvalid:
		return cmdline.Usage("next %s: the job cannot run: %s", job.Name, job.Reason).
			Try("swctl submit %s SCHEDULE --replace", output.Quoted(job.Name))
	}
	return c.putTicks(job.Name, job.Job, n)
}

// putTicks renders the next n ticks of a job; name is empty for a bare
// schedule.
func (c *call) putTicks(name string, j job.Job, n int) error {
	schedule, err := j.ParseSchedule()
	if err != nil {
		return refused(err)
	}
	loc := schedule.Location()
	var ticks []time.Time
	for at := schedule.Next(c.Now()); !at.IsZero() && len(ticks) < n; at = schedule.Next(at) {
		ticks = append(ticks, at)
	}
	if c.JSON {
		items := make([]api.Tick, len(ticks))
		for i, tick := range ticks {
			items[i] = api.Tick{Tick: tick.UTC(), Local: tick.In(loc)}
		}
		return c.PutJSON(api.New("TickList", api.Named{Name: name}, api.Schedule{Schedule: j.Schedule, TimeZone: j.TimeZone}, api.Items[api.Tick]{Items: items}))
	}
	t := &output.Table{}
	t.Row("TIME", "RELATIVE", "UTC")
	for _, tick := range ticks {
		t.Row(output.Absolute(tick, loc), output.Relative(tick, c.Now()), tick.UTC().Format("2006-01-02 15:04:05Z"))
	}
	t.Write(&c.Out, "")
	switch {
	case len(ticks) == 0:
		c.Notef("%q never runs again", j.Schedule)
	case len(ticks) < n:
		c.Notef("%q does not run after that", j.Schedule)
	}
	return nil
}

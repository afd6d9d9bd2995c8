package commands

import (
	"context"
	"errors"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

// maxTicks bounds -n.
const maxTicks = 1000

func nextCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "next", Args: "NAME | --cron SCHEDULE",
		Short: "show when a job, or a schedule, runs next",
		Long: `With --cron it needs no server: a schedule can be tried before it is submitted.
Each line is the time in the job's zone, how far off it is, and the time in UTC. What the
schedule means follows in words.`,
		Examples: `swctl next nightly
swctl next --cron '0 3 * * *' --tz Europe/Berlin -n 10
swctl next nightly --from 2026-12-24`,
		Flags: []cmdline.Flag{
			{Name: "cron", Usage: "`SCHEDULE` any schedule instead of a job's"},
			{Name: "tz", Usage: "`ZONE` time zone of --cron: an IANA name, or an offset such as GMT+8:00 (default UTC)"},
			{Name: "from", Usage: "`TIME` from when: 15:04, 2006-01-02 15:04 in the schedule's time zone, or RFC 3339 (default now)"},
			{Name: "n", Usage: "`NUMBER` how many times to show, 1 to 1000 (default 5)"},
		},
		Run: e.reads(next),
	}
}

func next(ctx context.Context, c *call) error {
	n, err := c.Number("n", 5, 1, maxTicks)
	if err != nil {
		return err
	}
	switch cron := c.Flags.IsSet("cron"); {
	case cron && len(c.Args) > 0:
		return cmdline.Usage("next: --cron and the name of a job are mutually exclusive").
			Try("one of the two; quote the schedule: --cron '0 3 * * *'")
	case cron:
		// The name is never used: whole jobs are validated.
		tried := job.Job{Name: "next", Schedule: c.Flags.String("cron"), TimeZone: c.Flags.String(fields.FlagTZ)}.WithDefaults()
		schedule, err := tried.ParseSchedule()
		if err == nil && schedule.Ended(c.Now()) {
			err = job.Invalid("Schedule", tried.Schedule, errors.New("never fires again"))
		}
		if err != nil {
			return fields.Refused(err)
		}
		return putTicks(c.reply, admin.JobStatus{Job: tried}, n)
	case len(c.Args) != 1:
		return cmdline.Usage("next needs the name of one job, or --cron SCHEDULE").Try("swctl next --cron '0 3 * * *'")
	case c.Flags.IsSet(fields.FlagTZ):
		return cmdline.Usage("next: --tz goes with --cron; a job has its own time zone").Try("leave out --tz")
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		job, err := client.Get(ctx, c.Args[0])
		switch {
		case err != nil:
			return err
		case job.State == admin.StateInvalid:
			return cmdline.Usage("next %s: the job cannot run: %s", job.Name, job.Reason).
				Try("swctl submit %s SCHEDULE --replace", plain.Quoted(job.Name))
		}
		return putTicks(c.reply, job, n)
	})
}

// putTicks prints the next n ticks of a job; it has no name for a bare schedule.
func putTicks(r *reply, of admin.JobStatus, n int) error {
	j := of.Job
	schedule, err := j.ParseSchedule()
	if err != nil {
		return fields.Refused(err)
	}
	zone, after := schedule.Location(), r.now()
	from, err := r.ClockTime("from")
	if err == nil && from.Given() {
		after, err = from.In(zone, r.now())
		after = after.Add(-time.Millisecond) // a tick at that time counts
	}
	if err != nil {
		return err
	}
	ticks := api.TicksOf(of, after, n)
	out := api.LeftOutOf(of, after, ticks)
	return r.put(api.TickList(of, ticks, out), func(p render.Page) {
		p.Ticks(ticks, out, schedule.Words())
		switch {
		case schedule.Always():
			r.Notef("%s has no times: the job runs all the time", j.Schedule)
		case schedule.Manual():
			r.Notef("%s has no times: the job runs when it is triggered", j.Schedule)
		case j.MaxRuns > 0 && len(ticks) < n && len(ticks) == j.MaxRuns-of.Runs:
			r.Notef("%d of %d runs were claimed: the job is done after the last one", of.Runs, j.MaxRuns)
		case len(ticks) == 0:
			r.Notef("%q never runs again", j.Schedule)
		case len(ticks) < n:
			r.Notef("%q does not run after that", j.Schedule)
		}
	})
}

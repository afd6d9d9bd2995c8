package commands

import (
	"context"
	"slices"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/fields"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

func (a *app) listCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "list", Aliases: []string{"ls"},
		Short: "show all jobs: their owners, last runs and next runs",
		Long: `STATE is owned, unowned, invalid, done or canceled, or, for a job that is owned, paused, late,
hung or resizing: late means that a tick is overdue by the job's --alarm-after, hung that a run
takes so long that it seems to hang. A job that is done has an @at schedule, has run, has no
owner any more, and is removed --keep-done after that. The column REASON appears when a job has
one: all that is wrong with it, first what STATE shows. It also names a run that is in progress
when the next tick comes, and how many ticks in a row have failed. LAST and NEXT are relative to
now: "ok 8h ago" is the tick of 8 h ago; "unknown" is a run whose owner died before it could
record the result.

A job with shards is one row: it is unowned while one of its shards is; OWNER is like
"3/4 app-1(2) app-2(1)", 3 of 4 shards owned and by which instances; LAST counts the
results of the last tick: "1 failed, 3 ok, 8h ago". It is resizing while a change of its
shards is in progress. -o wide has a row per shard instead, and more columns.

While the server answers, --timeout starts again with each of its answers.`,
		Examples: `swctl list
swctl list -o wide
swctl list -l team=billing -l tier=gold
swctl list -o json | jq -r '.items[] | select(.state == "unowned") | .name'
swctl list -o json | jq -r '.items[] | select(.overdue_tick) | .name'
swctl list -o json | jq -r '.items[] | select(.failing.runs > 2) | .name'`,
		Flags: []cmdline.Flag{
			{Name: fields.FlagLabel, Alias: "l", Usage: "`KEY=VALUE` only jobs with this label; may be repeated, and then all must match", Repeated: true},
		},
		Run: a.run(list),
	}
}

func list(ctx context.Context, c *call) error {
	if len(c.Args) > 0 {
		return cmdline.Usage("list takes no arguments").Try("swctl show %s", plain.Quoted(c.Args[0]))
	}
	labels, err := c.Pairs(fields.FlagLabel)
	if err != nil {
		return err
	}
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		all, err := client.List(ctx)
		if err != nil {
			return err
		}
		jobs := slices.DeleteFunc(slices.Clone(all), func(job admin.JobStatus) bool { return !hasLabels(job, labels) })
		var instances []admin.Instance
		if len(all) == 0 {
			if instances, err = client.Instances(ctx); err != nil {
				return err
			}
			if len(instances) == 0 {
				if err := c.empty(ctx, client); err != nil {
					return err
				}
			}
		}
		return c.put(api.List("JobList", jobs), func(p render.Page) {
			if c.Wide {
				p.WideJobs(jobs)
			} else {
				p.Jobs(jobs, "")
			}
			switch {
			case len(jobs) > 0:
			case len(all) > 0:
				c.Notef("no job of server type %s at %s has these labels", c.ServerType, c.ZK)
			case len(instances) > 0:
				c.Notef("server type %s at %s has no jobs", c.ServerType, c.ZK)
			default:
				c.Notef("server type %s at %s has no jobs, and no running instances: are the name and the chroot right?", c.ServerType, c.ZK)
			}
		})
	})
}

func hasLabels(job admin.JobStatus, labels map[string]string) bool {
	for key, want := range labels {
		if value, ok := job.Job.Labels[key]; !ok || value != want {
			return false
		}
	}
	return true
}

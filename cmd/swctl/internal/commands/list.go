package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/cmd/swctl/internal/render"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/reason"
)

func listCommand(e *env) *cmdline.Command {
	return &cmdline.Command{
		Name: "list", Aliases: []string{"ls"}, Args: "[NAME...]",
		Short: "show jobs: their health, owners, last runs and next runs",
		Long: `STATE is the health of a job: the first of these that holds. Programs know some of them by
another word, which is in parentheses.

` + statesHelp() + `
"failing x12" is 12 ticks in a row; "failing x20+" is 20 or more: the history has no others.
The column REASON appears when a job has one: all that is wrong with it, first what STATE
shows. LAST and NEXT are relative to now: "ok 8h ago" is the tick of 8 h ago; "unknown" is a
run whose owner died before it could record the result. NEXT is - if nobody will run the job
as things are. A job that is done is removed --keep-done after that.

A job with shards is one row: it stands as the worst of them; OWNER is like
"3/4 app-1(2) app-2(1)", 3 of 4 shards owned and by which instances; LAST counts the
results of the last tick: "1 failed, 3 ok, 8h ago". It is resizing while a change of its
shards is in progress. -o wide has a row per shard instead, and more columns.

A NAME may be a pattern, as in a shell: quote it. On a terminal, columns that do not fit are
below their row, the REASON first; NO_COLOR leaves out the colors. --watch draws the list again
there, and elsewhere prints another one below, at most once a second.

While the server answers, --timeout starts again with each of its answers.`,
		Examples: `swctl list
swctl list -o wide
swctl list 'bil*' -l team=billing -l tier=gold
swctl list --failing --sort state --watch
swctl list --state late,hung --owner app-1
swctl list --failing -o name | xargs swctl pause --for 1h
swctl list -o json | jq -r '.items[] | select(.failing.runs > 2) | .name'`,
		Flags: choiceFlags(),
		Run:   e.reads(list),
	}
}

// statesHelp lists all that STATE can be, in the order of the table of conditions.
func statesHelp() string {
	var text strings.Builder
	say := func(word, means string) {
		for _, line := range output.Wrap(means, 50) {
			fmt.Fprintf(&text, "  %-26s  %s\n", word, line)
			word = ""
		}
	}
	var means []string
	all := reason.Meanings()
	for i, m := range all {
		means = append(means, m.Sentence)
		if i+1 < len(all) && all[i+1].Word == m.Word {
			continue
		}
		word := m.Word
		if m.State != word {
			word += " (" + m.State + ")"
		}
		say(word, strings.Join(means, "; or "))
		means = nil
	}
	say(admin.HealthOK, "it has an owner, and nothing is wrong with it")
	return text.String()
}

func list(ctx context.Context, c *call) error {
	chosen, err := choiceOf(c.Call)
	if err != nil {
		return err
	}
	if c.Flags.Bool(flagWatch) {
		var jobs []admin.JobStatus
		look := func(ctx context.Context, client group.Client) error {
			all, err := client.List(ctx)
			jobs = chosen.of(all)
			return err
		}
		return watching(ctx, c, look, func() error { return putJobs(c.reply, jobs) })
	}
	return c.reading(ctx, func(ctx context.Context, client group.Client) error {
		all, err := client.List(ctx)
		if err != nil {
			return err
		}
		var instances []admin.Instance
		if len(all) == 0 {
			if instances, err = client.Instances(ctx); err != nil {
				return err
			}
			if len(instances) == 0 {
				if err := empty(ctx, c.Settings, client); err != nil {
					return err
				}
			}
		}
		jobs := chosen.of(all)
		switch {
		case len(jobs) > 0 || c.JSON:
		case len(all) > 0:
			c.Notef("no job of server type %s at %s is like that; without conditions, swctl list shows all %d", c.ServerType, c.ZK, len(all))
		case len(instances) > 0:
			c.Notef("server type %s at %s has no jobs", c.ServerType, c.ZK)
		default:
			c.Notef("server type %s at %s has no jobs, and no running instances: are the name and the chroot right?", c.ServerType, c.ZK)
		}
		return putJobs(c.reply, jobs)
	})
}

func putJobs(r *reply, jobs []admin.JobStatus) error {
	return r.put(api.List("JobList", jobs), func(p render.Page) {
		if r.Wide {
			p.WideJobs(jobs)
		} else {
			p.Jobs(jobs, "")
		}
	})
}

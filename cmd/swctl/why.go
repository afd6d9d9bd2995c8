package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/explain"
	"github.com/swjobs/singleworker/singleworker/admin"
)

func (a *app) whyCommand() *command {
	return &command{
		name: "why", args: "NAME",
		short: "explain what became of a tick of a job",
		long: `Says who owns the job and since when, what became of the last tick, and, if it did not
run, why: the job was paused, no instance has the handler, it had no owner, a run was
still in progress, the tick was missed. Everything is read from ZooKeeper; no instance is
asked. --at explains the tick at that time, or the last one before it; the time that swctl
history shows for a manual run means that run. Times are in the job's time zone. A job with
shards is summarized; NAME[3] explains shard 3.`,
		examples: `swctl why nightly
swctl why 'import[3]'
swctl why nightly --at 03:00
swctl why nightly --at '2026-11-20 03:00:00 CET' -o json | jq -r .fate`,
		flags: []cli.Flag{
			&cli.StringFlag{Name: "at", Usage: "`TIME` 15:04, 2006-01-02 15:04 in the job's time zone, or RFC 3339 (default now)"},
		},
		run: a.action(why),
	}
}

func why(ctx context.Context, c *call) error {
	if err := c.refuseEmpty("at"); err != nil {
		return err
	}
	var at clockTime
	if c.flags.IsSet("at") {
		var err error
		if at, err = parseClockTime("at", c.flags.String("at")); err != nil {
			return err
		}
	}
	if len(c.args) != 1 {
		return usage("why needs the name of one job").try("swctl why NAME; swctl list shows all jobs")
	}
	var explained admin.Explanation
	err := c.connected(ctx, func(ctx context.Context, cl client) error {
		asked := time.Time{}
		if at.given() {
			job, err := cl.Get(ctx, c.args[0]) // for its time zone
			if err != nil {
				return err
			}
			if asked, err = at.in(zoneOf(job.Job), c.now()); err != nil {
				return err
			}
		}
		var err error
		explained, err = cl.Why(ctx, c.args[0], asked)
		return err
	})
	if err != nil {
		return err
	}
	if c.json {
		return c.putJSON(jsonExplanation{
			jsonHead: head("Explanation"), Name: explained.Job.Name, Asked: utc(explained.Asked), Tick: utc(explained.Tick),
			Fate: string(explained.Fate), Reason: string(explained.Reason), Unreadable: explained.Unreadable, Pause: pauseToJSON(explained.Pause),
			ScheduleSince: utc(explained.ScheduleSince),
			Items:         listOf("", explained.Entries, entryToJSON).Items, Job: jobToJSON(explained.Job),
		})
	}
	for _, sentence := range explain.Sentences(explained) {
		fmt.Fprintln(&c.out, oneLine(sentence))
	}
	return nil
}

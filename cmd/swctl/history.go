package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/output"
	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/job"
)

// maxEntries bounds -n of history: more are never kept, of all shards of a job.
const maxEntries = 20 * job.MaxShards

func (a *app) historyCommand() *cmdline.Command {
	return &cmdline.Command{
		Name: "history", Args: "NAME",
		Short: "show what became of the last ticks of a job",
		Long: `Newest first; about 20 entries are kept. A run in progress comes first; it is unknown if
its owner died before it could record the result. Ticks that did not run are skipped
(because of the schedule, a pause or a policy) or missed (no instance was there in time);
consecutive ones are one entry. Several runs of one tick are attempts; the last one
counts. LAG is from the tick to the start of the run. Times are in the job's time zone. A
job with shards has about 20 entries per shard, sorted by tick; NAME[3] shows those of
shard 3.`,
		Examples: `swctl history nightly
swctl history 'import[3]'
swctl history nightly --failed -n 5
swctl history nightly -o json | jq '.items[] | select(.state == "failed") | .error'`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "n", Usage: "`NUMBER` how many entries to show (default all)"},
			&cli.BoolFlag{Name: "failed", Usage: "only problems: not ok, running or skipped"},
		},
		Run: a.run(history),
	}
}

func history(ctx context.Context, c *call) error {
	n, err := c.Count("n", maxEntries, maxEntries)
	if err != nil {
		return err
	}
	if len(c.Args) != 1 {
		return cmdline.Usage("history needs the name of one job").Try("swctl history NAME; swctl list shows all jobs")
	}
	var past admin.History
	err = c.connected(ctx, func(ctx context.Context, cl client) (err error) {
		past, err = cl.History(ctx, c.Args[0])
		return err
	})
	if err != nil {
		return err
	}
	var entries []admin.Entry
	for _, entry := range past.Entries {
		if (!c.Flags.Bool("failed") || wentWrong(entry.State)) && len(entries) < n {
			entries = append(entries, entry)
		}
	}
	if c.JSON {
		return c.PutJSON(api.New("History", api.Named{Name: past.Job.Name}, api.Items[admin.Entry]{Items: append([]admin.Entry{}, entries...)}))
	}
	c.historyTable(past.Job, entries).Write(&c.Out, "")
	if len(entries) == 0 && len(past.Entries) > 0 {
		c.Notef("the history of %s has no such entries", past.Job.Name)
	} else if len(entries) == 0 {
		c.Notef("%s has no history: no tick has been claimed or skipped yet", past.Job.Name)
	}
	return nil
}

func wentWrong(state string) bool {
	switch state {
	case admin.RunOK, admin.RunRunning, admin.RunSkipped:
		return false
	}
	return true
}

// historyTable has a column of shards if the job has several.
func (c *call) historyTable(job admin.JobStatus, entries []admin.Entry) *output.Table {
	zone := zoneOf(job.Job)
	t := &output.Table{}
	header := []string{"TICK", "STATE", "LAG", "TOOK", "ON", "ATTEMPT", "CAUSE", "RUN", "WHY"}
	if len(job.Slots) > 0 {
		header = slices.Insert(header, 1, "SHARD")
	}
	t.Row(header...)
	for _, e := range entries {
		row := []string{output.Absolute(e.Tick, zone), e.State, "", "", e.InstanceID, "", "", e.RunID, c.why(e, zone)}
		if e.RunID != "" {
			row[5], row[6] = strconv.Itoa(e.Attempt), "schedule"
		}
		if e.Manual != "" {
			row[6] = "manual"
		}
		if !e.Started.IsZero() {
			row[2] = output.Span(e.Started.Sub(e.Tick))
		}
		switch {
		case e.Started.IsZero():
		case !e.Ended.IsZero():
			row[3] = output.Span(e.Ended.Sub(e.Started))
		case e.State == admin.RunRunning:
			row[3] = output.Span(c.Now().Sub(e.Started))
		}
		if len(job.Slots) > 0 && e.Shard != nil {
			row = slices.Insert(row, 1, strconv.Itoa(*e.Shard))
		}
		t.Row(row...)
	}
	return t
}

// why says of an entry what its state does not.
func (c *call) why(e admin.Entry, zone *time.Location) string {
	var parts []string
	if e.Reason != "" {
		parts = append(parts, strings.ReplaceAll(string(e.Reason), "_", " "))
	}
	if e.Count > 1 {
		parts = append(parts, fmt.Sprintf("%d ticks until %s", e.Count, output.Absolute(e.To, zone)))
	}
	if e.Error != "" {
		parts = append(parts, output.FirstLine(e.Error))
	}
	if e.NextAttempt != "" {
		parts = append(parts, fmt.Sprintf("%s %s", e.NextAttempt, output.Relative(e.NextAttemptAt, c.Now())))
	}
	return strings.Join(parts, ", ")
}

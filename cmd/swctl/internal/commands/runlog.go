package commands

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/cmd/swctl/internal/group"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

const (
	flagKeep       = "keep"
	flagKeepPerJob = "keep-per-job"
	mostPerJob     = 100_000_000
)

func (a *app) runlogCommand() *cmdline.Command {
	return &cmdline.Command{
		Name:  "runlog",
		Short: "keep every run in a store outside ZooKeeper, until interrupted",
		Long: `ZooKeeper has the last 20 entries of each job. This reads them as they are written, and
appends each run, retry, and row of skipped or missed ticks to the store, once: it may be
killed at any moment, and several may run, of which one works. What it could not read in time
is a row as well: a hole. swctl history --store shows what is there.

file:DIRECTORY is files of JSON lines. A database is created up to its tables.`,
		Examples: `swctl runlog --store file:/var/lib/swctl
swctl runlog --store file:/var/lib/swctl --keep 90d --keep-per-job 10000`,
		Flags: []cmdline.Flag{
			a.storeFlag("where to keep it"),
			{Name: flagKeep, Usage: "`AGE` remove entries that are older, such as 90d, 12w or 36h (default: never)"},
			{Name: flagKeepPerJob, Usage: "`NUMBER` remove all but the newest entries of each job or shard (default: none)"},
		},
		Run: a.run(keepLog),
	}
}

// logged is the content of a RunLogReader document.
type logged struct {
	Group string `json:"group"`
}

func keepLog(ctx context.Context, c *call) error {
	if err := c.noArgs("swctl runlog --%s file:DIRECTORY", flagStore); err != nil {
		return err
	}
	o := runlog.Options{Group: c.ServerType, Logger: slog.New(remarks{c})}
	var err error
	if o.KeepPerSlot, err = c.Number(flagKeepPerJob, 0, 1, mostPerJob); err != nil {
		return err
	}
	if text := c.Flags.String(flagKeep); text != "" {
		if o.Keep, err = job.ParseDuration(text); err != nil || o.Keep <= 0 {
			return cmdline.Usage("--%s %q: want an age such as 90d, 12w or 36h", flagKeep, text)
		}
	}
	store, err := c.openStore()
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // each batch was stored when it was appended
	if !c.Flags.IsSet(cmdline.FlagTimeout) {
		c.Timeout = 0
	}
	return c.connected(ctx, func(ctx context.Context, client group.Client) error {
		if c.JSON {
			err = c.PutJSON(api.New("RunLogReader", logged{c.ServerType}))
		} else {
			fmt.Fprintf(&c.Out, "keeping the run log of %s; press Ctrl-C to stop\n", plain.Printable(c.ServerType))
		}
		if err == nil {
			err = c.Flush()
		}
		if err != nil {
			return err
		}
		return runlog.Run(ctx, client, store, o)
	})
}

// remarks is a slog.Handler that writes lines of swctl.
type remarks struct{ *call }

// Enabled implements slog.Handler.
func (remarks) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (r remarks) Handle(_ context.Context, record slog.Record) error {
	words := []string{record.Message}
	record.Attrs(func(a slog.Attr) bool {
		text := a.Value.String()
		if a.Value.Kind() == slog.KindTime {
			text = a.Value.Time().UTC().Format(time.RFC3339)
		}
		words = append(words, a.Key+"="+strconv.Quote(text))
		return true
	})
	r.say(strings.Join(words, " "))
	return nil
}

// WithAttrs implements slog.Handler. Nobody sets any.
func (r remarks) WithAttrs([]slog.Attr) slog.Handler { return r }

// WithGroup implements slog.Handler. Nobody opens one.
func (r remarks) WithGroup(string) slog.Handler { return r }

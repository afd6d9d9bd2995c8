package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin"
)

// The flags that describe a job beside its name and schedule: those of submit,
// and of set.
const (
	flagTZ           = "tz"
	flagHandler      = "handler"
	flagArg          = "arg"
	flagArgsJSON     = "args-json"
	flagShards       = "shards"
	flagShardParam   = "shard-param"
	flagMisfire      = "misfire"
	flagMisfireGrace = "misfire-grace"
	flagInterrupted  = "interrupted"
	flagMaxAttempts  = "max-attempts"
	flagOverlap      = "overlap"
	flagRunTimeout   = "run-timeout" // --timeout is how long swctl itself may take
	flagRetries      = "retries"
	flagBackoff      = "backoff"
	flagAlarmAfter   = "alarm-after"
)

func argFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: flagArg, Usage: "`KEY=VALUE` an argument for the handler; may be repeated"},
		&cli.StringFlag{Name: flagArgsJSON, Usage: "`JSON` for the handler beside the arguments; @FILE reads it from a file, - from stdin"},
	}
}

func jobFlags() []cli.Flag {
	flags := append([]cli.Flag{
		&cli.StringFlag{Name: flagTZ, Usage: "`ZONE` time zone of the schedule, an IANA name (default UTC)"},
		&cli.StringFlag{Name: flagHandler, Usage: "`NAME` the function that runs the job (default: the job's name)"},
	}, argFlags()...)
	return append(flags,
		&cli.StringFlag{Name: flagShards, Usage: "`NUMBER` number of shards, 1 to 1024; each tick runs once per shard (default: unsharded)"},
		&cli.StringSliceFlag{Name: flagShardParam, Usage: "`K=TEXT` what shard K works on, K from 0; may be repeated"},
		&cli.StringFlag{Name: flagMisfire, Usage: "`POLICY` what to do with missed ticks: once (run the latest), skip, all (default once)"},
		&cli.StringFlag{Name: flagMisfireGrace, Usage: "`DURATION` how old a tick may be and still run, 0 for any age (default 0)"},
		&cli.StringFlag{Name: flagInterrupted, Usage: "`POLICY` for a run whose instance dies or stops: rerun or skip (default rerun)"},
		&cli.StringFlag{Name: flagMaxAttempts, Usage: "`NUMBER` how often a tick is started when its runs are interrupted, 1 to 100 (default 3)"},
		&cli.StringFlag{Name: flagOverlap, Usage: "`POLICY` for ticks that come during a run: skip, or queue the latest (default skip)"},
		&cli.StringFlag{Name: flagRunTimeout, Usage: "`DURATION` of one run, 0 for no limit (default 0)"},
		&cli.StringFlag{Name: flagRetries, Usage: "`NUMBER` how often a failed run is retried, 0 to 100; manual runs are not (default 0)"},
		&cli.StringFlag{Name: flagBackoff, Usage: "`DURATION` before the first retry; it doubles with each (default 1s, also for 0)"},
		&cli.StringFlag{Name: flagAlarmAfter, Usage: "`DURATION` how late a tick is when it is reported as missing (default 1m, also for 0)"},
	)
}

// jobChanges reads the flags of jobFlags that were given.
func (c *call) jobChanges() (admin.Changes, error) {
	r := fieldReader{call: c}
	ch := admin.Changes{
		TimeZone: r.text(flagTZ), Handler: r.text(flagHandler), Payload: r.json(flagArgsJSON),
		Shards: r.number(flagShards, 1, admin.MaxShards), ShardParameters: r.shardParams(flagShardParam),
		Misfire: r.text(flagMisfire), MisfireGrace: r.duration(flagMisfireGrace),
		Interrupted: r.text(flagInterrupted), MaxAttempts: r.number(flagMaxAttempts, 1, maxNumber), Overlap: r.text(flagOverlap),
		Timeout: r.duration(flagRunTimeout), Retries: r.number(flagRetries, 0, maxNumber),
		Backoff: r.duration(flagBackoff), AlarmAfter: r.duration(flagAlarmAfter),
	}
	if args, err := c.Pairs(flagArg); err != nil {
		r.fail(err)
	} else if len(args) > 0 {
		ch.Args = args
	}
	return ch, r.err
}

// fieldReader reads flags that are nil when they are not given, and keeps the
// first error.
type fieldReader struct {
	*call

	err error
}

func (r *fieldReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *fieldReader) text(flag string) *string {
	if !r.Flags.IsSet(flag) {
		return nil
	}
	text := r.Flags.String(flag)
	if text == "" {
		r.fail(cmdline.EmptyFlag(flag))
	}
	return &text
}

// duration leaves it to admin to refuse a negative one.
func (r *fieldReader) duration(flag string) *time.Duration {
	text := r.text(flag)
	if text == nil {
		return nil
	}
	d, err := time.ParseDuration(*text)
	if err != nil {
		r.fail(cmdline.Usage("--%s %q: want a duration such as 10s or 1m30s", flag, *text))
	}
	return &d
}

// maxNumber is admin's limit of retries and attempts.
const maxNumber = 100

// number does not take 0 for what has another default: admin takes it for that.
func (r *fieldReader) number(flag string, least, most int) *int {
	text := r.text(flag)
	if text == nil {
		return nil
	}
	n, err := strconv.Atoi(*text)
	if err != nil || n < least || n > most {
		r.fail(cmdline.Usage("--%s %q: want a number from %d to %d", flag, *text, least, most))
	}
	return &n
}

// shardParams leaves it to admin to say which shards there are.
func (r *fieldReader) shardParams(flag string) map[int]string {
	pairs, err := r.Pairs(flag)
	if err != nil {
		r.fail(err)
	}
	var params map[int]string
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		k, err := strconv.Atoi(key)
		if err != nil || strconv.Itoa(k) != key {
			r.fail(cmdline.Usage("--%s %q: want the number of a shard, from 0", flag, key+"="+pairs[key]).Try("--%s 0=Beijing", flag))
		}
		if params == nil {
			params = map[int]string{}
		}
		params[k] = pairs[key]
	}
	return params
}

// json is a flag's own text, or that of the file or stream that it names.
func (r *fieldReader) json(flag string) *json.RawMessage {
	text := r.text(flag)
	if text == nil {
		return nil
	}
	payload := []byte(*text)
	var err error
	if path, ok := strings.CutPrefix(*text, "@"); ok {
		payload, err = os.ReadFile(path)
	} else if *text == "-" {
		payload, err = io.ReadAll(r.Stdin)
	}
	var bad *json.SyntaxError
	isFile := *text == "-" || strings.HasPrefix(*text, "@")
	switch {
	case err != nil:
		r.fail(cmdline.Usage("--%s: %w", flag, err).Try("--%s @FILE with the path of a file that you may read", flag))
	case len(strings.TrimSpace(string(payload))) == 0:
		r.fail(cmdline.Usage("--%s %s holds nothing, want JSON", flag, *text))
	case isFile && errors.As(json.Unmarshal(payload, new(any)), &bad):
		// What it holds may be a secret that was named by mistake: no error repeats it.
		r.fail(cmdline.Usage("--%s %s: is not JSON, from byte %d on", flag, *text, bad.Offset))
	}
	raw := json.RawMessage(payload)
	return &raw
}

package fields

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/job"
)

// The flags that others name, too.
const (
	FlagLabel    = "label"
	FlagTZ       = "tz"
	FlagArg      = "arg"
	FlagArgsJSON = "args-json"
	FlagShards   = "shards"
	FlagInstance = "instance"
	FlagAfter    = "after"

	FlagEverywhere = "everywhere"

	flagSchedule = "schedule"
)

// MissedWords are the values of a policy for missed ticks.
var MissedWords = []string{string(job.MisfireOnce), string(job.MisfireSkip), string(job.MisfireAll)}

// table has the fields of a job in the order in which they are shown.
var table = []field{
	text(field{
		of: "Description", flag: "description", usage: "`TEXT` what the job is for",
		drop: "drop-description", dropUsage: "remove the description",
		title: "Description", optional: true, name: "description", try: "up to 1 KiB of printable text",
	}, func(j *job.Job) *string { return &j.Description }),
	pairs(field{
		of: "Labels", flag: FlagLabel, usage: "`KEY=VALUE` a label to select the job by; may be repeated",
		drop: "drop-label", dropUsage: "`KEY` remove a label; may be repeated",
		title: "Labels", optional: true, name: "label", try: "--label team=billing: at most 64, keys of letters, digits and -_./",
	}, func(j *job.Job) *map[string]string { return &j.Labels }),
	text(field{
		of: "Schedule", flag: flagSchedule, usage: "`SCHEDULE` when the job runs", setOnly: true,
		title: "Schedule", name: "schedule", try: "swctl help schedule",
	}, func(j *job.Job) *string { return &j.Schedule }),
	text(field{
		of: "TimeZone", flag: FlagTZ, usage: "`ZONE` time zone of the schedule: an IANA name, or an offset such as GMT+8:00 (default UTC)",
		title: "Time zone", name: "time zone", try: "--tz Europe/Berlin, or leave it out for UTC",
	}, func(j *job.Job) *string { return &j.TimeZone }),
	moment(field{
		of: "NotBefore", flag: "not-before", usage: "`TIME` no tick before it, as RFC 3339: 2026-12-01T00:00:00+01:00 (default: no bound)",
		drop: "drop-not-before", dropUsage: "ticks from now on",
		title: "Not before", optional: true, name: "not before", try: "--not-before 2026-12-01T00:00:00Z, with a schedule that recurs",
	}, func(j *job.Job) *time.Time { return &j.NotBefore }),
	moment(field{
		of: "NotAfter", flag: "not-after", usage: "`TIME` no tick after it, as RFC 3339; the job is done then (default: no bound)",
		drop: "drop-not-after", dropUsage: "ticks without end",
		title: "Not after", optional: true, name: "not after", try: "--not-after 2027-12-01T00:00:00Z, with a schedule that recurs and has ticks until then",
	}, func(j *job.Job) *time.Time { return &j.NotAfter }),
	number(field{
		of: "MaxRuns", flag: "max-runs", usage: "`NUMBER` of ticks that are claimed before the job is done, 1 to 1000000; attempts at one tick count once, manual runs do not (default: no limit)",
		drop: "drop-max-runs", dropUsage: "no limit of the runs",
		title: "Max runs", optional: true, name: "max runs", try: "--max-runs 10, with a schedule that recurs, without --shards or --everywhere",
	}, 1, job.MaxMaxRuns, func(j *job.Job) *int { return &j.MaxRuns }),
	duration(field{
		of: "Jitter", flag: "jitter", usage: "`DURATION` below which each tick is delayed, by a hash that all compute alike, 1ms to 24h, 0 for no delay (default 0)",
		title: "Jitter", optional: true, name: "jitter", line: func(j job.Job) string { return unlessZero(j.Jitter) }, try: "--jitter 5m, with a schedule that recurs; never up to the next tick",
	}, func(j *job.Job) *time.Duration { return &j.Jitter }),
	list(field{
		of: "Calendars", flag: "calendar", usage: "`NAME` a calendar of whose times alone the job runs, or -NAME to leave them out (default: no calendar); may be repeated",
		drop: "drop-calendar", dropUsage: "`NAME` remove a calendar, as it was given with --calendar; may be repeated",
		title: "Calendars", optional: true, name: "calendar", try: "swctl calendars lists the group's: --calendar=-de-holidays --calendar trading-hours, with a schedule that recurs",
	}, func(j *job.Job) *[]string { return &j.Calendars }),
	list(field{
		of: "After", flag: FlagAfter, usage: "`NAME` a job after which it runs, with the schedule @after: each tick that all of them have, when all have run it; may be repeated",
		drop: "drop-after", dropUsage: "`NAME` no longer run after a job; may be repeated",
		title: "After", optional: true, name: "after", try: "--schedule @after --after NAME, with up to 16 jobs whose schedules have times in common; no shards, no --everywhere",
	}, func(j *job.Job) *[]string { return &j.After }),
	duration(field{
		of: "Deadline", flag: "deadline", usage: "`DURATION` a tick waits for the jobs of --after at most, 0 for until the next tick (default 0)",
		title: "Deadline", optional: true, name: "deadline", line: func(j job.Job) string { return unlessZero(j.Deadline) }, try: "--deadline 2h, with --after",
	}, func(j *job.Job) *time.Duration { return &j.Deadline }),
	counts(field{
		of: "Limits", flag: "limit", usage: "`NAME[=PLACES]` a limit of which each run needs a place, or so many, and waits until they are free (default: no limit); may be repeated",
		drop: "drop-limit", dropUsage: "`NAME` need no place of a limit; may be repeated",
		title: "Limits", optional: true, name: "limit", try: "swctl limits lists the group's: --limit crm-api, or --limit crm-api=2 for two of its places",
	}, job.MaxPlaces, func(j *job.Job) *map[string]int { return &j.Limits }),
	text(field{
		of: "Handler", flag: "handler", usage: "`NAME` the function that runs the job (default: the job's name)", kind: cmdline.KindHandler,
		title: "Handler", name: "handler", try: "1 to 200 bytes of printable text without / and not beginning with _",
	}, func(j *job.Job) *string { return &j.Handler }),
	pairs(field{
		of: "Require", flag: "require", usage: "`KEY=VALUE` a label that an instance must have to run the job; may be repeated",
		drop: "drop-require", dropUsage: "`KEY` no longer require a label; may be repeated",
		title: "Requires", optional: true, name: "require", try: "--require zone=a: at most 16, keys of letters, digits and -_./",
	}, func(j *job.Job) *map[string]string { return &j.Require }),
	list(field{
		of: "Instances", flag: FlagInstance, usage: "`ID` an instance that may run the job (default: any); may be repeated",
		drop: "drop-instance", dropUsage: "`ID` remove an instance from those that may run the job; may be repeated",
		title: "Instances", optional: true, name: "instance", try: "--instance app-1: at most 100; swctl instances lists those that run",
	}, func(j *job.Job) *[]string { return &j.Instances }),
	yes(field{
		of: "Everywhere", flag: FlagEverywhere, usage: "run each tick once on every live instance that may run the job, instead of on one", fixed: true,
		title: "Everywhere", optional: true, name: "everywhere", try: "without --shards, @always or @at; cancel and submit the job to change it",
	}, func(j *job.Job) *bool { return &j.Everywhere }),
	pairs(field{
		of: "Args", flag: FlagArg, usage: "`KEY=VALUE` an argument for the handler; may be repeated",
		drop: "drop-arg", dropUsage: "`KEY` remove an argument; may be repeated",
		title: "Arguments", name: "arg", try: "fewer or shorter arguments: all of a job is kept in one ZooKeeper node",
	}, func(j *job.Job) *map[string]string { return &j.Args }),
	payload(field{
		of: "Payload", flag: FlagArgsJSON, usage: "`JSON` for the handler beside the arguments; @FILE reads it from a file, - from stdin",
		drop: "drop-args-json", dropUsage: "remove what --args-json has set",
		title: "  JSON", optional: true, name: "args-json",
		try: `--args-json '{"key": 1}', or @FILE; all of a job is kept in one ZooKeeper node`,
	}, func(j *job.Job) *json.RawMessage { return &j.Payload }),
	number(field{
		of: "Shards", flag: FlagShards, usage: "`NUMBER` number of shards, 1 to 1024; each tick runs once per shard (default: unsharded)",
		name: "shards",
	}, 1, job.MaxShards, func(j *job.Job) *int { return &j.Shards }),
	shardParams(field{
		of: "ShardParameters", flag: "shard-param", usage: "`K=TEXT` what shard K works on, K from 0; may be repeated",
		name: "shard", try: "--shard-param K= removes the parameter of a shard, --shards N says how many there are",
	}),
	text(field{
		of: "BeforeTick", flag: "before-tick", usage: "`HANDLER` called once before the shards begin a tick, which it may refuse (default none)",
		drop: "drop-before-tick", dropUsage: "call nothing before the shards begin a tick",
		title: "Before tick", optional: true, name: "before tick", try: "--before-tick HANDLER with --shards N, and a schedule that has ticks",
	}, func(j *job.Job) *string { return &j.BeforeTick }),
	text(field{
		of: "Misfire", flag: "misfire", usage: "`POLICY` what to do with missed ticks: once (run the latest), skip, all (default once)", words: MissedWords,
		title: "Misfire", optional: true, name: "misfire", line: misfireLine,
	}, func(j *job.Job) *job.MisfirePolicy { return &j.Misfire }, job.MisfireOnce, job.MisfireSkip, job.MisfireAll),
	duration(field{
		of: "MisfireGrace", flag: "misfire-grace", usage: "`DURATION` how old a tick may be and still run, 0 for any age (default 0)",
		name: "misfire grace",
	}, func(j *job.Job) *time.Duration { return &j.MisfireGrace }),
	text(field{
		of: "Interrupted", flag: "interrupted", usage: "`POLICY` for a run whose instance dies or stops: rerun, skip, ask or ask_or_skip, which ask the resolver (default rerun)", words: []string{string(job.InterruptedRerun), string(job.InterruptedSkip), string(job.InterruptedAsk), string(job.InterruptedAskOrSkip)},
		title: "Interrupted", optional: true, name: "interrupted", line: interruptedLine,
	}, func(j *job.Job) *job.InterruptedPolicy { return &j.Interrupted }, job.InterruptedRerun, job.InterruptedSkip, job.InterruptedAsk, job.InterruptedAskOrSkip),
	number(field{
		of: "MaxAttempts", flag: "max-attempts", usage: "`NUMBER` how often a tick is started when its runs are interrupted, 1 to 100 (default 3)",
		name: "max attempts",
	}, 1, job.MaxMaxAttempts, func(j *job.Job) *int { return &j.MaxAttempts }),
	text(field{
		of: "Overlap", flag: "overlap", usage: "`POLICY` for ticks that come during a run: skip, or queue the latest (default skip)", words: []string{string(job.OverlapSkip), string(job.OverlapQueue)},
		title: "Overlap", optional: true, name: "overlap",
	}, func(j *job.Job) *job.OverlapPolicy { return &j.Overlap }, job.OverlapSkip, job.OverlapQueue),
	duration(field{
		of: "Timeout", flag: "run-timeout", usage: "`DURATION` of one run, 0 for no limit (default 0)", // --timeout is swctl's own
		title: "Run timeout", optional: true, name: "run timeout", line: func(j job.Job) string { return unlessZero(j.Timeout) },
	}, func(j *job.Job) *time.Duration { return &j.Timeout }),
	number(field{
		of: "Retries", flag: "retries", usage: "`NUMBER` how often a failed run is retried, 0 to 100; manual runs are not (default 0)",
		title: "Retries", optional: true, name: "retries", line: retriesLine,
	}, 0, job.MaxRetries, func(j *job.Job) *int { return &j.Retries }),
	number(field{
		of: "PauseAfterFailures", flag: "pause-after-failures", usage: "`NUMBER` of ticks in a row that fail, with their retries, before the job is paused, 1 to 100 (default: never)",
		drop: "drop-pause-after-failures", dropUsage: "never pause the job because it fails",
		title: "Pause after failures", optional: true, name: "pause after failures", try: "--pause-after-failures 5; swctl resume NAME ends the pause",
	}, 1, job.MaxFailures, func(j *job.Job) *int { return &j.PauseAfterFailures }),
	durationOr("none", field{
		of: "Backoff", flag: "backoff", usage: "`DURATION` before the first retry; it doubles with each; or none (default 1s)",
		name: "backoff",
	}, func(j *job.Job) *time.Duration { return &j.Backoff }),
	durationOr("none", field{
		of: "AlarmAfter", flag: "alarm-after", usage: "`DURATION` how late a tick is when it is reported as missing, or none (default 1m)",
		title: "Alarm after", optional: true, name: "alarm after", line: func(j job.Job) string { return unlessZero(j.AlarmAfter) },
	}, func(j *job.Job) *time.Duration { return &j.AlarmAfter }),
	durationOr("none", field{
		of: "HungAfter", flag: "hung-after", usage: "`DURATION` how long a run takes when it counts as hung, or none (default: ten times as long as usual)",
		drop: "drop-hung-after", dropUsage: "a run counts as hung when it takes ten times as long as usual",
		title: "Hung after", optional: true, name: "hung after", try: "--hung-after 30m or --hung-after none, not with @always",
	}, func(j *job.Job) *time.Duration { return &j.HungAfter }),
	notices(field{
		of: "Notify", flag: "notify", usage: "`TARGET=KINDS` a target of the notifications that is told, of failed,missed,late,hung,recovered or all; may be repeated",
		drop: "drop-notify", dropUsage: "`TARGET` no longer tell a target; may be repeated",
		title: "Notify", optional: true, name: "notify",
		try: "--notify ops=failed,recovered, or ops=all, with a name of the notifications' targets: at most 16",
	}, func(j *job.Job) *map[string][]job.NotifyKind { return &j.Notify }),
	durationOr("forever", field{
		of: "KeepDone", flag: "keep-done", usage: "`DURATION` how long a job with an @at schedule is kept when it is done, or forever (default 24h)",
		title: "Keep done", optional: true, name: "keep done", line: keepLine,
	}, func(j *job.Job) *time.Duration { return &j.KeepDone }),
}

// keepLine is said of a job that can be done.
func keepLine(j job.Job) string {
	schedule, err := j.ParseSchedule()
	switch {
	case err != nil || !schedule.Once():
		return ""
	case j.KeepDone == job.KeepForever:
		return "forever"
	}
	return plain.Exact(j.KeepDone)
}

func misfireLine(j job.Job) string {
	if j.MisfireGrace > 0 {
		return fmt.Sprintf("%s, of ticks up to %s old", j.Misfire, plain.Exact(j.MisfireGrace))
	}
	return string(j.Misfire)
}

func interruptedLine(j job.Job) string {
	if j.Interrupted == job.InterruptedRerun || j.Interrupted.Asks() {
		return fmt.Sprintf("%s, at most %d attempts per tick", j.Interrupted, j.MaxAttempts)
	}
	return string(j.Interrupted)
}

func retriesLine(j job.Job) string {
	switch {
	case j.Retries == 0:
		return ""
	case j.Backoff == job.NoBackoff:
		return fmt.Sprintf("%d, the first at once", j.Retries)
	}
	return fmt.Sprintf("%d, the first after %s", j.Retries, plain.Exact(j.Backoff))
}

func unlessZero(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return plain.Exact(d)
}

// Line is what show says of a field; of one that has several values Text has several lines.
type Line struct{ Title, Text string }

// Describe says what show has of a job's fields.
func Describe(j job.Job) (lines []Line) {
	for _, f := range table {
		if f.title == "" {
			continue
		}
		var texts []string
		for _, v := range f.values(j) {
			texts = append(texts, v.String())
		}
		if f.line != nil {
			texts = []string{f.line(j)}
		}
		if text := strings.Join(texts, "\n"); text != "" || !f.optional {
			lines = append(lines, Line{f.title, text})
		}
	}
	return lines
}

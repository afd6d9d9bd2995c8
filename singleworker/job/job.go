package job

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Job describes a job. Name and Schedule must be set; the zero value of every
// other field means its default. It is a value: a copy shares its maps and its
// payload with the original, see [Job.Clone].
type Job struct {
	// Name identifies the job in its group: 1 to 200 bytes of printable
	// UTF-8 without '/', not ".", "..", nor beginning with '_' or ending like
	// "[3]", which names a shard.
	Name string `json:"name,omitempty" yaml:"name,omitempty"`
	// Description tells people the job's purpose: up to 1 KiB of printable text, in one line or
	// several.
	Description string `json:"description,omitempty" yaml:"description,omitempty"`
	// Labels are for people and tools to select jobs by: at most 64. A key is 1 to
	// 63 letters, digits and "-_./", a value up to 255 bytes of printable text.
	Labels map[string]string `json:"labels,omitempty" yaml:"labels,omitempty"`
	// Schedule is Quartz cron (6 or 7 fields), crontab (5 fields), @daily and
	// the like, "@every 90s", "@at 2026-12-24T18:00:00+01:00", "@after" or "@manually"; see
	// package cronexpr. A job without times is owned as any other, and runs only when
	// somebody asks for a run, or, with "@always", runs all the time: a run that ends is
	// started again after a pause.
	Schedule string `json:"schedule" yaml:"schedule"`
	// TimeZone is an IANA name such as "Europe/Berlin", or an offset as Java
	// writes it, such as "GMT+8:00", which has no daylight saving. Default: UTC.
	TimeZone string `json:"time_zone,omitempty" yaml:"time_zone,omitempty"`
	// NotBefore and NotAfter bound the schedule: it has no ticks before the one or after the other,
	// and one at either time counts. Times outside are not due: there is no row for them, and none is
	// missed. Ticks between them that were missed are, by Misfire, also when NotAfter has passed. A
	// job with NotAfter is done when its last tick is accounted for; it is kept, see KeepDone. Not
	// with "@at", "@always" or "@manually". Default: no bound.
	NotBefore time.Time `json:"not_before,omitempty" yaml:"not_before,omitempty"` //nolint:modernize // MarshalJSON leaves it out
	NotAfter  time.Time `json:"not_after,omitempty" yaml:"not_after,omitempty"`   //nolint:modernize,tagalign // the same, and gofmt aligns otherwise
	// MaxRuns is after how many ticks that were claimed the job is done. All attempts at one tick
	// count once, also if none succeeds. Ticks that were not run and manual runs do not count. The
	// count begins again when the schedule, its zone, its bounds or MaxRuns are changed. At most
	// 1,000,000; default 0: no limit. Not with Shards, Everywhere, "@at", "@always" or "@manually".
	MaxRuns int `json:"max_runs,omitempty" yaml:"max_runs,omitempty"`
	// Jitter delays each tick, by less than that and by less than the distance to the next tick. The
	// delay is a hash of the group, the slot (the job, its shard or part) and the tick, so that all
	// compute the same, and jobs with one schedule spread. The tick stays the scheduled time, in the
	// history and in Run.Tick. All else goes by the time at which it is due. Shards that wait for
	// BeforeTick are delayed alike. From 1 ms to 24 h, with a schedule that recurs. Default: no delay.
	Jitter time.Duration `json:"jitter,omitempty" yaml:"jitter,omitempty"`
	// Calendars name calendars of the group, at most 16: "-de-holidays" leaves the times of that
	// calendar out, "trading-hours" leaves out all others, and several all hold. Times that are left
	// out are no ticks: there is no row for them, and none is missed. A change of a calendar holds for
	// the times after it. A job whose calendar does not exist, or cannot be read, does not run. With a
	// schedule that recurs. Default: none.
	Calendars []string `json:"calendars,omitempty" yaml:"calendars,omitempty"`
	// After names the jobs after which this one runs, its parents, at most 16: with "@after" alone,
	// and needed there. Its ticks are the scheduled times that all of them have in common, since both
	// they and this job exist. Each is run when all parents have run theirs successfully. If one has
	// not, and will not, the tick is skipped, and the history names that parent. A parent has ticks
	// that recur, and neither Shards, Everywhere nor MaxRuns. A job whose parent does not exist does
	// not run. Not with Everywhere or BeforeTick.
	After []string `json:"after,omitempty" yaml:"after,omitempty"`
	// Deadline is how long a tick waits for the parents at most, from when it is due: then it is
	// missed. AlarmAfter counts from there. With After alone. Default: until the next tick is due.
	Deadline time.Duration `json:"deadline,omitempty" yaml:"deadline,omitempty"`
	// Limits says how many places the job needs of limits of its group, at most 8: with
	// {"crm-api": 1}, no more of its runs and of all others that name crm-api are in progress at the
	// same time than that limit has places. A tick for which there is none waits, the oldest first,
	// and is missed when the next one is due, or by MisfireGrace. A job that names a limit that does
	// not exist does not run. Not with Everywhere. Default: none.
	Limits map[string]int `json:"limits,omitempty" yaml:"limits,omitempty"`
	// Handler names the function that runs the job. Default: the job's name.
	Handler string `json:"handler,omitempty" yaml:"handler,omitempty"`
	// Require is which labels an instance must have (singleworker.Config.Labels) to run the job: each
	// key with that value, and at most 16. Default: none. An instance that loses the job over this
	// hands it over when its run has ended. A job that no live instance may run has no owner, and its
	// ticks are missed.
	Require map[string]string `json:"require,omitempty" yaml:"require,omitempty"`
	// Instances lists the IDs of the instances that may run the job, at most 100. Default: any.
	Instances []string `json:"instances,omitempty" yaml:"instances,omitempty"`
	// Everywhere runs each tick once on every live instance that has the handler and may run the job,
	// instead of on one. Each of them claims, retries and records it by itself; a tick that comes
	// while an instance is away is not its tick. Not together with Shards, "@always" or "@at", and
	// fixed when the job is created. Default: false.
	Everywhere bool `json:"everywhere,omitempty" yaml:"everywhere,omitempty"`
	// Args are passed to the handler.
	Args map[string]string `json:"args,omitempty" yaml:"args,omitempty"`
	// Payload is JSON that is passed to the handler beside Args. Default: none.
	Payload json.RawMessage `json:"payload,omitempty" yaml:"payload,omitempty"`

	// Misfire is the policy for missed ticks: those that nobody claimed within a second, because no
	// owner was running. Default: MisfireOnce.
	Misfire MisfirePolicy `json:"misfire,omitempty" yaml:"misfire,omitempty"`
	// MisfireGrace is how old a tick may be and still run; older ones are
	// recorded as missed. Default: any age.
	MisfireGrace time.Duration `json:"misfire_grace,omitempty" yaml:"misfire_grace,omitempty"`
	// Interrupted is the policy for a tick whose run was interrupted: its instance died, lost the job
	// or stopped. Default: InterruptedRerun.
	Interrupted InterruptedPolicy `json:"interrupted,omitempty" yaml:"interrupted,omitempty"`
	// MaxAttempts is how often the same tick is started when its runs are
	// interrupted, so that a poison job cannot crash-loop the whole group. 1
	// starts it once, whatever Interrupted says. If that asks, one attempt more does, and does not
	// call the handler. At most 100, default 3.
	MaxAttempts int `json:"max_attempts,omitempty" yaml:"max_attempts,omitempty"`
	// Overlap is the policy for a tick that comes during a run. Default: OverlapSkip.
	Overlap OverlapPolicy `json:"overlap,omitempty" yaml:"overlap,omitempty"`
	// Timeout limits one run; when it is over, the context of the run ends.
	// Default: no limit.
	Timeout time.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty"`
	// Retries is how often a run that failed or timed out is repeated within its
	// tick: a retry that would start at or after the next tick is dropped. Manual
	// runs are not retried. At most 100, default 0.
	Retries int `json:"retries,omitempty" yaml:"retries,omitempty"`
	// PauseAfterFailures pauses the job when so many of its ticks in a row have failed or timed
	// out for good, with their Retries: of one slot, if it has several. A tick that is ok ends the
	// row, and so does a manual run that is; interrupted runs and ticks that were not run do not
	// count. No run of the schedule begins after the last of them, until somebody resumes the job,
	// and then the count begins again. At most 100; default 0: never.
	PauseAfterFailures int `json:"pause_after_failures,omitempty" yaml:"pause_after_failures,omitempty"`
	// Backoff is the pause before the first retry; it doubles with each. Default
	// 1 s; NoBackoff means none. With "@always" it is the pause between two runs, which doubles
	// after each run of less than 10 minutes, up to 5 minutes; NoBackoff is refused.
	Backoff time.Duration `json:"backoff,omitempty" yaml:"backoff,omitempty"`
	// AlarmAfter is how late a tick is, neither claimed nor recorded as not run,
	// when the other instances report it as missing. Default 1 minute; NoAlarm
	// means never.
	AlarmAfter time.Duration `json:"alarm_after,omitempty" yaml:"alarm_after,omitempty"`
	// HungAfter is how long a run may take before it counts as hung: see admin.Hung. Nothing ends it.
	// Default: ten times as long as 95% of the runs before it, or until two ticks were skipped for it,
	// and a minute at least; NoHung means never. Not with "@always".
	HungAfter time.Duration `json:"hung_after,omitempty" yaml:"hung_after,omitempty"`
	// Notify says who is told about the job besides those whom the rules of the group name: for each
	// target of notify.Config.Targets, the kinds of news. An empty list means everything. Target names
	// follow the rules for handler names, at most 16. Addresses and secrets are not kept in a job.
	// Default: nobody.
	Notify map[string][]NotifyKind `json:"notify,omitempty" yaml:"notify,omitempty"`
	// KeepDone is how long a job with an "@at" schedule is kept, with its history, when it is done:
	// when its tick is accounted for, and nothing runs or waits to run. Nobody owns it then. Default
	// 24 hours; KeepForever keeps it until somebody cancels it. A job that is done by NotAfter or
	// MaxRuns is always kept: code that declares it would create it again.
	KeepDone time.Duration `json:"keep_done,omitempty" yaml:"keep_done,omitempty"`

	// Shards divides the job: each tick runs once per shard, 0 to Shards-1, each
	// on the instance that owns the shard. At most 1024; default 0: the job is
	// not divided. When it changes, ticks that some shard has already claimed are
	// run by all shards as they were, and the change takes effect when the last
	// of these runs has ended.
	Shards int `json:"shards,omitempty" yaml:"shards,omitempty"`
	// ShardParameters says, by index, which part of the work a shard does. A shard may have none.
	// Changing it counts as changing Shards.
	ShardParameters map[int]string `json:"shard_params,omitempty" yaml:"shard_params,omitempty"`
	// BeforeTick names a handler that is called once for each tick, in the run of the first shard,
	// before any shard begins: no shard begins before it has returned nil. If it returns
	// singleworker.ErrRefuseTick, no shard runs the tick; other errors fail the run of the first
	// shard, which is retried like any other. Called again only if it did not return nil; manual runs
	// do not call it. Changing it counts as changing Shards. Needs Shards, and a schedule with ticks.
	// Default: none.
	BeforeTick string `json:"before_tick,omitempty" yaml:"before_tick,omitempty"`

	known *known // see WithCalendars and WithParents; nil of most jobs, shared, and not changed
}

// MisfirePolicy is the type of Job.Misfire.
type MisfirePolicy string

// The misfire policies.
const (
	MisfireOnce MisfirePolicy = "once" // run the latest of the missed ticks
	MisfireSkip MisfirePolicy = "skip" // run none of them
	MisfireAll  MisfirePolicy = "all"  // run each, in order; of more than MaxMisfires the latest
)

// InterruptedPolicy is the type of Job.Interrupted.
type InterruptedPolicy string

// The policies for interrupted runs.
const (
	InterruptedRerun InterruptedPolicy = "rerun" // run the tick again, as its next attempt
	InterruptedSkip  InterruptedPolicy = "skip"  // do not; the history says interrupted, or lost
	// InterruptedAsk has the next attempt ask Config.Resolve whether the effects of the tick are
	// there: then it is ok, and otherwise it is run again. If nobody knows, it is run again.
	InterruptedAsk InterruptedPolicy = "ask"
	// InterruptedAskOrSkip is InterruptedAsk, but if nobody knows, the tick is not run again.
	InterruptedAskOrSkip InterruptedPolicy = "ask_or_skip"
)

// Asks reports whether a resolver is asked before a tick is run again.
func (p InterruptedPolicy) Asks() bool { return p == InterruptedAsk || p == InterruptedAskOrSkip }

// OverlapPolicy is the type of Job.Overlap.
type OverlapPolicy string

// The overlap policies.
const (
	OverlapSkip  OverlapPolicy = "skip"  // record the tick as skipped
	OverlapQueue OverlapPolicy = "queue" // run the latest such tick when the run has ended
)

// Values of Backoff, AlarmAfter, HungAfter and KeepDone in place of a duration; in JSON "none" or
// "forever".
const (
	NoBackoff time.Duration = -1 // retry at once
	NoAlarm   time.Duration = -1 // report no missing ticks
	NoHung    time.Duration = -1 // no run counts as hung, however long it takes

	KeepForever time.Duration = -1 // remove no job that is done
)

// The limits of a job.
const (
	MaxNameBytes   = 200
	MaxDescription = 1 << 10 // bytes
	MaxLabels      = 64
	MaxLabelKey    = 63       // bytes
	MaxLabelValue  = 255      // bytes
	MaxRequire     = 16       // labels that an instance must have, or has
	MaxInstances   = 100      // that may run a job
	MaxNotify      = 16       // targets that are told about a job
	MaxAfter       = 16       // parents of a job
	MaxLimits      = 8        // limits that a job names
	MaxPlaces      = 1000     // of a limit
	MaxAncestors   = 100      // of a job: its parents, theirs, and so on
	MaxBytes       = 64 << 10 // of a job as JSON, with what ZooKeeper keeps beside it
	MaxShards      = 1024
	MaxMisfires    = 100 // missed ticks that MisfireAll runs
	MaxRetries     = 100
	MaxFailures    = 100 // that pause a job
	MaxMaxAttempts = 100
	MaxMaxRuns     = 1_000_000
	MaxJitter      = 24 * time.Hour
)

// The defaults of a job.
const (
	DefaultTimeZone    = "UTC"
	DefaultMisfire     = MisfireOnce
	DefaultInterrupted = InterruptedRerun
	DefaultMaxAttempts = 3
	DefaultOverlap     = OverlapSkip
	DefaultBackoff     = time.Second
	DefaultAlarmAfter  = time.Minute
	DefaultKeepDone    = 24 * time.Hour
)

// HandlerName is the name of the handler that runs the job.
func (j Job) HandlerName() string { return cmp.Or(j.Handler, j.Name) }

// IsPlaced reports whether the job says on which instances it may run.
func (j Job) IsPlaced() bool { return len(j.Require) > 0 || len(j.Instances) > 0 }

// Clone returns a copy that shares nothing with j.
func (j Job) Clone() Job {
	j.Labels, j.Args, j.ShardParameters = maps.Clone(j.Labels), maps.Clone(j.Args), maps.Clone(j.ShardParameters)
	j.Require, j.Instances = maps.Clone(j.Require), slices.Clone(j.Instances)
	j.Payload, j.Calendars, j.After = bytes.Clone(j.Payload), slices.Clone(j.Calendars), slices.Clone(j.After)
	j.Limits, j.Notify = maps.Clone(j.Limits), cloneNotify(j.Notify)
	return j
}

// WithDefaults spells out every default: no field of the result relies on one.
func (j Job) WithDefaults() Job {
	j.Handler = j.HandlerName()
	fill(&j.TimeZone, DefaultTimeZone)
	fill(&j.Misfire, DefaultMisfire)
	fill(&j.Interrupted, DefaultInterrupted)
	fill(&j.MaxAttempts, DefaultMaxAttempts)
	fill(&j.Overlap, DefaultOverlap)
	fill(&j.Backoff, DefaultBackoff)
	fill(&j.AlarmAfter, DefaultAlarmAfter)
	fill(&j.KeepDone, DefaultKeepDone)
	return j
}

// Normal is the opposite of [Job.WithDefaults]: it leaves out fields that have their default, so
// that two jobs that mean the same are written the same.
func (j Job) Normal() Job {
	drop(&j.Handler, j.Name)
	drop(&j.TimeZone, DefaultTimeZone)
	drop(&j.Misfire, DefaultMisfire)
	drop(&j.Interrupted, DefaultInterrupted)
	drop(&j.MaxAttempts, DefaultMaxAttempts)
	drop(&j.Overlap, DefaultOverlap)
	drop(&j.Backoff, DefaultBackoff)
	drop(&j.AlarmAfter, DefaultAlarmAfter)
	drop(&j.KeepDone, DefaultKeepDone)
	if len(j.Calendars) > 1 {
		j.Calendars = slices.Sorted(slices.Values(j.Calendars))
	}
	if len(j.After) > 1 {
		j.After = slices.Sorted(slices.Values(j.After))
	}
	if len(j.Instances) > 1 {
		j.Instances = slices.Sorted(slices.Values(j.Instances))
	}
	if !j.NotBefore.IsZero() {
		j.NotBefore = j.NotBefore.UTC()
	}
	if !j.NotAfter.IsZero() {
		j.NotAfter = j.NotAfter.UTC()
	}
	j.Notify = normalNotify(j.Notify)
	return j
}

func drop[T comparable](field *T, value T) {
	if *field == value {
		var zero T
		*field = zero
	}
}

func fill[T comparable](field *T, value T) { *field = cmp.Or(*field, value) }

package group

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/prom/internal/metric"
)

// instanceStates are all states of instances, for series that begin at zero.
var instanceStates = []string{
	admin.InstanceActive, admin.InstanceStandby, admin.InstanceDraining, admin.InstanceDrained, admin.InstanceDisabled,
	admin.InstanceStopping, admin.InstanceWrongClock, admin.InstanceWarming, admin.InstanceUnreadable, admin.InstanceNone,
}

// count counts by a key.
func count[T any](all []T, key func(T) string) map[string]uint64 {
	counts := make(map[string]uint64)
	for _, one := range all {
		counts[key(one)]++
	}
	return counts
}

var groupTable = metric.NewTable([]string{"server_type"}, []metric.Metric[*reading]{
	metric.Row("singleworker_group_up", metric.Gauge, nil, "Whether the last reading of the group succeeded.", func(r *reading, o *metric.Out) { o.Bool(r.up) }),
	metric.Row("singleworker_group_read_timestamp_seconds", metric.Gauge, nil, "When the group was last read, by the exporter's clock.", func(r *reading, o *metric.Out) {
		o.Time(r.at)
	}),
	metric.Row("singleworker_group_read_duration_seconds", metric.Gauge, nil, "How long that took.", func(r *reading, o *metric.Out) { o.Value(r.took.Seconds()) }),
	metric.Row("singleworker_group_reads_total", metric.Counter, nil, "Readings of the group.", func(r *reading, o *metric.Out) { o.Value(float64(r.reads)) }),
	metric.Row("singleworker_group_read_errors_total", metric.Counter, nil, "Readings that failed.", func(r *reading, o *metric.Out) { o.Value(float64(r.errors)) }),
	metric.Row("singleworker_group_jobs", metric.Gauge, []string{"state"}, "Jobs by state, as swctl list shows it.", func(r *reading, o *metric.Out) {
		if r.up {
			metric.ByKey(o, count(r.jobs, admin.JobStatus.Health), words.States())
		}
	}),
	metric.Row("singleworker_group_jobs_omitted", metric.Gauge, nil, "Jobs without series, because there are more than MaxJobs.", func(r *reading, o *metric.Out) {
		o.Value(float64(r.omitted))
	}),
	metric.Row("singleworker_group_instances", metric.Gauge, []string{"state"}, "Instances by state, as swctl instances shows it.", func(r *reading, o *metric.Out) {
		if r.up {
			metric.ByKey(o, count(r.instances, func(i admin.Instance) string { return i.State }), instanceStates)
		}
	}),
})

var instanceTable = metric.NewTable([]string{"server_type", "instance_id"}, []metric.Metric[admin.Instance]{
	metric.Row("singleworker_group_instance_slots_owned", metric.Gauge, nil, "Slots that the instance owns.", func(i admin.Instance, o *metric.Out) {
		o.Value(float64(i.Owned))
	}),
	metric.Row("singleworker_group_instance_clock_offset_seconds", metric.Gauge, nil, "How far the instance's clock is ahead of ZooKeeper's; absent while that is not known.", func(i admin.Instance, o *metric.Out) {
		if i.ClockOffset != nil {
			o.Value(i.ClockOffset.Seconds())
		}
	}),
})

// limitOf is the source of a limit's metrics.
type limitOf struct {
	admin.Limit

	at time.Time
}

var limitTable = metric.NewTable([]string{"server_type", "limit"}, []metric.Metric[limitOf]{
	metric.Row("singleworker_group_limit_places", metric.Gauge, nil, "Places that the limit has.", func(l limitOf, o *metric.Out) { o.Value(float64(l.Max)) }),
	metric.Row("singleworker_group_limit_places_held", metric.Gauge, nil, "Places that runs hold.", func(l limitOf, o *metric.Out) { o.Value(float64(len(l.Held))) }),
	metric.Row("singleworker_group_limit_instances_waiting", metric.Gauge, nil, "Instances of which runs wait for places.", func(l limitOf, o *metric.Out) {
		o.Value(float64(len(l.Waiting)))
	}),
	metric.Row("singleworker_group_limit_wait_seconds", metric.Gauge, nil, "For how long the run has been due that has waited longest; 0 if none waits.", func(l limitOf, o *metric.Out) {
		if len(l.Waiting) == 0 {
			o.Value(0)
			return
		}
		o.Value(max(0, l.at.Sub(l.Waiting[0].Since).Seconds()))
	}),
})

// status is the source of a job's metrics.
type status struct {
	admin.JobStatus

	slots     []admin.JobStatus
	succeeded time.Time
	at        time.Time
}

// most returns the largest value of the slots.
func (s *status) most(of func(slot admin.JobStatus) float64) float64 {
	var values []float64
	for _, slot := range s.slots {
		values = append(values, of(slot))
	}
	return slices.Max(append(values, 0))
}

// howMany counts slots.
func (s *status) howMany(is func(slot admin.JobStatus) bool) (n float64) {
	for _, slot := range s.slots {
		if is(slot) {
			n++
		}
	}
	return n
}

// since is how long ago something was; 0 if it is zero.
func (s *status) since(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(0, s.at.Sub(t).Seconds())
}

var jobTable = metric.NewTable([]string{"server_type", "job_name"}, []metric.Metric[*status]{
	metric.Row("singleworker_group_job_state", metric.Gauge, []string{"state"}, "Always 1; the state of the job, as swctl list shows it.", func(s *status, o *metric.Out) {
		o.Value(1, s.Health())
	}),
	metric.Row("singleworker_group_job_condition", metric.Gauge, []string{"code", "severity"}, "Always 1; each condition of the job, as in swctl show -o json.", func(s *status, o *metric.Out) {
		for _, c := range s.Conditions {
			o.Value(1, string(c.Code), c.Severity.String())
		}
	}),
	metric.Row("singleworker_group_job_slots", metric.Gauge, nil, "Slots of the job: one, or one per shard, or one per instance.", func(s *status, o *metric.Out) {
		o.Value(float64(len(s.slots)))
	}),
	metric.Row("singleworker_group_job_runs_in_progress", metric.Gauge, nil, "Runs of the job in progress.", func(s *status, o *metric.Out) {
		o.Value(s.howMany(func(slot admin.JobStatus) bool {
			return slot.LastRun != nil && slot.LastRun.State == history.StateRunning
		}))
	}),
	metric.Row("singleworker_group_job_overdue_seconds", metric.Gauge, nil, "Age of the first tick that is late by more than AlarmAfter, neither run nor recorded; 0 if no tick is.", func(s *status, o *metric.Out) {
		o.Value(s.since(s.Overdue))
	}),
	metric.Row("singleworker_group_job_overrun_seconds", metric.Gauge, nil, "Age of the first tick that came due during the run in progress; 0 if none did.", func(s *status, o *metric.Out) {
		o.Value(s.most(func(slot admin.JobStatus) float64 { return s.since(slot.Overrun) }))
	}),
	metric.Row("singleworker_group_job_consecutive_failures", metric.Gauge, nil, "Ticks in a row that failed, as far as the history goes back; of shards, the most.", func(s *status, o *metric.Out) {
		o.Value(s.most(func(slot admin.JobStatus) float64 {
			if slot.Failing == nil {
				return 0
			}
			return float64(slot.Failing.Runs)
		}))
	}),
	metric.Row("singleworker_group_job_last_run_timestamp_seconds", metric.Gauge, nil, "When the last run began, by the clock of its instance; absent if the job never ran.", func(s *status, o *metric.Out) {
		var last time.Time
		for _, slot := range s.slots {
			if slot.LastRun != nil {
				last = latestOf(last, slot.LastRun.Started)
			}
		}
		o.Time(last)
	}),
	metric.Row("singleworker_group_job_last_success_timestamp_seconds", metric.Gauge, nil, "When the job last succeeded, by the clock of its instance: of shards, the one for which that is longest ago; absent while the records tell of none.", func(s *status, o *metric.Out) {
		o.Time(s.succeeded)
	}),
	metric.Row("singleworker_group_job_next_run_timestamp_seconds", metric.Gauge, nil, "When the next tick is due; absent if no tick follows.", func(s *status, o *metric.Out) { o.Time(s.NextRun) }),
})

// Names lists the metrics as queries name them.
func Names() []string {
	return slices.Concat(groupTable.Names(), instanceTable.Names(), limitTable.Names(), jobTable.Names())
}

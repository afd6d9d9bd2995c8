package prom

import (
	"github.com/swjobs/singleworker/singleworker"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/prom/internal/metric"
)

// instance is the source of an instance's metrics.
type instance struct {
	singleworker.Stats

	health  singleworker.Health
	omitted int // jobs without series
}

// Reasons and states, for series that begin at zero.
var (
	failures = []history.State{history.StateFailed, history.StateTimedOut, history.StateInterrupted}
	sessions = []singleworker.SessionState{
		singleworker.SessionConnected, singleworker.SessionSuspended, singleworker.SessionReconnected, singleworker.SessionExpired,
	}
	skipped  = []history.Reason{history.ReasonOverlap, history.ReasonPaused, history.ReasonFrozen, history.ReasonAbsent, history.ReasonRefused, history.ReasonNotBegun, history.ReasonParent}
	missed   = []history.Reason{history.ReasonNoOwner, history.ReasonStalled, history.ReasonDelayed, history.ReasonLimited, history.ReasonScheduleChanged, history.ReasonParentLate, history.ReasonParentForgotten}
	refused  = []string{"conflict", "not_owner", "lease", "spec_changed", "request_gone", "draining", "clock", "other"}
	acquired = []string{"free", "offered", "died", "overdue", "unknown"}
	released = []string{"handed_over", "lease_lost", "canceled", "other"}
)

// failed are the runs that did not succeed.
func failed(o *metric.Out, runs map[history.State]uint64) {
	for _, state := range failures {
		o.Value(float64(runs[state]), string(state))
	}
}

func sum[K comparable](counts map[K]uint64) (n uint64) {
	for _, count := range counts {
		n += count
	}
	return n
}

var instanceTable = metric.NewTable([]string{"server_type"}, []metric.Metric[*instance]{
	metric.Row("singleworker_info", metric.Gauge, []string{"instance_id", "version"}, "Always 1; which instance this is, and the version of the library.", func(i *instance, o *metric.Out) {
		o.Value(1, i.InstanceID, singleworker.Version())
	}),
	metric.Row("singleworker_ready", metric.Gauge, nil, "Whether the instance can take jobs now (1) or not (0), as /readyz says.", func(i *instance, o *metric.Out) {
		o.Bool(i.health.Ready() == nil)
	}),
	metric.Row("singleworker_leads", metric.Gauge, nil, "Whether the instance leads its group, in latch mode.", func(i *instance, o *metric.Out) {
		o.Bool(i.health.Leads)
	}),
	metric.Row("singleworker_session_connected", metric.Gauge, nil, "Whether the instance has a session with ZooKeeper and is connected.", func(i *instance, o *metric.Out) {
		o.Bool(i.health.Session == singleworker.SessionConnected)
	}),
	metric.Row("singleworker_session_changes_total", metric.Counter, []string{"state"}, "Changes of the session with ZooKeeper, by the state that it came into.", func(i *instance, o *metric.Out) {
		metric.ByKey(o, i.Sessions, sessions)
	}),
	metric.Row("singleworker_slots_owned", metric.Gauge, nil, "Slots that the instance owns: a job has one, or one per shard.", func(i *instance, o *metric.Out) {
		o.Value(float64(i.Owned))
	}),
	metric.Row("singleworker_slots_acquired_total", metric.Counter, []string{"reason"}, "Slots that the instance came to own: free, offered (a hand-over), died or overdue (takeovers).", func(i *instance, o *metric.Out) {
		metric.ByKey(o, i.Total.Acquired, acquired)
	}),
	metric.Row("singleworker_takeover_seconds", metric.Histogram, nil, "How long before a takeover the former owner had sent its last heartbeat for the slot, by ZooKeeper's clock.", func(i *instance, o *metric.Out) {
		o.Histogram(&i.Takeovers)
	}),
	metric.Row("singleworker_slots_released_total", metric.Counter, []string{"reason"}, "Slots that the instance no longer owns.", func(i *instance, o *metric.Out) {
		metric.ByKey(o, i.Total.Released, released)
	}),
	metric.Row("singleworker_runs_in_progress", metric.Gauge, nil, "Runs in progress.", func(i *instance, o *metric.Out) { o.Value(float64(i.Running)) }),
	metric.Row("singleworker_runs_waiting", metric.Gauge, nil, "Slots whose next run waits because as many as MaxRunning are in progress.", func(i *instance, o *metric.Out) {
		o.Value(float64(i.Waiting))
	}),
	metric.Row("singleworker_runs_total", metric.Counter, nil, "Runs that have ended.", func(i *instance, o *metric.Out) { o.Value(float64(sum(i.Total.Runs))) }),
	metric.Row("singleworker_run_failures_total", metric.Counter, []string{"state"}, "Runs that have ended without success.", func(i *instance, o *metric.Out) {
		failed(o, i.Total.Runs)
	}),
	metric.Row("singleworker_runs_hung", metric.Gauge, nil, "Runs in progress that take so long that they seem to hang.", func(i *instance, o *metric.Out) { o.Value(float64(i.Hung)) }),
	metric.Row("singleworker_run_lateness_seconds", metric.Histogram, nil, "How long after their ticks first attempts began.", func(i *instance, o *metric.Out) {
		o.Histogram(&i.Total.Lateness)
	}),
	metric.Row("singleworker_results_unrecorded_total", metric.Counter, nil, "Runs whose result could not be written to ZooKeeper.", func(i *instance, o *metric.Out) {
		o.Value(float64(i.Total.Unrecorded))
	}),
	metric.Row("singleworker_claims_total", metric.Counter, nil, "Runs that were claimed: first attempts and repeated ones.", func(i *instance, o *metric.Out) {
		o.Value(float64(i.Total.Claims))
	}),
	metric.Row("singleworker_claims_repeated_total", metric.Counter, nil, "Claims of a tick that had been claimed before: retries and reruns.", func(i *instance, o *metric.Out) {
		o.Value(float64(i.Total.Repeats))
	}),
	metric.Row("singleworker_claims_refused_total", metric.Counter, []string{"reason"}, "Claims that were refused, and are decided again.", func(i *instance, o *metric.Out) {
		metric.ByKey(o, i.Total.Refused, refused)
	}),
	metric.Row("singleworker_ticks_skipped_total", metric.Counter, []string{"reason"}, "Ticks that were not run on purpose.", func(i *instance, o *metric.Out) {
		metric.ByKey(o, i.Total.Skipped, skipped)
	}),
	metric.Row("singleworker_ticks_missed_total", metric.Counter, []string{"reason"}, "Ticks that nobody could run in time.", func(i *instance, o *metric.Out) {
		metric.ByKey(o, i.Total.Missed, missed)
	}),
	metric.Row("singleworker_overdue_reports_total", metric.Counter, nil, "Episodes of overdue ticks, of any job of the group, that this instance reported.", func(i *instance, o *metric.Out) {
		o.Value(float64(i.Overdue))
	}),
	metric.Row("singleworker_jobs_omitted", metric.Gauge, nil, "Jobs without series, because there are more than MaxJobs.", func(i *instance, o *metric.Out) { o.Value(float64(i.omitted)) }),
	metric.Row("singleworker_zookeeper_requests_total", metric.Counter, []string{"kind"}, "Requests sent to ZooKeeper.", func(i *instance, o *metric.Out) {
		metric.ByKey(o, i.Requests, nil)
	}),
	metric.Row("singleworker_zookeeper_request_duration_seconds", metric.Histogram, []string{"kind"}, "How long requests to ZooKeeper took, from writing them until the reply was read; not of set_watches and ping.", func(i *instance, o *metric.Out) {
		for kind, took := range i.RequestTime {
			o.HistogramOf(&took, singleworker.RequestBounds(), kind)
		}
	}),
	metric.Row("singleworker_zookeeper_sent_bytes_total", metric.Counter, nil, "Bytes of requests sent to ZooKeeper.", func(i *instance, o *metric.Out) { o.Value(float64(i.BytesSent)) }),
	metric.Row("singleworker_zookeeper_received_bytes_total", metric.Counter, nil, "Bytes of replies and events from ZooKeeper.", func(i *instance, o *metric.Out) {
		o.Value(float64(i.BytesReceived))
	}),
})

var jobTable = metric.NewTable([]string{"server_type", "job_name"}, []metric.Metric[*singleworker.JobStats]{
	metric.Row("singleworker_job_slots_owned", metric.Gauge, nil, "Slots of the job that this instance owns.", func(j *singleworker.JobStats, o *metric.Out) { o.Value(float64(j.Owned)) }),
	metric.Row("singleworker_job_runs_in_progress", metric.Gauge, nil, "Runs of the job in progress.", func(j *singleworker.JobStats, o *metric.Out) {
		o.Value(float64(j.Running))
	}),
	metric.Row("singleworker_job_runs_total", metric.Counter, nil, "Runs of the job that have ended.", func(j *singleworker.JobStats, o *metric.Out) {
		o.Value(float64(sum(j.Runs)))
	}),
	metric.Row("singleworker_job_run_failures_total", metric.Counter, []string{"state"}, "Runs of the job that have ended without success.", func(j *singleworker.JobStats, o *metric.Out) {
		failed(o, j.Runs)
	}),
	metric.Row("singleworker_job_consecutive_failures", metric.Gauge, nil, "Runs in a row that failed or timed out, since this instance owns the job.", func(j *singleworker.JobStats, o *metric.Out) {
		o.Value(float64(j.Failing))
	}),
	metric.Row("singleworker_job_claims_repeated_total", metric.Counter, nil, "Claims of a tick that had been claimed before: retries and reruns.", func(j *singleworker.JobStats, o *metric.Out) {
		o.Value(float64(j.Repeats))
	}),
	metric.Row("singleworker_job_ticks_skipped_total", metric.Counter, nil, "Ticks that were not run on purpose.", func(j *singleworker.JobStats, o *metric.Out) {
		o.Value(float64(sum(j.Skipped)))
	}),
	metric.Row("singleworker_job_ticks_missed_total", metric.Counter, nil, "Ticks that nobody could run in time.", func(j *singleworker.JobStats, o *metric.Out) {
		o.Value(float64(sum(j.Missed)))
	}),
	metric.Row("singleworker_job_run_duration_seconds", metric.Histogram, nil, "How long runs of the job took.", func(j *singleworker.JobStats, o *metric.Out) {
		o.Histogram(&j.Duration)
	}),
	metric.Row("singleworker_job_last_run_duration_seconds", metric.Gauge, nil, "How long the last run took.", func(j *singleworker.JobStats, o *metric.Out) {
		o.Value(j.LastDuration.Seconds())
	}),
	metric.Row("singleworker_job_last_run_lateness_seconds", metric.Gauge, nil, "How long after its tick the last first attempt began.", func(j *singleworker.JobStats, o *metric.Out) {
		o.Value(j.LastLateness.Seconds())
	}),
	metric.Row("singleworker_job_last_success_timestamp_seconds", metric.Gauge, nil, "When a run last ended well, by the clock of its instance; absent while this instance knows of none.", func(j *singleworker.JobStats, o *metric.Out) {
		o.Time(j.LastSuccess)
	}),
})

// Package prom exports the counts of Managers to Prometheus. It is a separate module, so that the
// library links no metrics library.
//
//	prometheus.MustRegister(prom.NewCollector(manager))
//	http.Handle("/metrics", promhttp.Handler())
//
// METRICS.md lists the metrics. Names begin with singleworker_, units are seconds and bytes, and
// counters end in _total. Every metric has the label server_type, the group's name; a job's have
// job_name, since "job" and "instance" are labels of the scrape. Metrics that begin with
// singleworker_job_ are of one job: add up all instances', or take the maximum. They come from
// instances that own the job, or owned it within the last hour.
//
// # Cardinality
//
// An instance has up to 300 series, and 30 for each job of which it owns a slot, or owned one
// within the last hour; shards have none. So 1,000 jobs are 30,000 series in the group, however
// many instances there are, and up to twice as many in the hour after all have moved.
// Collector.MaxJobs limits the jobs that have series; singleworker_jobs_omitted says how many have
// none. Metrics that are not of one job count those jobs, too.
//
// # Cost
//
// A scrape asks nobody and writes nothing: it reads Manager.Stats and Manager.Health.
package prom

// Package group exports the state of a whole group to Prometheus, as ZooKeeper's records have it:
// it asks no instance, so it also tells that none lives. Command swexporter serves it; a program
// may register a Collector itself.
//
// METRICS.md lists the metrics. Their names begin with singleworker_group_, so that nobody adds
// them to the instances' own counts. One exporter per group is enough; two do no harm.
//
// However often it is scraped, a Collector reads at most once per Options.Interval. A reading costs
// as much as "swctl list" and "swctl instances" together: 10,000 jobs are some 300 requests and a
// second. When a reading fails, singleworker_group_up is 0 and nothing is said of jobs and
// instances: nothing is better than an error.
//
// # Cardinality
//
// A group has some 30 series, two for each instance that lives, and ten for each job, at most
// Options.MaxJobs; the last success is remembered per job.
package group

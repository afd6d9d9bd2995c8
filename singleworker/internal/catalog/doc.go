// Package catalog is the room of an instance that answers which jobs and slots there are, and
// which of them this instance can run.
//
// It follows the list of jobs, its registrations and the nodes of its shards by watches, and each job's spec by
// signals; parses a spec once per version; registers this instance for what it can run; and creates
// nodes that a job lacks. It tells what changed as notices.
package catalog

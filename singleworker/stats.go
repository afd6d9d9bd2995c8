package singleworker

import (
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
)

// Stats has an instance's counts since Manager.Run was called. Health tells of its state.
type Stats struct {
	// InstanceID and ServerType are the Config's.
	InstanceID, ServerType string
	// At is when this was true, by the instance's clock.
	At time.Time
	// Owned counts the slots owned, Running the runs in progress, from the claim to the record of the
	// result, and Waiting the slots whose next run waits because Config.MaxRunning runs are in
	// progress.
	Owned, Running, Waiting int
	// Hung is how many of the runs in progress take so long that they seem to hang: see
	// Hooks.OnRunHung.
	Hung int
	// Total counts for all jobs, including those that Jobs has forgotten.
	Total Counts
	// Jobs are the jobs of which this instance owns a slot, or owned one or had a run in progress
	// within the last hour, by name. The shards of a job count together. A job that comes back after
	// that begins at zero.
	Jobs map[string]JobStats
	// Overdue is how many episodes of overdue ticks, of any job of the group, this instance reported:
	// see Hooks.OnTickMissed.
	Overdue uint64
	// Takeovers are the slots that this instance has taken from an owner that had died, or hangs, or
	// had not claimed a run in time (Counts.Acquired: died and overdue): how long before that the
	// owner had sent its last heartbeat for the slot, both by ZooKeeper's clock. For so long, at most,
	// nobody could have run it: an owner that has died did so up to the interval of its heartbeats
	// later. That is a quarter of the session timeout while a run is in progress, and
	// Config.HeartbeatPeriod otherwise. A slot that had no heartbeat is not counted.
	Takeovers Histogram
	// Sessions is how often the session with ZooKeeper came into each state.
	Sessions map[SessionState]uint64
	// Requests is how many requests were sent to ZooKeeper, by kind: create, delete, exists, get, set,
	// children, sync, multi (a transaction of many writes), multi_read, set_watches, ping and other.
	Requests map[string]uint64
	// RequestTime is how long answered requests took, by kind, from when one was written until its
	// reply had been read: the network, the server and the wait for a turn, without the time that a
	// request waited in this process before. A refusal is an answer. A kind that was never answered
	// has no key, nor have set_watches and ping. RequestBounds has their buckets.
	RequestTime map[string]Histogram
	// BytesSent counts requests, and BytesReceived replies and events, both without TLS.
	BytesSent, BytesReceived uint64
}

// JobStats has an instance's counts of a job.
type JobStats struct {
	// Owned is how many of its slots this instance owns, and Running how many of its runs are in
	// progress here.
	Owned, Running int
	// LastSuccess is when a run last ended well, here or, if that was the last run before this
	// instance became the owner, elsewhere. Zero if this instance knows of none.
	LastSuccess time.Time
	// LastDuration is how long the last run took, and LastLateness how long after its tick the last
	// one began. They are zero before the first, and of those runs that Counts.Duration and
	// Counts.Lateness count.
	LastDuration, LastLateness time.Duration
	// Failing is how many runs in a row failed or timed out here, since this instance owns the job.
	Failing int
	Counts
}

// Counts only grow. A reason or a state that has not occurred has no key.
type Counts struct {
	// Claims is how many runs began, manual ones and repeated ones included, and Repeats how many of
	// those were the second or a later attempt at their tick.
	Claims, Repeats uint64
	// Refused is how many claims were refused, by reason: conflict (the record had changed: another
	// owner, or an earlier try had been made), not_owner, lease, spec_changed, request_gone (a manual
	// run was canceled), draining, clock, and other, such as a lost connection. A refused claim is
	// decided again, and is not a failure.
	Refused map[string]uint64
	// Runs is how many runs ended, by state: StateOK, StateFailed, StateTimedOut, StateInterrupted and
	// StateRefused.
	Runs map[history.State]uint64
	// Unrecorded is how many of their results could not be written to ZooKeeper.
	Unrecorded uint64
	// Skipped and Missed are how many ticks were not run, by reason, as recorded by this
	// instance.
	Skipped, Missed map[history.Reason]uint64
	// Acquired is how often the instance came to own a slot: free (it had no owner), offered (a
	// hand-over received), died (a takeover from an owner that died or hangs), overdue (a takeover
	// from one that had not claimed a run in time), and unknown (the answer to the request was lost).
	Acquired map[string]uint64
	// Released is how often it lost one: handed_over, lease_lost, canceled, and other, such as a shard
	// that was removed.
	Released map[string]uint64
	// Duration is how long runs took, from the claim to the return of the handler.
	Duration Histogram
	// Lateness is how long after its tick the handler was called, of first attempts that nobody
	// requested.
	Lateness Histogram
}

// Histogram counts durations by size.
type Histogram struct {
	// Buckets counts those up to the same index of HistogramBounds, or RequestBounds, and beyond the
	// one before; the last those beyond all.
	Buckets [15]uint64
	Sum     time.Duration
}

var bounds = [14]time.Duration{
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
}

// HistogramBounds returns the upper bounds of a Histogram's buckets but the last, from 10 ms to an
// hour.
func HistogramBounds() []time.Duration { return slices.Clone(bounds[:]) }

// RequestBounds is HistogramBounds for Stats.RequestTime: from half a millisecond to 10 s.
func RequestBounds() []time.Duration { return slices.Clone(zkconn.Bounds()) }

// Count is the number of all durations.
func (h *Histogram) Count() (n uint64) {
	for _, bucket := range h.Buckets {
		n += bucket
	}
	return n
}

func (h *Histogram) add(d time.Duration) {
	d = max(d, 0) // a clock may have been set
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.Buckets[i]++
	h.Sum += d
}

// Stats returns the instance's counts since Run was called, and after Run has ended the counts of
// that moment. Before Run, all are zero. It asks nobody and waits for nothing. It copies some 1 KB
// per job, which takes some 2 ms with 1,000 jobs.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	w := m.bridge
	m.mu.Unlock()
	s := Stats{At: time.Now()}
	if w != nil {
		s = w.counts.snapshot()
		s.At, s.Waiting = w.clock.Wall(), w.runner.Waiting()
		s.Requests, s.RequestTime = m.traffic.Requests(), make(map[string]Histogram)
		for kind, took := range m.traffic.Took() {
			s.RequestTime[kind] = Histogram(took)
		}
		s.BytesSent, s.BytesReceived = m.traffic.Bytes()
	}
	s.InstanceID, s.ServerType = m.cfg.InstanceID, m.cfg.ServerType
	return s
}

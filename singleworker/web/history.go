package web

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// History reads a runlog.Store.
type History interface {
	// Entries is as in runlog.Store.
	Entries(ctx context.Context, q runlog.Query) iter.Seq2[runlog.Entry, error]
}

const (
	// logTime bounds how long a page waits for the run log, and logSilence how much longer for a store
	// that does not stop then.
	logTime    = 2 * time.Second
	logSilence = time.Second
	// logReaders read the run log at once, so that a slow store is not asked by all viewers.
	logReaders = 2
	// maxOfJob and maxOfSpan are how many entries of the log the page of a job, and one of many jobs,
	// reads.
	maxOfJob  = 5_000
	maxOfSpan = 100_000
	// maxRead is how many bytes a reading of the log has, about.
	maxRead = 128 << 20
)

var (
	errLog     = errors.New("the run log cannot be read")
	errNoLog   = fmt.Errorf("%w: there is no run log: swctl ui --store shows one", admin.ErrNotFound)
	errLogSlow = errors.New("the store takes too long")
)

// stateHole marks a time without records.
const stateHole = "hole"

// reading is a result of reading the run log, newest first.
type reading struct {
	entries []runlog.Entry
	whole   bool  // the log has nothing else that was asked for
	err     error // ended it before that, and is nil if it was the limit
}

// runLog is one group's log in a History. A few readings of it are under way at once.
type runLog struct {
	store  History
	group  string
	turns  chan struct{} // buffers one for each reading
	logger *slog.Logger
}

// read reads for some time. A store that is down, or that does not answer, makes a reading with an
// error.
func (l *runLog) read(ctx context.Context, q runlog.Query, most time.Duration) reading {
	q.Group = l.group
	ctx, cancel := context.WithTimeoutCause(ctx, most, errLogSlow)
	defer cancel()
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		return reading{err: context.Cause(ctx)}
	}
	done := make(chan reading, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- reading{err: fmt.Errorf("panic: %v", p)}
			}
			<-l.turns
		}()
		done <- readAll(ctx, l.store.Entries(ctx, q), q.Limit)
	}()
	var r reading
	select {
	case r = <-done:
	case <-time.After(most + logSilence):
		r.err = errLogSlow
	}
	if r.err != nil {
		l.logger.Warn("the run log cannot be read", "error", r.err)
	}
	return r
}

// readAll reads up to a limit, or until the entries are too large together.
func readAll(ctx context.Context, entries iter.Seq2[runlog.Entry, error], limit int) (r reading) {
	size := 0
	for e, err := range entries {
		if err != nil {
			if r.err = err; ctx.Err() != nil {
				r.err = context.Cause(ctx)
			}
			return r
		}
		r.entries = append(r.entries, e)
		if size += sizeOfEntry(e.Run); size > maxRead {
			return r
		}
	}
	r.whole = limit == 0 || len(r.entries) < limit
	return r
}

// sizeOfEntry is about how many bytes of memory an entry of a history takes.
func sizeOfEntry(r history.Run) int {
	const size = 512 // beside its texts
	return size + len(r.Error)
}

// past is the history of some jobs in a span of time.
type past struct {
	of      [][]history.Entry // for each job, newest first
	problem string            // why the run log is not in it, or not all of it
}

// spanLog holds the log's entries of all jobs in a span of time.
type spanLog struct {
	of      map[string][]runlog.Entry // by job, newest first
	problem string
}

func spanLogOf(r reading) spanLog {
	log := spanLog{make(map[string][]runlog.Entry), r.problem()}
	for _, e := range r.entries {
		log.of[e.Job] = append(log.of[e.Job], e)
	}
	return log
}

// add puts the log's entries to the jobs. latest: the log has the newest entries.
func (p *past) add(jobs []admin.JobStatus, log spanLog, latest bool) {
	for i, of := range jobs {
		all := merged(of, p.of[i], log.of[of.Name], latest)
		p.of[i] = make([]history.Entry, len(all))
		for k, e := range all {
			p.of[i][k] = e.Entry
			if _, index, ok := job.SplitShard(e.Slot); ok {
				p.of[i][k].Shard = &index
			}
		}
	}
	p.problem = log.problem
}

// problem names the missing part of a reading, "" if it is complete.
func (r reading) problem() string {
	switch last := len(r.entries) - 1; {
	case r.err != nil && last < 0:
		return "The run log cannot be read: " + r.err.Error() + ". What follows is what ZooKeeper holds, the last entries of each job."
	case r.err != nil:
		return "The run log could not be read further back than " + logged(r.entries[last].At) + ": " + r.err.Error() + "."
	case !r.whole && last >= 0:
		return "The run log was read back to " + logged(r.entries[last].At) + ": it has more than can be shown at once."
	}
	return ""
}

// merged are the entries of a job in ZooKeeper and in the run log, newest first. An entry that both
// have is as ZooKeeper has it. If they have nothing in common although the log was read from its
// end on, the time between them is a hole.
func merged(of admin.JobStatus, held []history.Entry, logged []runlog.Entry, latest bool) []runlog.Entry {
	all := make([]runlog.Entry, 0, len(held)+len(logged))
	has := make(map[string]int)              // where in all
	oldest := make(map[string]history.Entry) // by slot, of those that have ended
	for _, e := range held {
		entry := heldEntry(of, e)
		has[identity(entry)] = len(all)
		all = append(all, entry)
		if over(e.Run) {
			oldest[entry.Slot] = e
		}
	}
	if len(logged) == 0 {
		return all
	}
	newest := make(map[string]runlog.Entry) // by slot
	common := make(map[string]bool)         // by slot
	for _, e := range logged {
		if _, newer := newest[e.Slot]; !newer {
			newest[e.Slot] = e
		}
		if i, both := has[identity(e)]; both {
			common[e.Slot], all[i].Seq = true, e.Seq
			continue
		}
		if e.Kind == runlog.Hole {
			e.State, e.Count = stateHole, 1
		}
		all = append(all, e)
	}
	for slot, e := range newest {
		next, ended := oldest[slot]
		if latest && ended && !common[slot] && e.Kind != runlog.Gone && next.Tick.After(e.To) && next.Number != e.Number+1 {
			all = append(all, unlogged(e, next.Tick))
		}
	}
	slices.SortStableFunc(all, newerFirst)
	return all
}

// unlogged is the hole between the newest entry of the log and the oldest one in ZooKeeper.
func unlogged(last runlog.Entry, next time.Time) runlog.Entry {
	run := history.Run{State: stateHole, Tick: last.To, Error: "nobody has read the history since then, and it may have forgotten some: is swctl runlog running?"}
	return runlog.Entry{Slot: last.Slot, Job: last.Job, Kind: runlog.Hole, At: next, Entry: history.Entry{Run: run, To: next, Count: 1}}
}

// over reports whether a run, or a row of ticks, has ended.
func over(r history.Run) bool {
	return r.State != history.StateRunning && r.State != history.StateUnknown && r.State != history.StateUnreadable
}

// heldEntry is an entry that ZooKeeper has as the log has it.
func heldEntry(of admin.JobStatus, e history.Entry) runlog.Entry {
	entry := runlog.Entry{Slot: slotOf(of, e), Job: of.Name, Kind: runlog.Ran, At: e.Ended, Entry: e}
	switch {
	case entry.Slot != "":
	case of.Job.Everywhere && of.InstanceID == "" && e.InstanceID != "":
		entry.Slot = of.Name + "/" + e.InstanceID
	default:
		entry.Slot = of.Name
	}
	if e.RunID == "" && e.State != history.StateUnreadable {
		entry.Kind = runlog.NotRun
	}
	if entry.At.IsZero() {
		entry.At = e.To
	}
	return entry
}

// identity tells the entries of a job apart.
func identity(e runlog.Entry) string {
	if e.RunID != "" {
		return e.RunID
	}
	return fmt.Sprintf("%s %s %d %s", e.Slot, e.Kind, e.Tick.UnixMilli(), e.Manual)
}

// newerFirst sorts as admin.History does: runs in progress come first.
func newerFirst(a, b runlog.Entry) int {
	switch aRuns, bRuns := a.State == history.StateRunning, b.State == history.StateRunning; {
	case aRuns && !bRuns:
		return -1
	case bRuns && !aRuns:
		return 1
	}
	when := func(e runlog.Entry) time.Time {
		if e.Kind == runlog.Gone || e.To.IsZero() {
			return e.At
		}
		return e.To
	}
	return when(b).Compare(when(a))
}

// summed sums up entries that have ended.
func summed(all []runlog.Entry) []runlog.Summary {
	sums, _ := runlog.Summarize(func(yield func(runlog.Entry, error) bool) {
		for _, e := range all {
			if over(e.Run) && !yield(e, nil) {
				return
			}
		}
	})
	return sums
}

// logged is a time of the run log.
func logged(at time.Time) string { return plain.Absolute(at, time.UTC) }

// slotOf names the shard, or the instance, of an entry of a job that has several.
func slotOf(of admin.JobStatus, e history.Entry) string {
	if e.Shard == nil {
		return ""
	}
	if i := slices.IndexFunc(of.Slots, func(s admin.JobStatus) bool { return s.Shard != nil && s.Shard.Index == *e.Shard }); i >= 0 {
		return of.Slots[i].Name
	}
	return ""
}

// endOf is when a run ended, or now if it is in progress. It is zero if that is not known.
func endOf(r history.Run, now time.Time) time.Time {
	if r.Ended.IsZero() && r.State == history.StateRunning {
		return now
	}
	return r.Ended
}

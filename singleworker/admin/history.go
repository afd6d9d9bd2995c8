package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/preference"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// History is the outcome of the last ticks of a job, or of one of its shards.
type History struct {
	Job JobStatus `json:"job"`
	// Entries are the last runs, and the ticks that were not run, newest first.
	// For several shards, runs in progress come first. A run without a result has
	// the State history.StateRunning or history.StateUnknown. Several entries of one tick differ in
	// Attempt; the first of them is the tick's last state. An entry with the State
	// history.StateUnreadable stands for an unreadable record.
	Entries []history.Entry `json:"items"`
}

// History returns the outcome of the last ticks of a job: about 20, fewer if
// their errors are long, for each of its shards; or of one shard, "report[3]".
// Errors: *invalid.FieldError for the name, ErrNotFound, ErrNoShard,
// ErrUnreadable for a shard, ErrDenied, ErrUnavailable.
func (c *Client) History(ctx context.Context, name string) (History, error) {
	p, err := c.readPast(ctx, "history of", name)
	return p.History, err
}

// past holds the records of the ticks of one slot: of a job without shards, of
// a shard, or of a job at one instance.
type past struct {
	records

	of      parsed
	job     JobStatus
	able    []string // the instances that live and can run the job
	hearers []string // the incarnations to be told of requests
}

// readPasts is pasts with a check of the name, and retries. question is for
// errors.
func (o observer) readPasts(ctx context.Context, question, name string) (job JobStatus, pasts []past, err error) {
	if err := checkSlot(name); err != nil {
		return JobStatus{}, nil, err
	}
	err = o.conn.Retry(ctx, func() error {
		r, live, err := o.among(ctx, name)
		if err == nil {
			err = o.compare(ctx, live)
		}
		if err == nil {
			job, pasts, err = o.pastsOf(r, live)
		}
		return err
	})
	if err != nil {
		return JobStatus{}, nil, fmt.Errorf("%s %q: %w", question, name, err)
	}
	return job, pasts, nil
}

// pasts reads a job, or a shard, and the records of the ticks of each of its
// slots.
func (o observer) pasts(ctx context.Context, name string) (JobStatus, []past, error) {
	r, live, err := o.among(ctx, name)
	if err != nil {
		return JobStatus{}, nil, err
	}
	return o.pastsOf(r, live)
}

// pastsOf is pasts of a reading that was made before.
func (o observer) pastsOf(r reading, live map[string]Instance) (JobStatus, []past, error) {
	if r.of.spec.Canceled {
		return JobStatus{}, nil, ErrNotFound
	}
	job, pasts := r.pasts(live, o.clock.now())
	return job, pasts, nil
}

// pasts are the job, and its slots with the records of their ticks.
func (r reading) pasts(live map[string]Instance, at moment) (JobStatus, []past) {
	job, pasts := r.status(live, at), make([]past, len(r.slots))
	for i, slot := range r.slots {
		p := past{records: slot, of: r.of, job: job, able: able(slot.registered, live, job.Job)}
		if len(job.Slots) > 0 {
			p.job = job.Slots[i]
		}
		if sid := p.job.InstanceID; sid != "" {
			p.able = slices.DeleteFunc(p.able, func(other string) bool { return other != sid })
		}
		p.hearers = hearersOf(slot.slot, slot.owner, p.able, live)
		pasts[i] = p
	}
	return job, pasts
}

// merged returns the history of all slots, newest first.
func merged(pasts []past) []history.Entry {
	if len(pasts) == 1 {
		return pasts[0].newestFirst() // in the order of the records, even if clocks were wrong
	}
	var all []history.Entry
	for _, p := range pasts {
		all = append(all, p.newestFirst()...)
	}
	slices.SortStableFunc(all, func(a, b history.Entry) int {
		switch aRuns, bRuns := a.State == history.StateRunning, b.State == history.StateRunning; {
		case aRuns && !bRuns:
			return -1
		case bRuns && !aRuns:
			return 1
		}
		return b.To.Compare(a.To)
	})
	return all
}

// newestFirst returns the history, including the run of the tick record.
func (p past) newestFirst() []history.Entry {
	var entries []history.Entry
	known := false // whether the history has the run of the tick record
	if p.historyErr != nil {
		entries = append(entries, history.Entry{Run: history.Run{State: history.StateUnreadable, Error: p.historyErr.Error()}, Count: 1})
	}
	for _, e := range p.history.Entries {
		entry := e.Public()
		if last := p.job.LastRun; last != nil && e.RunID != "" && e.RunID == last.RunID {
			known, entry.NextAttempt, entry.NextAttemptAt = true, last.NextAttempt, last.NextAttemptAt
		}
		if held := p.job.HeldRun; held != nil && e.RunID == held.RunID {
			entry.NextAttempt, entry.NextAttemptAt = held.NextAttempt, held.NextAttemptAt
		}
		entries = append(entries, entry)
	}
	// An open run has no entry yet, and older versions kept no history.
	if last := p.job.LastRun; last != nil && !known {
		entries = append(entries, history.Entry{Run: *last, To: last.Tick, Count: 1})
	}
	slices.Reverse(entries)
	if p.job.Shard != nil {
		for i := range entries {
			entries[i].Shard = &p.job.Shard.Index
		}
	}
	return entries
}

// hearersOf are the incarnations that are told of a request to the owner of a slot: the owner's,
// and the first other instance's that can take the slot, which relieves an owner that does nothing.
// Who comes first may be another one by now, or be known by the instances not to take slots at
// present. Then the owner alone hears of the request, and who becomes the owner, or the first of
// the others, reads it.
func hearersOf(slot string, owner zkrec.Owner, able []string, live map[string]Instance) (incarnations []string) {
	next, most := "", uint64(0)
	for _, sid := range able {
		if rank := preference.Of(preference.Hash(sid), preference.Hash(slot)); sid != owner.SID && (next == "" || rank > most) {
			next, most = live[sid].Incarnation, rank
		}
	}
	for _, incarnation := range []string{owner.Incarnation, next} {
		if job.CheckNodeName(incarnation) == nil { // else none has it, or a record was made manually
			incarnations = append(incarnations, incarnation)
		}
	}
	return incarnations
}

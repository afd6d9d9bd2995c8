package runlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Source is where the histories come from: an *admin.Client.
type Source interface {
	WatchHistories(ctx context.Context, o admin.WatchHistoriesOptions) iter.Seq2[admin.HistoryReading, error]
}

// Options configure Run. Group must be set.
type Options struct {
	// Group is the name of the log in the store: the server type, unless groups with one server type
	// share a store.
	Group string
	// Pause is how long changes are gathered before they are read. Default 250 ms.
	Pause time.Duration
	// Keep is how long entries are kept, by Entry.At, and KeepPerSlot how many of each job or shard.
	// They are removed once an hour. Default: all are kept.
	Keep        time.Duration
	KeepPerSlot int
	// Standby is how long another reader must have appended nothing before this one tries again.
	// Default 15 s.
	Standby time.Duration
	// OnAppended is called after each batch with its entries, which it must not keep. Default: none.
	OnAppended func([]Entry)
	// Logger receives messages about holes, errors that are retried, and other readers. Default: none.
	Logger *slog.Logger
}

const (
	defaultStandby = 15 * time.Second
	// maxBatch is how many entries are appended at once.
	maxBatch = 1000
	// markEvery is how often the cursor is stored although there is no news.
	markEvery  = time.Minute
	pruneEvery = time.Hour
	minRetry   = 250 * time.Millisecond
	maxRetry   = 30 * time.Second
)

// Run appends the runs of a group's jobs to the store until ctx is done, and then returns nil.
// Several may run at a time; one of them works. It waits while ZooKeeper or the store is away.
// Errors: of a field of the Options, of the group's name in admin, admin.ErrDenied, *SchemaError.
func Run(ctx context.Context, source Source, store Store, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	o.Standby, o.Logger = cmp.Or(o.Standby, defaultStandby), cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	retry, waiting := minRetry, false
	for ctx.Err() == nil {
		r := reader{source: source, store: store, o: o}
		err := r.follow(ctx)
		var schema *SchemaError
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrConflict):
			if !waiting || r.appended {
				o.Logger.InfoContext(ctx, "another reader keeps the run log; waiting until it is silent", "group", o.Group, "for", o.Standby)
			}
			err = standby(ctx, store, o)
			retry, waiting = minRetry, true
		case errors.As(err, &schema), errors.Is(err, errSource):
			return err
		case r.appended:
			retry = minRetry
		}
		if err != nil && ctx.Err() == nil {
			o.Logger.WarnContext(ctx, "run log: the store does not answer; trying again", "group", o.Group, "error", err, "after", retry)
			wait(ctx, retry)
			retry = min(2*retry, maxRetry)
		}
	}
	return nil
}

func (o Options) check() error {
	switch {
	case o.Group == "":
		return errors.New("runlog: Options.Group is empty: want the server type")
	case len(o.Group) > maxText:
		return fmt.Errorf("runlog: Options.Group is %d bytes long, at most %d are allowed", len(o.Group), maxText)
	case o.Keep < 0, o.KeepPerSlot < 0, o.Standby < 0:
		return errors.New("runlog: Options.Keep, KeepPerSlot or Standby is negative")
	}
	return nil
}

// errSource marks the errors of ZooKeeper that trying again does not mend.
var errSource = errors.New("run log")

// standby returns when nobody has appended anything for a while.
func standby(ctx context.Context, store Store, o Options) error {
	last, err := store.Seq(ctx, o.Group)
	for err == nil && ctx.Err() == nil {
		wait(ctx, o.Standby)
		var now int64
		if now, err = store.Seq(ctx, o.Group); now == last {
			break
		}
		last = now
	}
	return err
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// reader is one reading of the group, from its beginning to an error.
type reader struct {
	source   Source
	store    Store
	o        Options
	state    State
	appended bool
	unread   map[string]bool // until the whole group was read: the slots of the log that were not seen
	marked   time.Time       // when the cursor was stored last
	pruned   time.Time
}

func (r *reader) follow(ctx context.Context) (err error) {
	if r.state, err = r.store.Load(ctx, r.o.Group); err != nil {
		return err
	}
	r.unread = make(map[string]bool)
	for slot := range r.state.Positions {
		r.unread[slot] = true
	}
	for reading, err := range r.source.WatchHistories(ctx, admin.WatchHistoriesOptions{Since: r.state.Cursor, Pause: r.o.Pause}) {
		if err != nil {
			return fmt.Errorf("%w: read the histories of %s: %w", errSource, r.o.Group, err)
		}
		if err := r.take(ctx, reading); err != nil {
			return err
		}
	}
	return nil
}

// take appends the news of a reading.
func (r *reader) take(ctx context.Context, reading admin.HistoryReading) error {
	b := r.batch()
	now := time.Now().UTC().Truncate(time.Millisecond)
	for slot, err := range reading.Unreadable {
		maps.DeleteFunc(r.unread, func(other string, _ bool) bool { return other == slot || zkrec.JobOfSlot(other) == slot })
		r.o.Logger.WarnContext(ctx, "run log: a record cannot be read", "group", r.o.Group, "job", slot, "error", err)
	}
	histories := make(map[string]admin.SlotHistory) // the last of each, if one was read again
	for _, h := range reading.Slots {
		histories[h.Name] = h
		delete(r.unread, h.Name)
	}
	restored, err := r.recall(ctx, histories)
	if err != nil {
		return err
	}
	for _, slot := range slices.Sorted(maps.Keys(histories)) {
		if err := r.takeHistory(ctx, &b, histories[slot], restored[slot], now); err != nil {
			return err
		}
	}
	gone := reading.Gone
	if reading.Whole && r.unread != nil {
		gone, r.unread = append(gone, slices.Sorted(maps.Keys(r.unread))...), nil
	}
	for _, slot := range gone {
		if p, known := r.state.Positions[slot]; known {
			b.add(goneEntry(slot, p, now))
			delete(b.Positions, slot)
			delete(r.state.Positions, slot)
		}
	}
	if reading.UnseenJobs {
		b.add(Entry{
			Kind: Hole, Key: fmt.Sprintf("jobs:%d", reading.Cursor), At: now,
			Entry: history.Entry{Run: history.Run{Error: "jobs may have been submitted and removed before they were read"}, To: now},
		})
	}
	if reading.Whole {
		b.Cursor = reading.Cursor
	}
	if len(b.Entries) == 0 && (b.Cursor == r.state.Cursor || now.Sub(r.marked) < markEvery) {
		return r.prune(ctx, now)
	}
	r.marked = now
	if err := r.append(ctx, b); err != nil {
		return err
	}
	return r.prune(ctx, now)
}

// takeHistory adds the news of a history to a batch, and appends that when it is full. A history at
// which this code fails keeps its position, and costs the log nothing of the other slots.
func (r *reader) takeHistory(ctx context.Context, b *pending, h admin.SlotHistory, restored *recalled, now time.Time) error {
	was := r.state.Positions[h.Name]
	if was.Incarnation == 0 && r.state.Cursor == 0 { // the log begins: it has not read the whole group yet
		was = begin(h)
	}
	var news []Entry
	err := task.Protect("run log", func() error {
		if restored != nil {
			news = restored.news(was, now)
		} else {
			news = was.news(h)
		}
		return nil
	})
	if err != nil {
		r.o.Logger.ErrorContext(ctx, "run log: a history cannot be taken in", "group", r.o.Group, "job", h.Name, "error", err)
		return nil
	}
	if len(news) == 0 {
		return nil
	}
	if was.Incarnation != 0 && was.Incarnation != h.Incarnation {
		b.add(goneEntry(h.Name, was, now))
	}
	p := was
	for _, e := range news {
		p = p.After(e)
		if b.add(e); e.Kind == Hole {
			r.o.Logger.WarnContext(ctx, "run log: a hole", "group", r.o.Group, "job", h.Name, "from", e.Tick, "to", e.To, "error", e.Error)
		}
	}
	b.Positions[h.Name], r.state.Positions[h.Name] = p, p
	if len(b.Entries) < maxBatch {
		return nil
	}
	if err := r.append(ctx, *b); err != nil {
		return err
	}
	*b = r.batch()
	return nil
}

// goneEntry says that a slot, or its former incarnation, was removed.
func goneEntry(slot string, p Position, now time.Time) Entry {
	return Entry{Slot: slot, Job: zkrec.JobOfSlot(slot), Incarnation: p.Incarnation, Key: "gone", Kind: Gone, At: now}
}

// pending is a batch that is being made.
type pending struct{ Batch }

func (r *reader) batch() pending {
	return pending{Batch{After: r.state.Seq, Cursor: r.state.Cursor, Positions: make(map[string]Position)}}
}

func (b *pending) add(e Entry) {
	e.Seq = b.Seq() + 1
	b.Entries = append(b.Entries, e)
}

func (r *reader) append(ctx context.Context, b pending) error {
	if err := r.store.Append(ctx, r.o.Group, b.Batch); err != nil {
		return err
	}
	r.appended, r.state.Seq, r.state.Cursor = true, b.Seq(), b.Cursor
	if r.o.OnAppended != nil && len(b.Entries) > 0 {
		r.o.OnAppended(b.Entries)
	}
	return nil
}

// prune removes old entries, once in a while.
func (r *reader) prune(ctx context.Context, now time.Time) error {
	if r.o.Keep == 0 && r.o.KeepPerSlot == 0 || now.Sub(r.pruned) < pruneEvery {
		return nil
	}
	r.pruned = now
	keep := Retention{PerSlot: r.o.KeepPerSlot}
	if r.o.Keep > 0 {
		keep.Since = now.Add(-r.o.Keep)
	}
	n, err := r.store.Prune(ctx, r.o.Group, keep)
	if err == nil && n > 0 {
		r.o.Logger.InfoContext(ctx, "run log: removed old entries", "group", r.o.Group, "entries", n)
	}
	return err
}

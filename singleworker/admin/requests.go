package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/deeds"
	"github.com/swjobs/singleworker/singleworker/internal/signals"
	"github.com/swjobs/singleworker/singleworker/internal/task"
	"github.com/swjobs/singleworker/singleworker/internal/zkconn"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// The kinds of requests.
const (
	RequestRun  = zkrec.RequestRun  // a manual run
	RequestPast = zkrec.RequestPast // a further attempt at a past tick
	RequestStop = zkrec.RequestStop // the end of a run
	// RequestBackfill is a further attempt at each of many past ticks.
	RequestBackfill = zkrec.RequestBackfill
)

// Request is a pending request of an operator to the owner of a job, or of a
// shard.
type Request struct {
	ID   string `json:"id"`
	Slot string `json:"name"` // the job, or the shard: "report[3]"
	// Kind is RequestRun, RequestPast, RequestBackfill or RequestStop. It is empty if the request
	// cannot be read, or is not read yet: see Requests.
	Kind   string    `json:"kind"`
	At     time.Time `json:"at,omitzero"` // by the operator's clock; zero if it cannot be read
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	// Tick is the past tick that is to be run, and Past why it may. Other requests have neither.
	Tick time.Time    `json:"tick,omitzero"`
	Past history.Past `json:"past,omitempty"`
	// Backfill is how far a backfill is. Its runs have requests of their own: its ID and a number.
	Backfill *BackfillProgress `json:"backfill,omitempty"`
	// RunID is the run to stop, or the manual run that the request has started;
	// empty while it waits.
	RunID string `json:"run_id,omitempty"`
	// Stack is where the handler of the run to stop was some seconds later, when it had not ended: a
	// function and its line on each line, the innermost first, at most 4 KiB. Empty if it has ended by
	// then.
	Stack string `json:"stack,omitempty"`
}

// BackfillProgress is how far a backfill is.
type BackfillProgress struct {
	From  time.Time `json:"from"` // the first of its ticks
	To    time.Time `json:"to"`   // the last of them
	Total int       `json:"total"`
	Taken int       `json:"taken"` // ticks that were begun
	Next  time.Time `json:"next"`  // the next one
}

// Requests lists the pending requests of a job, including those of its shards,
// or of one shard, "report[3]": by slot, oldest first. Of more than 100 of one slot, which
// only someone writing them manually can make, the later ones are not read: they have no Kind.
// Errors: *invalid.FieldError for the name, ErrNotFound, ErrNoShard, ErrUnreadable
// for a shard, ErrDenied, ErrUnavailable.
func (c *Client) Requests(ctx context.Context, name string) ([]Request, error) {
	if err := checkSlot(name); err != nil {
		return nil, err
	}
	return retried(ctx, c.conn, fmt.Sprintf("requests of %q", name), func() ([]Request, error) {
		_, pasts, err := c.pasts(ctx, name)
		if err != nil {
			return nil, err
		}
		return c.requestsOf(ctx, pasts)
	})
}

// requestsOf reads the pending requests of slots, in order.
func (rd reader) requestsOf(ctx context.Context, pasts []past) ([]Request, error) {
	slots := make([]string, len(pasts))
	for i, slot := range pasts {
		slots[i] = slot.slot
	}
	waiting, err := rd.waitingAt(ctx, slots)
	if err != nil {
		return nil, err
	}
	var list []Request
	var stops []zkconn.Read
	var stopped []int // the requests that have them
	for i, slot := range pasts {
		for _, id := range slices.Sorted(maps.Keys(waiting[i])) {
			w := waiting[i][id]
			r := requestOf(id, slot.slot, w)
			if w.IsRun() && slot.tick.Manual == id {
				r.RunID = slot.tick.RunID
			}
			if w.Kind == RequestStop {
				stops, stopped = append(stops, zkconn.Read{Path: rd.tree.Stack(slot.slot)}), append(stopped, len(list))
			}
			list = append(list, r)
		}
	}
	stacks, err := rd.readMany(ctx, stops)
	for k, i := range stopped {
		if err == nil {
			list[i].Stack = stackOf(stacks[k].Data, list[i].RunID)
		}
	}
	return list, err
}

func requestOf(id, slot string, w zkrec.Request) Request {
	r := Request{ID: id, Slot: slot, Kind: w.Kind, At: w.At, By: w.By, Reason: w.Reason, Tick: zkrec.Time(w.Tick), Past: w.Past, RunID: w.RunID}
	if b := w.Backfill; w.Kind == RequestBackfill {
		r.Backfill = &BackfillProgress{
			From: zkrec.Time(b.From), To: zkrec.Time(b.To), Total: b.Total, Taken: b.Total - b.Left(), Next: zkrec.Time(b.Rows[0].Tick),
		}
	}
	return r
}

// stack is where the handler of a run was that did not end when it was told to; "" if there was
// none.
func (rd reader) stack(ctx context.Context, slot, runID string) (string, error) {
	data, _, err := rd.conn.Get(ctx, rd.tree.Stack(slot))
	if zkconn.IsUnknown(err) {
		return "", err
	}
	return stackOf(data, runID), nil
}

// stackOf returns the stack in a record, if the record names the run.
func stackOf(data []byte, runID string) string {
	if s, err := zkrec.ParseStack(data); err == nil && s.RunID == runID {
		return s.Text
	}
	return ""
}

// CancelRequests cancels pending manual runs of a job that have not started, and the rest of
// backfills: those of one request, which may be several for a job with shards, or all if id is
// empty. It returns the canceled requests, possibly an empty list, and even with an error. A run
// that has started is not affected: see [Client.StopRun]. Errors: as Requests, and ErrConflict.
func (c *Client) CancelRequests(ctx context.Context, name, id string) ([]Request, error) {
	if err := checkSlot(name); err != nil {
		return nil, err
	}
	w := cancellation{ed: c.editor, id: id, taken: make(map[[2]string]Request)}
	err := c.persist(ctx, func() error {
		_, pasts, err := c.pasts(ctx, name)
		if err != nil {
			return err
		}
		return task.Each(ctx, readers, pasts, w.from)
	})
	list := slices.SortedFunc(maps.Values(w.taken), func(a, b Request) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.ID, b.ID))
	})
	if err != nil {
		return list, fmt.Errorf("cancel requests of %q: %w", name, err)
	}
	return list, nil
}

// cancellation is one CancelRequests over its tries.
type cancellation struct {
	ed editor
	id string

	mu    sync.Mutex
	taken map[[2]string]Request // by slot and ID, including earlier tries
}

// from cancels the pending requests of one slot, as many at a time as are read.
func (w *cancellation) from(ctx context.Context, _ int, slot past) error {
	for {
		if more, err := w.some(ctx, slot); err != nil || !more {
			return err
		}
	}
}

// some cancels the oldest of them and reports whether there may be more. The transaction checks the
// tick record, so that a run that starts at this moment keeps its request.
func (w *cancellation) some(ctx context.Context, slot past) (more bool, err error) {
	c := w.ed
	path := c.tree.Tick(slot.slot)
	data, stat, err := c.conn.Get(ctx, path)
	if errors.Is(err, zkconn.ErrNoNode) {
		return false, nil // the shard does not exist yet, or no longer
	}
	if err != nil {
		return false, err
	}
	record, err := zkrec.ParseTick(data, stat.Mtime)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	slot.tick = record
	requests, err := c.requestsOf(ctx, []past{slot})
	if err != nil {
		return false, err
	}
	w.forget(slot, requests)
	ops := []zkconn.Op{zkconn.CheckOp(path, stat.Version)}
	var taken []Request
	for _, r := range requests {
		if r.Kind != "" && r.Kind != RequestStop && r.RunID == "" && (w.id == "" || w.id == r.ID) {
			ops = append(ops, zkconn.DeleteOp(c.tree.Request(slot.slot, r.ID), zkconn.AnyVersion))
			taken = append(taken, r)
		}
	}
	if len(taken) == 0 {
		return false, nil
	}
	told := make(map[string][]string)
	for _, incarnation := range slot.hearers {
		told[incarnation] = []string{slot.slot}
	}
	deed := c.deed(ctx, zkrec.DeedWithdraw, Who{}, slot.slot)
	_, err = deeds.Write(ctx, c.conn, c.tree, deed, ops, func(ops []zkconn.Op) ([]zkconn.Stat, error) {
		return signals.Multi(ctx, c.conn, signals.OfRequests(c.tree, told), ops...)
	})
	if err == nil || zkconn.IsUnknown(err) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, r := range taken {
			w.taken[[2]string{r.Slot, r.ID}] = r
		}
	}
	return len(requests) > zkrec.MaxReadRequests, err
}

// forget corrects the result of an earlier try whose reply was lost: requests
// that are still pending, or have run, were not canceled.
func (w *cancellation) forget(slot past, requests []Request) {
	waits := make(map[string]bool, len(requests))
	for _, r := range requests {
		waits[r.ID] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.taken, func(key [2]string, r Request) bool {
		_, ran := slot.manual(r.ID)
		return key[0] == slot.slot && (waits[r.ID] || ran)
	})
}

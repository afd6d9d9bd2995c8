package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/wall"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// BackfillOptions say which past ticks are to be run.
type BackfillOptions struct {
	From time.Time // the first tick is at this time or later
	To   time.Time // the last one is at this time or before; default: the last past tick
	// Only are the reasons for which a tick may be run once more. Default: PastMissed, PastSkipped and
	// PastFailed. The effects of ticks that are PastAgain or PastForgotten are done once more.
	Only   []history.Past
	By     string // as in TriggerOptions
	Reason string
	DryRun bool // request nothing: the result says what would be run
}

// BackfillResult is what Backfill did.
type BackfillResult struct {
	ID    string          `json:"request,omitempty"` // of the request, the same for each shard; empty if there is none
	Job   JobStatus       `json:"job"`               // when the runs were requested
	Slots []BackfillTicks `json:"slots"`             // the job, or its shards
}

// BackfillTicks are the ticks of a slot in the times that were asked for.
type BackfillTicks struct {
	Slot  string         `json:"name"`
	Ticks []BackfillTick `json:"ticks"` // to be run, in this order
	// LeftOut is how many others there are, by why they might have been run, or "open" if they are
	// running, to be repeated, or requested already.
	LeftOut map[string]int `json:"left_out,omitempty"`
}

// BackfillTick is a past tick that is to be run once more.
type BackfillTick struct {
	Tick    time.Time    `json:"tick"`
	Past    history.Past `json:"past"`    // why it may
	Attempt int          `json:"attempt"` // at it
}

// Backfill requests a further attempt at each past tick between two times: one after the other, the
// oldest first, after ticks that are due and after manual runs. It returns when ZooKeeper has
// accepted the request, of which Requests shows the progress, and CancelRequests stops the rest. A
// pause holds it, canceling the job ends it, and so do new shards. Runs are as Trigger with a Tick
// makes them: a tick that fails is not retried, and the next one is run. There are at most 10,000
// in one request, fewer if hardly any two are alike. If there are none, nothing is requested.
// Errors: as Trigger, and *invalid.FieldError of From, To, or Only, but neither ErrTickDone nor
// ErrTickOpen: such ticks are left out.
func (c *Client) Backfill(ctx context.Context, name string, opts BackfillOptions) (BackfillResult, error) {
	if len(opts.Only) == 0 {
		opts.Only = []history.Past{history.PastMissed, history.PastSkipped, history.PastFailed}
	}
	if err := opts.check(); err != nil {
		return BackfillResult{}, err
	}
	a, err := c.newAsk(ctx, zkrec.DeedBackfill, name, zkrec.Request{
		Kind: zkrec.RequestBackfill, At: wall.Of(ctx).Now(), By: opts.By, Reason: opts.Reason,
	})
	if err != nil {
		return BackfillResult{}, err
	}
	var result BackfillResult
	a.judge = func(slot past, waiting map[string]zkrec.Request) (*zkrec.Request, error) {
		if err := slot.mayBeAsked(waiting, false); err != nil {
			return nil, err
		}
		request, ticks, err := slot.backfill(a.request, opts, waiting)
		result.Slots = append(slices.DeleteFunc(result.Slots, func(t BackfillTicks) bool { return t.Slot == slot.slot }), ticks) // at each try
		if err != nil || opts.DryRun || len(ticks.Ticks) == 0 {
			return nil, err
		}
		result.ID = a.id
		return &request, nil
	}
	if err := a.run(ctx); err != nil {
		return BackfillResult{}, fmt.Errorf("backfill %s: %w", name, err)
	}
	result.Job = a.status
	return result, nil
}

// pasts are the reasons for which a past tick may be run.
var pasts = []history.Past{history.PastMissed, history.PastSkipped, history.PastFailed, history.PastAgain, history.PastForgotten}

// check refuses options that name no tick.
func (o BackfillOptions) check() error {
	for _, past := range o.Only {
		if !slices.Contains(pasts, past) {
			return &invalid.FieldError{Field: "Only", Value: string(past), Err: fmt.Errorf("is none of %v", pasts)}
		}
	}
	switch {
	case o.From.IsZero():
		return &invalid.FieldError{Field: "From", Err: errors.New("is missing: from when on ticks are to be run")}
	case !o.To.IsZero() && o.To.Before(o.From):
		return &invalid.FieldError{Field: "To", Value: o.To.Format(time.RFC3339), Err: fmt.Errorf("is before From, %s", o.From.Format(time.RFC3339))}
	}
	return nil
}

// maxExamined is how many ticks a Backfill looks at.
const maxExamined = 100_000

// backfill completes the request for the slot's past ticks, and lists them.
func (p past) backfill(request zkrec.Request, opts BackfillOptions, waiting map[string]zkrec.Request) (zkrec.Request, BackfillTicks, error) {
	found := BackfillTicks{Slot: p.slot, Ticks: []BackfillTick{}, LeftOut: make(map[string]int)}
	refused := func(field string, at time.Time, err error) (zkrec.Request, BackfillTicks, error) {
		return request, found, &invalid.FieldError{Field: field, Value: at.Format(time.RFC3339), Err: err}
	}
	if err := errors.Join(p.tickErr, p.historyErr); err != nil {
		return request, found, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	to := zkrec.Time(p.tick.Watermark)
	if !opts.To.IsZero() && opts.To.Before(to) {
		to = opts.To
	}
	entries := p.newestFirst()
	seen := 0
	for tick := p.firstTick(opts.From.Add(-time.Nanosecond)); !tick.IsZero() && !tick.After(to); tick = p.firstTick(tick) {
		if err := p.isPast(tick); err != nil {
			return refused("From", opts.From, fmt.Errorf("the tick of %s %w", tick.Format(time.RFC3339), err))
		}
		next, err := p.nextAttempt(request, tick, entries, waiting)
		switch {
		case errors.Is(err, errNotBegun):
			found.LeftOut["not begun"]++
		case err != nil:
			found.LeftOut["open"]++
		case !slices.Contains(opts.Only, next.Past):
			found.LeftOut[string(next.Past)]++
		default:
			request.Backfill.Add(next)
			found.Ticks = append(found.Ticks, BackfillTick{zkrec.UTC(tick), next.Past, next.Attempt})
		}
		if seen++; len(found.Ticks) > zkrec.MaxBackfill || seen > maxExamined {
			return refused("To", to, fmt.Errorf("is too late: %d ticks up to %s are more than one request can name, or look at", seen, tick.Format(time.RFC3339)))
		}
	}
	if len(request.Encode()) > zkrec.MaxBackfillBytes {
		return refused("To", to, fmt.Errorf("is too late: %d ticks are more than one request can name, for hardly any two are alike", len(found.Ticks)))
	}
	return request, found, nil
}

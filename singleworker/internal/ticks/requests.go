package ticks

import (
	"slices"

	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
)

// Request is an operator's request to the owner of a slot: to run it now, to run past ticks of it,
// or to stop a run.
type Request struct {
	ID      string
	Version int32 // of its node, which only a backfill's claims change
	zkrec.Request
}

// IsStop reports whether the request is to stop a run.
func (r Request) IsStop() bool { return r.Kind == zkrec.RequestStop }

// IsBackfill reports whether the request is to run many past ticks.
func (r Request) IsBackfill() bool { return r.Kind == zkrec.RequestBackfill }

// Next is the request for the next tick of a backfill, and the backfill without it, which is
// done if that has no rows.
func (r Request) Next() (next, rest Request) {
	rest.ID = r.ID
	next.ID, next.Request, rest.Request = r.Request.Next(r.ID)
	return next, rest
}

// request is the first request whose run may be opened, nil if there is none, and the backfill that
// it is to be taken from, if it is. A past tick is claimed by name, and only the watermark says
// that it is past: the schedule claims those after it. A backfill has time: it goes after all that
// was asked for by itself, and is held by a pause.
func (v View) request() (next, backfill *Request) {
	for i := range v.Requests {
		switch r := &v.Requests[i]; {
		case r.IsBackfill():
			if first, _ := r.Next(); backfill == nil && first.Tick <= v.Record.Watermark && v.pausedNow() == nil {
				next, backfill = &first, r
			}
		case r.Tick <= v.Record.Watermark:
			return r, nil
		}
	}
	return next, backfill
}

// outlived is the first request for past ticks of the time before the slot's layout, which are
// another slot's, or "". One whose run is to be repeated stays.
func (v View) outlived() string {
	for _, r := range v.Requests {
		first := r
		if r.IsBackfill() {
			first, _ = r.Next()
		}
		if first.Past != "" && !v.From.IsZero() && first.Tick <= v.From.UnixMilli() && r.ID != v.Record.Again().Manual {
			return r.ID
		}
	}
	return ""
}

// manualTurn reports whether a manual run goes before the tick that is due. It
// does if the tick has waited for another tick's run to end; otherwise requests
// to a job that is always busy would starve. A tick that replaces a retry still
// goes before requests, as the retry would have, and each goes before a past one.
func (v View) manualTurn() bool {
	last := v.Record.Run
	next, _ := v.request()
	return next != nil && next.Past == "" && v.Record.NextAttempt == "" && last.RunID != "" && last.Manual == "" &&
		v.Due(v.Schedule.Next(v.base())).UnixMilli() <= last.Ended
}

// pendingRequest returns the request that a run was for, or "" if the run was
// not manual or an operator has canceled the request.
func (v View) pendingRequest(run zkrec.Run) string {
	if slices.ContainsFunc(v.Requests, func(r Request) bool { return r.ID == run.Manual }) {
		return run.Manual
	}
	return ""
}

package admin

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// TestBackfill: the request names each tick of the times that may be run for the reasons given,
// with its attempt, and the result says which those are, and how many others there are.
func TestBackfill(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly", TimeZone: "UTC"})
		hour := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
		ran := func(n int, state history.State) {
			run := zkrec.Run{
				Tick: hour(n).UnixMilli(), RunID: "r" + strconv.Itoa(n), SID: "app-1", Token: token, Attempt: 1,
				State: state, Started: hour(n).UnixMilli(), Ended: hour(n).UnixMilli() + 1,
			}
			w.record("job", zkrec.Tick{Watermark: run.Tick, Run: run}, w.log("job").Add(zkrec.MinHistory, 0, zkrec.Entry{Run: run}))
		}
		ran(1, history.StateOK)
		ran(2, history.StateFailed)
		row := zkrec.Entry{Run: zkrec.Run{Tick: hour(3).UnixMilli(), State: history.StateMissed}, To: hour(6).UnixMilli(), Count: 4, Reason: history.ReasonNoOwner}
		w.record("job", zkrec.Tick{Watermark: hour(6).UnixMilli()}, w.log("job").Add(zkrec.MinHistory, 0, row))
		ran(7, history.StateLost)
		time.Sleep(time.Until(hour(7).Add(90 * time.Minute)))

		ask := func(opts BackfillOptions, ticks int, left map[string]int) BackfillResult {
			t.Helper()
			result, err := w.c.Backfill(w.Context(), "job", opts)
			if err != nil || len(result.Slots) != 1 || len(result.Slots[0].Ticks) != ticks || !maps.Equal(result.Slots[0].LeftOut, left) {
				t.Errorf("%+v: %+v, %v, want %d ticks, left out %v", opts, result.Slots, err, ticks, left)
			}
			if want := ticks > 0 && !opts.DryRun; want != (result.ID != "") || want != (len(w.requests()[result.ID].Backfill.Rows) > 0) {
				t.Errorf("%+v: request %q", opts, result.ID)
			}
			return result
		}
		ask(BackfillOptions{From: hour(0), DryRun: true}, 6, map[string]int{"again": 1})
		ask(BackfillOptions{From: hour(1), To: hour(1)}, 0, map[string]int{"again": 1})
		ask(BackfillOptions{From: hour(8), To: hour(20)}, 0, nil)
		only := ask(BackfillOptions{From: hour(4), To: hour(5).Add(time.Minute), Only: []history.Past{history.PastMissed}}, 2, nil)
		waits := w.requests()[only.ID]
		if b := waits.Backfill; b.From != hour(4).UnixMilli() || b.To != hour(5).UnixMilli() || b.Total != 2 || b.Rows[0].Attempt != 1 {
			t.Errorf("asked for %+v", waits)
		}
		_, err := w.c.Trigger(w.Context(), "job", TriggerOptions{Tick: hour(5)})
		if !errors.Is(err, ErrTickOpen) {
			t.Errorf("a tick that a backfill has asked for: %v", err)
		}
		all := ask(BackfillOptions{From: hour(0), Only: pasts}, 5, map[string]int{"open": 2})
		for i, want := range []BackfillTick{
			{hour(1), history.PastAgain, 2}, {hour(2), history.PastFailed, 2}, {hour(3), history.PastMissed, 1}, {hour(6), history.PastMissed, 1},
			{hour(7), history.PastFailed, 2},
		} {
			if got := all.Slots[0].Ticks[i]; got != want {
				t.Errorf("tick %d is %+v, want %+v", i, got, want)
			}
		}
		list, err := w.c.Requests(w.Context(), "job")
		if err != nil || len(list) != 2 || *list[0].Backfill != (BackfillProgress{hour(4), hour(5), 2, 0, hour(4)}) {
			t.Errorf("%+v, %v", list, err)
		}
		for field, opts := range map[string]BackfillOptions{
			"From": {To: hour(3)}, "To": {From: hour(3), To: hour(2)}, "Only": {From: hour(3), Only: []history.Past{"late"}},
		} {
			_, err := w.c.Backfill(w.Context(), "job", opts)
			wantInvalid(t, err, field, "")
		}
		if taken, err := w.c.CancelRequests(w.Context(), "job", only.ID); err != nil || len(taken) != 1 {
			t.Errorf("canceled %v, %v", taken, err)
		}
		if _, err := w.c.Backfill(w.Context(), "none", BackfillOptions{From: hour(0)}); !errors.Is(err, ErrNotFound) {
			t.Errorf("of no job: %v", err)
		}
	})
}

// A backfill is of so many ticks as a request can name. What would take too long to look at is
// refused as well.
func TestBackfillOfTooMany(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@every 1s"})
		through := noon.Add(48 * time.Hour)
		ctx := context.WithoutCancel(w.Context()) // which lasts for a day
		row := zkrec.Entry{Run: zkrec.Run{Tick: noon.UnixMilli(), State: history.StateMissed}, To: through.UnixMilli(), Count: zkrec.MaxCount}
		w.record("job", zkrec.Tick{Watermark: through.UnixMilli()}, w.log("job").Add(zkrec.MinHistory, 0, row))
		time.Sleep(time.Until(through.Add(time.Second)))
		for _, opts := range []BackfillOptions{{From: noon}, {From: noon, Only: []history.Past{history.PastFailed}}} {
			_, err := w.c.Backfill(ctx, "job", opts)
			if no := new(invalid.FieldError); !errors.As(err, &no) || no.Field != "To" || !strings.Contains(err.Error(), "are more than one request can name") {
				t.Errorf("%+v: %v", opts, err)
			}
		}
		if result, err := w.c.Backfill(ctx, "job", BackfillOptions{From: noon.Add(24 * time.Hour), To: noon.Add(26 * time.Hour)}); err != nil || len(result.Slots[0].Ticks) < 7200 {
			t.Errorf("of two hours: %v", err)
		}
	})
}

package admin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// TestTriggerPastTick: the request says which attempt at the tick is to be run, and why it may.
func TestTriggerPastTick(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		token := w.owned(job.Job{Name: "job", Schedule: "@hourly", TimeZone: "UTC"})
		hour := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
		ran := func(n, attempt, failures int, state history.State) {
			run := zkrec.Run{
				Tick: hour(n).UnixMilli(), RunID: strings.Repeat("r", n) + strings.Repeat("a", attempt), SID: "app-1", Token: token,
				Attempt: attempt, Failures: failures, State: state, Started: hour(n).UnixMilli(), Ended: hour(n).UnixMilli() + 1,
			}
			log := w.log("job").Add(zkrec.MinHistory, 0, zkrec.Entry{Run: run})
			w.record("job", zkrec.Tick{Watermark: run.Tick, Run: run}, log)
		}
		ran(1, 1, 0, history.StateOK)
		ran(2, 1, 0, history.StateFailed)
		ran(2, 2, 1, history.StateLost)
		row := zkrec.Entry{Run: zkrec.Run{Tick: hour(3).UnixMilli(), State: history.StateMissed}, To: hour(4).UnixMilli(), Count: 2, Reason: history.ReasonNoOwner}
		w.record("job", zkrec.Tick{Watermark: hour(4).UnixMilli()}, w.log("job").Add(zkrec.MinHistory, 0, row))
		ran(5, 1, 0, history.StateTimedOut)
		time.Sleep(time.Until(hour(5).Add(90 * time.Minute)))

		for _, tt := range []struct {
			at                time.Time
			again             bool
			attempt, failures int
			past              history.Past
			err               error
			text              string
		}{
			{hour(1), false, 0, 0, "", ErrTickDone, "its attempt 1 is ok"},
			{hour(1), true, 2, 1, history.PastAgain, nil, ""},
			{hour(2), false, 3, 1, history.PastFailed, nil, ""},
			{hour(2), false, 0, 0, "", ErrTickOpen, "asks for it"},
			{hour(4).Add(300 * time.Millisecond), false, 1, 0, history.PastMissed, nil, ""},
			{hour(5), true, 2, 1, history.PastFailed, nil, ""},
			{hour(6), true, 0, 0, "", nil, "is not past: the schedule is to run it yet"},
			{hour(9), true, 0, 0, "", nil, "is not past: the schedule is to run it yet"},
			{hour(4).Add(time.Minute), false, 0, 0, "", nil, "no tick of the schedule that was in effect then: the last one before is 2000-01-01T16:00:00Z, the next one 2000-01-01T17:00:00Z"},
			{hour(-4), true, 0, 0, "", nil, "no tick of the schedule that was in effect then: the last one before is none, the next one "},
		} {
			result, err := w.c.Trigger(w.Context(), "job", TriggerOptions{Tick: tt.at, Again: tt.again, By: "ann"})
			switch {
			case tt.text != "":
				if err == nil || tt.err != nil && !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.text) {
					t.Errorf("%v: %v, want %s", tt.at, err, tt.text)
				}
				if tt.err == nil {
					wantInvalid(t, err, "Tick", "")
				}
			case err != nil:
				t.Errorf("%v: %v", tt.at, err)
			default:
				r := w.requests()[result.ID]
				if r.Kind != RequestPast || r.Tick != tt.at.Truncate(time.Second).UnixMilli() || r.Past != tt.past || r.Attempt != tt.attempt || r.Failures != tt.failures {
					t.Errorf("%v: asked for %+v", tt.at, r)
				}
			}
		}
		list, err := w.c.Requests(w.Context(), "job")
		if err != nil || len(list) != 4 || list[0].Past != history.PastAgain || !list[0].Tick.Equal(hour(1)) {
			t.Errorf("%+v, %v", list, err)
		}
		_, err = w.c.Trigger(w.Context(), "job", TriggerOptions{Again: true})
		wantInvalid(t, err, "Again", "")
		if taken, err := w.c.CancelRequests(w.Context(), "job", ""); err != nil || len(taken) != 4 {
			t.Errorf("canceled %v, %v", taken, err)
		}
	})
}

// The ticks are the former schedule's as long as it was in effect. Of a tick that the history has
// forgotten nobody knows whether it was run.
func TestTriggerPastTickOfFormerSchedule(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		w.owned(job.Job{Name: "job", Schedule: "@hourly", TimeZone: "UTC"})
		time.Sleep(150 * time.Minute)
		if _, err := w.edit("job", func(j *job.Job) { j.Schedule = "0 */20 * * * ?" }); err != nil {
			t.Fatal(err)
		}
		w.record("job", zkrec.Tick{Watermark: noon.Add(4 * time.Hour).UnixMilli()}, w.log("job"))
		for at, want := range map[time.Duration]string{
			2 * time.Hour:     "the history of the job has forgotten it",
			100 * time.Minute: "the last one before is 2000-01-01T13:00:00Z, the next one 2000-01-01T14:00:00Z",
			140 * time.Minute: "the last one before is 2000-01-01T14:00:00Z, the next one 2000-01-01T14:40:00Z",
			160 * time.Minute: "the history of the job has forgotten it",
		} {
			if _, err := w.c.Trigger(w.Context(), "job", TriggerOptions{Tick: noon.Add(at)}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v after noon: %v, want %s", at, err, want)
			}
		}
		result, err := w.c.Trigger(w.Context(), "job", TriggerOptions{Tick: noon.Add(2 * time.Hour), Again: true})
		if r := w.requests()[result.ID]; err != nil || r.Past != history.PastForgotten || r.Attempt != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

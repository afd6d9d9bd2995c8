package ledger_test

import (
	"testing"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/ledger"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// TestPauseAfterFailures: no run of the schedule follows the failures that pause the job, unless it
// was resumed.
func TestPauseAfterFailures(t *testing.T) {
	t.Parallel()
	fail := func(w *world, failed int) {
		w.own(1, "j", "a")
		w.write(2, operator, set(tree.Job("j"), zkrec.Spec{Job: job.Job{Schedule: "*/10 * * * * ?", PauseAfterFailures: 3}}.Encode()))
		w.record(10, "j", w.claimed("j", 10, "r1"))
		w.end(11, "j", history.StateFailed)
		rec := w.tick["j"]
		rec.Failed = failed
		w.record(11, "j", rec)
	}
	claim := func(w *world) {
		rec := w.claimed("j", 20, "r2")
		rec.Failed, rec.Started = w.tick["j"].Failed, ms(20)
		w.record(20, "j", rec)
	}
	tell(t, []story{
		{"before the last failure", func(w *world) { fail(w, 2); claim(w) }, nil},
		{"after it", func(w *world) { fail(w, 3); claim(w) }, []ledger.Rule{ledger.Claim}},
		{"after it, and a pause", func(w *world) {
			fail(w, 3)
			w.write(12, operator, set(tree.Register("j"), zkrec.Switch{Paused: &zkrec.Pause{Since: ms(12), Until: ms(13)}}.Encode()))
			claim(w)
		}, nil},
	})
}

// TestMaxRuns: each claim of a tick counts, and none follows the last one.
func TestMaxRuns(t *testing.T) {
	t.Parallel()
	limited := func(w *world, most int) {
		w.own(1, "j", "a")
		spec := zkrec.Spec{Job: job.Job{Schedule: "*/10 * * * * ?", MaxRuns: most}}
		w.write(5, operator, set(tree.Job("j"), spec.Encode()))
	}
	claim := func(w *world, at float64, id string, n int) {
		rec := w.claimed("j", at, id)
		rec.Runs, rec.RunsSince = n, ms(5)
		w.record(at, "j", rec)
	}
	tell(t, []story{
		{"as many as may be", func(w *world) {
			limited(w, 2)
			claim(w, 10, "r1", 1)
			w.end(11, "j", history.StateOK)
			claim(w, 20, "r2", 2)
			w.end(21, "j", history.StateOK)
		}, nil},
		{"one more", func(w *world) {
			limited(w, 1)
			claim(w, 10, "r1", 1)
			w.end(11, "j", history.StateOK)
			claim(w, 20, "r2", 2)
		}, []ledger.Rule{ledger.Account}},
		{"a claim that does not count", func(w *world) { limited(w, 2); claim(w, 10, "r1", 0) }, []ledger.Rule{ledger.Claim}},
		{"an owner that begins to count", func(w *world) {
			limited(w, 5)
			claim(w, 10, "r1", 1)
			w.end(11, "j", history.StateOK)
			claim(w, 20, "r2", 1)
		}, []ledger.Rule{ledger.Claim}},
		{"a result that counts", func(w *world) {
			limited(w, 5)
			claim(w, 10, "r1", 1)
			rec := w.tick["j"]
			rec.Runs, rec.State, rec.Ended = 2, history.StateOK, ms(11)
			w.record(11, "j", rec, zkrec.Entry{Run: rec.Run})
		}, []ledger.Rule{ledger.Claim}},
		{"a tick that is recorded after the last one", func(w *world) {
			limited(w, 1)
			claim(w, 10, "r1", 1)
			w.end(11, "j", history.StateOK)
			rec := w.tick["j"]
			rec.Watermark = ms(20)
			w.record(21, "j", rec, missed(20, 20, 1))
		}, []ledger.Rule{ledger.Account}},
	})
}

// TestJitter: a tick is claimed when it is due by its jitter, as every instance computes it.
func TestJitter(t *testing.T) {
	t.Parallel()
	const jitter = 8 * time.Second
	claim := func(off time.Duration) func(w *world) {
		return func(w *world) {
			w.own(1, "j", "a")
			spec := zkrec.Spec{Job: job.Job{Schedule: "*/10 * * * * ?", Jitter: jitter}}
			w.write(5, operator, set(tree.Job("j"), spec.Encode()))
			rec := w.claimed("j", 10, "r1")
			due := time.UnixMilli(ms(10)).Add(zkrec.Jitter(tree.Group(), "j", time.UnixMilli(ms(10)), jitter) + off)
			rec.Started = due.UnixMilli()
			w.record(19, "j", rec)
		}
	}
	tell(t, []story{
		{"when it is due", claim(0), nil},
		{"later", claim(time.Second), nil},
		{"before that", claim(-time.Millisecond), []ledger.Rule{ledger.Claim}},
	})
}

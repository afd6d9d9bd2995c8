package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/internal/swtest"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	jobs "github.com/swjobs/singleworker/singleworker/job"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// Jobs that always run, run once, run when asked, or run on every instance.

// drawKinds draws which kinds of jobs there are, beside jobs with ticks and a single owner.
func (p *profile) drawKinds(r *rand.Rand) {
	p.Always, p.Untimed = r.IntN(2) == 0, r.IntN(3) == 0
	p.Everywhere, p.Placed = r.IntN(2) == 0, r.IntN(3) == 0
}

// untimed gives a job one of the schedules that are no series of times, at times.
func (w *world) untimed(job *jobs.Job) {
	switch {
	case w.Always && !job.Everywhere && w.rng.IntN(4) == 0:
		job.Schedule, job.TimeZone = "@always", ""
	case w.Untimed && w.rng.IntN(8) == 0:
		job.Schedule, job.TimeZone = "@manually", ""
	case w.Untimed && !job.Everywhere && w.rng.IntN(4) == 0:
		job.Schedule, job.TimeZone = "@at "+time.Now().Add(time.Second+w.upTo(20*time.Second)).UTC().Format(time.RFC3339), ""
		job.KeepDone = time.Second + w.upTo(time.Minute)
	}
	onlyWhatFits(job)
}

// window gives a job a beginning, an end, or a number of runs, at times.
func (w *world) window(job *jobs.Job) {
	job.NotBefore, job.NotAfter, job.MaxRuns, job.Jitter, job.PauseAfterFailures = time.Time{}, time.Time{}, 0, 0, 0
	if !w.Windows {
		return
	}
	now := time.Now().UTC().Truncate(time.Second)
	if w.rng.IntN(4) == 0 {
		job.NotBefore = now.Add(w.upTo(20 * time.Second))
	}
	if w.rng.IntN(4) == 0 {
		job.NotAfter = now.Add(time.Minute + w.upTo(2*time.Minute))
	}
	if w.rng.IntN(2) == 0 {
		job.MaxRuns = 1 + w.rng.IntN(9)
	}
	if w.rng.IntN(4) == 0 {
		job.PauseAfterFailures = 1 + w.rng.IntN(3)
	}
	if w.rng.IntN(3) == 0 {
		job.Jitter = time.Millisecond + w.upTo(4*time.Second)
	}
	onlyWhatFits(job)
}

// onlyWhatFits leaves out the fields that a job with its schedule and its shards must not have.
func onlyWhatFits(job *jobs.Job) {
	if strings.HasPrefix(job.Schedule, "@") && !strings.HasPrefix(job.Schedule, "@every") {
		job.NotBefore, job.NotAfter, job.MaxRuns, job.Jitter, job.Calendars = time.Time{}, time.Time{}, 0, 0, nil
	}
	if job.Shards > 0 || job.Everywhere {
		job.MaxRuns = 0
	}
	if job.Everywhere {
		job.Limits = nil
	}
	if job.Schedule != "@after" {
		job.After, job.Deadline = nil, 0
	}
	if job.Schedule != "@always" {
		return
	}
	job.Misfire, job.MisfireGrace, job.Overlap = "", 0, ""
	job.Interrupted, job.MaxAttempts, job.Retries, job.KeepDone = "", 0, 0, 0
	if job.Backoff < 0 {
		job.Backoff = 0
	}
}

// unlessOver is err, or nil if it says that the time of a one-shot, or of the last tick, has come
// before the job was submitted, that a window has no tick, or that a calendar, a parent or a limit
// is not there.
func unlessOver(err error) error {
	if field := new(invalid.FieldError); errors.As(err, &field) && slices.Contains([]string{"Schedule", "NotAfter", "NotBefore", "Calendars", "After", "Limits"}, field.Field) {
		return nil
	}
	return err
}

// unlessAlways is err, or nil if it says that a job always runs, so that no run of it can be
// requested.
func unlessAlways(err error) error {
	if field := new(invalid.FieldError); errors.As(err, &field) && field.Field == "name" {
		return nil
	}
	return err
}

// isAlways reports whether a job is one that always runs.
func isAlways(spec *zkrec.Spec) bool { return spec.Job.Schedule == "@always" }

// isEndless reports whether a claim is for a job that always runs.
func (l *ledger) isEndless(slot string, rec zkrec.Tick) bool {
	j := l.model.Jobs[slot]
	return j != nil && isAlways(&j.Spec) && rec.Manual == ""
}

// restartDue is when the next run of a job is due that always runs, and of which no run is open.
func restartDue(spec *zkrec.Spec, record zkrec.Tick) int64 {
	return max(record.RestartAt, max(record.Watermark, spec.Since, spec.ActiveLayout().Since)+1)
}

// checkRestart verifies the next run in the result of a job that always runs: it follows after the
// job's pause, which doubles after each run that did not last, or at once if the run was ended for
// the slot to move.
func (l *ledger) checkRestart(slot string, txn *zkdev.Txn, last, rec zkrec.Tick) {
	spec := &l.model.Jobs[slot].Spec
	if !isAlways(spec) || rec.Manual != "" || !last.Open() || rec.RunID != last.RunID || rec.Open() {
		return
	}
	if d := l.divisions[zkrec.JobOfSlot(slot)]; d == nil || d.written > l.accounts[slot].claimed {
		return // the job has changed during the run, which its instance may not know
	}
	const longest = 5 * time.Minute
	pause := spec.Job.WithDefaults().Backoff
	if !lasted(rec) {
		for n := 0; n < rec.Restarts && pause < longest; n++ {
			pause = min(2*pause, longest)
		}
	}
	want := rec.Ended + max(pause.Milliseconds(), 1)
	moved := rec.State == history.StateInterrupted && rec.RestartAt == rec.Ended
	if rec.RestartAt != want && !moved {
		l.violatef(15, slot, txn.Time, "run %s, %s at %s, after %d others that did not last: the next one is due at %s, want %s", rec.RunID, rec.State,
			clockMs(rec.Ended), rec.Restarts, clockMs(rec.RestartAt), clockMs(want))
	}
}

// checkPause verifies that a run of a job that always runs does not begin before its time, and how
// many before it did not last.
func (l *ledger) checkPause(slot string, txn *zkdev.Txn, last, rec zkrec.Tick) {
	if !isAlways(&l.model.Jobs[slot].Spec) || rec.Manual != "" {
		return
	}
	if min(rec.Tick, txn.Time.UnixMilli()) < last.RestartAt && !l.clocksMayBeOff {
		l.violatef(15, slot, txn.Time, "run %s of %s begins before %s, when the pause after the last one ends", rec.RunID, clockMs(rec.Tick), clockMs(last.RestartAt))
	}
	want := 0
	if last.RestartAt != 0 && !lasted(last) {
		want = last.Restarts
		if last.RestartAt != last.Ended {
			want++
		}
	}
	if rec.Restarts != want {
		l.violatef(15, slot, txn.Time, "run %s follows %d others that did not last, and says %d", rec.RunID, want, rec.Restarts)
	}
}

// lasted reports whether the last run took so long that the next pause is the shortest one.
func lasted(r zkrec.Tick) bool {
	const steady = 10 * time.Minute
	return time.Duration(r.Ended-r.Started)*time.Millisecond >= steady
}

// always reports whether a slot's job always ran at a time.
func (a *account) always(tick int64) bool {
	return slices.ContainsFunc(a.terms, func(t term) bool {
		return t.sched.Always() && tick > t.since && (t.until == 0 || tick <= t.until)
	})
}

// checkRunsOfAlways takes out of an account the runs of the time in which the job always ran: of
// each, there is one attempt.
func (l *ledger) checkRunsOfAlways(acc *account) {
	for tick, runs := range acc.runs {
		if !acc.always(tick) {
			continue
		}
		delete(acc.runs, tick)
		if l.ticks++; len(runs) != 1 || acc.ended[runs[0]].Attempt != 1 {
			l.violatef(8, acc.slot, time.UnixMilli(tick), "it always runs, and one run has the attempts %v", runs)
		}
	}
}

// checkAbsent verifies that a tick which a row calls one of an instance's absence came before the
// instance knew that it was the owner of its part, as its hook was told.
func (l *ledger) checkAbsent(acc *account, tick int64, row zkrec.Entry) {
	r, at := l.reignOf(acc.slot, row.Token), time.UnixMilli(tick)
	knew := slices.ContainsFunc(l.hooks, func(a adoption) bool { return a.token == row.Token && a.sid == row.SID && !a.at.Before(at) })
	if r == nil || r.sid != row.SID || !knew && !l.clocksOff {
		l.violatef(8, acc.slot, time.UnixMilli(tick), "the tick is said to have come while its instance was away: %+v", row)
	}
}

// checkRemoved verifies that an instance deletes a job only if that is done.
func (l *ledger) checkRemoved(job string, txn *zkdev.Txn) {
	sid, joined := l.joined[txn.Session]
	j := l.model.Jobs[job]
	switch {
	case !joined || j == nil || j.Spec.Canceled:
	case j.Spec.Done == nil:
		l.violatef(15, job, txn.Time, "%s removes it, and it is not done", sid)
	default:
		l.removed++
	}
}

// checkDone verifies that nobody holds a job that is done, and that a one-shot is removed in time.
func (w *world) checkDone(m *swtest.Model, j *swtest.Job) {
	done, now := j.Spec.Done, time.Now()
	since := now.Sub(time.UnixMilli(done.At))
	for _, slot := range j.Spec.ActiveLayout().Slots(j.Name) {
		owner, of := m.LiveOwner(slot), m.Jobs[slot] // an owner that has died stays on record
		if stray := of != nil && of.Owner.SID == "" && len(of.Beats) > 0; since > w.ownedWithin() && (owner != "" || stray) {
			w.violate(violation{15, slot, now, fmt.Sprintf("it is done since %s, and held by %q with %d heartbeats", clockMs(done.At), owner, len(of.Beats))})
		}
	}
	if !strings.HasPrefix(j.Spec.Job.Schedule, "@at") {
		return // it is kept
	}
	ranks := time.Duration(len(m.Instances)) * w.Session
	if keep := j.Spec.Job.WithDefaults().KeepDone; since > keep+ranks+w.evenWithin() && now.Sub(w.calmFrom) > ranks {
		w.violate(violation{15, j.Name, now, fmt.Sprintf("it is done since %s, and was to be removed after %v", clockMs(done.At), keep)})
	}
}

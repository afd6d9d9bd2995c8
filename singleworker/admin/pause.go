package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/job"
)

// PauseOptions say how long a job is paused, and why. The zero value pauses it
// until it is resumed.
type PauseOptions struct {
	Until  time.Time // on the caller's clock. Default: until it is resumed
	By     string    // who pauses it, up to 1 KiB
	Reason string    // up to 1 KiB
	// Missed says what to do with the ticks in between when Until comes and
	// nobody has resumed the job. Default: job.MisfireSkip.
	Missed job.MisfirePolicy
}

// ResumeOptions say what comes after a pause.
type ResumeOptions struct {
	// Missed says what to do with the ticks of the pause. Default:
	// job.MisfireSkip.
	Missed job.MisfirePolicy
}

// PauseResult is what Pause or Resume did.
type PauseResult struct {
	Outcome Outcome `json:"outcome"` // OutcomePaused, OutcomeResumed or OutcomeUnchanged
	// Pause is the pause as it is recorded now; after Resume its Until is the
	// present. Nil when a job was resumed that was not paused.
	Pause *Pause `json:"pause"`
	// Missed is how many ticks of the pause came and, when it was changed, were
	// to be accounted for by the job's owner, as Pause.Missed says; more than
	// 10,000 are not counted.
	Missed int `json:"missed"`
}

// maxTextBytes is the longest name of a person and the longest reason.
const maxTextBytes = 1 << 10

// maxExcerpt is as much of such a text as fits in an error.
const maxExcerpt = 40

func checkText(field, text string) error {
	if len(text) > maxTextBytes {
		return &InvalidError{field, text[:maxExcerpt] + "...", fmt.Errorf("has %d bytes, at most %d are kept", len(text), maxTextBytes)}
	}
	return nil
}

// Pause lets no tick of the job run from now on. A run that goes on is not
// stopped, and Trigger works all the same. Pausing a job that is paused
// replaces how long, by whom and why; it stays paused since when it was.
// Errors: *InvalidError, ErrNotFound, ErrUnreadable, ErrConflict, ErrDenied,
// ErrUnavailable.
func (c *Client) Pause(ctx context.Context, name string, opts PauseOptions) (PauseResult, error) {
	now := time.Now()
	if err := checkPause(opts, now); err != nil {
		return PauseResult{}, err
	}
	pause := zkrec.Pause{By: opts.By, Reason: opts.Reason, Missed: opts.Missed}
	if pause.Missed == job.MisfireSkip {
		pause.Missed = "" // the default
	}
	if !opts.Until.IsZero() {
		pause.Until = opts.Until.UnixMilli()
	}
	e := edit{client: c, name: name, counts: true, change: func(old zkrec.Spec, mtime time.Time) (zkrec.Spec, error) {
		next := pause
		next.Since = now.UnixMilli()
		if old.Paused.Covers(now) {
			next.Since = old.Paused.Since
		}
		old.Since = old.SinceOr(mtime) // the node's own time changes now
		old.Paused = &next
		return old, nil
	}}
	if err := e.run(ctx); err != nil {
		return PauseResult{}, fmt.Errorf("pause %s: %w", name, err)
	}
	return e.paused(OutcomePaused), nil
}

func checkPause(opts PauseOptions, now time.Time) error {
	if !opts.Until.IsZero() && !opts.Until.After(now) {
		return &InvalidError{"Until", opts.Until.Format(time.RFC3339), errors.New("is over")}
	}
	if err := opts.Missed.Check(); err != nil {
		return &InvalidError{"Missed", string(opts.Missed), err}
	}
	if err := checkText("By", opts.By); err != nil {
		return err
	}
	return checkText("Reason", opts.Reason)
}

// Resume ends the pause of a job: its ticks run from now on, and opts say what
// becomes of those in between. A job that is not paused is Unchanged. Errors:
// as Pause.
func (c *Client) Resume(ctx context.Context, name string, opts ResumeOptions) (PauseResult, error) {
	if err := opts.Missed.Check(); err != nil {
		return PauseResult{}, &InvalidError{"Missed", string(opts.Missed), err}
	}
	now := time.Now()
	e := edit{client: c, name: name, counts: true, change: func(old zkrec.Spec, mtime time.Time) (zkrec.Spec, error) {
		if !old.Paused.Covers(now) {
			return old, nil
		}
		pause := *old.Paused
		// The record stays, for the owner to account for the ticks by.
		pause.Until, pause.Missed = now.UnixMilli(), opts.Missed
		if pause.Missed == job.MisfireSkip {
			pause.Missed = ""
		}
		old.Since = old.SinceOr(mtime)
		old.Paused = &pause
		return old, nil
	}}
	if err := e.run(ctx); err != nil {
		return PauseResult{}, fmt.Errorf("resume %s: %w", name, err)
	}
	return e.paused(OutcomeResumed), nil
}

// paused says what an edit has made of a job's pause.
func (e *edit) paused(done Outcome) PauseResult {
	result := PauseResult{Outcome: OutcomeUnchanged}
	if e.changed {
		result.Outcome = done
	}
	if e.spec.Paused == nil || !e.changed && done != OutcomePaused {
		return result
	}
	result.Pause = pauseOf(*e.spec.Paused)
	if schedule, err := e.spec.Job.ParseSchedule(); err == nil {
		result.Missed = missed(schedule, e.through, *result.Pause, time.Now())
	}
	return result
}

// missed counts the ticks of a pause that came, and come after through.
func missed(schedule *cronexpr.Schedule, through time.Time, pause Pause, now time.Time) int {
	after, end := pause.Since.Add(-time.Millisecond), now
	if through.After(after) {
		after = through
	}
	if !pause.Until.IsZero() && pause.Until.Before(now) {
		end = pause.Until
	}
	count := 0
	for tick := schedule.Next(after); !tick.IsZero() && tick.Before(end) && count < zkrec.MaxCount; tick = schedule.Next(tick) {
		count++
	}
	return count
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swjobs/singleworker/singleworker/cronexpr"
	"github.com/swjobs/singleworker/singleworker/internal/zkrec"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// PauseOptions are how long a job is paused, by whom and why. The zero value
// pauses it until it is resumed.
type PauseOptions struct {
	Until  time.Time     // Default: until it is resumed
	For    time.Duration // instead of Until, from when the pause is written
	By     string        // who pauses it: one printable line, up to 1 KiB
	Reason string        // the same
	// Missed is the policy for the ticks of the pause if it ends at Until. Default:
	// job.MisfireSkip.
	Missed job.MisfirePolicy
}

// ResumeOptions are options of Resume.
type ResumeOptions struct {
	// Missed is the policy for the ticks of the pause. Default: job.MisfireSkip.
	Missed job.MisfirePolicy
}

// PauseResult is what Pause or Resume did.
type PauseResult struct {
	Outcome Outcome `json:"outcome"` // OutcomePaused, OutcomeResumed or OutcomeUnchanged
	// Pause is the pause as recorded now; Resume sets its Until to the current
	// time. Nil after Resume of a job that was not paused.
	Pause *Pause `json:"pause"`
	// Missed is the number of past ticks of the pause that the job's owner has yet
	// to account for, according to Pause.Missed; counted up to 10,000.
	Missed int `json:"missed"`
}

// maxTextBytes is the maximum length of By and Reason.
const maxTextBytes = 1 << 10

// maxExcerpt is how much of such a text an error quotes.
const maxExcerpt = 40

// checkWho wants the name of a person and a reason to be one printable line each, so that a record
// shows them as what they are.
func checkWho(by, reason string) error {
	for _, field := range [][2]string{{"By", by}, {"Reason", reason}} {
		text := field[1]
		if err := job.CheckLine(text, maxTextBytes); err != nil {
			if len(text) > maxTextBytes {
				text = text[:maxExcerpt] + "..."
			}
			return &invalid.FieldError{Field: field[0], Value: text, Err: err}
		}
	}
	return nil
}

// Pause suspends the job's schedule. It does not stop a run in progress, and
// Trigger still works. Pausing a paused job replaces until when, by whom and why,
// but not since when.
// Errors: *invalid.FieldError, ErrNotFound, ErrUnreadable, ErrConflict, ErrDenied,
// ErrUnavailable.
func (c *Client) Pause(ctx context.Context, name string, opts PauseOptions) (PauseResult, error) {
	if err := checkPause(opts); err != nil {
		return PauseResult{}, err
	}
	now, err := c.groupTime(ctx)
	if err != nil {
		return PauseResult{}, fmt.Errorf("pause %s: %w", name, err)
	}
	if err := checkUntil(opts.Until, now); err != nil {
		return PauseResult{}, err
	}
	deed := c.deed(ctx, zkrec.DeedPause, Who{opts.By, opts.Reason}, name)
	e := edit{ed: c.editor, name: name, deed: deed, counts: true, change: func(old zkrec.Spec, now time.Time) (zkrec.Spec, error) {
		next := newPause(opts)
		if paused := old.Switch.Paused; paused.Lasts(now) {
			next.Since = paused.Since
		}
		old.Switch.Paused = next
		return old, nil
	}}
	if err := e.run(ctx); err != nil {
		return PauseResult{}, fmt.Errorf("pause %s: %w", name, err)
	}
	return e.paused(OutcomePaused), nil
}

// newPause is a pause from when it is written.
func newPause(opts PauseOptions) *zkrec.Pause {
	pause := &zkrec.Pause{For: zkrec.Duration(opts.For), By: opts.By, Reason: opts.Reason, Missed: opts.Missed}
	if pause.Missed == job.MisfireSkip {
		pause.Missed = "" // the default
	}
	if !opts.Until.IsZero() {
		pause.Until = opts.Until.UnixMilli()
	}
	return pause
}

// over is a pause that ends when it is written. The record stays: the owner needs it to account for
// the ticks.
func over(pause zkrec.Pause, missed job.MisfirePolicy) *zkrec.Pause {
	pause.Until, pause.Over, pause.Missed = 0, true, missed
	if pause.Missed == job.MisfireSkip {
		pause.Missed = ""
	}
	return &pause
}

func checkPause(opts PauseOptions) error {
	switch {
	case opts.For < 0 || opts.For > 0 && opts.For < time.Millisecond:
		return &invalid.FieldError{Field: "For", Value: opts.For.String(), Err: errors.New("want a millisecond at least")}
	case opts.For > 0 && !opts.Until.IsZero():
		return &invalid.FieldError{Field: "For", Value: opts.For.String(), Err: errors.New("is not possible together with Until")}
	}
	if err := opts.Missed.Check(); err != nil {
		return &invalid.FieldError{Field: "Missed", Value: string(opts.Missed), Err: err}
	}
	return checkWho(opts.By, opts.Reason)
}

// checkUntil refuses a pause that is over.
func checkUntil(until, now time.Time) error {
	if !until.IsZero() && !until.After(now) {
		return &invalid.FieldError{Field: "Until", Value: until.Format(time.RFC3339), Err: errors.New("is in the past")}
	}
	return nil
}

// Resume ends the pause of a job. opts decide on the ticks of the pause. If the
// job is not paused, the outcome is OutcomeUnchanged. Errors: as Pause.
func (c *Client) Resume(ctx context.Context, name string, opts ResumeOptions) (PauseResult, error) {
	if err := opts.Missed.Check(); err != nil {
		return PauseResult{}, &invalid.FieldError{Field: "Missed", Value: string(opts.Missed), Err: err}
	}
	deed := c.deed(ctx, zkrec.DeedResume, Who{}, name)
	e := edit{ed: c.editor, name: name, deed: deed, counts: true, change: func(old zkrec.Spec, now time.Time) (zkrec.Spec, error) {
		if !old.Switch.Paused.Lasts(now) {
			return old, nil
		}
		old.Switch.Paused = over(*old.Switch.Paused, opts.Missed)
		return old, nil
	}}
	if err := e.run(ctx); err != nil {
		return PauseResult{}, fmt.Errorf("resume %s: %w", name, err)
	}
	return e.paused(OutcomeResumed), nil
}

// paused returns the result of an edit of a job's pause.
func (e *edit) paused(done Outcome) PauseResult {
	result := PauseResult{Outcome: OutcomeUnchanged}
	if e.changed {
		result.Outcome = done
	}
	pause := e.spec.Switch.Paused
	if pause == nil || !e.changed && done != OutcomePaused {
		return result
	}
	result.Pause = pauseOf(*pause)
	if schedule, err := e.spec.Job.ParseSchedule(); err == nil {
		result.Missed = missed(schedule, e.through, *result.Pause, e.ed.clock.now().now)
	}
	return result
}

// missed counts the past ticks of a pause that are after through.
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

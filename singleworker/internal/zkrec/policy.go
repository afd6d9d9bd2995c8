package zkrec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Policy says what becomes of the ticks of a job that do not go as planned.
// Zero values mean the defaults.
type Policy struct {
	Misfire      string   `json:"misfire,omitempty"`       // what of the ticks that nobody claimed in time
	MisfireGrace Duration `json:"misfire_grace,omitempty"` // how old a tick may be to be run at all; 0: no bound
	Interrupted  string   `json:"interrupted,omitempty"`   // what of a run whose owner died, lost the job or stopped
	MaxAttempts  int      `json:"max_attempts,omitempty"`  // how often a tick is begun whose runs are interrupted
	Overlap      string   `json:"overlap,omitempty"`       // what of a tick that comes while a run goes on
	Timeout      Duration `json:"timeout,omitempty"`       // of one run; 0: none
	Retries      int      `json:"retries,omitempty"`       // of a run that failed or timed out
	Backoff      Duration `json:"backoff,omitempty"`       // before the first retry; doubles with each
	AlarmAfter   Duration `json:"alarm_after,omitempty"`   // how late a tick is when it is reported as missing
}

// The policies, the defaults first.
const (
	MisfireOnce = "once" // the latest is run
	MisfireSkip = "skip" // none is run
	MisfireAll  = "all"  // each is run, in order; of more than MaxMisfires the latest

	InterruptedRerun = "rerun"
	InterruptedSkip  = "skip"

	OverlapSkip  = "skip"
	OverlapQueue = "queue" // the latest is run when the run has ended
)

// Limits and defaults of a Policy.
const (
	MaxMisfires        = 100
	MaxRetries         = 100
	MaxMaxAttempts     = 100
	DefaultMaxAttempts = 3
	DefaultBackoff     = Duration(time.Second)
	DefaultAlarmAfter  = Duration(time.Minute)
)

// FieldError refuses one field of a Spec.
type FieldError struct {
	Field string // as the fields of a job are called in Go
	Value any
	Err   error
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s %q: %v", e.Field, fmt.Sprint(e.Value), e.Err)
}

func (e *FieldError) Unwrap() error { return e.Err }

// Check reports, as a *FieldError, what of the spec is neither the schedule's
// nor the handler's and is not valid.
func (s Spec) Check() error {
	if len(s.Payload) > 0 && !json.Valid(s.Payload) {
		return &FieldError{"Payload", excerpt(s.Payload), errors.New("is not JSON")}
	}
	if p := s.Paused; p != nil {
		if err := CheckMisfire(p.Missed); err != nil {
			return &FieldError{"Paused.Missed", p.Missed, err}
		}
	}
	if err := s.Sharding.Check(); err != nil {
		return err
	}
	if err := s.ActiveLayout().Check(); err != nil {
		return err
	}
	return s.Policy.Check()
}

// Check reports, as a *FieldError, which policy is not one.
func (p Policy) Check() error {
	for _, f := range []FieldError{
		{"Misfire", p.Misfire, oneOf(p.Misfire, MisfireOnce, MisfireSkip, MisfireAll)},
		{"MisfireGrace", p.MisfireGrace, notNegative(p.MisfireGrace)},
		{"Interrupted", p.Interrupted, oneOf(p.Interrupted, InterruptedRerun, InterruptedSkip)},
		{"MaxAttempts", p.MaxAttempts, upTo(p.MaxAttempts, MaxMaxAttempts)},
		{"Overlap", p.Overlap, oneOf(p.Overlap, OverlapSkip, OverlapQueue)},
		{"Timeout", p.Timeout, notNegative(p.Timeout)},
		{"Retries", p.Retries, upTo(p.Retries, MaxRetries)},
		{"Backoff", p.Backoff, notNegative(p.Backoff)},
		{"AlarmAfter", p.AlarmAfter, notNegative(p.AlarmAfter)},
	} {
		if f.Err != nil {
			if d, ok := f.Value.(Duration); ok {
				f.Value = time.Duration(d)
			}
			return &f
		}
	}
	return nil
}

// CheckMisfire reports why text is no misfire policy; none at all is one.
func CheckMisfire(text string) error { return oneOf(text, MisfireOnce, MisfireSkip, MisfireAll) }

func oneOf(text string, known ...string) error {
	if text == "" || slices.Contains(known, text) {
		return nil
	}
	return fmt.Errorf("is not known, want one of %s", strings.Join(known, ", "))
}

func notNegative(d Duration) error {
	if d < 0 {
		return errors.New("is negative")
	}
	return nil
}

func upTo(n, limit int) error {
	if n < 0 || n > limit {
		return fmt.Errorf("is out of range, want 0 to %d", limit)
	}
	return nil
}

// Normal spells every default as the zero value, so that equal policies are
// equal.
func (p Policy) Normal() Policy {
	drop(&p.Misfire, MisfireOnce)
	drop(&p.Interrupted, InterruptedRerun)
	drop(&p.Overlap, OverlapSkip)
	drop(&p.MaxAttempts, DefaultMaxAttempts)
	drop(&p.Backoff, DefaultBackoff)
	drop(&p.AlarmAfter, DefaultAlarmAfter)
	return p
}

// Full spells every default out.
func (p Policy) Full() Policy {
	fill(&p.Misfire, MisfireOnce)
	fill(&p.Interrupted, InterruptedRerun)
	fill(&p.Overlap, OverlapSkip)
	fill(&p.MaxAttempts, DefaultMaxAttempts)
	fill(&p.Backoff, DefaultBackoff)
	fill(&p.AlarmAfter, DefaultAlarmAfter)
	return p
}

func drop[T comparable](field *T, value T) {
	if *field == value {
		var zero T
		*field = zero
	}
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

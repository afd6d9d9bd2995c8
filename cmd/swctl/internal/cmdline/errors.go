package cmdline

import (
	"errors"
	"fmt"
)

// ErrNo says that the command succeeded but the result is negative.
var ErrNo = errors.New("it did not succeed")

// ErrUnconfirmed says that the command would destroy something and nobody confirmed it.
var ErrUnconfirmed = errors.New("not confirmed")

// errOutput says that a full disk, or the like, took no output.
var errOutput = errors.New("write output")

// SilentError ends the program with a code and without a message.
type SilentError struct{ Code ExitCode }

func (e *SilentError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// WithCode gives an error the code with which the program ends, whatever the error is made of.
func WithCode(code ExitCode, err error) error { return ended{err, code} }

type ended struct {
	error
	code ExitCode
}

// ExitCode implements codedError.
func (e ended) ExitCode() int { return int(e.code) }

// UsageError refuses a command line.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// Usage makes a UsageError; Try adds a hint.
func Usage(format string, args ...any) *HintError {
	return &HintError{err: &UsageError{fmt.Errorf(format, args...)}}
}

// HintError is an error with a hint: what to type or look at.
type HintError struct {
	err  error
	hint string
}

func (e *HintError) Error() string { return e.err.Error() }
func (e *HintError) Unwrap() error { return e.err }

// Try sets the hint.
func (e *HintError) Try(format string, args ...any) *HintError {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

// WithHint adds a hint to an error.
func WithHint(err error, format string, args ...any) error {
	return (&HintError{err: err}).Try(format, args...)
}

// HintOf is the hint of an error, or empty.
func HintOf(err error) string {
	if hinted := new(HintError); errors.As(err, &hinted) {
		return hinted.hint
	}
	return ""
}

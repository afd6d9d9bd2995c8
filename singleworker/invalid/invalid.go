// Package invalid has the error of a value that is not allowed where it stands. All packages of
// singleworker return it, of a job, a configuration, and the options of a call.
package invalid

import "fmt"

// FieldError says which field has a value that is not allowed, and why. Nothing was done.
type FieldError struct {
	// Of names the field's owner, such as "job" or "latch.Config". It is empty for an option or an
	// argument of the call.
	Of string
	// Field is its name in Go, such as "TimeZone" or "Rules[2].To". In JSON that is wrong it is the
	// name there.
	Field string
	// Value is as it would be printed, and shortened if it is long. It is empty if it is secret.
	Value string
	Err   error // what is wrong, or what is expected instead; for a schedule, a *cronexpr.Error
}

func (e *FieldError) Error() string {
	name := e.Field
	if e.Of != "" {
		name = e.Of + "." + e.Field
	}
	return fmt.Sprintf("%s %q: %v", name, e.Value, e.Err)
}

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// Check is the error of a field if err says that its value is not allowed, or nil.
func Check(field string, value any, err error) *FieldError {
	if err == nil {
		return nil
	}
	return &FieldError{Field: field, Value: fmt.Sprint(value), Err: err}
}

// First returns the first of the checks of a struct that found something, or nil.
func First(of string, checks ...*FieldError) error {
	for _, c := range checks {
		if c != nil {
			c.Of = of
			return c
		}
	}
	return nil
}

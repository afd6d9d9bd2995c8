package cronexpr

import "fmt"

// An Error is returned by Parse for an invalid schedule.
type Error struct {
	// Text is the argument of Parse, truncated to 256 bytes.
	Text string

	// Field names the invalid field: second, minute, hour, day-of-month,
	// month, day-of-week, year, or the descriptor (@every). It is empty
	// if the error concerns the whole text.
	Field string

	// Column is the position of the error in Text, in bytes from 1, or 0
	// if the error concerns the whole text.
	Column int

	// Problem is the fault, Want a valid text instead.
	Problem, Want string
}

// Error formats the error on one line, for example
//
//	schedule "0 0 25 * * ?": hour at column 5: 25 is out of range, want 0-23
func (e *Error) Error() string {
	where := ""
	switch {
	case e.Field != "":
		where = fmt.Sprintf("%s at column %d: ", e.Field, e.Column)
	case e.Column != 0:
		where = fmt.Sprintf("column %d: ", e.Column)
	}
	return fmt.Sprintf("schedule %q: %s%s, want %s", e.Text, where, e.Problem, e.Want)
}

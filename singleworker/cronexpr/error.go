package cronexpr

import "fmt"

// An Error says why Parse refused a text, for whoever has to correct it.
type Error struct {
	// Text is what was given to Parse, cut after 256 bytes.
	Text string

	// Field names the field at fault: second, minute, hour, day-of-month,
	// month, day-of-week, year, or the descriptor (@every). It is empty
	// when the whole text is at fault.
	Field string

	// Column is where the fault lies in Text, counted in bytes from 1, or 0
	// when the whole text is at fault.
	Column int

	// Problem says what is wrong and Want what would be valid instead.
	Problem, Want string
}

// Error returns all of it on one line, for example
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

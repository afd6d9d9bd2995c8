// Package output lines up tables for a terminal. It knows nothing of jobs.
package output

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Table lines up cells in columns two blanks apart. (text/tabwriter would do,
// but takes a Japanese letter for as wide as a Latin one, so a job called
// レポート would push its row out of line.)
type Table struct{ rows [][]string }

// How many columns a cell takes: as many as the longest name; the last one, which pads no other
// row, more. Longer text is clipped. Only JSON has all of it.
const (
	maxCell = 200
	maxLast = 1000
)

// Row adds a row. A cell is one line of printable text; an empty one shows as
// "-", so that every row has as many words in the same places.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		limit := maxCell
		if i == len(cells)-1 {
			limit = maxLast
		}
		row[i] = clip(plain.FirstLine(cell), limit)
		if row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// Write renders the rows, each behind indent. The last column is not padded.
func (t *Table) Write(out *bytes.Buffer, indent string) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(cell))
		}
	}
	for _, row := range t.rows {
		out.WriteString(indent)
		for i, cell := range row {
			out.WriteString(cell)
			if i < len(row)-1 {
				out.WriteString(strings.Repeat(" ", widths[i]-width(cell)+2))
			}
		}
		out.WriteByte('\n')
	}
}

// clip shortens a printable text to a number of columns.
func clip(text string, columns int) string {
	if len(text) <= columns || width(text) <= columns {
		return text
	}
	n := 0
	for i, r := range text {
		if n += width(string(r)); n >= columns { // one column is for the ellipsis
			return text[:i] + "…"
		}
	}
	return text
}

// width is the number of terminal columns that a printable text takes.
func width(text string) int {
	n := 0
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me): // drawn over the letter before
		case isWide(r):
			n += 2
		default:
			n++
		}
	}
	return n
}

// isWide knows the blocks that terminals draw two columns wide: Hangul, Kana,
// Han, full-width forms, emoji.
func isWide(r rune) bool {
	return r >= 0x1100 && (r <= 0x115f ||
		r >= 0x2e80 && r <= 0xa4cf && r != 0x303f ||
		r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff ||
		r >= 0xfe30 && r <= 0xfe6f ||
		r >= 0xff00 && r <= 0xff60 ||
		r >= 0xffe0 && r <= 0xffe6 ||
		r >= 0x1f300 && r <= 0x1f64f ||
		r >= 0x1f900 && r <= 0x1f9ff ||
		r >= 0x20000 && r <= 0x3fffd)
}

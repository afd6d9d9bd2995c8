// Package output lines up tables for a terminal. It knows nothing of jobs.
package output

import (
	"bytes"
	"slices"
	"strings"
	"unicode"

	"github.com/swjobs/singleworker/singleworker/admin/plain"
)

// Table lines up cells in columns two blanks apart. (text/tabwriter would do,
// but takes a Japanese letter for as wide as a Latin one, so a job called
// レポート would push its row out of line.)
type Table struct {
	// Columns is how many the terminal has; 0 means no limit. Cells that do not fit go below their
	// row: at first the last column, then the ones that Below names, and the others from the right.
	Columns int
	Below   []string
	Color   bool // cells are colored as Paint says

	rows   [][]string
	colors map[[2]int]Color // by row and column
}

// Color is the color of a cell, as a terminal takes it.
type Color string

// The colors.
const (
	Plain  Color = ""
	Alarm  Color = "1;31" // bright red
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
)

// How many columns a cell takes: as many as the longest name; the last one, which pads no other
// row, more. Longer text is clipped. Only JSON has all of it.
const (
	maxCell = 200
	maxLast = 1000
)

// below is how far cells below their row are indented.
const below = 4

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

// Branch draws lines of a tree before the first cell of the last row.
func (t *Table) Branch(lines string) {
	row := t.rows[len(t.rows)-1]
	row[0] = lines + row[0]
}

// Paint colors the cell of the last row that has that header.
func (t *Table) Paint(header string, color Color) {
	if i := slices.Index(t.rows[0], header); t.Color && i >= 0 && color != Plain {
		if t.colors == nil {
			t.colors = make(map[[2]int]Color)
		}
		t.colors[[2]int{len(t.rows) - 1, i}] = color
	}
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
	shown, moved := t.fit(widths, len(indent))
	for r, row := range t.rows {
		out.WriteString(indent)
		for k, i := range shown {
			if i >= len(row) {
				break
			}
			cell := row[i]
			if color := t.colors[[2]int{r, i}]; color != Plain {
				cell = "\x1b[" + string(color) + "m" + cell + "\x1b[0m"
			}
			out.WriteString(cell)
			if k < len(shown)-1 && i < len(row)-1 {
				out.WriteString(strings.Repeat(" ", widths[i]-width(row[i])+2))
			}
		}
		out.WriteByte('\n')
		if r > 0 {
			t.writeBelow(out, row, moved, strings.Repeat(" ", len(indent)+below))
		}
	}
}

// fit returns which columns fit into the terminal, and which go below, in their order.
func (t *Table) fit(widths []int, indent int) (shown, moved []int) {
	for i, w := range widths {
		shown, indent = append(shown, i), indent+w+2
	}
	total := indent - 2
	if t.Columns == 0 {
		return shown, nil
	}
	leave := []int{len(widths) - 1}
	for _, header := range t.Below {
		if i := slices.Index(t.rows[0], header); i > 0 {
			leave = append(leave, i)
		}
	}
	for i := len(widths) - 1; i > 0; i-- {
		leave = append(leave, i)
	}
	for _, i := range leave {
		if at := slices.Index(shown, i); total > t.Columns && at > 0 {
			shown, moved, total = slices.Delete(shown, at, at+1), append(moved, i), total-widths[i]-2
		}
	}
	slices.Sort(moved)
	return shown, moved
}

// writeBelow writes the cells that do not fit and are not empty, the last one by itself.
func (t *Table) writeBelow(out *bytes.Buffer, row []string, moved []int, indent string) {
	var named []string
	last := ""
	for _, i := range moved {
		switch {
		case i >= len(row) || row[i] == "-":
		case i == len(t.rows[0])-1:
			last = row[i]
		default:
			named = append(named, t.rows[0][i]+" "+row[i])
		}
	}
	for _, text := range []string{strings.Join(named, ", "), last} {
		for _, line := range Wrap(text, t.Columns-len(indent)) {
			if line != "" {
				out.WriteString(indent + line + "\n")
			}
		}
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

package output

import (
	"bytes"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	t.Parallel()
	tab := &Table{}
	for _, cell := range []string{
		"NAME", "nightly", "レポート", "e\u0301te\u0301", "ﬀ😀", "tab\there", "two\nlines", "\n\n  third", "",
		"\x1b[31mred\x1b[0m", "bell\a", "right\u202eleft", "\xff",
	} {
		tab.Row(cell, "x", cell)
	}
	var out bytes.Buffer
	tab.Write(&out, "  ")
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(tab.rows) {
		t.Errorf("%d rows on %d lines:\n%s", len(tab.rows), len(lines), out.String())
	}
	header, _, _ := strings.Cut(lines[0], "  x  ")
	for _, line := range lines {
		before, _, _ := strings.Cut(line, "  x  ")
		if width(before) != width(header) || strings.ContainsAny(line, "\x1b\a\u202e\t") {
			t.Errorf("out of line: %q", line)
		}
	}
	for text, want := range map[string]int{"": 0, "abc": 3, "レポート": 8, "데일리": 6, "e\u0301": 1, "😀": 2, "カナ": 4, "한국": 4} {
		if got := width(text); got != want {
			t.Errorf("width(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestLongCellsAreClipped(t *testing.T) {
	t.Parallel()
	tab := &Table{}
	tab.Row("NAME", "STATE", "REASON")
	tab.Row(strings.Repeat("x", 30_000), "owned", strings.Repeat("r", 30_000))
	tab.Row(strings.Repeat("レ", 10_000), "owned", "")
	tab.Row(strings.Repeat("n", maxCell), "owned", "")
	var out bytes.Buffer
	tab.Write(&out, "")
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for k, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		if clipped := strings.HasSuffix(name, "…"); width(name) > maxCell || clipped != (k == 1 || k == 2) {
			t.Errorf("row %d: a name of %d columns, clipped: %v", k, width(name), clipped)
		}
		if w := width(line); w > maxCell+2+len("STATE")+2+maxLast {
			t.Errorf("row %d: %d columns", k, w)
		}
	}
}

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

// Columns that do not fit go below their row: nothing is lost, and no line is too long.
func TestTableFits(t *testing.T) {
	t.Parallel()
	fill := func(columns int) *Table {
		tab := &Table{Columns: columns, Below: []string{"ZONE"}}
		tab.Row("NAME", "ZONE", "STATE", "NEXT", "REASON")
		tab.Row("nightly", "Europe/Berlin", "ok", "in 3h", "")
		tab.Row("レポート", "UTC", "failing x12", "", "failed 12 times in a row, last success 3h ago")
		return tab
	}
	for columns, want := range map[int]string{
		0: "NAME      ZONE           STATE        NEXT   REASON\n" +
			"nightly   Europe/Berlin  ok           in 3h  -\n" +
			"レポート  UTC            failing x12  -      failed 12 times in a row, last success 3h ago\n",
		60: "NAME      ZONE           STATE        NEXT\n" +
			"nightly   Europe/Berlin  ok           in 3h\n" +
			"レポート  UTC            failing x12  -\n    failed 12 times in a row, last success 3h ago\n",
		30: "NAME      STATE        NEXT\n" +
			"nightly   ok           in 3h\n    ZONE Europe/Berlin\n" +
			"レポート  failing x12  -\n    ZONE UTC\n    failed 12 times in a row,\n    last success 3h ago\n",
		1: "NAME\nnightly\n    ZONE\n    Europe/Berlin,\n    STATE\n    ok,\n    NEXT\n    in\n    3h\n" +
			"レポート\n    ZONE\n    UTC,\n    STATE\n    failing\n    x12\n    failed\n    12\n    times\n    in\n    a\n    row,\n    last\n    success\n    3h\n    ago\n",
	} {
		var out bytes.Buffer
		fill(columns).Write(&out, "")
		if out.String() != want {
			t.Errorf("%d columns:\n%s--- want\n%s", columns, out.String(), want)
		}
	}
}

func TestTableColors(t *testing.T) {
	t.Parallel()
	for _, color := range []bool{true, false} {
		tab := &Table{Color: color}
		tab.Row("NAME", "STATE", "NEXT")
		tab.Row("a", "ok", "now")
		tab.Paint("STATE", Green)
		tab.Row("b", "late", "now")
		tab.Paint("STATE", Plain)
		tab.Paint("REASON", Red)
		want := "NAME  STATE  NEXT\na     ok     now\nb     late   now\n"
		if color {
			want = strings.Replace(want, "ok", "\x1b[32mok\x1b[0m", 1)
		}
		var out bytes.Buffer
		if tab.Write(&out, ""); out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}

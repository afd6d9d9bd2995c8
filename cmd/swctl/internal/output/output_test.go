package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

var testNow = time.Date(2026, 11, 21, 8, 24, 5, 0, time.UTC)

func TestRelative(t *testing.T) {
	t.Parallel()
	for offset, want := range map[time.Duration]string{
		0: "now", 999 * time.Millisecond: "now", -999 * time.Millisecond: "now",
		time.Second:                  "in 1s",
		41 * time.Second:             "in 41s",
		134 * time.Second:            "in 2m14s",
		8 * time.Hour:                "in 8h",
		8*time.Hour + 59*time.Second: "in 8h",
		15*time.Hour + 48*time.Minute + 59*time.Second: "in 15h48m",
		76*time.Hour + 30*time.Minute:                  "in 3d4h",
		-8 * time.Hour:                                 "8h ago",
		-400 * 24 * time.Hour:                          "400d ago",
	} {
		if got := Relative(testNow.Add(offset), testNow); got != want {
			t.Errorf("%v: %q, want %q", offset, got, want)
		}
	}
	if got := Relative(time.Time{}, testNow) + Moment(time.Time{}, testNow, time.UTC); got != "" {
		t.Errorf("zero time: %q", got)
	}
	if got := Span(1240*time.Microsecond) + " " + Span(-time.Second); got != "1ms 0ms" {
		t.Errorf("short spans: %q", got)
	}
}

// Whatever the cells hold, each row is one line and the columns line up on a
// terminal.
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

// One long cell makes no row wider than a name may be.
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

func TestTexts(t *testing.T) {
	t.Parallel()
	if got, want := OneLine("a\n\n  b\tc\r\n"), "a; b c"; got != want {
		t.Errorf("oneLine: %q, want %q", got, want)
	}
	for name, want := range map[string]string{
		"nightly-1.a_b": "nightly-1.a_b", "レポート": "レポート", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "a$B": "'a$B'",
	} {
		if got := Quoted(name); got != want {
			t.Errorf("Quoted(%q) = %s, want %s", name, got, want)
		}
	}
}

// JSON has nothing that a terminal obeys, and means the same.
func TestJSONIsPrintable(t *testing.T) {
	t.Parallel()
	const text = "a\x1b[31m\u009b\x7f\u202e\u2066\U000e0001 é レ 😀 <&>"
	var out bytes.Buffer
	if err := JSON(&out, "", text); err != nil {
		t.Fatal(err)
	}
	if printed := strings.TrimSuffix(out.String(), "\n"); Printable(printed) != printed || !strings.Contains(printed, "é レ 😀 <&>") {
		t.Errorf("printed %q", printed)
	}
	var back string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != text {
		t.Errorf("read back as %q, %v", back, err)
	}
}

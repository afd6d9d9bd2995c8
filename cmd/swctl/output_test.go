package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

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
		if got := relative(testNow.Add(offset), testNow); got != want {
			t.Errorf("%v: %q, want %q", offset, got, want)
		}
	}
	if got := relative(time.Time{}, testNow) + moment(time.Time{}, testNow, time.UTC); got != "" {
		t.Errorf("zero time: %q", got)
	}
	if got := span(1240*time.Microsecond) + " " + span(-time.Second); got != "1ms 0ms" {
		t.Errorf("short spans: %q", got)
	}
}

func TestTimesThatJSONHasNoFormFor(t *testing.T) {
	t.Parallel()
	for _, when := range []time.Time{{}, time.UnixMilli(math.MaxInt64), time.UnixMilli(math.MinInt64), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := utc(when); got != nil {
			t.Errorf("%v: %v, want null", when, got)
		}
	}
	if got := utc(testNow.In(time.FixedZone("east", 3600))); got == nil || *got != testNow.UTC() {
		t.Errorf("%v, want %v", got, testNow.UTC())
	}
}

// Whatever the cells hold, each row is one line and the columns line up on a
// terminal.
func TestTable(t *testing.T) {
	t.Parallel()
	tab := &table{}
	for _, cell := range []string{
		"NAME", "nightly", "レポート", "e\u0301te\u0301", "ﬀ😀", "tab\there", "two\nlines", "\n\n  third", "",
		"\x1b[31mred\x1b[0m", "bell\a", "right\u202eleft", "\xff",
	} {
		tab.row(cell, "x", cell)
	}
	var out bytes.Buffer
	tab.write(&out, "  ")
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

func TestTexts(t *testing.T) {
	t.Parallel()
	if got, want := oneLine("a\n\n  b\tc\r\n"), "a; b c"; got != want {
		t.Errorf("oneLine: %q, want %q", got, want)
	}
	for name, want := range map[string]string{
		"nightly-1.a_b": "nightly-1.a_b", "レポート": "レポート", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "a$B": "'a$B'",
	} {
		if got := quoted(name); got != want {
			t.Errorf("quoted(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"submit", "cancel", "list", "show", "next", "instances", "version", "help"}
	for text, want := range map[string]string{
		"sbumit": "submit", "cancle": "cancel", "canel": "cancel", "lst": "list", "lsit": "list", "shows": "show",
		"instance": "instances", "instnace": "instances", "nex": "next", "versio": "version",
		"frob": "", "": "", "x": "", "frobnicate": "", "text": "next",
	} {
		if got := nearest(text, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", text, got, want)
		}
	}
}

// On the days when clocks change.
func TestNextGoldenDST(t *testing.T) {
	t.Parallel()
	newYork := []string{"--tz", "America/New_York", "-n", "6"}
	var texts []string
	for _, c := range []struct{ now, cron string }{
		{"2026-03-07T12:00:00Z", "0 30 2 * * ?"},
		{"2026-11-01T04:30:00Z", "0 */20 * * * ?"},
		{"2026-10-31T12:00:00Z", "30 1 * * *"},
	} {
		h := newHarness(t)
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		h.now = func() time.Time { return now }
		h.vars = nil // and no server type is needed
		texts = append(texts, h.transcript(append([]string{"next", "--cron", c.cron}, newYork...)...))
		if len(h.fake.calls) > 0 {
			t.Errorf("next --cron called the server: %q", h.fake.calls)
		}
	}
	golden(t, "next-dst", strings.Join(texts, "\n"))
}

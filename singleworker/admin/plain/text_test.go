package plain

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
// One long cell makes no row wider than a name may be.
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

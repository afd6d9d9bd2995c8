package cronexpr

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// A vector is one line of testdata/quartz-2.3.2.jsonl: the times that Quartz 2.3.2 computed for an
// expression, in Unix milliseconds. If Next has fewer than vectorFires entries, the schedule ends
// there.
type vector struct {
	Expr string
	TZ   string
	From int64
	Next []int64
}

const vectorFires = 10

func vectors(t *testing.T) []vector {
	t.Helper()
	file, err := os.Open("testdata/quartz-2.3.2.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []vector
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("line %d: %v", len(all)+1, err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(all) != 600 {
		t.Fatalf("%d vectors, want 600", len(all))
	}
	return all
}

// Next walks the times that Quartz computed, and Prev walks them back.
func TestQuartzVectors(t *testing.T) {
	t.Parallel()
	for i, v := range vectors(t) {
		s := mustParse(t, v.Expr, zone(t, v.TZ))
		at := time.UnixMilli(v.From)
		for n, want := range v.Next {
			next := s.Next(at)
			if next.UnixMilli() != want {
				t.Fatalf("line %d: %q in %s: fire %d is %v, want %v",
					i+1, v.Expr, v.TZ, n+1, next, time.UnixMilli(want).In(s.Location()))
			}
			if n > 0 && !s.Prev(next).Equal(at) {
				t.Fatalf("line %d: %q in %s: Prev(%v) = %v, want %v", i+1, v.Expr, v.TZ, next, s.Prev(next), at)
			}
			at = next
		}
		if before := s.Prev(time.UnixMilli(v.Next[0])); before.UnixMilli() > v.From {
			t.Errorf("line %d: %q in %s: Prev finds %v, which Next missed", i+1, v.Expr, v.TZ, before)
		}
		if end := s.Next(at); len(v.Next) < vectorFires && !end.IsZero() {
			t.Errorf("line %d: %q in %s: fires at %v after its end", i+1, v.Expr, v.TZ, end)
		}
	}
}

func mustParse(tb testing.TB, text string, loc *time.Location) *Schedule {
	tb.Helper()
	s, err := Parse(text, loc)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

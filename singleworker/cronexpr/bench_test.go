package cronexpr

import (
	"testing"
	"time"
)

// The schedules of the benchmarks, from common to worst case.
var benchTexts = []struct{ name, text, zone string }{
	{"second", "* * * * * ?", "UTC"},
	{"quarter-hour", "0 */15 * * * ?", "America/New_York"},
	{"workdays", "0 30 9 ? * MON-FRI", "America/New_York"},
	{"last-workday", "0 0 3 LW * ?", "Europe/Berlin"},
	{"leap-day", "0 0 0 29 2 ?", "America/New_York"},
	{"fifth-friday-of-february", "0 0 0 ? 2 6#5", "America/New_York"},
	{"every-hour-of-one-far-day", "0 0 * 29 2 ? 2096", "America/New_York"},
	{"every", "@every 90s", "UTC"},
}

func BenchmarkParse(b *testing.B) {
	for _, bb := range benchTexts {
		loc := zone(b, bb.zone)
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(bb.text, loc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNext(b *testing.B) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, bb := range benchTexts {
		s := mustParse(b, bb.text, zone(b, bb.zone))
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s.Next(at).IsZero() {
					b.Fatal("no fire")
				}
			}
		})
	}
}

func BenchmarkPrev(b *testing.B) {
	at := time.Date(2099, 12, 31, 12, 0, 0, 0, time.UTC)
	for _, bb := range benchTexts {
		s := mustParse(b, bb.text, zone(b, bb.zone))
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s.Prev(at).IsZero() {
					b.Fatal("no fire")
				}
			}
		})
	}
}

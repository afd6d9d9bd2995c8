package cronexpr

import (
	"math"
	"time"
)

const secondsPerDay = 24 * 60 * 60

// slack, in seconds, exceeds the offset from UTC of any zone whose clock changes,
// and the difference of any two of its offsets: real ones are within 16 hours of
// UTC. A fixed zone may have a larger offset, but it has only one span.
const slack = 2 * secondsPerDay

// A span is a period during which a zone has one offset from UTC. Adjacent spans
// may have the same offset. All fields are in seconds; start and end are Unix
// times, end exclusive.
type span struct {
	start, end int64
	offset     int64
}

// spanAt returns the span of loc that contains the Unix time t.
func spanAt(loc *time.Location, t int64) span {
	local := time.Unix(t, 0).In(loc)
	_, offset := local.Zone()
	sp := span{start: math.MinInt64, end: math.MaxInt64, offset: int64(offset)}
	start, end := local.ZoneBounds()
	if !start.IsZero() {
		sp.start = start.Unix()
	}
	if !end.IsZero() {
		sp.end = end.Unix()
	}
	if sp.end <= t {
		// Beyond the last change that a zone lists, package time applies its
		// yearly rule to years of 365 days. On 31 December of a leap year,
		// the end that it reports is therefore one day early.
		sp.end += secondsPerDay
	}
	return sp
}

func (sp span) wall(t int64) wall { return wall(t + sp.offset) }
func (sp span) unix(w wall) int64 { return int64(w) - sp.offset }

// highWater returns the latest wall that the clock of loc has shown at any whole
// second up to t. During a repeated hour it is ahead of the clock.
func highWater(loc *time.Location, t int64) wall {
	sp := spanAt(loc, t)
	high := sp.wall(t)
	for sp.start > t-slack {
		last := sp.start - 1
		sp = spanAt(loc, last)
		high = max(high, sp.wall(last))
	}
	return high
}

// reach returns the first second at which the clock of loc shows w or later: the
// first occurrence of a wall that occurs twice, and the first moment after the
// gap for one that does not occur.
func reach(loc *time.Location, w wall) int64 {
	sp := spanAt(loc, int64(w)-slack)
	for {
		t := max(sp.unix(w), sp.start)
		if t < sp.end {
			return t
		}
		sp = spanAt(loc, sp.end)
	}
}

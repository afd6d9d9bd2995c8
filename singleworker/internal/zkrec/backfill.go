package zkrec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/swjobs/singleworker/singleworker/history"
)

// Limits of a backfill. Each claim writes the rest of it, so it is to be small.
const (
	MaxBackfill      = 10_000   // ticks
	MaxBackfillBytes = 16 << 10 // of its request
)

// Backfill is the past ticks of a RequestBackfill that no claim has opened yet, in order.
type Backfill struct {
	From  int64    `json:"from"` // the first of all its ticks, Unix milliseconds
	To    int64    `json:"to"`   // the last of them
	Total int      `json:"total"`
	Rows  []Series `json:"rows"`
}

// Series is ticks that are equally far apart, and alike but for the time.
type Series struct {
	Tick     int64        `json:"tick"`            // the first, Unix milliseconds
	Every    int64        `json:"every,omitempty"` // how far apart they are, in milliseconds
	Count    int          `json:"count"`
	Past     history.Past `json:"past"`    // see Request
	Attempt  int          `json:"attempt"` // the same
	Failures int          `json:"failures,omitempty"`
}

func (s Series) last() int64 { return s.Tick + s.Every*int64(s.Count-1) }

func (s Series) has(tick int64) bool {
	return tick == s.Tick || s.Every > 0 && tick > s.Tick && tick <= s.last() && (tick-s.Tick)%s.Every == 0
}

// isWhole reports whether every one of its ticks is one that a request may name.
func (s Series) isWhole() bool {
	apart := s.Every > 0 && s.Every <= lastTime || s.Count == 1 && s.Every == 0
	return s.Tick > 0 && s.Count > 0 && s.Count <= MaxBackfill && apart && CheckTime(s.Tick) == nil && CheckTime(s.last()) == nil &&
		s.Past != "" && s.Failures >= 0 && s.Failures < s.Attempt
}

// Add appends the tick of a request for one, which is later than those before.
func (b *Backfill) Add(r Request) {
	if b.Total == 0 {
		b.From = r.Tick
	}
	b.To, b.Total = r.Tick, b.Total+1
	if n := len(b.Rows); n > 0 {
		row := &b.Rows[n-1]
		alike := row.Past == r.Past && row.Attempt == r.Attempt && row.Failures == r.Failures
		switch {
		case alike && row.Count == 1:
			row.Every, row.Count = r.Tick-row.Tick, 2
			return
		case alike && r.Tick == row.last()+row.Every:
			row.Count++
			return
		}
	}
	b.Rows = append(b.Rows, Series{Tick: r.Tick, Count: 1, Past: r.Past, Attempt: r.Attempt, Failures: r.Failures})
}

// Left is how many of its ticks were not opened yet.
func (b Backfill) Left() (n int) {
	for _, row := range b.Rows {
		n += row.Count
	}
	return n
}

// check refuses a record that nobody can have written, or that would be too much work.
func (b Backfill) check() error {
	var last int64
	for _, row := range b.Rows {
		if !row.isWhole() || row.Tick <= last {
			return fmt.Errorf("the row of %d has no ticks that can be run, in order", row.Tick)
		}
		last = row.last()
	}
	if left := b.Left(); left == 0 || left > b.Total || b.Total > MaxBackfill {
		return fmt.Errorf("%d ticks of %d are left, of at most %d", left, b.Total, MaxBackfill)
	}
	return nil
}

// Names reports whether a run of a past tick is requested.
func (r Request) Names(tick int64) bool {
	return r.Tick == tick || slices.ContainsFunc(r.Backfill.Rows, func(row Series) bool { return row.has(tick) })
}

// Next splits the request of a backfill with that ID: into one for its next tick, which has an ID
// of its own, and the rest, which is none if that has no Backfill.Rows.
func (r Request) Next(id string) (nextID string, next, rest Request) {
	row := r.Backfill.Rows[0]
	next = r
	next.Kind, next.Backfill = RequestPast, Backfill{}
	next.Tick, next.Past, next.Attempt, next.Failures = row.Tick, row.Past, row.Attempt, row.Failures
	rest = r
	rest.Backfill.Rows = slices.Clone(r.Backfill.Rows[1:])
	if row.Count--; row.Count > 0 {
		row.Tick += row.Every
		if row.Count == 1 {
			row.Every = 0
		}
		rest.Backfill.Rows = slices.Insert(rest.Backfill.Rows, 0, row)
	}
	return fmt.Sprintf("%s%s%05d", id, ofBackfill, r.Backfill.Total-r.Backfill.Left()+1), next, rest
}

// ofBackfill is between a backfill's ID and the number of its tick, in the ID of the request for
// that. It is in no other ID.
const ofBackfill = "."

// BackfillOf is the ID of the backfill that a request was split from, "" if it was asked for by
// itself.
func BackfillOf(id string) string {
	of, _, found := strings.Cut(id, ofBackfill)
	if !found {
		return ""
	}
	return of
}

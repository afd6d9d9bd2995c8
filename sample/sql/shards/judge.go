package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/swjobs/singleworker/singleworker/history"
	"github.com/swjobs/singleworker/singleworker/swtest/audit"
)

// figures are the results.
type figures struct {
	passes      int // ticks reported by the hooks
	ok, skipped int // their shards: successful, or skipped because the previous run was still running
	rerun       int // shards begun by one instance and completed by another in the same pass
	first, rest int // their rows, of the former and of the latter
	refused     int // late writes
}

// judge returns the figures and their faults: nothing, if every row was processed once in every
// pass although two instances failed.
func judge(o outcome) (f figures, wrong []string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	slices.SortFunc(o.ticks, func(a, b tick) int { return cmp.Compare(a.Pass, b.Pass) })
	for _, t := range o.ticks {
		check(len(t.Shards) == shards, "tick %s has %d shards", clock(t.Pass), len(t.Shards))
	}
	if len(wrong) > 0 {
		return f, wrong
	}
	f.countTicks(o, check)
	checkRows(o, check)
	f.countReruns(o, check)

	check(o.stood > o.lease, "%s was stopped for %v, which is within its lease of %v", o.stopped, o.stood, o.lease)
	check(len(o.late) == len(o.held[o.stopped]), "%d late writes, want %d", len(o.late), len(o.held[o.stopped]))
	for _, w := range o.late {
		// Another error would keep it out, too, but not because of the token.
		check(w.Refused, "the late write to shard %d was not refused (the answer: %q)", w.Shard, w.Err)
		if w.Refused {
			f.refused++
		}
	}
	return f, wrong
}

type checker func(ok bool, format string, args ...any)

// countTicks checks that every tick is reported once and ran in all shards.
func (f *figures) countTicks(o outcome, check checker) {
	var told []audit.Entry
	for _, t := range o.ticks {
		told = append(told, audit.Entry{Tick: time.UnixMilli(t.Pass), Attempt: 1})
	}
	err := audit.Account(told, period)
	check(err == nil, "reported ticks: %v", err)

	var ended [shards]int64 // the last run of each
	for _, t := range o.ticks {
		f.passes++
		for number, s := range t.Shards {
			switch {
			case s.State == history.StateOK:
				f.ok++
				ended[number] = s.Ended
			case s.State == history.StateSkipped && ended[number] >= t.Pass:
				f.skipped++ // only on a very busy machine
			default:
				check(false, "shard %d of tick %s is %q", number, clock(t.Pass), s.State)
			}
		}
	}
}

// checkRows compares the table with the hooks' reports: all rows of a successful shard are
// processed, and none of a skipped one.
func checkRows(o outcome, check checker) {
	check(o.twice == 0, "%d rows were processed more than once in a pass", o.twice)
	rows := map[int64]*[shards]int{}
	for _, p := range o.parts {
		if rows[p.Pass] == nil {
			rows[p.Pass] = new([shards]int)
		}
		rows[p.Pass][p.Shard] += p.Rows
	}
	var last int64
	for _, t := range o.ticks {
		done := rows[t.Pass]
		if done == nil {
			done = new([shards]int)
		}
		for number, s := range t.Shards {
			want := 0
			if s.State == history.StateOK {
				want = rowCount / shards
			}
			check(done[number] == want, "%d rows of shard %d were processed in pass %s, want %d", done[number], number, clock(t.Pass), want)
		}
		delete(rows, t.Pass)
		last = t.Pass
	}
	for pass := range rows {
		// The last passes are interrupted by the end of the demonstration.
		check(pass > last, "pass %s was not reported", clock(pass))
	}
}

// countReruns checks that only the interrupted shards ran again, on another instance, which
// completed them.
func (f *figures) countReruns(o outcome, check checker) {
	type run struct {
		pass  int64
		shard int
	}
	by := map[run]string{}
	tokens := map[run]int64{}
	for id, writes := range o.held {
		for _, w := range writes {
			by[run{w.Pass, w.Shard}], tokens[run{w.Pass, w.Shard}] = id, w.Token
		}
	}
	first, rest := map[run]int{}, map[run]int{}
	for _, p := range o.parts {
		if r := (run{p.Pass, p.Shard}); by[r] == p.Writer {
			first[r] += p.Rows
		} else {
			rest[r] += p.Rows
		}
	}
	for _, t := range o.ticks {
		for number, s := range t.Shards {
			r := run{t.Pass, number}
			what := fmt.Sprintf("shard %d of tick %s", number, clock(t.Pass))
			if by[r] == "" {
				check(s.Attempt <= 1, "%s was not interrupted, and is attempt %d", what, s.Attempt)
				continue
			}
			check(s.On != by[r] && s.Attempt > 1, "%s was interrupted on %s, and is attempt %d on %s", what, by[r], s.Attempt, s.On)
			check(s.Token > tokens[r], "token %d of %s is not larger than %d", s.Token, what, tokens[r])
			check(first[r] > 0 && rest[r] > 0, "of %s, %s has done %d rows, and others %d", what, by[r], first[r], rest[r])
			f.rerun++
			f.first += first[r]
			f.rest += rest[r]
		}
	}
	check(f.rerun == len(by), "%d interrupted shards were run again, want %d", f.rerun, len(by))
}

// verdict returns the last line if nothing is wrong.
func verdict(o outcome, f figures) string {
	skipped := ""
	if f.skipped > 0 {
		skipped = fmt.Sprintf(", %d left to the next pass because the run before took too long", f.skipped)
	}
	return fmt.Sprintf("PASS  %d passes of %d rows: %d shards of %d ok%s, %d rows processed, each once in its pass; "+
		"%s killed, %s stopped for %d ms (lease %d ms): %d shards run again elsewhere, %d rows done before and %d after; "+
		"%d late writes of %d refused",
		f.passes, rowCount, f.ok, f.passes*shards, skipped, f.ok*rowCount/shards,
		o.killed, o.stopped, o.stood.Milliseconds(), o.lease.Milliseconds(), f.rerun, f.first, f.rest, f.refused, len(o.late))
}

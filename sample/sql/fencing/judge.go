package main

import (
	"fmt"
	"time"
)

// judge returns an outcome's faults. It returns nothing if the fence, and nothing else, has
// kept the late write out.
func judge(o outcome) (wrong []string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	late, next := o.late.Report, o.next.Report
	check(late.Writer != next.Writer, "both writes are by %s: there was no takeover", late.Writer)
	check(next.Token > late.Token, "token %d of the second owner is not larger than %d", next.Token, late.Token)
	check(o.stopped > o.lease, "the first owner was stopped for %v, which is within its lease of %v", o.stopped, o.lease)
	check(late.Total == oldTotal && next.Total == oldTotal+newOrder,
		"totals %d and %d, want %d and %d", late.Total, next.Total, oldTotal, oldTotal+newOrder)

	check(o.late.Fenced.Refused, "the late write was not refused by the table with the fence (its answer: %q)", o.late.Fenced.Err)
	check(o.fenced == next, "the table with the fence holds %+v, want %+v", o.fenced, next)
	check(o.fencedHistory[late.Writer] == 1 && o.fencedHistory[next.Writer] == 1,
		"its history is %v, want one write by each", o.fencedHistory)

	// Without this half, the first would also pass if the late write had never arrived.
	check(o.late.Plain == answer{}, "the late write did not reach the table without the fence: %s", o.late.Plain.Err)
	check(o.plain == late, "the table without the fence holds %+v, want the late %+v", o.plain, late)
	check(o.plainHistory[late.Writer] == 2 && o.plainHistory[next.Writer] == 1,
		"its history is %v, want two writes by %s and one by %s", o.plainHistory, late.Writer, next.Writer)
	return wrong
}

// show prints the figures of an outcome.
func show(o outcome, say func(format string, args ...any)) {
	knew := "its context had not ended yet"
	if o.late.CtxOver {
		knew = "its context had just ended"
	}
	say("the late write of %s, with token %d; %s:", o.late.Report.Writer, o.late.Report.Token, knew)
	said := func(a answer) string {
		if a.Err == "" {
			return "written"
		}
		return a.Err
	}
	say("  with the fence:    %s", said(o.late.Fenced))
	say("  without the fence: %s", said(o.late.Plain))
	say("the tables hold:")
	say("  with the fence:    total %d by %s, token %d", o.fenced.Total, o.fenced.Writer, o.fenced.Token)
	say("  without the fence: total %d by %s, token %d", o.plain.Total, o.plain.Writer, o.plain.Token)
}

// verdict returns the last line if nothing is wrong.
func verdict(o outcome) string {
	return fmt.Sprintf("PASS  stopped for %d ms (lease %d ms), run elsewhere after %d ms; token %d < %d: "+
		"the late write was refused, the report is %d; without the fence it is %d, and wrong",
		o.stopped.Milliseconds(), o.lease.Milliseconds(), o.takeover.Round(time.Millisecond).Milliseconds(),
		o.late.Report.Token, o.next.Report.Token, o.fenced.Total, o.plain.Total)
}

package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// Logged is the state of an entry of the run log, and what there is to say of it.
func Logged(e runlog.Entry, zone *time.Location, now time.Time) (state, note string) {
	switch e.Kind {
	case runlog.Gone:
		return "removed", "the job was canceled, or the shard removed"
	case runlog.Hole:
		return "hole", "not in the log until " + plain.Absolute(e.To, zone) + ": " + e.Error
	case runlog.Ran, runlog.NotRun, runlog.Void, runlog.Mark:
	}
	return string(e.State), Note(e.Entry, zone, now)
}

// LogTarget says of which jobs, and where, an entry of the log of who did what tells.
func LogTarget(e admin.LogEntry, zone *time.Location) string {
	of := strings.Join(e.Jobs, ", ")
	switch {
	case e.Kind == admin.LogOutage:
		return Outage(admin.Outage{Since: e.Since, Until: e.Until, Instances: []string{e.From}}, zone)
	case e.More > 0:
		return strings.TrimSpace(fmt.Sprintf("%s and %d more", of, e.More))
	case of == "":
		return e.Where
	case e.Where != "":
		return of + " on " + e.Where
	}
	return of
}

// SummaryColumns head what Summary returns.
var SummaryColumns = []string{
	"Job", "Runs", "OK", "Failed", "In a row", "Skipped", "Missed", "Holes", "Last OK", "Last failed", "Took p50", "p95", "p99", "Late p95", "Last error",
}

// Summary is what the run log says of a job, for each of SummaryColumns.
func Summary(s runlog.Summary, now time.Time) []string {
	ms := func(of runlog.Spread, value int64) string {
		if of.Count == 0 {
			return ""
		}
		return plain.Span(time.Duration(value) * time.Millisecond)
	}
	return []string{
		s.Slot, strconv.Itoa(s.Runs), strconv.Itoa(s.OK), strconv.Itoa(s.Failed), strconv.Itoa(s.Streak), strconv.Itoa(s.Skipped), strconv.Itoa(s.Missed),
		strconv.Itoa(s.Holes), plain.Relative(s.LastSuccess, now), plain.Relative(s.LastFailure, now), ms(s.Duration, s.Duration.P50),
		ms(s.Duration, s.Duration.P95), ms(s.Duration, s.Duration.P99), ms(s.Lateness, s.Lateness.P95), plain.FirstLine(s.LastError),
	}
}

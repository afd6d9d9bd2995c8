package web

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/admin/words"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

// logBody is the part of the page of a job about its run log.
type logBody struct {
	Problem string // why the log is not read, or not all of it
	Extent  string // how far back it goes
	Columns []string
	Rows    [][]string // one for the job, or for each of its shards
	More    int
}

// logBodyOf sums up the records of a job.
func logBodyOf(all []runlog.Entry, r reading, now time.Time) logBody {
	b := logBody{Problem: r.problem(), Columns: words.SummaryColumns}
	missing := 0
	for _, e := range all {
		if e.Seq == 0 && e.Kind != runlog.Hole && over(e.Run) {
			missing++
		}
	}
	switch last := len(r.entries) - 1; {
	case last < 0 && r.err == nil:
		b.Extent = "The run log has nothing of this job yet."
	case r.whole:
		b.Extent = "The run log of this job begins at " + logged(r.entries[last].At) + ": what was before then was not kept, or has been removed."
	}
	if len(r.entries) > 0 && missing == 1 {
		b.Extent += " It does not have the latest entry yet."
	} else if len(r.entries) > 0 && missing > 1 {
		b.Extent += fmt.Sprintf(" It does not have the latest %d entries yet.", missing)
	}
	sums := summed(all)
	b.More = max(0, len(sums)-perPage)
	for _, s := range sums[:min(len(sums), perPage)] {
		b.Rows = append(b.Rows, words.Summary(s, now))
	}
	return b
}

// summed sums up entries that have ended.
func summed(all []runlog.Entry) []runlog.Summary {
	sums, _ := runlog.Summarize(func(yield func(runlog.Entry, error) bool) {
		for _, e := range all {
			if over(e.Run) && !yield(e, nil) {
				return
			}
		}
	})
	return sums
}

// logged is a time of the run log.
func logged(at time.Time) string { return plain.Absolute(at, time.UTC) }

const (
	// documentLogTime is how long a document waits for the run log.
	documentLogTime = 15 * time.Second
	defaultLogged   = "100"
	maxLogged       = 10_000
	// maxSummed is of how many entries a summary is.
	maxSummed = 200_000
)

// logDocument is what swctl history NAME --store prints.
func (h *handler) logDocument(r *http.Request) ([]byte, error) {
	text := cmp.Or(r.FormValue("n"), defaultLogged)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLogged {
		return nil, &invalid.FieldError{Field: "n", Value: text, Err: fmt.Errorf("is no number from 1 to %d", maxLogged)}
	}
	q, err := logQuery(r)
	if err != nil {
		return nil, err
	}
	q.Limit, q.Failed = n, r.FormValue("failed") == "true"
	entries, _, err := h.logOf(r, q)
	if err != nil {
		return nil, err
	}
	return encoded(api.List("RunLog", entries))
}

// summaryDocument is what swctl history NAME --summary --store prints.
func (h *handler) summaryDocument(r *http.Request) ([]byte, error) {
	q, err := logQuery(r)
	if err != nil {
		return nil, err
	}
	q.Limit = maxSummed + 1
	entries, whole, err := h.logOf(r, q)
	if err != nil {
		return nil, err
	}
	if !whole {
		return nil, &invalid.FieldError{Field: "since", Value: r.FormValue("since"), Err: fmt.Errorf("there are more entries since then than can be summed up: %d, or %d MiB", maxSummed, maxRead>>20)}
	}
	return encoded(api.List("RunLogSummary", summed(entries)))
}

// logQuery is the query of a request.
func logQuery(r *http.Request) (q runlog.Query, err error) {
	q.Slot = r.PathValue("name")
	if q.Since, err = timeOf(r, "since"); err == nil {
		q.Until, err = timeOf(r, "until")
	}
	return q, err
}

// logOf reads all that a request asks for, or fails.
func (h *handler) logOf(r *http.Request, q runlog.Query) (entries []runlog.Entry, whole bool, err error) {
	if h.opts.History == nil {
		return nil, false, errNoLog
	}
	if _, err := visitorOf(r.Context()).pay(time.Now()); err != nil {
		return nil, false, err
	}
	read := h.readLog(r.Context(), q, documentLogTime)
	if read.err != nil {
		return nil, false, fmt.Errorf("%w: %w", errLog, read.err)
	}
	return read.entries, read.whole, nil
}

package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/doctor"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/runlog"
)

const (
	// A TickList has defaultTicks, and at most maxTicks.
	defaultTicks = "10"
	maxTicks     = 1000
	// documentLogTime is how long a document waits for the run log.
	documentLogTime = 15 * time.Second
	defaultLogged   = "100"
	maxLogged       = 10_000
	// maxSummed is of how many entries a summary is.
	maxSummed = 200_000
)

// documents are the group as JSON, below api/v1/.
type documents struct {
	group  *group
	logger *slog.Logger
}

// document is an answer with the document that a function returns.
func (d documents) document(look func(*http.Request) ([]byte, error)) func(*http.Request) answer {
	return func(r *http.Request) answer {
		text, err := look(r)
		return documentOf(r, text, err, d.logger)
	}
}

func (d documents) jobs(r *http.Request) ([]byte, error) {
	s, err := d.group.snapshot(r.Context())
	if err != nil {
		return nil, err
	}
	return s.jobList()
}

func (d documents) instances(r *http.Request) ([]byte, error) {
	s, err := d.group.snapshot(r.Context())
	if err != nil {
		return nil, err
	}
	return encoded(api.Instances(s.instances, s.orders), nil)
}

func (d documents) doctor(r *http.Request) ([]byte, error) {
	s, err := d.group.snapshot(r.Context())
	if err != nil {
		return nil, err
	}
	e, err := d.group.examination(r.Context(), s)
	return encoded(api.List("CheckList", doctor.Checks(e)), err)
}

// whoDid is the document that swctl log prints, too.
func (d documents) whoDid(r *http.Request) ([]byte, error) {
	entries, err := d.group.whoDid(r.Context())
	return encoded(api.List("Log", entries), err)
}

func (d documents) job(r *http.Request) answer {
	of, err := d.group.job(r.Context(), r.PathValue("name"))
	text, err := encoded(api.Job(of.Job, of.Requests), err)
	a := documentOf(r, text, err, d.logger)
	if err == nil {
		a.tag = tagOf(of.Job)
	}
	return a
}

func (d documents) history(r *http.Request) ([]byte, error) {
	of, err := d.group.job(r.Context(), r.PathValue("name"))
	return encoded(api.New("History", api.Named{Name: of.Job.Name}, api.ItemsOf(of.Entries)), err)
}

func (d documents) why(r *http.Request) ([]byte, error) {
	at, err := timeOf(r, "at")
	if err != nil {
		return nil, err
	}
	of, err := d.group.job(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return encoded(api.New("Explanation", of.Why(at)), nil)
}

func (d documents) ticks(r *http.Request) ([]byte, error) {
	n, err := countOf(r, defaultTicks, maxTicks)
	if err != nil {
		return nil, err
	}
	of, err := d.group.job(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	if _, err := of.Job.Job.ParseSchedule(); err != nil {
		return nil, fmt.Errorf("%w: %w", admin.ErrUnreadable, err)
	}
	ticks := api.TicksOf(of.Job, d.group.now(), n)
	return encoded(api.TickList(of.Job, ticks, api.LeftOutOf(of.Job, d.group.now(), ticks)), nil)
}

func (d documents) instance(r *http.Request) ([]byte, error) {
	of, err := d.group.instance(r.Context(), r.PathValue("id"))
	return encoded(api.Instance(of), err)
}

// log is the document that swctl history NAME --store prints, too.
func (d documents) log(r *http.Request) ([]byte, error) {
	n, err := countOf(r, defaultLogged, maxLogged)
	if err != nil {
		return nil, err
	}
	q, err := logQuery(r)
	if err != nil {
		return nil, err
	}
	q.Limit, q.Failed = n, r.FormValue("failed") == "true"
	entries, _, err := d.logged(r, q)
	return encoded(api.List("RunLog", entries), err)
}

// summary is the document that swctl history NAME --summary --store prints, too.
func (d documents) summary(r *http.Request) ([]byte, error) {
	q, err := logQuery(r)
	if err != nil {
		return nil, err
	}
	q.Limit = maxSummed + 1
	entries, whole, err := d.logged(r, q)
	if err != nil {
		return nil, err
	}
	if !whole {
		return nil, &invalid.FieldError{Field: "since", Value: r.FormValue("since"), Err: fmt.Errorf("there are more entries since then than can be summed up: %d, or %d MiB", maxSummed, maxRead>>20)}
	}
	return encoded(api.List("RunLogSummary", summed(entries)), nil)
}

// logQuery is the query of a request.
func logQuery(r *http.Request) (q runlog.Query, err error) {
	q.Slot = r.PathValue("name")
	if q.Since, err = timeOf(r, "since"); err == nil {
		q.Until, err = timeOf(r, "until")
	}
	return q, err
}

// logged reads all that a request asks for, or fails.
func (d documents) logged(r *http.Request, q runlog.Query) (entries []runlog.Entry, whole bool, err error) {
	if d.group.log == nil {
		return nil, false, errNoLog
	}
	if _, err := visitorOf(r.Context()).pay(time.Now()); err != nil {
		return nil, false, err
	}
	read := d.group.log.read(r.Context(), q, documentLogTime)
	if read.err != nil {
		return nil, false, fmt.Errorf("%w: %w", errLog, read.err)
	}
	return read.entries, read.whole, nil
}

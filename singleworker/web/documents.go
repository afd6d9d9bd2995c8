package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// document is an answer of JSON.
func (h *handler) document(r *http.Request, look func(*http.Request) ([]byte, error)) answer {
	text, err := look(r)
	if err != nil {
		return h.refusal(r, err)
	}
	return answer{kind: jsonType, text: text}
}

const jsonType = "application/json"

// refusal is the document of an error.
func (h *handler) refusal(r *http.Request, err error) answer {
	status, code := h.statusOf(r, err)
	text, _ := encoded(api.Error{Error: api.ErrorBody{Code: code, Message: err.Error()}})
	return answer{status: status, kind: jsonType, text: text}
}

func (h *handler) jobList(r *http.Request) ([]byte, error) {
	s, err := h.snapshot(r.Context())
	if err != nil {
		return nil, err
	}
	return s.jobList()
}

func (h *handler) instanceList(r *http.Request) ([]byte, error) {
	s, err := h.snapshot(r.Context())
	if err != nil {
		return nil, err
	}
	return encoded(api.Instances(s.instances, s.orders))
}

// jobDetail is a job with the requests that are pending.
type jobDetail struct {
	status   admin.JobStatus
	requests []admin.Request
}

func (h *handler) job(ctx context.Context, name string) (jobDetail, error) {
	return detail(ctx, h.readings, "job "+name, func(ctx context.Context) (d jobDetail, err error) {
		if d.status, err = h.client.Get(ctx, name); err != nil {
			return d, err
		}
		d.requests, err = h.client.Requests(ctx, name)
		if errors.Is(err, admin.ErrDenied) || errors.Is(err, admin.ErrUnreadable) {
			err = nil
		}
		return d, err
	})
}

// past is the history of a job, and what explains its ticks: all times that viewers ask for are
// answered from one reading.
func (h *handler) past(ctx context.Context, name string) (admin.Past, error) {
	return detail(ctx, h.readings, "past "+name, func(ctx context.Context) (admin.Past, error) { return h.client.Past(ctx, name) })
}

func (h *handler) instance(ctx context.Context, id string) (admin.InstanceDetails, error) {
	return detail(ctx, h.readings, "instance "+id, func(ctx context.Context) (admin.InstanceDetails, error) { return h.client.Instance(ctx, id) })
}

func (h *handler) jobDocument(r *http.Request) ([]byte, error) {
	d, err := h.job(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return encoded(api.Job(d.status, d.requests))
}

func (h *handler) historyDocument(r *http.Request) ([]byte, error) {
	past, err := h.past(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return encoded(api.New("History", api.Named{Name: past.Job.Name}, api.ItemsOf(past.Entries)))
}

func (h *handler) whyDocument(r *http.Request) ([]byte, error) {
	at, err := timeOf(r, "at")
	if err != nil {
		return nil, err
	}
	past, err := h.past(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return encoded(api.New("Explanation", past.Why(at)))
}

// farthest is how far from now a time of a request may be: beyond, it stands for that.
const farthest = 100 * 365 * 24 * time.Hour

// timeOf is a time in the query of a request; zero if the field is missing.
func timeOf(r *http.Request, field string) (time.Time, error) {
	text := r.FormValue(field)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, &invalid.FieldError{Field: field, Value: text, Err: errors.New("is no time as in RFC 3339")}
	}
	switch now := time.Now(); {
	case at.Before(now.Add(-farthest)):
		return now.Add(-farthest), nil
	case at.After(now.Add(farthest)):
		return now.Add(farthest), nil
	}
	return at, nil
}

// Ticks in a TickList: by default, and at most.
const (
	defaultTicks = "10"
	maxTicks     = 1000
)

func (h *handler) tickList(r *http.Request) ([]byte, error) {
	text := cmp.Or(r.FormValue("n"), defaultTicks)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxTicks {
		return nil, &invalid.FieldError{Field: "n", Value: text, Err: fmt.Errorf("is no number from 1 to %d", maxTicks)}
	}
	d, err := h.job(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	of := d.status.Job
	schedule, err := of.ParseSchedule()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", admin.ErrUnreadable, err)
	}
	ticks := api.TicksOf(schedule, h.now(), n)
	return encoded(api.New("TickList", api.Named{Name: d.status.Name}, api.ScheduleOf(of), api.ItemsOf(ticks)))
}

func (h *handler) instanceDocument(r *http.Request) ([]byte, error) {
	d, err := h.instance(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return encoded(api.Instance(d))
}

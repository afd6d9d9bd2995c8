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
)

// document answers with JSON.
func (h *handler) document(answer func(*http.Request) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := answer(r)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text)
	})
}

// refuse answers with the document of an error.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, code := h.statusOf(r, err)
	text, _ := encoded(api.Error{Error: api.ErrorBody{Code: code, Message: err.Error()}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
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

// detail is a reading of one job, or of one instance, that viewers share.
func detail[T any](ctx context.Context, h *handler, key string, read func(context.Context) (T, error)) (T, error) {
	value, err := h.details.get(ctx, key, func(ctx context.Context) (any, error) { return read(ctx) })
	if err != nil {
		var none T
		return none, err
	}
	return value.(T), nil //nolint:forcetypeassert // keys begin with what they are of
}

// jobDetail is a job with the requests that are pending.
type jobDetail struct {
	status   admin.JobStatus
	requests []admin.Request
}

func (h *handler) job(ctx context.Context, name string) (jobDetail, error) {
	return detail(ctx, h, "job "+name, func(ctx context.Context) (d jobDetail, err error) {
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

func (h *handler) history(ctx context.Context, name string) (admin.History, error) {
	return detail(ctx, h, "history "+name, func(ctx context.Context) (admin.History, error) { return h.client.History(ctx, name) })
}

func (h *handler) why(ctx context.Context, name, at string) (admin.Explanation, error) {
	var asked time.Time
	if at != "" {
		var err error
		if asked, err = time.Parse(time.RFC3339, at); err != nil {
			return admin.Explanation{}, &admin.InvalidError{Field: "at", Value: at, Err: errors.New("is no time as in RFC 3339")}
		}
	}
	return detail(ctx, h, "why "+at+" "+name, func(ctx context.Context) (admin.Explanation, error) { return h.client.Why(ctx, name, asked) })
}

func (h *handler) instance(ctx context.Context, id string) (admin.InstanceDetails, error) {
	return detail(ctx, h, "instance "+id, func(ctx context.Context) (admin.InstanceDetails, error) { return h.client.Instance(ctx, id) })
}

func (h *handler) jobDocument(r *http.Request) ([]byte, error) {
	d, err := h.job(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return encoded(api.Job(d.status, d.requests))
}

func (h *handler) historyDocument(r *http.Request) ([]byte, error) {
	past, err := h.history(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return encoded(api.New("History", api.Named{Name: past.Job.Name}, api.ItemsOf(past.Entries)))
}

func (h *handler) whyDocument(r *http.Request) ([]byte, error) {
	explained, err := h.why(r.Context(), r.PathValue("name"), r.FormValue("at"))
	if err != nil {
		return nil, err
	}
	return encoded(api.New("Explanation", explained))
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
		return nil, &admin.InvalidError{Field: "n", Value: text, Err: fmt.Errorf("is no number from 1 to %d", maxTicks)}
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
	ticks := api.TicksOf(schedule, time.Now(), n)
	return encoded(api.New("TickList", api.Named{Name: d.status.Name}, api.ScheduleOf(of), api.ItemsOf(ticks)))
}

func (h *handler) instanceDocument(r *http.Request) ([]byte, error) {
	d, err := h.instance(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return encoded(api.Instance(d))
}

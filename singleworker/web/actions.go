package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// action carries out a request, and returns the document that confirms it.
type action func(ctx context.Context, o *order) (api.Document, error)

// actions carry out orders of operators in the group.
type actions struct {
	client   Client
	visitors *visitors
	group    *group
	rights   *rights
	pages    *pages
	logger   *slog.Logger
	refused  refusals
}

// act answers an action, to programs with its document, and to browsers with the page that they
// return to. The form is read before the turn.
func (a *actions) act(verb string, do action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := &order{Action: Action{Verb: verb, Of: r.PathValue("name")}, from: a.visitors.named(r)}
		err := a.rights.read(w, r, o)
		if err != nil {
			w.Header().Set("Connection", "close") // there may be more of the form
		}
		a.visitors.inTurn(func(r *http.Request) answer {
			var document api.Document
			if err == nil {
				document, err = a.perform(r.Context(), o, do)
			}
			a.log(o, err)
			if !strings.Contains(r.Header.Get("Accept"), "text/html") {
				text, err := encoded(document, err)
				said := documentOf(r, text, err, a.logger)
				said.status, said.tag = cmp.Or(said.status, o.status), o.tag
				return said
			}
			up := strings.Repeat("../", strings.Count(r.URL.EscapedPath(), "/")-1)
			if err == nil {
				return answer{status: http.StatusSeeOther, kind: "text/html; charset=utf-8", to: up + o.back(true)}
			}
			v := a.pages.failure(r, err)
			if v.Back = up + o.back(false); o.Verb == verbSubmit && o.form != nil {
				v = a.pages.refused(r, o, err)
			}
			v.Up = up
			return a.pages.shown(r, v)
		}).ServeHTTP(w, r)
	})
}

// back is the page to return to, the one with the form. If the action is done, it tells so.
func (o *order) back(done bool) string {
	page, query := "./", make(url.Values)
	switch {
	case o.form.Get("back") == "first", o.Of == "":
	case o.Verb == "cancel" && done:
		page = "jobs"
	case o.Verb == "drain" || o.Verb == "enable":
		page = "instance"
		query.Set("id", o.Of)
	default:
		page = "job"
		query.Set("name", o.Of)
	}
	if done {
		query.Set(fieldDone, o.Verb)
		query.Set(fieldOf, o.Of)
	}
	return page + "?" + query.Encode()
}

// perform has an order done in the name of who asks.
func (a *actions) perform(ctx context.Context, o *order, do action) (api.Document, error) {
	defer a.group.readings.forget()
	return do(admin.As(ctx, admin.Who{By: o.who(), Reason: o.reason}), o)
}

// who is the name on record. The log has the address apart.
func (o *order) who() string { return fmt.Sprintf("%s (web, %s)", o.by, o.from) }

// log logs actions that were done, and those refused. Of those who may not act there is a line now
// and then, and nothing that they have sent.
func (a *actions) log(o *order, err error) {
	switch {
	case errors.Is(err, errToken) || errors.Is(err, errElsewhere) || errors.Is(err, errForbidden):
		if n := a.refused.count(time.Now()); n > 0 {
			a.logger.Warn("actions refused", "action", o.Verb, "remote", o.from, "count", n, "error", err)
		}
	case err != nil:
		a.logger.Warn("action refused", "action", o.Verb, "of", clip(o.Of), "by", clip(o.by), "remote", o.from, "error", clip(err.Error()))
	default:
		a.logger.Info("action", "action", o.Verb, "of", clip(o.Of), "by", clip(o.by), "reason", clip(o.reason), "remote", o.from)
	}
}

// refusedEvery is how often refused actions are logged.
const refusedEvery = 10 * time.Second

// refusals counts refused actions between two lines of the log.
type refusals struct {
	mu     sync.Mutex
	n      int
	logged time.Time
}

// count returns how many there were since the last line, or 0 if that was a moment ago.
func (f *refusals) count(now time.Time) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; !f.logged.IsZero() && now.Sub(f.logged) < refusedEvery {
		return 0
	}
	n, f.n, f.logged = f.n, 0, now
	return n
}

func (a *actions) trigger(ctx context.Context, o *order) (api.Document, error) {
	opts := admin.TriggerOptions{By: o.who(), Reason: o.reason, Again: o.form.Get("again") == "true"}
	if text := o.form.Get("tick"); text != "" {
		var err error
		if opts.Tick, err = time.Parse(time.RFC3339, text); err != nil {
			return api.Document{}, &invalid.FieldError{Field: "Tick", Value: text, Err: errors.New("is not a time as in RFC 3339")}
		}
	}
	result, err := a.client.Trigger(ctx, o.Of, opts)
	return api.New("TriggerResult", result, api.RunsOf(o.Of, nil)), err
}

// stopTime is how long an action waits for a run to stop.
const stopTime = 5 * time.Second

// stopRun asks for the end of a run, and waits for it a little: the document has the run as it is
// then.
func (a *actions) stopRun(ctx context.Context, o *order) (api.Document, error) {
	short, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	runs, err := a.client.StopRun(short, o.Of, admin.StopOptions{By: o.who(), Reason: o.reason})
	if len(runs) > 0 && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, admin.ErrUnavailable) {
		err = nil
	}
	return api.New("StopResult", api.Named{Name: o.Of}, api.RunsOf(o.Of, runs)), err
}

func (a *actions) pause(ctx context.Context, o *order) (api.Document, error) {
	opts, err := o.pause()
	if err != nil {
		return api.Document{}, err
	}
	result, err := a.client.Pause(ctx, o.Of, opts)
	return a.paused(ctx, o, result, err)
}

// pause is how long a job or the group is to be paused, by whom and why.
func (o *order) pause() (admin.PauseOptions, error) {
	opts := admin.PauseOptions{By: o.who(), Reason: o.reason}
	if text := o.form.Get("for"); text != "" {
		length, err := job.ParseDuration(text)
		if err != nil || length <= 0 {
			return opts, &invalid.FieldError{Field: "For", Value: text, Err: errors.New("is not a duration such as 90m or 24h")}
		}
		opts.For = length
	}
	return opts, nil
}

// confirmed checks that the form has the text that was to be typed. The error calls it as named.
func (o *order) confirmed(want, named string) error {
	if typed := o.form.Get("confirm"); typed != want {
		return &invalid.FieldError{Field: "Confirm", Value: typed, Err: errors.New("is not " + named)}
	}
	return nil
}

func (a *actions) freeze(ctx context.Context, o *order) (api.Document, error) {
	opts, err := o.pause()
	if err = cmp.Or(err, o.confirmed(o.Verb, "the word that confirms it: "+o.Verb)); err != nil {
		return api.Document{}, err
	}
	result, err := a.client.Freeze(ctx, admin.FreezeOptions{PauseOptions: opts})
	return api.New("FreezeResult", result), err
}

func (a *actions) unfreeze(ctx context.Context, o *order) (api.Document, error) {
	if err := o.confirmed(o.Verb, "the word that confirms it: "+o.Verb); err != nil {
		return api.Document{}, err
	}
	result, err := a.client.Unfreeze(ctx, admin.ResumeOptions{Missed: job.MisfirePolicy(o.form.Get("missed"))})
	return api.New("FreezeResult", result), err
}

func (a *actions) resume(ctx context.Context, o *order) (api.Document, error) {
	result, err := a.client.Resume(ctx, o.Of, admin.ResumeOptions{Missed: job.MisfirePolicy(o.form.Get("missed"))})
	return a.paused(ctx, o, result, err)
}

// paused is the document that swctl pause and swctl resume print, too.
func (a *actions) paused(ctx context.Context, o *order, result admin.PauseResult, err error) (api.Document, error) {
	if err != nil {
		return api.Document{}, err
	}
	status, err := a.client.Get(ctx, o.Of)
	return api.List("PauseResultList", []api.Paused{{PauseResult: result, Job: status}}), err
}

func (a *actions) cancel(ctx context.Context, o *order) (api.Document, error) {
	if err := o.confirmed(o.Of, "the name of the job to be canceled"); err != nil {
		return api.Document{}, err
	}
	was, err := a.client.Cancel(ctx, o.Of)
	return api.List("JobList", []admin.JobStatus{was}), err
}

func (a *actions) drain(ctx context.Context, o *order) (api.Document, error) {
	result, err := a.client.Drain(ctx, o.Of, admin.OrderOptions{By: o.who(), Reason: o.reason})
	return api.New("InstanceOrderResult", result), err
}

func (a *actions) enable(ctx context.Context, o *order) (api.Document, error) {
	result, err := a.client.EnableAt(ctx, admin.Target{InstanceID: o.Of})
	return api.New("InstanceOrderResult", result), err
}

package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/admin/plain"
	"github.com/swjobs/singleworker/singleworker/invalid"
	"github.com/swjobs/singleworker/singleworker/job"
)

// MinToken is how long a token is at least, in bytes.
const MinToken = 16

// Action is what somebody asks for.
type Action struct {
	// Verb is "trigger", "pause", "resume" or "cancel" of a job, "drain" or "enable" of an instance.
	Verb string
	// Of is the name of the job or shard, or the ID of the instance.
	Of string
}

// order is an action, and who asks for it.
type order struct {
	Action

	from       string // the address
	by, reason string
	form       url.Values
}

// action carries out a request, and returns the document that confirms it.
type action func(ctx context.Context, o order) (api.Document, error)

// actionRoutes are the routes of POST requests. They exist only with Options.AllowActions.
func (h *handler) actionRoutes(mux *http.ServeMux) {
	for path, do := range map[string]action{
		"jobs/{name}/trigger": h.trigger, "jobs/{name}/pause": h.pause, "jobs/{name}/resume": h.resume, "jobs/{name}/cancel": h.cancel,
		"instances/{name}/drain": h.drain, "instances/{name}/enable": h.enable,
	} {
		verb := path[strings.LastIndexByte(path, '/')+1:]
		mux.Handle("POST /api/v1/"+path, http.NewCrossOriginProtection().Handler(h.act(verb, do)))
	}
}

var (
	errToken     = errors.New("the token is wrong, or not given: swctl ui prints it when it starts, or reads it from --token-file")
	errElsewhere = errors.New("actions are taken from the server's own machine only: use swctl, a tunnel (ssh -L), or a proxy there that speaks TLS")
	errForbidden = errors.New("not allowed")
	errNobody    = errors.New("say who you are, and why: both are in the log of each action")
)

// act answers an action, to programs with its document, and to browsers with a page. The form is
// read before the turn.
func (h *handler) act(verb string, do action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, err := h.order(w, r, verb)
		if err != nil {
			w.Header().Set("Connection", "close") // there may be more of the form
		}
		h.inTurn(func(r *http.Request) answer {
			var document api.Document
			if err == nil {
				document, err = h.perform(r.Context(), o, do)
			}
			h.log(o, err)
			html := strings.Contains(r.Header.Get("Accept"), "text/html")
			switch {
			case html && err == nil:
				return h.shown(r, view{Template: "done", Title: "Done", Now: h.now(), Up: "../../../../", Body: verb + " " + o.Of})
			case html:
				v := h.failure(r, err)
				v.Up = "../../../../"
				return h.shown(r, v)
			case err != nil:
				return h.refusal(r, err)
			}
			return h.document(r, func(*http.Request) ([]byte, error) { return encoded(document) })
		}).ServeHTTP(w, r)
	})
}

// formTime is how long the form of an action may take to come.
const formTime = 10 * time.Second

// order reads who asks for what, and checks whether they may. Who may not is not read to the end.
func (h *handler) order(w http.ResponseWriter, r *http.Request, verb string) (o order, err error) {
	o = order{Action: Action{Verb: verb, Of: r.PathValue("name")}, from: h.visitors.named(r)}
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	byToken := h.opts.Authorize == nil
	switch {
	case !h.mayAct(r):
		return o, errElsewhere
	case !byToken:
		if o.by, err = h.opts.Authorize(r, o.Action); err != nil {
			return o, fmt.Errorf("%w: %w", errForbidden, err)
		}
	case bearer && !h.isToken(token):
		return o, errToken
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(formTime))
	//nolint:gosec // ServeHTTP bounds the body
	if err := r.ParseMultipartForm(maxBody); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return o, errToken
	}
	_ = conn.SetReadDeadline(time.Time{}) // else it ends the action
	if byToken && !bearer && !h.isToken(r.PostFormValue("token")) {
		return o, errToken
	}
	o.form = r.PostForm
	if byToken {
		o.by = o.form.Get("by")
	}
	if o.by, o.reason = strings.TrimSpace(o.by), strings.TrimSpace(o.form.Get("reason")); o.by == "" || o.reason == "" {
		return o, &invalid.FieldError{Field: "By", Err: errNobody}
	}
	return o, nil
}

func (h *handler) isToken(text string) bool {
	given, want := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(h.opts.Token))
	return subtle.ConstantTimeCompare(given[:], want[:]) == 1
}

// mayAct reports whether actions are taken from where a request comes from.
func (h *handler) mayAct(r *http.Request) bool {
	return h.opts.AllowActions && (!h.opts.ActionsFromHere || isHere(r))
}

// offered are the actions that a page has buttons for.
type offered struct {
	Path string          // what the paths of the actions begin with
	May  map[string]bool // by verb
	Ask  bool            // for the token, and a name
}

// offers are the actions, of some, that the viewer of a page may ask for. It is nil without any.
func (h *handler) offers(r *http.Request, kind, name string, verbs ...string) *offered {
	o := &offered{Path: "api/v1/" + kind + "/" + url.PathEscape(name) + "/", May: make(map[string]bool), Ask: h.opts.Authorize == nil}
	for _, verb := range verbs {
		if !h.mayAct(r) {
			return nil
		}
		if !o.Ask {
			if _, err := h.opts.Authorize(r, Action{Verb: verb, Of: name}); err != nil {
				continue
			}
		}
		o.May[verb] = true
	}
	if len(o.May) == 0 {
		return nil
	}
	return o
}

// isHere reports whether a request comes from the machine that serves it: by the loopback
// interface, or from the address that it went to.
func isHere(r *http.Request) bool {
	from := remote(r)
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return from.IsLoopback() || ok && from == local.AddrPort().Addr().Unmap()
}

// perform has an order done in the name of who asks.
func (h *handler) perform(ctx context.Context, o order, do action) (api.Document, error) {
	defer h.readings.forget()
	o.by = fmt.Sprintf("%s (web, %s)", o.by, o.from)
	return do(admin.As(ctx, admin.Who{By: o.by, Reason: o.reason}), o)
}

// log logs actions that were done, and those refused. Of those who may not act there is a line now
// and then, and nothing that they have sent.
func (h *handler) log(o order, err error) {
	switch {
	case errors.Is(err, errToken) || errors.Is(err, errElsewhere) || errors.Is(err, errForbidden):
		if n := h.refused.count(time.Now()); n > 0 {
			h.opts.Logger.Warn("actions refused", "action", o.Verb, "remote", o.from, "count", n, "error", err)
		}
	case err != nil:
		h.opts.Logger.Warn("action refused", "action", o.Verb, "of", clip(o.Of), "by", clip(o.by), "remote", o.from, "error", clip(err.Error()))
	default:
		h.opts.Logger.Info("action", "action", o.Verb, "of", clip(o.Of), "by", clip(o.by), "reason", clip(o.reason), "remote", o.from)
	}
}

// clip is the beginning of a text for the log, printable.
func clip(text string) string {
	if len(text) > clipped {
		text = strings.ToValidUTF8(text[:clipped], "") + "…"
	}
	return plain.Printable(text)
}

// refusedEvery is how often refused actions are logged.
const refusedEvery = 10 * time.Second

// refusals counts refused actions between two lines of the log.
type refusals struct {
	mu     sync.Mutex
	n      int
	logged time.Time
}

// count returns how many there were since the last line; 0 if that was a moment ago.
func (f *refusals) count(now time.Time) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; !f.logged.IsZero() && now.Sub(f.logged) < refusedEvery {
		return 0
	}
	n, f.n, f.logged = f.n, 0, now
	return n
}

func (h *handler) trigger(ctx context.Context, o order) (api.Document, error) {
	result, err := h.client.Trigger(ctx, o.Of, admin.TriggerOptions{By: o.by, Reason: o.reason})
	return api.New("TriggerResult", result, api.RunsOf(o.Of, nil)), err
}

func (h *handler) pause(ctx context.Context, o order) (api.Document, error) {
	opts := admin.PauseOptions{By: o.by, Reason: o.reason}
	if text := o.form.Get("for"); text != "" {
		length, err := time.ParseDuration(text)
		if err != nil || length <= 0 {
			return api.Document{}, &invalid.FieldError{Field: "For", Value: text, Err: errors.New("is not a duration such as 90m or 24h")}
		}
		opts.For = length
	}
	result, err := h.client.Pause(ctx, o.Of, opts)
	return h.paused(ctx, o, result, err)
}

func (h *handler) resume(ctx context.Context, o order) (api.Document, error) {
	result, err := h.client.Resume(ctx, o.Of, admin.ResumeOptions{Missed: job.MisfirePolicy(o.form.Get("missed"))})
	return h.paused(ctx, o, result, err)
}

// paused is what swctl pause and swctl resume print.
func (h *handler) paused(ctx context.Context, o order, result admin.PauseResult, err error) (api.Document, error) {
	if err != nil {
		return api.Document{}, err
	}
	status, err := h.client.Get(ctx, o.Of)
	return api.List("PauseResultList", []api.Paused{{PauseResult: result, Job: status}}), err
}

func (h *handler) cancel(ctx context.Context, o order) (api.Document, error) {
	if typed := o.form.Get("confirm"); typed != o.Of {
		return api.Document{}, &invalid.FieldError{Field: "Confirm", Value: typed, Err: errors.New("is not the name of the job to be canceled")}
	}
	was, err := h.client.Cancel(ctx, o.Of)
	return api.List("JobList", []admin.JobStatus{was}), err
}

func (h *handler) drain(ctx context.Context, o order) (api.Document, error) {
	result, err := h.client.Drain(ctx, o.Of, admin.OrderOptions{By: o.by, Reason: o.reason})
	return api.New("InstanceOrderResult", result), err
}

func (h *handler) enable(ctx context.Context, o order) (api.Document, error) {
	result, err := h.client.EnableAt(ctx, admin.Target{InstanceID: o.Of})
	return api.New("InstanceOrderResult", result), err
}

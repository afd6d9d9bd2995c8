package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/job"
)

// MinToken is how long a token is at least, in bytes.
const MinToken = 16

// order is what somebody asks for with an action.
type order struct {
	of         string // the name of a job, or the ID of an instance
	by, reason string // as they are recorded
	request    *http.Request
}

// action does what is asked, and returns the document that says so.
type action func(ctx context.Context, o order) (api.Document, error)

// actionRoutes are those of POST requests. They exist only with Options.AllowActions.
func (h *handler) actionRoutes(mux *http.ServeMux) {
	for path, do := range map[string]action{
		"jobs/{name}/trigger": h.trigger, "jobs/{name}/pause": h.pause, "jobs/{name}/resume": h.resume, "jobs/{name}/cancel": h.cancel,
		"instances/{name}/drain": h.drain, "instances/{name}/enable": h.enable,
	} {
		verb := path[strings.LastIndexByte(path, '/')+1:]
		mux.Handle("POST /api/v1/"+path, http.NewCrossOriginProtection().Handler(h.inTurn(h.act(verb, do))))
	}
}

var (
	errToken     = errors.New("the token is wrong, or not given: swctl ui prints it when it starts, or reads it from --token-file")
	errElsewhere = errors.New("actions are taken from the server's own machine only: use swctl, a tunnel (ssh -L), or a proxy there that speaks TLS")
	errNobody    = errors.New("say who you are, and why: both are recorded")
)

// act answers an action, to programs with its document, and to browsers with a page.
func (h *handler) act(verb string, do action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document, err := h.perform(r, verb, do)
		switch html := strings.Contains(r.Header.Get("Accept"), "text/html"); {
		case html && err == nil:
			h.show(w, r, view{Template: "done", Title: "Done", Now: time.Now(), Up: "../../../../", Body: verb + " " + r.PathValue("name")})
		case html:
			v := h.failure(r, err)
			v.Up = "../../../../"
			h.show(w, r, v)
		case err != nil:
			h.refuse(w, r, err)
		default:
			h.document(func(*http.Request) ([]byte, error) { return encoded(document) }).ServeHTTP(w, r)
		}
	})
}

// mayAct reports whether actions are taken from where a request comes from.
func (h *handler) mayAct(r *http.Request) bool {
	return h.opts.AllowActions && (!h.opts.ActionsFromHere || isHere(r))
}

// isHere reports whether a request comes from the machine that serves it: by the loopback interface, or from the address that it went to.
func isHere(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address := from.Addr().Unmap()
	if address.IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && address == local.AddrPort().Addr().Unmap()
}

// perform checks who asks, and has it done. What was done, and what was refused, is logged.
func (h *handler) perform(r *http.Request, verb string, do action) (document api.Document, err error) {
	o := order{of: r.PathValue("name"), by: strings.TrimSpace(r.PostFormValue("by")), reason: strings.TrimSpace(r.PostFormValue("reason")), request: r}
	remote, _, splitErr := net.SplitHostPort(r.RemoteAddr)
	if splitErr != nil {
		remote = r.RemoteAddr
	}
	defer func() {
		if err != nil {
			h.opts.Logger.Warn("action refused", "action", verb, "of", o.of, "by", o.by, "remote", remote, "error", err)
			return
		}
		h.opts.Logger.Info("action", "action", verb, "of", o.of, "by", o.by, "reason", o.reason, "remote", remote)
	}()
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		token = r.PostFormValue("token")
	}
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(h.opts.Token))
	switch {
	case !h.mayAct(r):
		return document, errElsewhere
	case subtle.ConstantTimeCompare(given[:], want[:]) != 1:
		return document, errToken
	case o.by == "" || o.reason == "":
		return document, &admin.InvalidError{Field: "By", Err: errNobody}
	}
	defer h.snapshots.forget()
	defer h.details.forget()
	recorded := o
	recorded.by = fmt.Sprintf("%s (web, %s)", o.by, remote)
	return do(r.Context(), recorded)
}

func (h *handler) trigger(ctx context.Context, o order) (api.Document, error) {
	result, err := h.client.Trigger(ctx, o.of, admin.TriggerOptions{By: o.by, Reason: o.reason})
	return api.New("TriggerResult", result, api.RunsOf(o.of, nil)), err
}

func (h *handler) pause(ctx context.Context, o order) (api.Document, error) {
	opts := admin.PauseOptions{By: o.by, Reason: o.reason}
	if text := o.request.PostFormValue("for"); text != "" {
		length, err := time.ParseDuration(text)
		if err != nil || length <= 0 {
			return api.Document{}, &admin.InvalidError{Field: "For", Value: text, Err: errors.New("is not a duration such as 90m or 24h")}
		}
		opts.For = length
	}
	result, err := h.client.Pause(ctx, o.of, opts)
	return h.paused(ctx, o, result, err)
}

func (h *handler) resume(ctx context.Context, o order) (api.Document, error) {
	result, err := h.client.Resume(ctx, o.of, admin.ResumeOptions{Missed: job.MisfirePolicy(o.request.PostFormValue("missed"))})
	return h.paused(ctx, o, result, err)
}

// paused is what swctl pause and swctl resume print.
func (h *handler) paused(ctx context.Context, o order, result admin.PauseResult, err error) (api.Document, error) {
	if err != nil {
		return api.Document{}, err
	}
	status, err := h.client.Get(ctx, o.of)
	return api.List("PauseResultList", []api.Paused{{PauseResult: result, Job: status}}), err
}

func (h *handler) cancel(ctx context.Context, o order) (api.Document, error) {
	if typed := o.request.PostFormValue("confirm"); typed != o.of {
		return api.Document{}, &admin.InvalidError{Field: "Confirm", Value: typed, Err: errors.New("is not the name of the job to be canceled")}
	}
	was, err := h.client.Cancel(ctx, o.of)
	return api.List("JobList", []admin.JobStatus{was}), err
}

func (h *handler) drain(ctx context.Context, o order) (api.Document, error) {
	result, err := h.client.Drain(ctx, o.of, admin.OrderOptions{By: o.by, Reason: o.reason})
	return api.New("InstanceOrderResult", result), err
}

func (h *handler) enable(ctx context.Context, o order) (api.Document, error) {
	result, err := h.client.EnableAt(ctx, admin.Target{InstanceID: o.of})
	return api.New("InstanceOrderResult", result), err
}

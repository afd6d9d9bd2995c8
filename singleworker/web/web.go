package web

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/admin/api"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

// Options changes what Handler serves. The zero value is read-only.
type Options struct {
	// Title names the group on every page: its server type, say. Default "singleworker".
	Title string
	// Hosts are the names, without a port, under which the handler may be reached. A request with
	// another name in its Host header is refused with status 421, unless that is an IP address: so no
	// page of the web can read this one by having its name point here (DNS rebinding). Default: any
	// name, for servers that check it themselves.
	Hosts []string
	// Proxies are those whose header X-Forwarded-For is believed: limits count by the address that it
	// names, which actions are recorded with. What comes from another address counts as that one, also
	// if it is a proxy for many. Default: none.
	Proxies []netip.Prefix
	// Period is for how long what was read is shown to all viewers. Default 2 s, at least 100 ms.
	Period time.Duration
	// History is a store that swctl runlog or runlog.Run keeps. It adds runs that ZooKeeper has
	// forgotten, and what all of them say of a job: percentiles, and how often it has failed in a row.
	// Default: what ZooKeeper holds, the last 20 entries of each job. It is shown, too, while the
	// store is down. The handler does not close it.
	History History
	// Group names the log in the History: the server type. Required with a History.
	Group string
	// AllowActions has jobs triggered, paused, resumed and canceled, and instances drained and
	// enabled, by POST requests of those who have the Token, or whom Authorize lets, with a reason.
	// Default: nothing can be changed, and there are no such requests.
	AllowActions bool
	// ActionsFromHere refuses actions that do not come from the machine of the server, and shows
	// others no forms for them: so a token crosses no network in clear text. What a proxy on this
	// machine passes on does come from it. Default: actions from anywhere, for servers that speak TLS.
	ActionsFromHere bool
	// Token is the secret of those who may act, at least MinToken bytes. It is compared in constant
	// time. Who has it may do everything, and says who they are. Either it or Authorize is required
	// with AllowActions.
	Token string
	// Authorize says who a request comes from, who may be known by its context, a header or a cookie,
	// and whether they may do something: by is recorded and logged, and is not asked for in forms. An
	// error refuses the action with status 403, and its text is shown. It is asked before an action,
	// and for each button of a page, in GET requests. It must not read the body, and is called from
	// many goroutines. Actions of other sites are refused before. Default: the Token decides.
	Authorize func(r *http.Request, a Action) (by string, err error)
	// Logger gets failed requests, and each action, done or refused. Of those by people who may not
	// act it gets a line in ten seconds at most. Default: none; then nothing says who canceled,
	// resumed or enabled what.
	Logger *slog.Logger
}

const (
	defaultPeriod = 2 * time.Second
	minPeriod     = 100 * time.Millisecond
)

//go:embed static templates
var files embed.FS

// handler serves the pages and the API.
type handler struct {
	client Client
	opts   Options
	pages  map[string]*template.Template
	assets map[string]asset

	visitors *visitors
	readings *readings
	logTurns chan struct{} // buffers one for each reading of the History
	feeds    *feeds
	refused  refusals
}

// Handler makes a handler that shows the group of a client. It is mounted with http.StripPrefix,
// under a path that ends with a slash, or at the root of a server. What it starts ends half a
// minute after its last request. Safe for concurrent use. Errors: a *invalid.FieldError for the
// options.
func Handler(client Client, opts Options) (http.Handler, error) {
	if opts.Period == 0 {
		opts.Period = defaultPeriod
	}
	if opts.Period < minPeriod {
		return nil, &invalid.FieldError{Field: "Period", Value: opts.Period.String(), Err: fmt.Errorf("is shorter than %s", minPeriod)}
	}
	if opts.Authorize != nil && opts.Token != "" {
		return nil, &invalid.FieldError{Field: "Token", Value: "...", Err: errors.New("is given beside Authorize: one of them decides who may act")}
	}
	if opts.AllowActions && opts.Authorize == nil && len(opts.Token) < MinToken {
		return nil, &invalid.FieldError{Field: "Token", Value: "...", Err: fmt.Errorf("has less than %d bytes", MinToken)}
	}
	if opts.History != nil && opts.Group == "" {
		return nil, &invalid.FieldError{Field: "Group", Err: errors.New("is missing: it names the log in the History")}
	}
	if opts.Title == "" {
		opts.Title = "singleworker"
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	h := &handler{
		client: client, opts: opts, visitors: newVisitors(opts.Proxies), readings: newReadings(opts.Period),
		logTurns: make(chan struct{}, logReaders), feeds: &feeds{client: client},
	}
	if err := h.load(); err != nil {
		return nil, err
	}
	return h.secured(h.routes()), nil
}

func (h *handler) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for path, page := range map[string]func(*http.Request) (view, error){
		"/{$}": h.attentionPage, "/jobs": h.jobsPage, "/job": h.jobPage, "/instances": h.instancesPage, "/instance": h.instancePage,
		"/timeline": h.timelinePage, "/owners": h.ownersPage, "/calendar": h.calendarPage,
	} {
		mux.Handle("GET "+path, h.inTurn(func(r *http.Request) answer { return h.page(r, page) }))
	}
	for path, document := range map[string]func(*http.Request) ([]byte, error){
		"jobs": h.jobList, "jobs/{name}": h.jobDocument, "jobs/{name}/history": h.historyDocument, "jobs/{name}/why": h.whyDocument,
		"jobs/{name}/log": h.logDocument, "jobs/{name}/summary": h.summaryDocument, "jobs/{name}/ticks": h.tickList, "instances": h.instanceList, "instances/{id}": h.instanceDocument,
	} {
		mux.Handle("GET /api/v1/"+path, h.inTurn(func(r *http.Request) answer { return h.document(r, document) }))
	}
	if h.opts.AllowActions {
		h.actionRoutes(mux)
	}
	mux.HandleFunc("GET /api/v1/events", h.events)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) { h.refusal(r, errNoDocument).send(w) })
	for name, asset := range h.assets {
		mux.Handle("GET /"+name, asset)
	}
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("User-agent: *\nDisallow: /\n")) })
	return mux
}

// policy lets a page load nothing but its own style and script, and be in no other page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

// secured refuses requests for other hosts and by other sites, leaves bodies to POST, and tells
// browsers what pages may not do.
func (h *handler) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		switch {
		case !h.isHost(r.Host):
			http.Error(w, "this server does not answer for that host name", http.StatusMisdirectedRequest)
			return
		case fromElsewhere(r):
			http.Error(w, "a page of another site may not ask for this", http.StatusForbidden)
			return
		case r.Method == http.MethodPost:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		case r.ContentLength != 0: // it is not read, so the connection cannot be used again
			header.Set("Connection", "close")
			fallthrough
		default:
			r.Body = http.NoBody
		}
		next.ServeHTTP(w, r)
	})
}

// maxBody bounds the body of a request.
const maxBody = 64 << 10

// isHost reports whether a Host header is one of those that the handler answers.
func (h *handler) isHost(header string) bool {
	if len(h.opts.Hosts) == 0 {
		return true
	}
	host := header
	if name, port, err := net.SplitHostPort(header); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return slices.ContainsFunc(h.opts.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, host) })
}

var errNoDocument = fmt.Errorf("%w: there is no such document", admin.ErrNotFound)

// statuses are those of codes of package api.
var statuses = map[string]int{
	api.CodeInvalid: http.StatusBadRequest, api.CodeNotFound: http.StatusNotFound, api.CodeConflict: http.StatusConflict,
	api.CodeUnavailable: http.StatusServiceUnavailable, api.CodeDenied: http.StatusBadGateway, api.CodeTimeout: http.StatusGatewayTimeout,
}

// statusOf is the HTTP status of an error, and its code.
func (h *handler) statusOf(r *http.Request, err error) (status int, code string) {
	switch {
	case errors.Is(err, errElsewhere) || errors.Is(err, errForbidden):
		return http.StatusForbidden, api.CodeDenied
	case errors.Is(err, errToken):
		return http.StatusUnauthorized, api.CodeDenied
	case errors.Is(err, errTooFast):
		return http.StatusTooManyRequests, api.CodeUnavailable
	}
	if code = api.CodeOf(err); errors.Is(err, errLog) {
		code = api.CodeUnavailable
	}
	status, known := statuses[code]
	if !known {
		status = http.StatusInternalServerError
	}
	if status >= http.StatusInternalServerError && !errors.Is(err, r.Context().Err()) {
		h.opts.Logger.Warn("request failed", "path", r.URL.Path, "error", err)
	}
	return status, code
}

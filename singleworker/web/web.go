package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/admin"
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
	// names, which actions are recorded with. A request from another address counts as from that one,
	// also if it is a proxy for many. Default: none.
	Proxies []netip.Prefix
	// Period is for how long a reading is shown to all viewers. The list of many jobs is shown for 1.5
	// ms per job, and for 15 s at most, unless a viewer who follows events is told of one. Default 2
	// s, at least 100 ms.
	Period time.Duration
	// History is a store that swctl runlog or runlog.Run keeps. It adds runs that ZooKeeper has
	// forgotten, and figures of all runs of a job: percentiles, and how often it has failed in a row.
	// Default: the entries that ZooKeeper holds, the last 20 of each job. They are shown, too, while
	// the store is down. The handler does not close it.
	History History
	// Group names the log in the History: the server type. Required with a History.
	Group string
	// AllowActions has jobs submitted, triggered, paused, resumed and canceled, and instances drained
	// and enabled, by POST and PUT requests of those who have the Token, or whom Authorize lets, with
	// a reason. Default: nothing can be changed, and there are no such requests.
	AllowActions bool
	// ActionsFromHere refuses actions that do not come from the machine of the server, and shows
	// others no forms for them: so a token crosses no network in clear text. A request that a proxy on
	// this machine passes on does come from it. Default: actions from anywhere, for servers that speak
	// TLS.
	ActionsFromHere bool
	// Token is the secret of those who may act, at least MinToken bytes. It is compared in constant
	// time. Who has it may do everything, and says who they are. Either it, TokenNow or Authorize is
	// required with AllowActions.
	Token string
	// TokenNow returns the secret, in place of Token, for one that changes while the handler serves.
	// It is called for each action, from many goroutines. While it fails, or returns less than
	// MinToken bytes, nobody may act, and the refusal has the error.
	TokenNow func() (string, error)
	// Authorize says who a request comes from, who may be known by its context, a header or a cookie,
	// and whether they may do something: by is recorded and logged, and is not asked for in forms. An
	// error refuses the action with status 403, and its text is shown. It is asked before an action,
	// and for each button of a page, in GET requests. It must not read the body, and is called from
	// many goroutines. Actions of other sites are refused before. Default: the Token decides.
	Authorize func(r *http.Request, a Action) (by string, err error)
	// RunURL is a template of links from runs to their logs or traces, of http or https, such as
	// "https://logs.example.org/?q={run}&from={started_ms}&to={ended_ms}". It may have {run}, {job},
	// {instance}, and {started} and {ended} as in RFC 3339, or with _ms in milliseconds since 1970. A
	// run in progress ends now. Default: no links.
	RunURL string
	// Logger gets failed requests, and each action, done or refused. Of those by people who may not
	// act it gets a line in ten seconds at most. Default: none. Then nothing says who canceled,
	// resumed or enabled what.
	Logger *slog.Logger
}

const (
	defaultPeriod = 2 * time.Second
	minPeriod     = 100 * time.Millisecond
)

// handler routes requests to the types that answer them.
type handler struct {
	visitors  *visitors
	pages     *pages
	documents documents
	feeds     *feeds
	actions   *actions // nil without Options.AllowActions
}

// Handler makes a handler that shows the group of a client. It is mounted with http.StripPrefix,
// under a path that ends with a slash, or at the root of a server. Its goroutines end half a
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
	if opts.TokenNow != nil && (opts.Authorize != nil || opts.Token != "") {
		return nil, &invalid.FieldError{Field: "TokenNow", Value: "...", Err: errors.New("is given beside Token or Authorize: one of them decides who may act")}
	}
	if opts.AllowActions && opts.Authorize == nil && opts.TokenNow == nil && len(opts.Token) < MinToken {
		return nil, &invalid.FieldError{Field: "Token", Value: "...", Err: fmt.Errorf("has less than %d bytes", MinToken)}
	}
	if opts.TokenNow == nil {
		opts.TokenNow = func() (string, error) { return opts.Token, nil }
	}
	if opts.History != nil && opts.Group == "" {
		return nil, &invalid.FieldError{Field: "Group", Err: errors.New("is missing: it names the log in the History")}
	}
	if to, err := url.Parse(opts.RunURL); opts.RunURL != "" && (err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "") {
		return nil, &invalid.FieldError{Field: "RunURL", Value: opts.RunURL, Err: errors.New("is no URL of http or https")}
	}
	if opts.Title == "" {
		opts.Title = "singleworker"
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	v, g := newVisitors(opts.Hosts, opts.Proxies), &group{client: client, readings: newReadings(opts.Period)}
	if opts.History != nil {
		g.log = &runLog{opts.History, opts.Group, make(chan struct{}, logReaders), opts.Logger}
	}
	may := &rights{opts.AllowActions, opts.ActionsFromHere, opts.TokenNow, opts.Authorize}
	p, err := newPages(g, may, opts.Title, opts.RunURL, opts.Logger)
	if err != nil {
		return nil, err
	}
	h := handler{
		visitors: v, pages: p, documents: documents{g, opts.Logger},
		feeds: &feeds{client: client, visitors: v, logger: opts.Logger, changed: g.changed},
	}
	if opts.AllowActions {
		h.actions = &actions{client: client, visitors: v, group: g, rights: may, pages: p, logger: opts.Logger}
	}
	return v.secured(h.routes()), nil
}

var errNoDocument = fmt.Errorf("%w: there is no such document", admin.ErrNotFound)

func (h handler) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for path, page := range map[string]func(*http.Request, *snapshot) (view, error){
		"/{$}": h.pages.attention, "/jobs": h.pages.jobs, "/job": h.pages.job, "/instances": h.pages.instances, "/instance": h.pages.instance,
		"/timeline": h.pages.timeline, "/owners": h.pages.owners, "/calendar": h.pages.calendar, "/calendars": h.pages.calendars, "/limits": h.pages.limits,
		"/doctor": h.pages.doctor, "/log": h.pages.whoDid, "/edit": h.pages.edit,
	} {
		mux.Handle("GET "+path, h.visitors.inTurn(h.pages.page(page)))
	}
	for path, document := range map[string]func(*http.Request) ([]byte, error){
		"jobs": h.documents.jobs, "jobs/{name}/history": h.documents.history, "jobs/{name}/why": h.documents.why,
		"jobs/{name}/log": h.documents.log, "jobs/{name}/summary": h.documents.summary, "jobs/{name}/ticks": h.documents.ticks,
		"instances": h.documents.instances, "instances/{id}": h.documents.instance, "doctor": h.documents.doctor, "log": h.documents.whoDid,
	} {
		mux.Handle("GET /api/v1/"+path, h.visitors.inTurn(h.documents.document(document)))
	}
	mux.Handle("GET /api/v1/jobs/{name}", h.visitors.inTurn(h.documents.job))
	if a := h.actions; a != nil {
		for path, do := range map[string]action{
			"jobs/{name}/trigger": a.trigger, "jobs/{name}/stop-run": a.stopRun, "jobs/{name}/pause": a.pause, "jobs/{name}/resume": a.resume, "jobs/{name}/cancel": a.cancel,
			"jobs/{name}/submit":     a.edit,
			"instances/{name}/drain": a.drain, "instances/{name}/enable": a.enable,
			verbFreeze: a.freeze, verbUnfreeze: a.unfreeze,
		} {
			verb := path[strings.LastIndexByte(path, '/')+1:]
			mux.Handle("POST /api/v1/"+path, http.NewCrossOriginProtection().Handler(a.act(verb, do)))
		}
		mux.Handle("PUT /api/v1/jobs/{name}", http.NewCrossOriginProtection().Handler(a.act(verbSubmit, a.put)))
	}
	mux.HandleFunc("GET /api/v1/events", h.feeds.events)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		documentOf(r, nil, errNoDocument, h.documents.logger).send(w)
	})
	for name, asset := range h.pages.assets {
		mux.Handle("GET /"+name, asset)
	}
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("User-agent: *\nDisallow: /\n")) })
	return mux
}

package web

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/swjobs/singleworker/singleworker/invalid"
)

// MinToken is how long a token is at least, in bytes.
const MinToken = 16

// Action is something that somebody asks for.
type Action struct {
	// Verb is "submit", "trigger", "stop-run", "pause", "resume" or "cancel" of a job, "drain" or
	// "enable" of an instance, "freeze" or "unfreeze" of the group.
	Verb string
	// Of is the name of the job or shard, or the ID of the instance, and empty for the group.
	Of string
}

// order is an action, and who asks for it.
type order struct {
	Action

	from       string // the address
	by, reason string
	form       url.Values  // of a PUT, the query
	body       []byte      // of a PUT
	condition  http.Header // of a PUT

	status int    // with which it is answered, 0: 200
	tag    string // of the job that was put
}

var (
	errToken       = errors.New("the token is wrong, or not given: swctl ui prints it when it starts, or reads it from --token-file")
	errElsewhere   = errors.New("actions are taken from the server's own machine only: use swctl, a tunnel (ssh -L), or a proxy there that speaks TLS")
	errForbidden   = errors.New("not allowed")
	errNoJSON      = errors.New("must be JSON, and the request must say so: Content-Type: application/json")
	errNoCondition = errors.New("say what the job is to be replaced as: If-Match with the ETag that GET has given, or *, or If-None-Match: * for a new one")
	errChanged     = errors.New("the job is not as the condition of the request says")
	errNobody      = errors.New("say who you are, and why: both are in the log of each action")
)

// rights decide who may act: who asks from where, with the token or as Options.Authorize says.
type rights struct {
	allowed, fromHere bool
	token             func() (string, error)
	authorize         func(*http.Request, Action) (by string, err error) // nil: by the token
}

// formTime is how long the form of an action may take to come.
const formTime = 10 * time.Second

// read completes an order with who asks for it and why, and checks whether they may. Who may not is
// not read to the end.
func (a *rights) read(w http.ResponseWriter, r *http.Request, o *order) (err error) {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	byToken := a.authorize == nil
	switch {
	case !a.mayAct(r):
		return errElsewhere
	case !byToken:
		if o.by, err = a.authorize(r, o.Action); err != nil {
			return fmt.Errorf("%w: %w", errForbidden, err)
		}
	case bearer:
		if err := a.checkToken(token); err != nil {
			return err
		}
	case r.Method == http.MethodPut:
		return errToken
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(formTime))
	if r.Method == http.MethodPut {
		err = o.readDocument(r)
	} else if err = o.readForm(r); err == nil && byToken && !bearer {
		err = a.checkToken(o.form.Get("token"))
	}
	if err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Time{}) // else it ends the action
	if byToken {
		o.by = o.form.Get("by")
	}
	if o.by, o.reason = strings.TrimSpace(o.by), strings.TrimSpace(o.form.Get("reason")); o.by == "" || o.reason == "" {
		return &invalid.FieldError{Field: "By", Err: errNobody}
	}
	return nil
}

// readForm reads the form of an action.
func (o *order) readForm(r *http.Request) error {
	//nolint:gosec // ServeHTTP bounds the body
	if err := r.ParseMultipartForm(maxBody); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return errToken // which may be behind the part that was read
	}
	o.form = r.PostForm
	return nil
}

// readDocument reads a job that is put.
func (o *order) readDocument(r *http.Request) (err error) {
	if o.body, err = io.ReadAll(r.Body); err != nil || !isJSON(r) {
		return &invalid.FieldError{Field: "body", Err: cmp.Or(err, errNoJSON)}
	}
	o.form, o.condition = r.URL.Query(), r.Header
	return nil
}

// isJSON reports whether a request says that its body is JSON.
func isJSON(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(kind) == "application/json"
}

// checkToken compares a text with the token. Who has not sent the token learns no more than that.
func (a *rights) checkToken(text string) error {
	secret, err := a.token()
	if err != nil {
		return fmt.Errorf("%w: %w", errToken, err)
	}
	given, want := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 || len(secret) < MinToken {
		return errToken
	}
	return nil
}

// mayAct reports whether actions are taken from where a request comes from.
func (a *rights) mayAct(r *http.Request) bool {
	return a.allowed && (!a.fromHere || isHere(r))
}

// verbSubmit is the Verb of a job that is created or changed.
const verbSubmit = "submit"

// verbFreeze and verbUnfreeze are the Verbs of the group.
const (
	verbFreeze   = "freeze"
	verbUnfreeze = "unfreeze"
)

// labels are on the buttons of actions.
var labels = map[string]string{
	"trigger": "Run now", "stop-run": "Stop the run", "pause": "Pause", "resume": "Resume", "cancel": "Cancel the job", "drain": "Drain", "enable": "Enable",
}

// offered are the actions that a page has buttons for.
type offered struct {
	Path string          // the beginning of the paths of the actions
	May  map[string]bool // by verb
	Ask  bool            // for the token, and a name
}

// offers are the actions, of some, that the viewer of a page may ask for. It is nil without any.
// kind and name are empty for the group.
func (a *rights) offers(r *http.Request, kind, name string, verbs ...string) *offered {
	o := &offered{Path: "api/v1/", May: make(map[string]bool), Ask: a.authorize == nil}
	if kind != "" {
		o.Path += kind + "/" + url.PathEscape(name) + "/"
	}
	for _, verb := range verbs {
		if !a.mayAct(r) {
			return nil
		}
		if !o.Ask {
			if _, err := a.authorize(r, Action{Verb: verb, Of: name}); err != nil {
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

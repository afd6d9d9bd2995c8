package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swjobs/singleworker/singleworker/invalid"
)

type userKey struct{}

var errRole = errors.New("ask the team that is on call")

// byRole lets ann act on everything, bob trigger nightly, and nobody else do anything. It goes by
// the user that the application's login put into the context.
func byRole(r *http.Request, a Action) (string, error) {
	switch user, _ := r.Context().Value(userKey{}).(string); {
	case user == "ann", user == "bob" && a == Action{Verb: "trigger", Of: "nightly"}:
		return user, nil
	case user == "nameless":
		return " ", nil
	default:
		return user, errRole
	}
}

// as sends a request of a user that the application knows.
func (s site) as(user, method, path string, form url.Values, header http.Header) *httptest.ResponseRecorder {
	s.Helper()
	return s.do(method, path, func(r *http.Request) {
		*r = *r.WithContext(context.WithValue(r.Context(), userKey{}, user))
		r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Authorization": {"Bearer of the application"}}
		maps.Copy(r.Header, header)
		r.Body, r.RemoteAddr = io.NopCloser(strings.NewReader(form.Encode())), "192.0.2.1:1234"
	})
}

// Authorize says who acts, whatever a form says, and who may do which action. It replaces the
// token, and no other check of an action.
func TestAuthorize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f, log := newFake(), new(bytes.Buffer)
		s := serve(t, f, Options{AllowActions: true, Authorize: byRole, Logger: slog.New(slog.NewTextHandler(log, nil))})
		because := form("by", "root", "token", "")
		for _, test := range []struct {
			user, path string
			form       url.Values
			header     http.Header
			want       int
			done       string
		}{
			{user: "ann", path: "jobs/nightly/trigger", form: because, want: 200, done: "Trigger nightly ann (web, 192.0.2.1) because"},
			{user: "bob", path: "jobs/nightly/trigger", form: because, want: 200, done: "Trigger nightly bob (web, 192.0.2.1) because"},
			{user: "bob", path: "jobs/parts/trigger", form: because, want: 403},
			{user: "bob", path: "jobs/nightly/cancel", form: form("confirm", "nightly"), want: 403},
			{user: "bob", path: "instances/nightly/drain", form: because, want: 403},
			{user: "ann", path: "instances/app-2/drain", form: because, want: 200, done: "Drain app-2 ann (web, 192.0.2.1) because"},
			{user: "", path: "jobs/nightly/trigger", form: form(), want: 403},
			{user: "nameless", path: "jobs/nightly/trigger", form: form(), want: 400},
			{user: "ann", path: "jobs/nightly/trigger", form: form("reason", ""), want: 400},
			{user: "ann", path: "jobs/nightly/trigger", form: because, header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, want: 403},
			{user: "ann", path: "jobs/nightly/trigger", form: because, header: http.Header{"Sec-Fetch-Site": {"same-site"}}, want: 403},
		} {
			f.changes = nil
			w := s.as(test.user, http.MethodPost, "/api/v1/"+test.path, test.form, test.header)
			done := slices.DeleteFunc([]string{test.done}, func(s string) bool { return s == "" })
			if w.Code != test.want || !slices.Equal(f.changes, done) {
				t.Errorf("%q, %s, %v: %d, %q; want %d, %q\n%s", test.user, test.path, test.header, w.Code, f.changes, test.want, done, w.Body)
			}
			if test.want == http.StatusForbidden && test.header == nil && !strings.Contains(w.Body.String(), errRole.Error()) {
				t.Errorf("%q, %s: nothing says why: %s", test.user, test.path, w.Body)
			}
		}
		if text := log.String(); strings.Contains(text, "root") || !strings.Contains(text, "action=trigger of=nightly by=bob reason=because remote=192.0.2.1") {
			t.Errorf("logged\n%s", text)
		}
	})
}

// A page has the forms of the viewer's allowed actions, and asks for no token and no name.
func TestFormsOfAuthorize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		s := serve(t, newFake(), Options{AllowActions: true, Authorize: byRole})
		for _, test := range []struct{ user, path, want string }{
			{"ann", "/job?name=nightly", "trigger pause cancel"},
			{"ann", "/job?name=parts", "trigger resume cancel"},
			{"ann", "/job?name=parts%5B1%5D", "trigger"},
			{"ann", "/job?name=broken", "cancel"},
			{"bob", "/job?name=nightly", "trigger"},
			{"bob", "/job?name=orphan", ""},
			{"ann", "/instance?id=app-2", "drain"},
			{"bob", "/instance?id=app-2", ""},
			{"", "/job?name=nightly", ""},
		} {
			page := s.as(test.user, http.MethodGet, test.path, nil, nil).Body.String()
			var has []string
			for _, verb := range []string{"trigger", "pause", "resume", "cancel", "drain", "enable"} {
				if strings.Contains(page, fmt.Sprintf("/%s\"", verb)) {
					has = append(has, verb)
				}
			}
			if got := strings.Join(has, " "); got != test.want {
				t.Errorf("%q sees the forms %q of %s, want %q", test.user, got, test.path, test.want)
			}
			if strings.Contains(page, `<form class="actions"`) != (test.want != "") || strings.Contains(page, `name="confirm"`) != strings.Contains(test.want, "cancel") {
				t.Errorf("%q, %s: a form without a button, or a button without its form", test.user, test.path)
			}
			if strings.Contains(page, `name="token"`) || strings.Contains(page, `name="by"`) {
				t.Errorf("%q is asked for a token or a name on %s", test.user, test.path)
			}
		}
	})
}

// Of Token and Authorize, one decides who may act.
func TestAuthorizeOrToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		if _, err := Handler(newFake(), Options{AllowActions: true, Authorize: byRole, Token: token}); !errors.As(err, new(*invalid.FieldError)) {
			t.Errorf("both: %v", err)
		}
		s := serve(t, newFake(), Options{AllowActions: true, ActionsFromHere: true, Authorize: byRole})
		if w := s.as("ann", http.MethodPost, "/api/v1/jobs/nightly/trigger", form(), nil); w.Code != http.StatusForbidden {
			t.Errorf("from elsewhere: %d", w.Code)
		}
		if page := s.as("ann", http.MethodGet, "/job?name=nightly", nil, nil).Body.String(); strings.Contains(page, `class="actions"`) {
			t.Error("forms for who is elsewhere")
		}
	})
}

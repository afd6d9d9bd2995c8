package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swjobs/singleworker/singleworker/admin"
	"github.com/swjobs/singleworker/singleworker/invalid"
)

const token = "a-token-of-some-length"

// sent is a request of a browser, or of a program.
type sent struct {
	path   string
	form   url.Values
	header http.Header
}

// form is one with all that an action needs, and more.
func form(more ...string) url.Values {
	v := url.Values{"token": {token}, "by": {"ann"}, "reason": {"because"}}
	for pair := range slices.Chunk(more, 2) {
		v.Set(pair[0], pair[len(pair)-1])
	}
	return v
}

func (s site) post(p sent) *httptest.ResponseRecorder {
	s.Helper()
	return s.do(http.MethodPost, "/api/v1/"+p.path, func(r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader(p.form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		maps.Copy(r.Header, p.header)
		r.RemoteAddr = "192.0.2.1:1234"
	})
}

// Actions do their work, once, in the name of who asks.
func TestActions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f, log := newFake(), new(bytes.Buffer)
		s := serve(t, f, Options{AllowActions: true, Token: token, Logger: slog.New(slog.NewTextHandler(log, nil))})
		before := f.count("Group")
		s.get("/")
		for _, test := range []struct {
			sent

			want, kind string
		}{
			{sent{path: "jobs/nightly/trigger", form: form()}, "Trigger nightly ann (web, 192.0.2.1) because", "TriggerResult"},
			{sent{path: "jobs/nightly/pause", form: form("for", "90m")}, "Pause nightly ann (web, 192.0.2.1) because 1h30m0s", "PauseResultList"},
			{sent{path: "jobs/nightly/pause", form: form()}, "Pause nightly ann (web, 192.0.2.1) because 0s", "PauseResultList"},
			{sent{path: "jobs/nightly/resume", form: form("missed", "once")}, "Resume nightly  once", "PauseResultList"},
			{sent{path: "jobs/parts%5B1%5D/trigger", form: form()}, "Trigger parts[1] ann (web, 192.0.2.1) because", "TriggerResult"},
			{sent{path: "jobs/nightly/cancel", form: form("confirm", "nightly")}, "Cancel nightly", "JobList"},
			{sent{path: "jobs/nightly/submit", form: form("spec", `{"name": "nightly", "schedule": "@hourly"}`, "seen", `"4d-2"`)}, "Submit nightly @hourly replace=true seen=&{77 2} dry=false", "SubmitResult"},
			{sent{path: "instances/app-2/drain", form: form()}, "Drain app-2 ann (web, 192.0.2.1) because", "InstanceOrderResult"},
			{sent{path: "instances/app-2/enable", form: form()}, "Enable app-2", "InstanceOrderResult"},
			{sent{path: "jobs/nightly/trigger", form: form("token", ""), header: http.Header{"Authorization": {"Bearer " + token}}}, "Trigger nightly ann (web, 192.0.2.1) because", "TriggerResult"},
			{sent{path: "jobs/nightly/stop-run", form: form()}, "StopRun nightly ann (web, 192.0.2.1) because", "StopResult"},
		} {
			f.changes = nil
			if w := s.post(test.sent); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), test.kind) || !slices.Equal(f.changes, []string{test.want}) {
				t.Errorf("%s: %d, %q\n%s", test.path, w.Code, f.changes, w.Body)
			}
		}
		f.fail["StopRun"] = context.DeadlineExceeded // it is asked to stop, and has not yet
		if w := s.post(sent{path: "jobs/nightly/stop-run", form: form()}); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"run_id":"0198c5e2"`) {
			t.Errorf("a run that does not stop: %d\n%s", w.Code, w.Body)
		}
		if text := log.String(); strings.Count(text, "msg=action ") != 12 || !strings.Contains(text, "action=cancel of=nightly by=ann reason=because remote=192.0.2.1") || strings.Contains(text, token) {
			t.Errorf("logged\n%s", text)
		}
		if s.get("/"); f.count("Group") != before+2 {
			t.Error("the pages show what was before the action")
		}
		s.wants("/job?name=nightly", `formaction="api/v1/jobs/nightly/trigger"`, `name="confirm"`)
		s.wants("/instance?id=app-2", `formaction="api/v1/instances/app-2/drain"`)
		if strings.Contains(s.get("/job?name=nightly"), token) {
			t.Error("the token is on a page")
		}
	})
}

// A form without the token, a name, a reason or the name typed once more, or from another page,
// changes nothing.
func TestRefusedActions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f, log := newFake(), new(bytes.Buffer)
		s := serve(t, f, Options{AllowActions: true, Token: token, Hosts: []string{"localhost"}, Logger: slog.New(slog.NewTextHandler(log, nil))})
		for _, test := range []struct {
			sent

			want int
		}{
			{sent{path: "jobs/nightly/trigger", form: form("token", "")}, 401},
			{sent{path: "jobs/nightly/trigger", form: form("token", token[1:])}, 401},
			{sent{path: "jobs/nightly/trigger", form: form("token", token+"x")}, 401},
			{sent{path: "jobs/nightly/trigger", form: form(), header: http.Header{"Authorization": {"Bearer x"}}}, 401},
			{sent{path: "jobs/nightly/trigger?token=" + token + "&by=ann&reason=because"}, 401}, // a URL is in logs
			{sent{path: "jobs/nightly/trigger", form: form("by", " ")}, 400},
			{sent{path: "jobs/nightly/trigger", form: form("reason", "")}, 400},
			{sent{path: "jobs/nightly/pause", form: form("for", "soon")}, 400},
			{sent{path: "jobs/nightly/pause", form: form("for", "-1h")}, 400},
			{sent{path: "jobs/nightly/cancel", form: form()}, 400},
			{sent{path: "jobs/nightly/submit", form: form("spec", "{}")}, 400},
			{sent{path: "jobs/nightly/submit", form: form("seen", `"4d-2"`)}, 400},
			{sent{path: "jobs/nightly/submit", form: form("seen", `"4d-2"`, "spec", `{"name": "other"}`)}, 400},
			{sent{path: "jobs/nightly/submit", form: form("seen", `"4d-2"`, "spec", `{"shedule": "@daily"}`)}, 400},
			{sent{path: "jobs/nightly/cancel", form: form("confirm", "orphan")}, 400},
			{sent{path: "jobs/nightly/trigger", form: form(), header: http.Header{"Sec-Fetch-Site": {"cross-site"}}}, 403},
			{sent{path: "jobs/nightly/trigger", form: form(), header: http.Header{"Sec-Fetch-Site": {"same-site"}}}, 403},
			{sent{path: "jobs/nightly/trigger", form: form(), header: http.Header{"Origin": {"https://evil.example"}}}, 403},
			{sent{path: "jobs/nightly/trigger", form: form("reason", strings.Repeat("x", maxBody))}, 401}, // not read
			{sent{path: "jobs/nightly/repair", form: form()}, 404},
			{sent{path: "instances/app-2/disable", form: form()}, 404},
		} {
			w := s.post(test.sent)
			if w.Code != test.want || strings.Contains(w.Body.String(), token) {
				t.Errorf("%+v: %d, want %d\n%s", test.sent, w.Code, test.want, w.Body)
			}
		}
		f.fail["Trigger"] = admin.ErrNoHandler
		if w := s.post(sent{path: "jobs/nightly/trigger", form: form(), header: http.Header{"Accept": {"text/html"}}}); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `href="../../../../style.css`) || !strings.Contains(w.Body.String(), `href="../../../../job?name=nightly">Back`) {
			t.Errorf("a refusal as a page: %d\n%s", w.Code, w.Body)
		}
		f.changes = slices.DeleteFunc(f.changes, func(c string) bool { return strings.HasPrefix(c, "Trigger") })
		if len(f.changes) > 0 || strings.Contains(log.String(), token) {
			t.Errorf("changed %q, logged\n%s", f.changes, log)
		}
		if w := s.do(http.MethodGet, "/api/v1/jobs/nightly/trigger", nil); w.Code == http.StatusOK {
			t.Error("GET is an action")
		}
	})
}

// Without leave, there are no actions. A token that can be guessed is refused.
func TestActionsAreOffByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{Token: token})
		for _, path := range []string{"jobs/nightly/trigger", "jobs/nightly/cancel", "instances/app-2/drain"} {
			if w := s.post(sent{path: path, form: form("confirm", "nightly")}); w.Code != http.StatusNotFound {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
		if page := s.get("/job?name=nightly"); len(f.changes) > 0 || strings.Contains(page, "<form class=\"actions\"") {
			t.Errorf("changed %q", f.changes)
		}
		for _, short := range []string{"", token[:MinToken-1]} {
			if _, err := Handler(f, Options{AllowActions: true, Token: short}); !errors.As(err, new(*invalid.FieldError)) || short != "" && strings.Contains(err.Error(), short) {
				t.Errorf("token %q: %v", short, err)
			}
		}
	})
}

// With ActionsFromHere, everyone may read, and who is on the server's machine may act: others see
// no forms, and their token is not looked at.
func TestActionsFromHere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{AllowActions: true, ActionsFromHere: true, Token: token})
		for _, test := range []struct {
			from, to string
			here     bool
		}{
			{"127.0.0.1:50000", "127.0.0.1:7468", true}, {"[::1]:50000", "[::1]:7468", true}, {"[::ffff:127.0.0.1]:50000", "", true},
			{"10.0.0.5:50000", "10.0.0.5:7468", true}, {"[::ffff:10.0.0.5]:50000", "10.0.0.5:7468", true},
			{"10.0.0.6:50000", "10.0.0.5:7468", false}, {"10.0.0.6:50000", "127.0.0.1:7468", false}, {"10.0.0.5:50000", "", false}, {"@", "", false}, {"", "127.0.0.1:7468", false},
		} {
			f.changes = nil
			came := func(r *http.Request) {
				r.RemoteAddr = test.from
				if local, err := netip.ParseAddrPort(test.to); err == nil {
					*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.TCPAddrFromAddrPort(local)))
				}
			}
			page := s.do(http.MethodGet, "/job?name=nightly", came)
			if has := strings.Contains(page.Body.String(), "<form class=\"actions\""); page.Code != http.StatusOK || has != test.here {
				t.Errorf("from %s to %s: %d, forms: %v", test.from, test.to, page.Code, has)
			}
			w := s.do(http.MethodPost, "/api/v1/jobs/nightly/trigger", func(r *http.Request) {
				came(r)
				r.Body = io.NopCloser(strings.NewReader(form().Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("X-Forwarded-For", "127.0.0.1")
			})
			want := http.StatusForbidden
			if test.here {
				want = http.StatusOK
			}
			if w.Code != want || len(f.changes) > 0 != test.here {
				t.Errorf("from %s to %s: %d, %q\n%s", test.from, test.to, w.Code, f.changes, w.Body)
			}
		}
	})
}

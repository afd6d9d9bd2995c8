package web

import (
	"bytes"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swjobs/singleworker/singleworker/admin"
)

// putting is a request that replaces the job nightly, or another of that path.
type putting struct {
	path, body string
	header     http.Header
}

const nightlyAgain = `{"apiVersion": "swctl/v1", "kind": "Job", "state": "failing", "spec": {"name": "nightly", "schedule": "@daily"}}`

func (s site) put(p putting) *httptest.ResponseRecorder {
	s.Helper()
	if p.path == "" {
		p.path = "nightly?by=ann&reason=because"
	}
	return s.do(http.MethodPut, "/api/v1/jobs/"+p.path, func(r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader(p.body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		maps.Copy(r.Header, p.header)
		r.RemoteAddr = "192.0.2.1:1234"
	})
}

func header(pairs ...string) http.Header {
	h := make(http.Header)
	for pair := range slices.Chunk(pairs, 2) {
		h.Set(pair[0], pair[1])
	}
	return h
}

// A job is put with the document that GET answers with, in place of the one that was seen.
func TestPut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f, log := newFake(), new(bytes.Buffer)
		f.jobs[1].ID = 77
		s := serve(t, f, Options{AllowActions: true, Token: token, Logger: slog.New(slog.NewTextHandler(log, nil))})
		got := s.do(http.MethodGet, "/api/v1/jobs/nightly", nil)
		tag := got.Header().Get("ETag")
		for _, test := range []struct {
			putting

			code int
			want string
			tag  string
		}{
			{putting{body: nightlyAgain, header: header("If-Match", tag)}, 200, "Submit nightly @daily replace=true seen=&{77 2} dry=false", `"4d-3"`},
			{putting{body: nightlyAgain, header: header("If-Match", "*")}, 200, "Submit nightly @daily replace=true seen=&{77 2} dry=false", `"4d-3"`},
			{putting{body: got.Body.String(), header: header("If-Match", tag)}, 200, "Submit nightly 0 10 * * * replace=true seen=&{77 2} dry=false", `"4d-3"`},
			{putting{path: "nightly?by=ann&reason=because&dry_run=true", body: nightlyAgain, header: header("If-Match", tag)}, 200, "Submit nightly @daily replace=true seen=&{77 2} dry=true", ""},
			{putting{path: "new?by=ann&reason=because", body: `{"apiVersion":"swctl/v1","kind":"Job","spec":{"schedule":"@hourly"}}`, header: header("If-None-Match", "*")}, 201, "Submit new @hourly replace=false seen=<nil> dry=false", ""},
		} {
			f.changes = nil
			w := s.put(test.putting)
			if w.Code != test.code || !strings.Contains(w.Body.String(), `"kind":"SubmitResult"`) || w.Header().Get("ETag") != test.tag || !slices.Equal(f.changes, []string{test.want}) {
				t.Errorf("%+v: %d, %q\n%s", test.putting, w.Code, f.changes, w.Body)
			}
		}
		if text := log.String(); strings.Count(text, "action=submit") != 5 || !strings.Contains(text, "of=nightly by=ann reason=because") {
			t.Errorf("logged\n%s", text)
		}
	})
}

// A request without a condition, a name, a reason or a whole job changes nothing.
func TestRefusedPut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		awaitNoon()
		f := newFake()
		s := serve(t, f, Options{AllowActions: true, Token: token})
		is := header("If-Match", "*")
		for _, test := range []struct {
			putting

			want int
			says string
		}{
			{putting{body: nightlyAgain}, 428, "If-Match"},
			{putting{body: nightlyAgain, header: header("If-Match", "*", "If-None-Match", "*")}, 428, "If-Match"},
			{putting{body: nightlyAgain, header: header("If-Match", "7")}, 400, "is no ETag of a job"},
			{putting{body: nightlyAgain, header: header("If-Match", `W/"4d-2"`)}, 400, "is no ETag of a job"},
			{putting{path: "unknown?by=ann&reason=b", body: strings.ReplaceAll(nightlyAgain, "nightly", "unknown"), header: is}, 412, "not as the condition"},
			{putting{path: "nightly?by=ann", body: nightlyAgain, header: is}, 400, "say who you are"},
			{putting{path: "nightly?reason=because", body: nightlyAgain, header: is}, 400, "say who you are"},
			{putting{path: "orphan?by=ann&reason=because", body: nightlyAgain, header: is}, 400, "is not the name of the job"},
			{putting{body: `{"name": "nightly", "schedule": "@daily"}`, header: is}, 400, "is no document"},
			{putting{body: strings.Replace(nightlyAgain, "schedule", "shedule", 1), header: is}, 400, "shedule"},
			{putting{body: "{", header: is}, 400, "unexpected end"},
			{putting{body: strings.Repeat(" ", maxDocument) + nightlyAgain, header: is}, 400, "too large"},
			{putting{body: nightlyAgain, header: header("If-Match", "*", "Authorization", "Bearer x")}, 401, "token"},
			{putting{body: nightlyAgain, header: header("If-Match", "*", "Authorization", "")}, 401, "token"},
			{putting{body: nightlyAgain, header: header("If-Match", "*", "Content-Type", "text/plain")}, 400, "application/json"},
			{putting{body: nightlyAgain, header: header("If-Match", "*", "Sec-Fetch-Site", "cross-site")}, 403, ""},
		} {
			if w := s.put(test.putting); w.Code != test.want || !strings.Contains(w.Body.String(), test.says) || strings.Contains(w.Body.String(), token) {
				t.Errorf("%+v: %d, want %d\n%s", test.putting, w.Code, test.want, w.Body)
			}
		}
		if len(f.changes) > 0 {
			t.Errorf("it changed %q", f.changes)
		}
		for failure, want := range map[error]int{admin.ErrExists: 412, admin.ErrConflict: 412, admin.ErrTooLarge: 409} {
			f.fail["Submit"] = failure
			if w := s.put(putting{body: nightlyAgain, header: header("If-None-Match", "*")}); w.Code != want {
				t.Errorf("%v: %d, want %d\n%s", failure, w.Code, want, w.Body)
			}
		}
		if w := serve(t, f, Options{}).put(putting{body: nightlyAgain, header: is}); w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed {
			t.Errorf("without actions: %d", w.Code)
		}
	})
}

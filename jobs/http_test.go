package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/swjobs/singleworker/jobs"
	"github.com/swjobs/singleworker/singleworker"
)

// errLeaseLost stands for the cause of a context when the lease ends.
var errLeaseLost = errors.New("the lease is lost")

func newHTTP(t *testing.T, cfg jobs.HTTPConfig) singleworker.Handler {
	t.Helper()
	handler, err := jobs.HTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// serve starts a server. Its handler runs on other goroutines than the test.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func callOf(args ...string) *singleworker.Run {
	run := &singleworker.Run{
		ID: "run-1", Job: "hook", Tick: time.UnixMilli(1_800_000_000_250), Token: 77,
		Shard: singleworker.Shard{Index: 2, Total: 3, Parameter: "Paris\nNord"},
		Args:  make(map[string]string),
	}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		run.Args[name] = value
	}
	return run
}

func TestHTTPRequest(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 1)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- fmt.Sprintf("%s %s type=%s key=%s token=%s tick=%s shard=%s/%s%v body=%s", r.Method, r.URL,
			r.Header.Get("Content-Type"), r.Header.Get("Idempotency-Key"),
			r.Header.Get("X-Singleworker-Token"), r.Header.Get("X-Singleworker-Tick"),
			r.Header.Get("X-Singleworker-Shard"), r.Header.Get("X-Singleworker-Shards"), r.Header["X-Singleworker-Shard-Parameter"], body)
	})
	handler := newHTTP(t, jobs.HTTPConfig{Allow: []string{server.URL + "/hooks"}})
	const own = "key=run-1 token=77 tick=2027-01-15T08:00:00.25Z shard=2/3[Paris%0ANord]"
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "GET /hooks/daily?day=1 type= " + own + " body="},
		{[]string{"method=DELETE"}, "DELETE /hooks/daily?day=1 type= " + own + " body="},
		{
			[]string{"body={}", "header.content-type=application/json"},
			"POST /hooks/daily?day=1 type=application/json " + own + " body={}",
		},
		{[]string{"body=x", "method=PUT"}, "PUT /hooks/daily?day=1 type= " + own + " body=x"},
	} {
		args := append([]string{"url=" + server.URL + "/hooks/daily?day=1"}, test.args...)
		if err := handler(t.Context(), callOf(args...)); err != nil {
			t.Errorf("%v: %v", args, err)
			continue
		}
		if got := <-requests; got != test.want {
			t.Errorf("%v\n got %s\nwant %s", args, got, test.want)
		}
	}
}

func TestHTTPInvalidArguments(t *testing.T) {
	t.Parallel()
	handler := newHTTP(t, jobs.HTTPConfig{AllowAny: true})
	for args, want := range map[string]string{ //nolint:gosec // none is a credential
		"method=GET":                       `argument "url" is missing`,
		"uri=http://x/":                    `unknown argument "uri": want url, method, body, header.`,
		"header.host=h":                    `argument "header.host": a job cannot set this header`,
		"header.X-SINGLEWORKER-TOKEN=9":    `a job cannot set this header`,
		"header.Idempotency-Key=9":         `a job cannot set this header`,
		"header.X_Singleworker_Token=9":    `a job cannot set this header`,
		"header.x-singleworker_tick=9":     `a job cannot set this header`,
		"method=GE T":                      `invalid method`,
		"header.a b=c":                     `invalid header field name`,
		"url=http://127.0.0.1:1/%zz":       `invalid URL escape`,
		"url=file:///etc/passwd":           `is not an http or https URL: not allowed`,
		"url=gopher://127.0.0.1/":          `is not an http or https URL: not allowed`,
		"url=http:///x":                    `has no host: not allowed`,
		"url=http://user:hush@127.0.0.1:1": `URL "http://127.0.0.1:1" has a user name in it: not allowed`,
	} {
		run := callOf(args)
		if _, given := run.Args["url"]; !given && !strings.Contains(want, "url") {
			run.Args["url"] = "http://127.0.0.1:1/"
		}
		if err := handler(t.Context(), run); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

func TestHTTPAnswers(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "come back later\n", strings.Repeat("!", 9000))
		case "/made":
			w.WriteHeader(http.StatusCreated)
		case "/unchanged":
			w.WriteHeader(http.StatusNotModified)
		case "/torn":
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "short")
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}
	})
	handler := newHTTP(t, jobs.HTTPConfig{Allow: []string{server.URL}})
	for path, want := range map[string]string{ //nolint:gosec // none is a credential
		"/made":                "",
		"/endless":             "",
		"/busy?key=hush":       `GET ` + server.URL + `/busy: 503 Service Unavailable: "come back later\n!!!!`,
		"/unchanged":           `/unchanged: 304 Not Modified: ""`,
		"/torn":                `/torn: 200 OK, then: unexpected EOF`,
		"/torn?hush#fragment":  `/torn: 200 OK, then: unexpected EOF`,
		"/../etc/passwd":       `has "..", "." or "//" in its path: not allowed`,
		"/a/%2e%2e/etc/passwd": `not allowed`,
		"/a%2Fb":               `has an encoded slash or a backslash in its path: not allowed`,
	} {
		err := handler(t.Context(), callOf("url="+server.URL+path))
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", path, err, want)
		case err != nil && (strings.Contains(err.Error(), "hush") || len(err.Error()) > 1300):
			t.Errorf("%s: the error reveals secrets: %v", path, err)
		}
	}
}

func TestHTTPAllow(t *testing.T) {
	t.Parallel()
	// A transport answers all requests, without a network.
	client := &http.Client{Transport: always{}}
	handler := newHTTP(t, jobs.HTTPConfig{
		Client: client,
		Allow:  []string{"https://Billing.internal/hooks/", "http://10.0.0.7:8080", "http://[::1]/a"},
	})
	for url, allowed := range map[string]bool{
		"https://billing.internal/hooks":           true,
		"https://billing.internal:443/hooks/daily": true,
		"https://BILLING.INTERNAL/hooks/":          true,
		"http://10.0.0.7:8080":                     true,
		"http://10.0.0.7:8080/any/thing?x=..":      true,
		"http://[::1]:80/a/b":                      true,

		"http://billing.internal/hooks":          false, // another scheme
		"https://billing.internal:8443/hooks":    false, // another port
		"https://billing.internal/hooks2":        false, // not below it
		"https://billing.internal/":              false,
		"https://billing.internal/hooks/../etc":  false,
		"https://billing.internal/hooks//x":      false,
		"https://billing.internal/hooks/..%5Cx":  false,
		"https://billing.internal/hooks/a;v=1/b": true,
		"https://billing.internal/hooks/...x":    true,

		// Some servers, or proxies before them, take this for "..".
		"https://billing.internal/hooks/..;/admin":        false,
		"https://billing.internal/hooks/..;a=b/admin":     false,
		"https://billing.internal/hooks/%2e%2e;/admin":    false,
		"https://billing.internal/hooks/.;/admin":         false,
		"https://billing.internal/hooks/%252e%252e/admin": false,
		"https://billing.internal/hooks/..%00/admin":      false,
		"https://billing.internal/hooks/..%20/admin":      false,
		"https://billing.internal/hooks/..%c0%af/admin":   false,

		"https://billing.internal.evil.example":  false,
		"https://billing.internal@evil.example/": false,
		"https://evil.example/hooks":             false,
		"http://10.0.0.7":                        false,
		"http://10.0.0.78080/":                   false,
		"http://169.254.169.254/latest":          false,
	} {
		err := handler(t.Context(), callOf("url="+url))
		if allowed && err != nil || !allowed && !errors.Is(err, jobs.ErrNotAllowed) {
			t.Errorf("%s: %v, want allowed: %v", url, err, allowed)
		}
	}
}

// always is a transport that answers 200 to everything.
type always struct{}

func (always) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func TestHTTPRedirects(t *testing.T) {
	t.Parallel()
	inner := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect led where it must not") })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/inside":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		case "/outside":
			http.Redirect(w, r, inner.URL+"/secret", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/end":
			if body, _ := io.ReadAll(r.Body); string(body) != "kept" || r.Header.Get("Idempotency-Key") != "run-1" {
				t.Errorf("the redirected call lost its body %q or its key", body)
			}
		}
	})
	handler := newHTTP(t, jobs.HTTPConfig{Allow: []string{server.URL}})
	if err := handler(t.Context(), callOf("url="+server.URL+"/inside", "body=kept")); err != nil {
		t.Error(err)
	}
	if err := handler(t.Context(), callOf("url="+server.URL+"/outside")); !errors.Is(err, jobs.ErrNotAllowed) {
		t.Errorf("%v, want ErrNotAllowed", err)
	}
	err := handler(t.Context(), callOf("url="+server.URL+"/round"))
	if err == nil || !strings.Contains(err.Error(), "more than 5 redirects") {
		t.Error(err)
	}
}

func TestHTTPEndsWithContext(t *testing.T) {
	t.Parallel()
	called := make(chan struct{})
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(called)
		<-r.Context().Done() // never responds
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-called
		cancel(errLeaseLost)
	}()
	handler := newHTTP(t, jobs.HTTPConfig{Allow: []string{server.URL}})
	if err := handler(ctx, callOf("url="+server.URL)); !errors.Is(err, errLeaseLost) {
		t.Errorf("%v, want the cause", err)
	}
}

func TestHTTPConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []jobs.HTTPConfig{
		{},
		{Allow: []string{"https://a.example"}, AllowAny: true},
		{Allow: []string{"billing.internal"}},
		{Allow: []string{"ftp://billing.internal"}},
		{Allow: []string{"https://"}},
		{Allow: []string{"https://a.example/?x"}},
		{Allow: []string{"https://a.example/#x"}},
		{Allow: []string{"https://user@a.example/"}},
		{Allow: []string{"https://a.example/a/../b"}},
		{Allow: []string{"https://a.example/%zz"}},
	} {
		if _, err := jobs.HTTP(cfg); err == nil {
			t.Errorf("allowed: %+v", cfg)
		}
	}
}

func ExampleHTTP() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Printf("server: %s %s, token %s\n", r.Method, r.URL, r.Header.Get(jobs.TokenHeader))
		http.Error(w, "no rates today", http.StatusNotFound)
	}))
	defer server.Close()

	call, err := jobs.HTTP(jobs.HTTPConfig{Allow: []string{server.URL + "/hooks"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	job := &singleworker.Run{Job: "rates", Token: 77, Args: map[string]string{
		"url": server.URL + "/hooks/rates", "body": `{"full":true}`,
	}}
	err = call(context.Background(), job)
	fmt.Println(strings.ReplaceAll(err.Error(), server.URL, "http://server"))

	job.Args["url"] = "http://169.254.169.254/latest/meta-data"
	fmt.Println(call(context.Background(), job))
	// Output:
	// server: POST /hooks/rates, token 77
	// POST http://server/hooks/rates: 404 Not Found: "no rates today"
	// URL "http://169.254.169.254/latest/meta-data": not allowed by the application
}

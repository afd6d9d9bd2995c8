package commands

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
)

func TestUIGolden(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var text strings.Builder
	for _, line := range []string{
		"ui now", "ui --listen 7468", "ui --listen 0.0.0.0:7468", "ui --listen :7468", "ui --listen jobs.example.org:7468", "ui --listen=", "ui --proxy nginx", "ui --token-file /x", "ui --allow-actions --token-file /nonexistent",
	} {
		text.WriteString(h.transcript(strings.Fields(line)...))
	}
	golden(t, "ui", text.String())
}

// serveUI runs swctl ui until the test ends, and returns its address and its output.
func serveUI(t *testing.T, h *harness, args ...string) (url string, stop func() cmdline.ExitCode) {
	t.Helper()
	out, in := io.Pipe()
	h.Stdout = in
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan cmdline.ExitCode, 1)
	go func() { ended <- h.Run(ctx, append([]string{"ui", "-o", "jsonl"}, args...)) }()
	var served struct{ Kind, URL string }
	if err := json.NewDecoder(out).Decode(&served); err != nil || served.Kind != "UIServer" {
		t.Fatalf("%+v, %v", served, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return served.URL, func() cmdline.ExitCode {
		cancel()
		return <-ended
	}
}

// It serves on this machine, to pages of this machine, and ends when it is interrupted.
func TestUIServes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	url, stop := serveUI(t, h, "--listen", "127.0.0.1:0", "--server-name", "jobs.example.org")
	for _, test := range []struct {
		method, path, host string
		want               int
		text               string
	}{
		{http.MethodGet, "", "", http.StatusOK, "billing"},
		{http.MethodGet, "api/v1/jobs", "localhost:1", http.StatusOK, `"apiVersion":"swctl/v1","kind":"JobList"`},
		{http.MethodGet, "", "jobs.example.org", http.StatusOK, ""},
		{http.MethodGet, "", "evil.example", http.StatusMisdirectedRequest, ""},
		{http.MethodPost, "api/v1/jobs/nightly/trigger", "", http.StatusNotFound, ""},
	} {
		request, err := http.NewRequestWithContext(t.Context(), test.method, url+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.host != "" {
			request.Host = test.host
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != test.want || !strings.Contains(string(body), test.text) {
			t.Errorf("%+v: %d, %v\n%s", test, answer.StatusCode, err, body)
		}
	}
	second := newHarness(t)
	taken := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	if code := second.exec("ui", "--listen", taken); code != cmdline.ExitUsage || !strings.Contains(second.errs.String(), "127.0.0.1:0") {
		t.Errorf("a second one on the same port: exit %d, %q", code, second.errs.String())
	}
	if code := stop(); code != cmdline.ExitOK {
		t.Errorf("exit %d", code)
	}
}

// With --store, pages and documents have what swctl runlog has kept.
func TestUIShowsTheStore(t *testing.T) {
	t.Parallel()
	store := "file:" + t.TempDir()
	newHarness(t).logged(t, strings.TrimPrefix(store, "file:"))
	h := newHarness(t)
	h.vars[envStore] = "file:/dev/null/x" // the flag counts
	url, stop := serveUI(t, h, "--listen", "127.0.0.1:0", "--store", store)
	for path, want := range map[string]string{"api/v1/jobs/nightly/log": `"kind":"hole"`, "job?name=nightly": "The run log of this job begins at"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d, %v\n%s", path, answer.StatusCode, err, body)
		}
	}
	if code := stop(); code != cmdline.ExitOK {
		t.Errorf("exit %d", code)
	}
	if code := h.exec("ui"); code == cmdline.ExitOK || !strings.Contains(h.errs.String(), "not a directory") {
		t.Errorf("the store of the variable: exit %d, %q", code, h.errs.String())
	}
}

// With --allow-actions, those who have the token act, and are recorded by name.
func TestUIActs(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("secret-token-", 2)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	url, stop := serveUI(t, h, "--listen", "127.0.0.1:0", "--allow-actions", "--token-file", file)
	act := func(given string, want int) {
		form := neturl.Values{"token": {given}, "by": {"ann"}, "reason": {"again"}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"api/v1/jobs/nightly/trigger", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("token %q: %d", given, answer.StatusCode)
		}
	}
	change := func(to string) {
		if err := os.WriteFile(file, []byte(to+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	act("wrong", http.StatusUnauthorized)
	act(token, http.StatusOK)
	change("another-" + token) // while it serves
	act(token, http.StatusUnauthorized)
	act("another-"+token, http.StatusOK)
	change("short")
	act("short", http.StatusUnauthorized)
	if stop() != cmdline.ExitOK {
		t.Error("it failed")
	}
	if by := h.fake.triggered.By; by != "ann (web, 127.0.0.1)" {
		t.Errorf("recorded as %q", by)
	}
	if log := h.errs.String(); strings.Count(log, "action=trigger of=nightly by=ann reason=again") != 2 || strings.Contains(log, token) || strings.Contains(log, "short") {
		t.Errorf("logged %q", log)
	}
	if code := h.exec("ui", "--allow-actions", "--token-file", file); code != cmdline.ExitUsage || strings.Contains(h.errs.String(), "short") {
		t.Errorf("a short token: exit %d, %q", code, h.errs.String())
	}
}

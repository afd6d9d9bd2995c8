package commands

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/cmd/swctl/internal/cmdline"
	"github.com/swjobs/singleworker/singleworker/zkdev"
)

// notifyDir is a directory with a configuration and the files that it names.
func notifyDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestNotifyGolden(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	answer := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- string(body)
		w.WriteHeader(answer)
	}))
	defer server.Close()
	const hiddenPath = "/s3cret"
	const config = `{"targets": {"ops": {"type": "slack", "url_file": "ops.url"}}, "rules": [{"to": ["ops"]}], "every": "2m"}`
	dir := notifyDir(t, map[string]string{
		"good": config, "ops.url": server.URL + hiddenPath + "\n", "ping": `{"pings": [{"url_file": "plain.url"}]}`, "lostping": `{"pings": [{"url_file": "gone"}]}`, "none": `{}`, "text": `ops`, "two": config + config,
		"field": `{"target": {}}`,
		"type":  `{"targets": {"ops": {"type": "smoke"}}}`,
		"every": `{"targets": {"ops": {"type": "slack", "url_file": "ops.url"}}, "every": "often"}`,
		"rule":  `{"targets": {"ops": {"type": "slack", "url_file": "ops.url"}}, "rules": [{"to": ["dev"]}]}`,
		"lost":  `{"targets": {"ops": {"type": "slack", "url_file": "gone"}}}`,
		"plain": `{"targets": {"ops": {"type": "slack", "url_file": "plain.url"}}}`, "plain.url": "http://hooks.example.com" + hiddenPath,
		"open": `{"targets": {"ops": {"type": "slack", "url_file": "open.url"}}}`, "open.url": "x",
		"mail": `{"targets": {"ops": {"type": "mail", "server": "mail:25", "from": "jobs@example.com", "to": ["ann"]}}}`,
		"hook": `{"targets": {"ops": {"type": "webhook", "url_file": "ops.url"}}}`,
		"ding": `{"targets": {"ops": {"type": "dingtalk"}}}`, "we": `{"targets": {"ops": {"type": "wecom", "url_file": "ops.url", "key": "x"}}}`,
	})
	if err := os.Chmod(filepath.Join(dir, "open.url"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	var text strings.Builder
	say := func(line string) {
		args := strings.Fields(line)
		for i, arg := range args {
			if i > 0 && args[i-1] == "--config" {
				args[i] = dir + "/" + arg
			}
		}
		text.WriteString(strings.ReplaceAll(h.transcript(args...), dir, "DIR"))
	}
	say("notify test --config good --to ops")
	posted := func() string {
		select {
		case body := <-bodies:
			return body
		default:
			return "nothing"
		}
	}
	if body := posted(); !strings.HasPrefix(body, `{"text":"billing: test message\n`) {
		t.Errorf("posted %s", body)
	}
	say("notify test --config good --to ops -o json")
	posted()
	answer = http.StatusForbidden
	say("notify test --config good --to ops")
	posted()
	for _, line := range []string{
		"notify test", "notify test ops", "notify test --config good", "notify test --config good --to dev", "notify --config gone",
	} {
		say(line)
	}
	for _, name := range []string{"none", "text", "two", "field", "type", "every", "rule", "lost", "ping", "lostping", "plain", "open", "mail", "hook", "ding", "we"} {
		say("notify --config " + name)
	}
	said := strings.ReplaceAll(text.String(), strings.TrimPrefix(server.URL, "http://"), "HOST")
	if strings.Contains(said, "s3cret") {
		t.Error("a secret is shown")
	}
	golden(t, "notify", said)
}

// It takes part in the election, and ends when it is interrupted.
func TestNotifyRuns(t *testing.T) {
	t.Parallel()
	server := zkdev.Start(t, zkdev.Config{})
	dir := notifyDir(t, map[string]string{
		"good": `{"targets": {"ops": {"type": "slack", "url_file": "ops.url"}}, "rules": [{"to": ["ops"]}]}`, "ops.url": "http://127.0.0.1:1/",
	})
	h := newHarness(t)
	h.vars[cmdline.EnvZK] = server.Addr()
	out, in := io.Pipe()
	h.Stderr = in
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan cmdline.ExitCode, 1)
	go func() {
		ended <- h.Run(ctx, []string{"notify", "--config", dir + "/good"})
		_ = in.Close()
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "sending notifications") {
			cancel()
		}
	}
	if code := <-ended; code != cmdline.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

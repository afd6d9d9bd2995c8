package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/swjobs/singleworker/singleworker/zkdev"
)

func nothing(string) string { return "" }

// get returns the status and the body of a page.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// The program serves the metrics on loopback until it is told to stop.
func TestServes(t *testing.T) {
	t.Parallel()
	zk := zkdev.Start(t, zkdev.Config{})
	env := map[string]string{"SWCTL_ZK": zk.Addr(), "SWCTL_SERVER_TYPE": "billing"}
	ctx, stop := context.WithCancel(t.Context())
	logs, log := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"-listen", "127.0.0.1:0"}, func(name string) string { return env[name] }, log)
		_ = log.Close()
	}()
	lines := bufio.NewScanner(logs)
	if !lines.Scan() {
		t.Fatal("nothing is logged")
	}
	url := regexp.MustCompile(`url=(\S+)`).FindStringSubmatch(lines.Text())
	if url == nil {
		t.Fatalf("%q", lines.Text())
	}
	go func() {
		for lines.Scan() {
			t.Errorf("logged: %s", lines.Text())
		}
	}()
	status, body := get(t, url[1])
	for _, line := range []string{
		`singleworker_group_up{server_type="billing"} 1`, `singleworker_group_jobs{server_type="billing",state="ok"} 0`, `process_start_time_seconds `, `go_goroutines `,
	} {
		if status != http.StatusOK || !strings.Contains(body, "\n"+line) {
			t.Errorf("%d, no line %s in:\n%s", status, line, body)
		}
	}
	if status, body := get(t, strings.Replace(url[1], "/metrics", "/livez", 1)); status != http.StatusOK || body != "ok\n" {
		t.Errorf("/livez: %d %q", status, body)
	}
	if status, _ := get(t, strings.Replace(url[1], "/metrics", "/debug", 1)); status != http.StatusNotFound {
		t.Errorf("/debug: %d", status)
	}
	for host, want := range map[string]int{"localhost": http.StatusOK, "[::1]:80": http.StatusOK, "127.0.0.1": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url[1], http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("for host %s: %d, want %d", host, response.StatusCode, want)
		}
	}
	stop()
	if got := <-code; got != codeOK {
		t.Errorf("exit code %d", got)
	}
}

// A fault of the command line is said, with no secret in it.
func TestUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	group := []string{"-zk", "zk1", "-server-type", "billing"}
	for name, row := range map[string]struct {
		args []string
		want string
		code int
	}{
		"help":              {[]string{"-h"}, "-server-type name", codeOK},
		"nothing":           {nil, "-zk or SWCTL_ZK is missing", codeUsage},
		"no group":          {[]string{"-zk", "zk1"}, "-server-type or SWCTL_SERVER_TYPE is missing", codeUsage},
		"a group's name":    {[]string{"-zk", "zk1", "-server-type", "a/b"}, "ServerType", codeUsage},
		"an argument":       {append(group, "x"), `unexpected argument "x"`, codeUsage},
		"no interval":       {append(group, "-interval", "0s"), "must be positive", codeUsage},
		"an unknown flag":   {append(group, "-x"), "flag provided but not defined: -x", codeUsage},
		"a secret for all":  {append(group, "-auth-file", file("open", "user:hush", 0o644)), "chmod 600", codeUsage},
		"no user":           {append(group, "-auth-file", file("bad", "hush", 0o600)), "want one line user:password", codeUsage},
		"no such file":      {append(group, "-auth-file", filepath.Join(dir, "none")), "no such file", codeUsage},
		"no certificate":    {append(group, "-tls-ca", file("ca", "hush", 0o600)), "holds no PEM certificate", codeUsage},
		"half a pair":       {append(group, "-tls-cert", "x"), "go together", codeUsage},
		"a bad address":     {append(group, "-listen", "127.0.0.1:x"), "swexporter ends", codeError},
		"a key for all":     {append(group, "-tls-cert", "x", "-tls-key", file("key", "hush", 0o604)), "chmod 600", codeUsage},
		"no pair":           {append(group, "-tls-cert", file("c", "hush", 0o600), "-tls-key", file("k", "hush", 0o600)), "tls", codeUsage},
		"a server's name":   {[]string{"-zk", "zk1:port", "-server-type", "billing"}, "Servers", codeUsage},
		"an odd max":        {append(group, "-max-jobs", "many"), "invalid value", codeUsage},
		"a group's secret":  {append(group, "-auth-file", file("group", "user:hush", 0o640), "-listen", "127.0.0.1:x"), "swexporter ends", codeError},
		"a negative number": {append(group, "-timeout", "-1s"), "must be positive", codeUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr strings.Builder
			if code := run(t.Context(), row.args, nothing, &stderr); code != row.code || !strings.Contains(stderr.String(), row.want) {
				t.Errorf("exit code %d, %q; want %d, %q", code, stderr.String(), row.code, row.want)
			}
			if strings.Contains(stderr.String(), "hush") {
				t.Errorf("the secret is printed: %s", stderr.String())
			}
		})
	}
}
